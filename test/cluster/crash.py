#!/usr/bin/env python3
"""Kills or unplugs a node at random moments under load, and checks after each start that it kept its word.

    crash.py --rounds 200                                   kill -9
    crash.py --rounds 200 --power DIR                       power cuts: DIR has powerloss.so and powerloss
    crash.py --rounds 20 --power DIR --without-sync         the same without syncs: must find losses, else exit 1

All rounds share one data directory. Load: producers with and without idempotence, several requests in flight, small
and large and gzip batches, into topics with tiny segments; meanwhile log starts move up (DeleteRecords), topics come
and go. After each start, over the wire:

    an acknowledged record is there, at the offset that was told, byte for byte
    offsets are dense; no value twice; nothing that was never sent
    what a reader was shown once is shown again
    an idempotent producer goes on where it was: what it sends again is stored once
    an acknowledged log start is not forgotten, nor a topic's creation, nor its deletion
"""
import argparse
import pathlib
import random
import shutil
import subprocess
import sys
import threading
import time

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent))
from node import Node  # noqa: E402
from records import Client, batch, batches, produce, produced  # noqa: E402

PARTITIONS = 3
IN_FLIGHT = 5
GONE = (ConnectionError, OSError, TimeoutError)


class Loss(AssertionError):
    pass


class Partition:
    def __init__(self):
        self.sent = {}     # value -> offset that was acknowledged; None: unknown
        self.seen = []     # values by offset, from seen_start on, as read last
        self.seen_start = 0
        self.acked = {}    # offset -> value, not yet read
        self.start_told = 0
        self.start_asked = 0


class Producer:
    """One connection to one partition per round; an idempotent one lives through the crashes."""

    def __init__(self, name, topic, partition, index, idempotent, chance):
        self.name, self.topic, self.partition, self.index = name, topic, partition, index
        self.idempotent, self.random = idempotent, chance
        self.id = (-1, -1)
        self.sequence = self.number = 0
        self.unanswered = []  # (values, sequence, bytes), in order
        self.acknowledged = self.acknowledged_below = 0
        self.failure = None

    def make(self):
        count = self.random.choice([1, 1, 2, 10, 100])
        size = self.random.choice([10, 10, 100, 1000])
        values = []
        for _ in range(count):
            values.append(f"{self.name}/{self.number}/".encode() + b"x" * self.random.randrange(size))
            self.number += 1
        data = batch(values, int(time.time() * 1000), *self.id, self.sequence if self.idempotent else -1, self.random.random() < 0.2)
        item = (values, self.sequence, data)
        if self.idempotent:
            self.sequence += count
        for value in values:
            self.partition.sent[value] = None
        return item

    def run(self, port, stop):
        try:
            with Client(port) as client:
                if self.idempotent and self.id[0] < 0:
                    self.id = client.producer_id()
                again = list(self.unanswered) if self.idempotent else []
                self.unanswered = list(again)
                correlation = 0
                flying = {}
                while not stop.is_set() or flying:
                    while len(flying) < IN_FLIGHT and (again or not stop.is_set()):
                        item = again.pop(0) if again else self.make()
                        correlation += 1
                        flying[correlation] = item
                        self.unanswered = list(flying.values()) + again
                        client.send(produce(self.topic, self.index, item[2], self.random.choice([-1, -1, 1]), correlation))
                    answer = client.receive()
                    if answer is None:
                        return
                    which, error, base = produced(answer)
                    values, sequence, _ = flying.pop(which)
                    self.unanswered = list(flying.values()) + again
                    if error != 0:
                        self.failure = f"{self.name}, id {self.id}: error {error} for sequence {sequence}, acknowledged was all below {self.acknowledged_below}"
                        return
                    for delta, value in enumerate(values):
                        self.partition.sent[value] = base + delta
                        self.partition.acked[base + delta] = value
                    self.acknowledged += len(values)
                    self.acknowledged_below = sequence + len(values)
        except GONE:
            pass


class Churn:
    """Topics that come and go, and log starts that move up."""

    def __init__(self, partitions, chance):
        self.partitions, self.random = partitions, chance
        self.number = 0
        self.topics = {}  # name -> "created", "deleted"; None: unknown
        self.failure = None

    def run(self, port, stop):
        try:
            with Client(port) as client:
                while not stop.is_set():
                    self.number += 1
                    name = f"churn-{self.number}"
                    self.topics[name] = None
                    error = client.create_topic(name, 2)
                    if error:
                        self.failure = f"{name}: error {error}"
                        return
                    self.topics[name] = "created"
                    client.send(produce(name, 0, batch([b"v"], 1), -1, 1))
                    if client.receive() is None:
                        return
                    if self.random.random() < 0.8:
                        old = self.random.choice([n for n, state in self.topics.items() if state == "created"])
                        self.topics[old] = None
                        error = client.delete_topic(old)
                        if error:
                            self.failure = f"deletion of {old}: error {error}"
                            return
                        self.topics[old] = "deleted"
                    (topic, index), partition = self.random.choice(list(self.partitions.items()))
                    _, end = client.offset(topic, index, -1)
                    target = self.random.randrange(end + 1)
                    if end > 200 and self.random.random() < 0.3:
                        target = min(target, end - 100)
                        partition.start_asked = max(partition.start_asked, target)
                        error, low = client.delete_records(topic, index, target)
                        if error:
                            self.failure = f"DeleteRecords of {topic}-{index} to {target}: error {error}"
                            return
                        partition.start_told = max(partition.start_told, low)
                    time.sleep(0.02)
        except GONE:
            pass


def expect(condition, *words):
    if not condition:
        raise Loss(" ".join(str(word) for word in words))


def check_partition(client, topic, index, partition, whole):
    name = f"{topic}-{index}"
    error, start = client.offset(topic, index, -2)
    expect(error == 0, name, "has no start, error", error)
    error, end = client.offset(topic, index, -1)
    expect(error == 0, name, "has no end, error", error)
    expect(partition.start_told <= start <= max(partition.start_asked, partition.start_told), name, "starts at", start, "told was", partition.start_told,
           "asked was", partition.start_asked)
    seen_end = partition.seen_start + len(partition.seen)
    expect(end >= seen_end, name, "ends at", end, "a reader was shown everything below", seen_end)
    if partition.acked:
        expect(end > max(partition.acked), name, "ends at", end, "acknowledged was", max(partition.acked))
    # What was read before is read again now and then; what is new always.
    offset = start if whole else max(start, seen_end)
    values = []
    first = offset
    while offset < end:
        error, _, data = client.fetch(topic, index, offset)
        expect(error == 0, name, "cannot be read at", offset, "error", error)
        for base, records in batches(data):
            expect(base <= offset if not values else base == offset, name, "has a hole:", offset, "comes next, the batch is at", base)
            values += records[offset - base:]
            offset = base + len(records)
        expect(data, name, "has nothing at", offset, "below its end", end)
    for at, value in enumerate(values, first):
        if at < seen_end:
            expect(value == partition.seen[at - partition.seen_start], name, at, "is", value[:40], "a reader was shown", partition.seen[at - partition.seen_start][:40])
            continue
        expect(value in partition.sent, name, at, "was never sent:", value[:40])
        told = partition.sent[value]
        expect(told is None or told == at, name, value[:40], "is at", at, "and also at", told)
        partition.sent[value] = at
    for at, value in partition.acked.items():
        if at >= first:
            expect(values[at - first] == value, name, at, "is", values[at - first][:40], "acknowledged was", value[:40])
    partition.acked = {}
    kept = partition.seen[max(0, start - partition.seen_start):] if start <= seen_end else []
    partition.seen = values if whole else kept + values
    partition.seen_start = start
    return len(values)


def check(node, partitions, churn, whole):
    with Client(node.port, timeout=60) as client:
        read = sum(check_partition(client, topic, index, partition, whole) for (topic, index), partition in partitions.items())
        for name, state in list(churn.topics.items()):
            error, end = client.offset(name, 0, -1)
            if state == "created":
                expect(error == 0, f"topic {name} was created and is lost: error", error)
            elif state == "deleted":
                expect(error == 3, f"topic {name} was deleted and is back: error", error)
            else:
                churn.topics[name] = "created" if error == 0 else "deleted"
            if churn.topics[name] == "deleted":
                del churn.topics[name]
    return read


def run(rounds, power=None, mode="all", without_sync=False, seed=None, keep=False, seconds=1.0, say=print):
    """Raises Loss with what is missing. Returns counts."""
    seed = seed if seed is not None else random.randrange(1 << 32)
    chance = random.Random(seed)
    node = Node(*(["--set", "durability=page-cache"] if without_sync else []), start=False, keep=keep)
    state = node.base / "power"
    node.data.mkdir()
    if power:
        node.environment.update(POWERLOSS_DIR=str(node.data), POWERLOSS_STATE=str(state), LD_PRELOAD=str(pathlib.Path(power) / "powerloss.so"),
                                UV_USE_IO_URING="0")
    begin = time.monotonic()
    counts = dict(rounds=0, acknowledged=0, read=0, lost_bytes=0, starts_ms=[])
    try:
        node.start()
        partitions, producers = {}, []
        with Client(node.port) as client:
            for topic, configs in {"plain": dict(compression_type="producer"), "auto": {}}.items():
                assert client.create_topic(topic, PARTITIONS, internal_segment_bytes=262144, **configs) == 0
                for index in range(PARTITIONS):
                    partition = partitions[topic, index] = Partition()
                    for kind in ("idempotent", "simple") if index < 2 else ("idempotent",):
                        producers.append(Producer(f"{kind}-{topic}-{index}", topic, partition, index, kind == "idempotent",
                                                  random.Random(chance.random())))
        churn = Churn(partitions, random.Random(chance.random()))
        for number in range(1, rounds + 1):
            stop = threading.Event()
            threads = [threading.Thread(target=worker.run, args=(node.port, stop)) for worker in producers + [churn]]
            for thread in threads:
                thread.start()
            time.sleep(chance.uniform(0.05, seconds))
            node.kill()
            stop.set()
            for thread in threads:
                thread.join(30)
                assert not thread.is_alive(), "a producer hangs"
            for worker in producers + [churn]:
                expect(worker.failure is None, worker.failure)
            if power:
                modes = ["strict", "random", "torn"] if mode == "all" else [mode]
                environment = {k: v for k, v in node.environment.items() if not k.startswith(("LD_", "POWERLOSS"))}
                out = subprocess.run([pathlib.Path(power) / "powerloss", "apply", node.data, state, "--mode", modes[number % len(modes)], "--seed", str(number)],
                                     capture_output=True, text=True, check=True, env=environment).stdout
                counts["lost_bytes"] += int(out.split(" bytes lost")[0].split()[-1])
                shutil.rmtree(state, ignore_errors=True)
            before = time.monotonic()
            node.start()
            counts["starts_ms"].append((time.monotonic() - before) * 1000)
            counts["read"] += check(node, partitions, churn, whole=number % 20 == 0 or number == rounds)
            counts["rounds"] = number
            counts["acknowledged"] = sum(producer.acknowledged for producer in producers)
            if number % 20 == 0:
                say(f"round {number}: {counts['acknowledged']} acknowledged, {counts['read']} read, {time.monotonic() - begin:.0f} s")
        assert node.stop() == 0
        for worker in node.log_path.read_text(errors="replace").splitlines():
            assert '"directory-offline"' not in worker and '"log-damaged"' not in worker, worker
        return counts
    except Exception as problem:
        problem.add_note(f"seed {seed}, round {counts['rounds'] + 1}, data in {node.base}\n{node.log()[-3000:]}")
        raise
    finally:
        node.close()


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=10)
    parser.add_argument("--power", metavar="DIR", help="cut the power, with the tools in DIR")
    parser.add_argument("--mode", default="all", help="strict, random, torn; default: one after the other")
    parser.add_argument("--without-sync", action="store_true", help="durability=page-cache: losses are expected")
    parser.add_argument("--seconds", type=float, default=1.0, help="of load in a round, at most")
    parser.add_argument("--seed", type=int)
    parser.add_argument("--keep", action="store_true", help="leave the data directory")
    given = parser.parse_args()
    try:
        counts = run(given.rounds, given.power, given.mode, given.without_sync, given.seed, given.keep, given.seconds)
    except Loss as loss:
        print(f"LOST: {loss}\n" + "\n".join(getattr(loss, "__notes__", [])[:1] if not given.without_sync else []))
        return 0 if given.without_sync else 1
    starts = sorted(counts.pop("starts_ms"))
    print(", ".join(f"{key} {value}" for key, value in counts.items()) + f", start p50 {starts[len(starts) // 2]:.0f} ms max {starts[-1]:.0f} ms")
    return 1 if given.without_sync else 0


if __name__ == "__main__":
    sys.exit(main())
