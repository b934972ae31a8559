"""kill -9 under load: nothing acknowledged is lost or doubled, offsets are dense, and the next start comes up by itself."""
import json
import os
import random
import shutil
import struct
import subprocess
import unittest

import crash
from node import Node
from records import Client, batch, produce, produced
from wire import eventually


def read(node, topic="t"):
    lines = node.mq("consume", topic, "-e", "-J", timeout=120).stdout.splitlines()
    return [json.loads(line) for line in lines]


def test_kill_9_at_random_moments_under_load():
    counts = crash.run(rounds=5)
    assert counts["acknowledged"] > 1000, counts


def test_power_cuts_at_random_moments_under_load():
    tools = os.environ.get("MQ_POWERLOSS")  # a directory with powerloss.so and powerloss
    if not tools:
        raise unittest.SkipTest("MQ_POWERLOSS names no directory with powerloss.so and powerloss")
    counts = crash.run(rounds=6, power=tools)
    assert counts["acknowledged"] > 1000 and counts["lost_bytes"] > 0, counts


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


def appended_at(client, topic, end):
    """The time of each record, which is that of its batch."""
    stamps = []
    while len(stamps) < end:
        _, _, data = client.fetch(topic, 0, len(stamps))
        at = 0
        while at + 61 <= len(data):
            base, length = struct.unpack_from(">qi", data, at)
            last, _, stamp = struct.unpack_from(">iqq", data, at + 23)
            stamps += [stamp] * (base + last + 1 - len(stamps))
            at += 12 + length
    return stamps


def test_offsets_by_time_are_those_of_the_log_with_indexes_and_without():
    random.seed(30)
    with Node() as node:
        times = []  # by offset
        with Client(node.port) as client:
            assert client.create_topic("t", 1, internal_segment_bytes=20_000, index_interval_bytes=500, compression_type="producer",
                                       message_timestamp_after_max_ms=(1 << 63) - 1) == 0
            assert client.create_topic("appended", 1, internal_segment_bytes=20_000, message_timestamp_type="LogAppendTime") == 0
            for number in range(400):
                # Ever later, but back and forth, within a batch too.
                some = [1_700_000_000_000 + number * 1000 + random.randrange(-20_000, 20_000) for _ in range(random.randrange(1, 6))]
                data = batch([os.urandom(60) for _ in some], some, compress=number % 2 == 0)
                for topic in ("t", "appended"):
                    client.send(produce(topic, 0, data, -1, number))
                    assert produced(client.receive())[1] == 0
                times += some

        def by_time(client, topic, wanted):
            return [client.offset(topic, 0, time) for time in wanted]

        asked = [min(times) - 1, min(times), max(times), max(times) + 1] + random.sample(times, 150) + [t + 1 for t in random.sample(times, 150)]
        expected = [(0, next((offset for offset, time in enumerate(times) if time >= wanted), -1)) for wanted in asked]
        with Client(node.port) as client:
            assert by_time(client, "t", asked) == expected
            stamps = appended_at(client, "appended", len(times))
            asked_appended = stamps[::10] + [stamps[-1] + 1]
            expected_appended = [(0, stamps.index(stamp)) for stamp in stamps[::10]] + [(0, -1)]
            assert by_time(client, "appended", asked_appended) == expected_appended
        node.stop()
        removed = [path for suffix in ("index", "timeindex") for path in node.data.glob(f"*-0/*.{suffix}")]
        assert len(removed) > 8, removed
        for path in removed:
            path.unlink()
        node.start()
        with Client(node.port) as client:
            assert by_time(client, "t", asked) == expected
            assert by_time(client, "appended", asked_appended) == expected_appended
        for wanted, (_, offset) in list(zip(asked, expected))[4:8]:
            line = subprocess.run(["kcat", "-b", node.address, "-C", "-t", "t", "-p", "0", "-o", f"s@{wanted}", "-c", "1", "-e", "-q", "-f", "%o\n"],
                                  capture_output=True, text=True, timeout=20).stdout
            assert line == f"{offset}\n", (wanted, offset, line)
            assert json.loads(node.mq("consume", "t", "-o", f"s@{wanted}", "-n", "1", "-e", "-J").stdout)["offset"] == offset


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


def test_an_unclean_stop_begins_a_new_leader_epoch_and_a_clean_one_does_not():
    with Node() as node:
        epochs = []
        for number, ending in enumerate((node.stop, node.kill, node.stop, node.kill)):
            with Client(node.port) as client:
                if number == 0:
                    assert client.create_topic("t", 1) == 0
                client.send(produce("t", 0, batch([b"v"], 1), -1, 1))
                assert produced(client.receive())[1:] == (0, number)
                _, _, data = client.fetch("t", 0, number)
                epochs.append(struct.unpack_from(">i", data, 12)[0])
            ending()
            node.start()
        assert epochs == [0, 0, 1, 1], epochs


def test_a_deletion_that_a_kill_cut_short_ends_at_the_next_start():
    with Node() as node:
        with Client(node.port) as client:
            for topic in ("kept", "gone"):
                assert client.create_topic(topic, 1) == 0
                client.send(produce(topic, 0, batch([b"v"], 1), -1, 1))
                assert produced(client.receive())[1] == 0
        node.kill()
        # As if the process had ended between the commit of the deletion and the renaming of the directory.
        directory = node.data / "gone-0"
        aside = node.base / "gone-0"
        shutil.copytree(directory, aside)
        partitions = (node.data / "partitions").read_bytes()
        node.start()
        with Client(node.port) as client:
            assert client.delete_topic("gone") == 0
        assert eventually(lambda: not directory.exists())
        node.kill()
        shutil.copytree(aside, directory)
        (node.data / "partitions").write_bytes(partitions)
        node.start()
        assert eventually(lambda: not directory.exists())
        assert not (node.data / "quarantine").exists() and not list(node.data.glob("*-delete"))
        with Client(node.port) as client:
            assert client.fetch("kept", 0, 0)[0] == 0
