"""Compaction of a running node: kill -9 in the middle of it, more keys than its memory holds, tombstones, bad segments."""
import json
import random
import threading
import time

from node import Node
from records import Client, keyed, keyed_records, produce, produced
from watch_test import Watched
from wire import eventually

COMPACTED = dict(cleanup_policy="compact", compression_type="producer", min_cleanable_dirty_ratio="0.0", file_delete_delay_ms=100)
QUICK = ("--set", "log.cleaner.backoff.ms=50")
GONE = (ConnectionError, OSError, TimeoutError)


def put(client, topic, pairs):
    """error, base offset"""
    client.send(produce(topic, 0, keyed(pairs, int(time.time() * 1000)), -1, 1))
    answer = client.receive()
    if answer is None:
        raise ConnectionError("closed")
    return produced(answer)[1:]


def read(node, topic):
    """[(offset, key, value)], by offset"""
    found = []
    with Client(node.port, timeout=60) as client:
        _, at = client.offset(topic, 0, -2)
        _, end = client.offset(topic, 0, -1)
        while at < end:
            error, _, data = client.fetch(topic, 0, at)
            assert error == 0 and data, (at, end, error)
            for last, records in keyed_records(data):
                found += [record for record in records if record[0] >= at]
                at = last + 1
    assert [r[0] for r in found] == sorted({r[0] for r in found})
    return found


def compactions(node):
    return node.log_path.read_text(errors="replace").count('"event":"compacted"')


def cleaned_to(node, topic):
    path = node.data / "cleaner-offset-checkpoint"
    for line in path.read_text().splitlines() if path.exists() else []:
        if line.startswith(topic + " 0 "):
            return int(line.split()[2])
    return 0


class Load:
    """Values of a few hundred keys, one request at a time; what a key may be: the last acknowledged value or one sent after it."""

    def __init__(self, chance):
        self.random = chance
        self.sent = {}      # key -> every value that was ever sent
        self.possible = {}  # key -> what may be its last one
        self.number = self.acknowledged = 0
        self.failure = None

    def run(self, port, stop):
        try:
            with Client(port) as client:
                while not stop.is_set():
                    pairs = []
                    for _ in range(self.random.choice([1, 5, 50])):
                        key = b"key %d" % self.random.randrange(300)
                        self.number += 1
                        value = None if self.random.random() < 0.1 else b"%d/" % self.number + b"x" * self.random.randrange(300)
                        pairs.append((key, value))
                        self.sent.setdefault(key, set()).add(value)
                        self.possible.setdefault(key, [None]).append(value)
                    error, _ = put(client, "c", pairs)
                    if error:
                        self.failure = error
                        return
                    for key, value in dict(pairs).items():
                        self.possible[key] = [value]
                    self.acknowledged += len(pairs)
        except GONE:
            pass

    def check(self, node):
        found = read(node, "c")
        last = {}
        for offset, key, value in found:
            assert value in self.sent[key], (offset, key, value)
            last[key] = value
        for key, possible in self.possible.items():
            assert last.get(key) in possible, f"{key}: {last.get(key)}, not one of {possible}"
        return len(found)


def test_kill_9_in_the_middle_of_compaction():
    seed = random.randrange(1 << 32)
    chance = random.Random(seed)
    with Node(*QUICK) as node:
        with Client(node.port) as client:
            assert client.create_topic("c", 1, internal_segment_bytes=40000, delete_retention_ms=200, **COMPACTED) == 0
        load = Load(chance)
        try:
            for _ in range(8):
                stop = threading.Event()
                thread = threading.Thread(target=load.run, args=(node.port, stop))
                thread.start()
                time.sleep(chance.uniform(0.2, 1.0))
                node.kill()
                stop.set()
                thread.join(30)
                assert not thread.is_alive() and load.failure is None, load.failure
                node.start()
                load.check(node)
            before = compactions(node)
            assert eventually(lambda: compactions(node) > 0 and compactions(node) >= before, within=30)
            found = load.check(node)
            assert found < load.acknowledged / 2, (found, load.acknowledged)
            assert node.stop() == 0
            left = [path.name for path in (node.data / "c-0").iterdir() if path.name.endswith((".swap", ".cleaned"))]
            assert not left, left
            for line in node.log_path.read_text(errors="replace").splitlines():
                assert not any(f'"event":"{event}"' in line for event in ("directory-offline", "log-damaged", "uncleanable")), line
        except Exception as problem:
            problem.add_note(f"seed {seed}\n{node.log()[-3000:]}")
            raise


def test_more_keys_than_the_memory_holds():
    with Node(*QUICK, "--set", "log.cleaner.dedupe.buffer.size=1048576") as node:
        with Client(node.port) as client:
            assert client.create_topic("c", 1, **COMPACTED) == 0
            for begin in range(0, 100_000, 5000):
                assert put(client, "c", [(b"%d" % n, b"old") for n in range(begin, begin + 5000)])[0] == 0
            assert put(client, "c", [(b"%d" % n, b"new") for n in range(0, 100_000, 20)])[0] == 0
        # Only a sealed segment is compacted.
        node.mq("config", "set", "-t", "c", "segment.ms=1")
        with Client(node.port) as client:
            assert eventually(lambda: put(client, "c", [(b"last", b"1")])[0] == 0 and cleaned_to(node, "c") >= 105_000, within=60, every=0.2)
        found = [record for record in read(node, "c") if record[1] != b"last"]
        assert len(found) == 100_000, len(found)
        assert {key for _, key, value in found if value == b"new"} == {b"%d" % n for n in range(0, 100_000, 20)}
        text = node.log_path.read_text(errors="replace")
        assert '"event":"uncleanable"' not in text


def test_a_tombstone_is_seen_for_its_time_and_an_empty_value_is_none():
    with Node(*QUICK) as node:
        with Client(node.port) as client:
            assert client.create_topic("c", 1, segment_ms=100, delete_retention_ms=3000, **COMPACTED) == 0
            assert put(client, "c", [(b"a", b"1"), (b"b", b"1"), (b"c", b"1")])[0] == 0
            assert put(client, "c", [(b"a", None), (b"b", b"")])[0] == 0

            def state():
                put(client, "c", [(b"roll", b"")])
                return {key: value for _, key, value in read(node, "c") if key != b"roll"}

            began = time.monotonic()
            assert eventually(lambda: len([r for r in read(node, "c") if r[1] == b"a"]) == 1 or not state(), within=20, every=0.2)
            assert state() == {b"a": None, b"b": b"", b"c": b"1"}
            assert eventually(lambda: b"a" not in state(), within=30, every=0.2)
            assert time.monotonic() - began > 2.5
            assert state() == {b"b": b"", b"c": b"1"}


def test_a_record_without_a_key_is_refused():
    with Node() as node:
        with Client(node.port) as client:
            assert client.create_topic("c", 1, **COMPACTED) == 0
            assert put(client, "c", [(None, b"1")])[0] == 87  # INVALID_RECORD
            assert put(client, "c", [(b"", b"1")])[0] == 0


def test_one_bad_partition_is_named_and_the_others_go_on():
    with Watched(*QUICK, "--set", "log.cleaner.enable=false", "--set", "log.scrub.bytes.per.second=0") as node:
        with Client(node.port) as client:
            for topic in ("bad", "good"):
                assert client.create_topic(topic, 1, internal_segment_bytes=4000, **COMPACTED) == 0
                for n in range(60):
                    assert put(client, topic, [(b"key", b"%d" % n + b"x" * 300)])[0] == 0
        assert node.stop() == 0
        first = node.data / "bad-0" / ("0" * 20 + ".log")
        data = bytearray(first.read_bytes())
        data[200] ^= 1
        first.write_bytes(data)
        node.arguments = ["--http-listen", node.http, *QUICK]
        node.start()
        with Client(node.port):
            assert eventually(lambda: cleaned_to(node, "good") > 0, within=30)
        # Which of the two comes first is up to their shards.
        assert eventually(lambda: node.total("mq_compaction_uncleanable_partitions") == 1)
        lines = [json.loads(line) for line in node.log_path.read_text(errors="replace").splitlines() if '"event":"uncleanable"' in line]
        assert len(lines) == 1 and "bad-0" in json.dumps(lines[0]) and "checksum" in json.dumps(lines[0]), lines
        assert len(read(node, "good")) < 30


def test_groups_are_there_again_when_their_log_was_compacted_to_nothing():
    """Reading a log whose start lies far in front of its first record ends, as does one without any record."""
    offsets = "__consumer_offsets"
    with Node(*QUICK, "--set", "offsets.topic.num.partitions=1", "--set", "group.initial.rebalance.delay.ms=0",
              "--set", "log.cleaner.delete.retention.ms=0", "--set", "log.retention.check.interval.ms=100") as node:
        node.mq("topic", "create", "t")
        node.mq("produce", "t", input="".join(f"{i}\n" for i in range(100)))

        def commit(group, offset):
            node.mq("group", "seek", group, f"t={offset}")

        for n in range(30):
            commit(f"g{n}", n)
        commit("kept", 7)
        node.mq("group", "delete", *[f"g{n}" for n in range(30)], "--yes")
        node.mq("topic", "alter", offsets, "-c", "segment.ms=100", "-c", "min.cleanable.dirty.ratio=0.0", "-c", "delete.retention.ms=0")
        size = lambda: sum(file.stat().st_size for file in (node.data / f"{offsets}-0").glob("*.log"))
        before = size()

        def rolled_and_compacted():
            commit("last", 1)
            return size() < before / 4

        assert eventually(rolled_and_compacted, within=60, every=0.2), (before, size())
        for restart in (node.stop, node.kill):
            restart()
            node.start()
            listed = {json.loads(line)["group"] for line in node.mq("group", "list", "-J").stdout.splitlines()}
            assert listed == {"kept", "last"}, listed
            assert json.loads(node.mq("group", "lag", "kept", "-J").stdout)["committed"] == 7
        # And when nothing is left of it.
        node.mq("group", "delete", "kept", "last", "--yes")
        with Client(node.port) as client:
            end = client.offset(offsets, 0, -1)[1]
        node.stop()
        node.start()
        assert node.mq("group", "list", "-J").stdout == ""
        commit("new", 3)
        with Client(node.port) as client:
            assert client.offset(offsets, 0, -1)[1] > end
        node.kill()
        node.start()
        assert json.loads(node.mq("group", "lag", "new", "-J").stdout)["committed"] == 3
