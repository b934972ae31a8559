"""kill -9 under load: nothing acknowledged is lost or doubled, offsets are dense, and the next start comes up by itself."""
import json
import os
import pathlib
import random
import subprocess
import time

from node import MQ, Node


def read(node, topic="t"):
    lines = node.mq("consume", topic, "-e", "-J", timeout=120).stdout.splitlines()
    return [json.loads(line) for line in lines]


def test_kill_9_at_random_moments_under_load():
    rounds = int(os.environ.get("MQ_KILL_ROUNDS", "6"))
    with Node() as node:
        node.mq("topic", "create", "t", "-c", "segment.bytes=1048576")
        acknowledged = 0
        for i in range(rounds):
            producer = subprocess.Popen([MQ, "bench", "produce", "t", "--size", "100", "--seconds", "20", "--rate", "20000", "-b", node.address,
                                         "-X", "message.timeout.ms=3000", "-J"], stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True)
            time.sleep(random.uniform(0.2, 1.2))
            node.kill()
            producer.terminate()
            out, _ = producer.communicate(timeout=40)
            acknowledged += json.loads(out.splitlines()[-1])["records"] if out.strip() else 0
            node.start()
            end = int(node.mq("topic", "offsets", "t").stdout.splitlines()[1].split()[2])
            assert end >= acknowledged, (i, end, acknowledged)
        records = read(node)
        assert [r["offset"] for r in records] == list(range(len(records)))
        assert len(records) >= acknowledged


def test_numbered_values_survive_once_each_in_order():
    with Node() as node:
        node.mq("topic", "create", "t")
        total = 0
        for i in range(4):
            numbers = "".join(f"{n}\n" for n in range(total, total + 20000))
            node.mq("produce", "t", input=numbers)
            total += 20000
            node.kill()
            node.start()
        assert [int(r["value"]) for r in read(node)] == list(range(total))


def damage(node, edit):
    logs = sorted((node.data / "t-0").glob("*.log"))
    edit(logs[-1])


def test_a_torn_tail_is_cut_and_the_rest_kept():
    for cut in (1, 7, 60, 61):
        with Node() as node:
            node.mq("topic", "create", "t")
            for i in range(10):
                node.mq("produce", "t", input=f"{i}\n")
            node.kill()
            # What was synced counts as damaged when it is missing; an unsynced tail is simply not there. Both start.
            path = sorted((node.data / "t-0").glob("*.log"))[-1]
            with open(path, "ab") as log:
                log.write(os.urandom(200) if cut % 2 else b"\0" * 4096)
            node.start()
            assert [r["value"] for r in read(node)] == [str(i) for i in range(10)]
            node.mq("produce", "t", input="next\n")
            assert [r["offset"] for r in read(node)] == list(range(11))


def test_indexes_are_a_cache():
    def every(node, suffix):
        return sorted((node.data / "t-0").glob(f"*.{suffix}"))

    def fill(path, data):
        path.write_bytes(data)

    edits = {
        "deleted": lambda path: path.unlink(),
        "empty": lambda path: fill(path, b""),
        "zeros": lambda path: fill(path, b"\0" * 4096),
        "noise": lambda path: fill(path, os.urandom(4096)),
    }
    for name, edit in edits.items():
        with Node() as node:
            node.mq("topic", "create", "t", "-c", "segment.bytes=1048576", "-c", "compression.type=producer")
            node.mq("produce", "t", input="".join(f"{i:0200}\n" for i in range(20000)))
            node.stop()
            for suffix in ("index", "timeindex"):
                for path in every(node, suffix):
                    edit(path)
            node.start()
            for offset in (0, 1, 9999, 19999):
                line = node.mq("consume", "t", "-o", f"{offset}:{offset + 1}").stdout
                assert int(line) == offset, (name, offset, line)


def test_a_missing_segment_is_an_error_not_a_gap():
    with Node() as node:
        node.mq("topic", "create", "t", "-c", "segment.bytes=1048576", "-c", "compression.type=producer")
        node.mq("produce", "t", input="".join(f"{i:0200}\n" for i in range(20000)))
        node.mq("topic", "create", "other")
        node.mq("produce", "other", input="fine\n")
        node.stop()
        logs = sorted((node.data / "t-0").glob("*.log"))
        assert len(logs) > 3
        logs[1].unlink()
        node.start()
        assert node.mq("consume", "other", "-e").stdout == "fine\n"
        result = node.mq("consume", "t", "-e", check=False, timeout=90)
        assert result.returncode != 0 and "t-0" in node.log(), node.log()
