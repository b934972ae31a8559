#!/usr/bin/env python3
"""From the start of the process to the first record that is acknowledged (synced), a new directory each time.

    perf/start.py [--rounds 20]                   MQ_BIN or build/mq

The client tries to connect every millisecond, makes a topic and produces one record, acks=all. Prints the median and
the worst in ms, and the same for a second start in the same directory, of a record into the topic that is there.
"""
import argparse
import os
import statistics
import subprocess
import sys
import time

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "test", "cluster"))
from node import Node  # noqa: E402
from records import Client, batch, produce, produced  # noqa: E402


def first_ack(node, create):
    begin = time.monotonic()
    process = subprocess.Popen(node.command(), stdin=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    try:
        while True:
            try:
                client = Client(node.port)
                break
            except OSError:
                if time.monotonic() - begin > 30:
                    raise
                time.sleep(0.001)
        with client:
            if create:
                assert client.create_topic("t", 1) == 0
            while True:
                client.send(produce("t", 0, batch([b"x"], 1), -1, 7))
                if produced(client.receive())[1] == 0:  # else: the partition is being opened
                    break
        return (time.monotonic() - begin) * 1000
    finally:
        process.terminate()
        process.wait(30)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=20)
    options = parser.parse_args()
    first, again = [], []
    for _ in range(options.rounds):
        with Node(start=False) as node:
            first.append(first_ack(node, True))
            again.append(first_ack(node, False))
    for name, values in (("first start", first), ("second start", again)):
        print(f"{name}: median {statistics.median(values):.0f} ms, worst {max(values):.0f} ms of {len(values)}")


main()
