#!/usr/bin/env python3
"""Read, transform, write, exactly once, while the broker and the workers are killed (-9) at random moments.

    eos_loop.py --seconds 600 --client librdkafka          the worker that the build makes; or --worker PATH
    eos_loop.py --seconds 600 --client java --jars DIR     Kafka's client jars and what they need; javac in PATH
    eos_loop.py --seconds 600 --client franz               go in PATH; fetches franz-go unless it is there
    eos_loop.py --client librdkafka,java,franz ...         one group of all three
    eos_loop.py --careless ...                             workers that commit beside the transaction: must exit 1

An idempotent producer feeds numbers, under 50 keys, for so many seconds. Workers (test/eos/) copy them from one topic to
another in transactions that hold their offsets. Then the workers finish what is left, and of the committed output, which
is read here and by no client: each number is there once, under its key, and those of a key in their order.
Exit status: 0 all of it holds; 1 it does not, or somebody hangs; what happened is printed, with the end of each log.
"""
import argparse
import pathlib
import random
import shutil
import signal
import struct
import subprocess
import sys
import threading
import time

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent))
from node import MQ, ROOT, Node  # noqa: E402
from transactional import settled, text, visible  # noqa: E402
from wire import Raw, eventually, frame  # noqa: E402

KEYS, INPUT_PARTITIONS, OUTPUT_PARTITIONS = 50, 6, 4
GROUP, INPUT, OUTPUT = "eos", "in", "out"
START_AGAIN = 3    # exit code of a worker that could not go on by itself
TOLD_TO_END = -signal.SIGTERM, 128 + signal.SIGTERM  # before it had begun
PATIENCE = 60      # seconds without any progress
TOLD_PAUSE = 10    # seconds
SERVER = "server"  # as assignor: the consumer protocol (KIP-848)
SETTINGS = {"group.initial.rebalance.delay.ms": 0, "group.min.session.timeout.ms": 1000,
            "group.consumer.min.session.timeout.ms": 1000, "group.consumer.session.timeout.ms": 3000,
            "group.consumer.min.heartbeat.interval.ms": 100, "group.consumer.heartbeat.interval.ms": 500,
            "offsets.topic.num.partitions": 3, "transaction.state.log.num.partitions": 3,
            "transaction.abort.timed.out.transaction.cleanup.interval.ms": 1000}


class Difference(AssertionError):
    pass


class Worker:
    """A place in the group: its processes come one after the other, under one transactional id."""

    def __init__(self, node, command, name, assignor, careless):
        self.command = [*command, node.address, GROUP, INPUT, OUTPUT, str(OUTPUT_PARTITIONS), name, assignor,
                        "careless" if careless else "careful"]
        self.log_path = node.base / f"{name}.log"
        self.name, self.process, self.gave_up = name, None, 0

    def start(self):
        with open(self.log_path, "ab") as log:
            self.process = subprocess.Popen(self.command, stdin=subprocess.DEVNULL, stdout=log, stderr=log)

    def kill(self):
        self.process.kill()
        self.process.wait(10)

    def look(self):
        """Starts it again when it has given up; whether."""
        code = self.process.poll()
        if code is None:
            return False
        if code != START_AGAIN:
            raise Difference(f"{self.name} ended with {code}")
        self.gave_up += 1
        self.start()
        return True

    def stop(self):
        self.process.terminate()
        try:
            code = self.process.wait(30)
        except subprocess.TimeoutExpired:
            raise Difference(f"{self.name} does not end") from None
        if code not in (0, START_AGAIN, *TOLD_TO_END):
            raise Difference(f"{self.name} ended with {code}")

    def log(self):
        return self.log_path.read_text(errors="replace") if self.log_path.exists() else ""

    def close(self):
        if self.process and self.process.poll() is None:
            self.kill()


class Feeder:
    """mq produce, with numbers at a rate until it is told to end."""

    def __init__(self, node, rate):
        self.rate, self.fed, self.failure = rate, 0, None
        self.stop = threading.Event()
        self.process = subprocess.Popen([MQ, "produce", INPUT, "-K", ":", "--timeout", "120000", "-X", "reconnect.backoff.max.ms=500", "-b", node.address],
                                        stdin=subprocess.PIPE, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True)
        self.thread = threading.Thread(target=self._feed)
        self.thread.start()

    def _feed(self):
        begin = time.monotonic()
        try:
            while not self.stop.wait(0.05):
                due = int((time.monotonic() - begin) * self.rate)
                self.process.stdin.write("".join(f"{n % KEYS}:{n}\n" for n in range(self.fed, due)))
                self.process.stdin.flush()
                self.fed = due
        except OSError as problem:
            self.failure = problem

    def end(self):
        """How many numbers were fed and acknowledged."""
        self.stop.set()
        self.thread.join(60)
        try:
            _, err = self.process.communicate(timeout=120)
        except subprocess.TimeoutExpired:
            raise Difference("the producer of the input does not end") from None
        if self.failure or self.process.returncode or f"acknowledged {self.fed}, failed 0" not in err:
            raise Difference(f"the producer of the input: {self.failure} {self.process.returncode} {err[-500:]}")
        return self.fed

    def close(self):
        self.stop.set()
        if self.process.poll() is None:
            self.process.kill()
        self.process.wait(10)
        self.thread.join(10)


def compare(fed, output):
    """Of the numbers below fed, and values by partition as workers write them: counts of what is wrong, and examples."""
    wrong = dict(missing=0, doubled=0, misplaced=0, alien=0)
    examples = []
    seen, last = {}, {}

    def found(what, words):
        wrong[what] += 1
        if len(examples) < 20:
            examples.append(f"{what}: {words}")

    for partition, values in output.items():
        for at, value in enumerate(values):
            number, _, worker = value.decode(errors="replace").partition("@")
            if not number.isdigit() or int(number) >= fed:
                found("alien", f"{value[:60]} in partition {partition}")
                continue
            number = int(number)
            key = number % KEYS
            if number in seen:
                found("doubled", f"{number} by {seen[number]} and, record {at} of partition {partition}, by {worker}")
                continue
            seen[number] = f"{worker}, record {at} of partition {partition}"
            if key % OUTPUT_PARTITIONS != partition:
                found("misplaced", f"{number} of key {key} by {worker} in partition {partition}")
            elif last.get(key, -1) > number:
                found("misplaced", f"{number} of key {key} by {worker}, record {at} of partition {partition}, behind {last[key]}")
            else:
                last[key] = number
    for number in range(fed):
        if number not in seen:
            found("missing", f"{number} of key {number % KEYS}")
    return wrong, examples


def committed(node):
    """Offsets of the group by partition of the input; None: it cannot be told now."""
    try:
        with Raw(node.port) as raw:
            body = text(GROUP) + struct.pack(">i", 1) + text(INPUT) + struct.pack(">i", INPUT_PARTITIONS)
            raw.send(frame(9, 2, body + struct.pack(f">{INPUT_PARTITIONS}i", *range(INPUT_PARTITIONS))))
            answer = (raw.receive() or b"")[4:]
            at, offsets = 4 + 2 + len(INPUT) + 4, {}
            for _ in range(INPUT_PARTITIONS):
                partition, offset, length = struct.unpack_from(">iqh", answer, at)
                at += 14 + max(length, 0)
                error, = struct.unpack_from(">h", answer, at)
                at += 2
                if error:
                    return None
                offsets[partition] = offset
            return offsets if struct.unpack_from(">h", answer, at)[0] == 0 else None
    except (OSError, struct.error):
        return None


def ends(node):
    with Raw(node.port) as raw:
        body = struct.pack(">ii", -1, 1) + text(INPUT) + struct.pack(">i", INPUT_PARTITIONS)
        raw.send(frame(2, 1, body + b"".join(struct.pack(">iq", p, -1) for p in range(INPUT_PARTITIONS))))
        answer = raw.receive()[4:]
    at, found = 4 + 2 + len(INPUT) + 4, {}
    for _ in range(INPUT_PARTITIONS):
        partition, error, _, offset = struct.unpack_from(">ihqq", answer, at)
        assert error == 0, error
        found[partition] = offset
        at += 22
    return found


class Progress:
    """Somebody commits, or it is said that nobody does."""

    def __init__(self, node, say):
        self.node, self.say, self.offsets, self.since, self.longest = node, say, None, time.monotonic(), 0.0
        self.events = []  # (when, what was done) since

    def look(self):
        offsets = committed(self.node)
        now = time.monotonic()
        if offsets is not None and offsets != self.offsets:
            if self.offsets is not None:
                for partition, offset in offsets.items():
                    if offset < self.offsets[partition]:
                        raise Difference(f"the group has gone back in partition {partition}: {self.offsets[partition]} to {offset}")
                self.longest = max(self.longest, now - self.since)
                if now - self.since > TOLD_PAUSE:
                    happened = ", ".join(f"{what} after {when - self.since:.1f} s" for when, what in self.events)
                    self.say(f"{time.strftime('%H:%M:%S', time.gmtime())}: nothing was committed for {now - self.since:.1f} s: {happened}")
            self.offsets, self.since, self.events = offsets, now, []
        if now - self.since > PATIENCE:
            raise Difference(f"nothing is committed for {PATIENCE} s: stands at {self.offsets}")
        return offsets

    def happened(self, what):
        self.events.append((time.monotonic(), what))


def commands(clients, directory, worker=None, jars=None):
    """Builds what has to be built; by client, what starts one."""
    made = {}
    source = ROOT / "test/eos"
    for client in clients:
        if client == "librdkafka":
            made[client] = [worker or str(pathlib.Path(MQ).parent / "test/eos/eos_worker")]
        elif client == "java":
            subprocess.run(["javac", "-cp", f"{jars}/*", "-d", str(directory), str(source / "Worker.java")], check=True, timeout=120)
            made[client] = ["java", "-Xmx256m", "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1", "-cp", f"{directory}:{jars}/*", "Worker"]
        elif client == "franz":
            subprocess.run(["go", "build", "-o", str(directory / "franz"), "."], cwd=source / "franz", check=True, timeout=600)
            made[client] = [str(directory / "franz")]
        else:
            raise SystemExit(f"{client} is not librdkafka, java or franz")
    return made


def run(seconds, clients, made_by, workers=3, rate=500, gap=5.0, assignor="range", careless=False, seed=None, keep=False, say=print):
    """made_by: what makes the commands of the clients in a directory. Raises Difference. Returns figures."""
    seed = seed if seed is not None else random.randrange(1 << 32)
    chance = random.Random(seed)
    figures = dict(broker_kills=0, worker_kills=0)
    settings = [word for name, value in SETTINGS.items() for word in ("--set", f"{name}={value}")]
    node = Node(*settings, start=False, keep=keep)
    group, feeder = [], None
    try:
        made = made_by(clients, node.base)
        node.start()
        node.mq("topic", "create", INPUT, "-p", str(INPUT_PARTITIONS))
        node.mq("topic", "create", OUTPUT, "-p", str(OUTPUT_PARTITIONS), "--config", "compression.type=producer")
        group += [Worker(node, made[clients[i % len(clients)]], f"{clients[i % len(clients)]}-{i}", assignor, careless) for i in range(workers)]
        for worker in group:
            worker.start()
        assert eventually(lambda: committed(node), within=30, every=0.1), "the group has no coordinator"
        feeder = Feeder(node, rate)
        progress = Progress(node, say)
        begin = time.monotonic()
        assert eventually(lambda: max(progress.look().values()) > 0, within=PATIENCE, every=0.1), "nothing is ever committed"

        def live(until):
            while time.monotonic() < until:
                time.sleep(0.2)
                for worker in group:
                    if worker.look():
                        progress.happened(f"{worker.name} gave up")
                progress.look()

        end = time.monotonic() + seconds
        told = time.monotonic()
        # Both happen at least once in the shortest of runs; afterwards chance decides.
        victims = ["worker", "broker"]
        chance.shuffle(victims)
        while True:
            moment = time.monotonic() + chance.uniform(0.4, 1.6) * gap
            live(min(moment, end))
            if moment >= end:
                break
            if (victims.pop() if victims else chance.choice(["worker", "broker"])) == "worker":
                worker = chance.choice(group)
                worker.kill()
                progress.happened(f"{worker.name} killed")
                time.sleep(chance.uniform(0, gap / 5))
                worker.start()
                progress.happened(f"{worker.name} started")
                figures["worker_kills"] += 1
            else:
                node.kill()
                progress.happened("broker killed")
                time.sleep(chance.uniform(0, gap / 5))
                node.start()
                progress.happened("broker up")
                figures["broker_kills"] += 1
            if time.monotonic() - told > 60:
                told = time.monotonic()
                say(f"{told - begin:.0f} s: {figures}, {feeder.fed} fed, {sum((progress.offsets or {}).values())} done")
        fed = feeder.end()
        goal = ends(node)
        while progress.look() != goal:
            live(time.monotonic() + 0.2)
        for worker in group:
            worker.stop()
        everywhere = [(OUTPUT, partition) for partition in range(OUTPUT_PARTITIONS)]
        assert eventually(lambda: settled(node, everywhere), within=30), "a transaction is never ended"
        wrong, examples = compare(fed, {partition: visible(node, topic, partition) for topic, partition in everywhere})
        logs = [worker.log() for worker in group]
        figures.update(inputs=fed, gave_up=sum(worker.gave_up for worker in group), longest_pause_s=round(progress.longest, 1),
                       aborted=sum(log.count("aborted: ") for log in logs), **wrong)
        if examples:
            raise Difference(f"{figures}\n" + "\n".join(examples))
        reasons = sorted({line for log in logs for line in log.splitlines() if line.startswith("given up: ")})
        figures["reasons"] = reasons
        return figures
    except Exception as problem:
        problem.add_note(f"seed {seed}, {figures}\n--- the node:\n{node.log()[-3000:]}\n" +
                         "\n".join(f"--- {worker.name}:\n{worker.log()[-2000:]}" for worker in group))
        raise
    finally:
        for part in [*group, *([feeder] if feeder else [])]:
            part.close()
        node.close()


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seconds", type=float, default=60, help="of input")
    parser.add_argument("--client", default="librdkafka", help="librdkafka, java, franz, or several with commas")
    parser.add_argument("--workers", type=int, default=3)
    parser.add_argument("--rate", type=int, default=500, help="inputs a second")
    parser.add_argument("--gap", type=float, default=5.0, help="seconds between two kills, on average")
    parser.add_argument("--assignor", default="range", help=f"range, cooperative-sticky, or {SERVER}: the consumer protocol (not librdkafka)")
    parser.add_argument("--worker", metavar="PATH", help="the built librdkafka worker")
    parser.add_argument("--jars", metavar="DIR", help="kafka-clients and what it needs")
    parser.add_argument("--careless", action="store_true")
    parser.add_argument("--seed", type=int)
    parser.add_argument("--keep", action="store_true", help="leave the data directory")
    given = parser.parse_args()
    clients = given.client.split(",")
    needed = {"java": ["java", "javac"], "franz": ["go"]}
    for tool in [tool for client in clients for tool in needed.get(client, []) if not shutil.which(tool)]:
        raise SystemExit(f"{tool} is not there")
    if "java" in clients and not given.jars:
        raise SystemExit("java needs --jars")
    begin = time.monotonic()
    try:
        figures = run(given.seconds, clients, lambda names, directory: commands(names, directory, given.worker, given.jars), given.workers, given.rate,
                      given.gap, given.assignor, given.careless, given.seed, given.keep, lambda line: print(line, flush=True))
    except Difference as difference:
        print("WRONG:", difference, *getattr(difference, "__notes__", []), sep="\n")
        return 1
    reasons = figures.pop("reasons")
    print(f"{given.client}, {given.assignor}, {time.monotonic() - begin:.0f} s:", ", ".join(f"{name} {value}" for name, value in figures.items()))
    print(*reasons, sep="\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())
