#!/usr/bin/env python3
"""What transactions cost: the same records, plain and in a transaction every 100 ms, in turns, by one of two clients.

    perf/transactions.py --bench BENCH [--targets mq,kafka] [--mq build/mq] [--megabytes 600] [--rounds 3]
    perf/transactions.py --bench BENCH --jars DIR ...

BENCH is the folder of the side-by-side benchmark (its targets/NAME.sh start and stop a broker). Records of 1,000 bytes,
acks=all, idempotent, six partitions; both brokers acknowledge out of the page cache, as Kafka does. Prints per target MB/s
(records acknowledged, or their transactions committed), and the ratio: the median of those of a round.

The client is `mq produce`, from the start of the command to its end; with --jars Kafka's own ProducerPerformance out of
Kafka's jars in DIR, behind a first third that warms it up.
"""
import argparse
import os
import statistics
import subprocess
import sys
import tempfile
import time

from beside import Target, add_options

EVERY_MS = 100
PROPERTIES = ["batch.size=65536", "linger.ms=5"]  # of ProducerPerformance


class Measured(Target):
    def produce(self, path, topic, transactional_id=None):  # path: a line for each record
        """MB/s"""
        self.mq("topic", "create", topic, "-p", "6")
        time.sleep(1)
        if self.options.jars:
            return self.performance(path, topic, transactional_id)
        arguments = ["--txn", transactional_id, "--txn-every", f"{EVERY_MS}ms"] if transactional_id else []
        with open(path, "rb") as data:
            begin = time.monotonic()
            ended = self.mq("produce", topic, *arguments, stdin=data)
            took = time.monotonic() - begin
        assert ", failed 0" in ended.stderr or ", aborted 0" in ended.stderr, ended.stderr
        return self.options.megabytes / took

    def performance(self, path, topic, transactional_id):
        records = self.options.megabytes * 1000
        command = ["java", "-Xmx1g", "-cp", f"{self.options.jars}/*", "org.apache.kafka.tools.ProducerPerformance", "--bootstrap-server", self.address,
                   "--topic", topic, "--num-records", str(records), "--payload-file", path, "--throughput", "-1", "--warmup-records", str(records // 3),
                   "--command-property", "acks=all", *PROPERTIES]
        if transactional_id:
            command += ["--transactional-id", transactional_id, "--transaction-duration-ms", str(EVERY_MS)]
        ended = subprocess.run(command, check=True, capture_output=True, text=True, timeout=600)
        steady = [line for line in ended.stdout.splitlines() if line.startswith(f"{records - records // 3} ")]
        assert steady, ended.stdout + ended.stderr
        return float(steady[-1].split("records sent, ")[1].split(" records/sec")[0]) / 1000


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    add_options(parser)
    parser.add_argument("--jars", metavar="DIR", help="Kafka's: measure with its own producer")
    parser.add_argument("--megabytes", type=int, default=600)
    parser.add_argument("--rounds", type=int, default=3)
    options = parser.parse_args()
    with tempfile.NamedTemporaryFile(dir="/dev/shm") as data:
        piece = (os.urandom(500).hex()[:999] + "\n").encode() * 1000
        for _ in range(1 if options.jars else options.megabytes):  # ProducerPerformance takes any line, over and over
            data.write(piece)
        data.flush()
        print("| target | plain MB/s | in transactions MB/s | ratio |\n|---|---|---|---|")
        for name in options.targets.split(","):
            with Measured(name, options) as target:
                plain, transactional = [], []
                target.produce(data.name, "warm-up", "warm-up")
                for round_ in range(options.rounds):
                    plain.append(target.produce(data.name, f"plain-{round_}"))
                    transactional.append(target.produce(data.name, f"txn-{round_}", "t"))
                ratio = statistics.median(t / p for t, p in zip(transactional, plain))
                print(f"| {name} | {statistics.median(plain):.0f} | {statistics.median(transactional):.0f} | {ratio:.2f} |", flush=True)
    return 0


if __name__ == "__main__":
    sys.exit(main())
