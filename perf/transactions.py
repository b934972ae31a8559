#!/usr/bin/env python3
"""What transactions cost: the same records through `mq produce`, plain and in a transaction every 100 ms, in turns.

    perf/transactions.py --bench BENCH [--targets mq,kafka] [--mq build/mq] [--megabytes 600] [--rounds 3]

BENCH is the folder of the side-by-side benchmark (its targets/NAME.sh start and stop a broker). Records of 1,000 bytes,
acks=all, idempotent, six partitions; both brokers acknowledge out of the page cache, as Kafka does. Prints per target MB/s
from the start of the command to its end (records acknowledged, or their transactions committed), and the ratio.
"""
import argparse
import os
import statistics
import subprocess
import sys
import tempfile
import time

EVERY = "100ms"


class Target:
    def __init__(self, name, options):
        self.name, self.options = name, options
        self.script = os.path.join(options.bench, "targets", name + ".sh")
        self.directory = tempfile.mkdtemp(prefix=f"transactions-{name}-", dir=options.dir)

    def up(self):
        out = subprocess.run([self.script, "up", self.directory, "1"], check=True, capture_output=True, text=True,
                             env=dict(os.environ, MQ_BIN=os.path.abspath(self.options.mq), DURABILITY="page-cache")).stdout
        self.address = out.split("bootstrap ")[1].split()[0]

    def down(self):
        subprocess.run([self.script, "down", self.directory], check=False, capture_output=True)
        subprocess.run(["rm", "-rf", self.directory], check=False)

    def mq(self, *arguments, **options):
        return subprocess.run([self.options.mq, *arguments, "-b", self.address], check=True, capture_output=True, text=True, **options)

    def produce(self, path, topic, *arguments):
        """MB/s"""
        self.mq("topic", "create", topic, "-p", "6")
        time.sleep(1)
        with open(path, "rb") as data:
            begin = time.monotonic()
            ended = self.mq("produce", topic, *arguments, stdin=data)
            took = time.monotonic() - begin
        assert ", failed 0" in ended.stderr or ", aborted 0" in ended.stderr, ended.stderr
        return self.options.megabytes / took


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--bench", required=True)
    parser.add_argument("--targets", default="mq,kafka")
    parser.add_argument("--mq", default="build/mq")
    parser.add_argument("--megabytes", type=int, default=600)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--dir", default=None, help="where the brokers keep their data")
    options = parser.parse_args()
    options.mq = os.path.abspath(options.mq)
    with tempfile.NamedTemporaryFile(dir="/dev/shm") as data:
        piece = (os.urandom(500).hex()[:999] + "\n").encode() * 1000
        for _ in range(options.megabytes):
            data.write(piece)
        data.flush()
        print("| target | plain MB/s | in transactions MB/s | ratio |\n|---|---|---|---|")
        for name in options.targets.split(","):
            target = Target(name, options)
            target.up()
            try:
                plain, transactional = [], []
                target.produce(data.name, "warm-up", "--txn", "warm-up", "--txn-every", EVERY)
                for round_ in range(options.rounds):
                    plain.append(target.produce(data.name, f"plain-{round_}"))
                    transactional.append(target.produce(data.name, f"txn-{round_}", "--txn", "t", "--txn-every", EVERY))
                ratio = statistics.median(t / p for t, p in zip(transactional, plain))
                print(f"| {name} | {statistics.median(plain):.0f} | {statistics.median(transactional):.0f} | {ratio:.2f} |", flush=True)
            finally:
                target.down()
    return 0


if __name__ == "__main__":
    sys.exit(main())
