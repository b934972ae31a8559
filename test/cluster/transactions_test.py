"""Transactions in real processes: kill -9 in every state, and what readers of committed records see."""
import random
import subprocess

from node import Node
from transactional import Producer, committed_offset, fetch, settled, visible
from wire import Raw, eventually

ARGUMENTS = ["--set", "transaction.state.log.num.partitions=3", "--set", "offsets.topic.num.partitions=3",
             "--set", "transaction.abort.timed.out.transaction.cleanup.interval.ms=200"]


def test_kill_9_in_every_state_leaves_all_or_nothing_and_every_id_usable():
    random.seed(6)
    with Node(*ARGUMENTS) as node:
        node.mq("topic", "create", "t", "-p", "3")
        producers = [Producer(node, f"id-{i}") for i in range(3)]
        known, unknown, aborted = set(), set(), set()  # of transactions: committed for sure, not told, aborted
        owner = {}
        number = 0
        for round in range(12):
            for producer in producers:
                producer.lost()
                producer.init()  # within ten seconds, whatever was going on
            killer = subprocess.Popen(["sh", "-c", f"sleep {random.uniform(0.05, 0.4):.3f}; kill -9 {node.process.pid}"])
            try:
                while True:
                    producer = random.choice(producers)
                    number += 1
                    commits = random.random() < 0.7
                    tag = str(number).encode()
                    (unknown if commits else aborted).add(tag)
                    owner[tag] = producer.name
                    assert producer.add("t", [0, 1, 2]) == 0
                    for partition in range(3):
                        assert producer.write("t", partition, [tag + b"/a", tag + b"/b"]) == 0
                    assert producer.commit(f"group of {producer.name}", "t", number) == 0
                    assert producer.end(commits) == 0
                    if commits:
                        unknown.discard(tag)
                        known.add(tag)
            except (ConnectionError, TimeoutError, OSError):
                pass
            finally:
                killer.wait()
                node.process.wait(10)
            node.start()
        for producer in producers:
            producer.lost()
            producer.init()
        everywhere = [("t", partition) for partition in range(3)]
        assert eventually(lambda: settled(node, everywhere), within=20), "a transaction is never ended"
        seen = []
        for _, partition in everywhere:
            values = visible(node, "t", partition)
            assert len(values) == len(set(values)), "something is there twice"
            tags = {value.split(b"/")[0] for value in values}
            assert {t + suffix for t in tags for suffix in (b"/a", b"/b")} == set(values), "half a batch"
            seen.append(tags)
        assert seen[0] == seen[1] == seen[2], "half a transaction"
        assert known <= seen[0], f"committed and gone: {known - seen[0]}"
        assert not seen[0] & aborted, f"aborted and visible: {seen[0] & aborted}"
        assert len(known) > 20, len(known)
        for producer in producers:  # offsets come and go with the records
            last = max((int(tag) for tag in seen[0] if owner[tag] == producer.name), default=-1)
            assert eventually(lambda: committed_offset(node, f"group of {producer.name}", "t") == last), (producer.name, last)


def test_a_producer_that_is_killed_holds_readers_back_no_longer_than_its_timeout():
    with Node(*ARGUMENTS) as node:
        node.mq("topic", "create", "t")
        producer = Producer(node, "gone", timeout_ms=2000).init()
        assert producer.add("t", [0]) == 0
        assert producer.write("t", 0, [b"never"]) == 0
        node.kill()
        node.start()
        with Raw(node.port) as raw:
            assert fetch(raw, "t", 0, 0)[1] == 0
        assert eventually(lambda: settled(node, [("t", 0)]), within=15)
        assert visible(node, "t", 0) == []
        producer.lost()
        assert producer.write("t", 0, [b"zombie"]) == 47  # INVALID_PRODUCER_EPOCH


def test_librdkafka_reads_exactly_the_committed_records():
    """An empty abort, aborts and commits of interleaved producers, across segments and a restart (B39)."""
    with Node(*ARGUMENTS) as node:
        node.mq("topic", "create", "t", "--config", "segment.bytes=1048576")
        a, b = Producer(node, "a").init(), Producer(node, "b").init()
        expected = []

        def transaction(producer, values, commits, amid=lambda: None):
            assert producer.add("t", [0]) == 0
            for value in values:
                assert producer.write("t", 0, [value.encode()]) == 0
            amid()
            assert producer.end(commits) == 0
            if commits:
                expected.extend(values)

        filler = "x" * 200_000
        for i in range(8):
            assert a.add("t", [0]) == 0
            assert a.end(False) == 0  # a marker without data
            transaction(a, [f"{i}-no-{j}-{filler}" for j in range(3)], False,
                        lambda: transaction(b, [f"{i}-b-{j}" for j in range(2)], i % 2 == 0))
            transaction(a, [f"{i}-yes-{j}" for j in range(2)], True)
        assert eventually(lambda: settled(node, [("t", 0)]))

        def consumed():
            command = ["kcat", "-C", "-b", node.address, "-t", "t", "-o", "beginning", "-e", "-q", "-X", "isolation.level=read_committed"]
            return subprocess.run(command, capture_output=True, text=True, timeout=60, check=True).stdout.splitlines()

        assert sorted(consumed()) == sorted(expected)
        node.kill()
        for index in node.data.glob("t-0/*.txnindex"):
            index.unlink()
        node.start()
        assert sorted(consumed()) == sorted(expected)
        assert [value.decode() for value in visible(node, "t", 0)] == consumed()
