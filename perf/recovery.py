#!/usr/bin/env python3
"""From kill -9 to a node that serves all its partitions again.

    perf/recovery.py [--partitions 5000] [--gigabytes 20] [--rounds 3]        MQ_BIN or build/mq; wants that much disk

Fills a topic with batches of 1 MiB, going round its partitions. Then, each round: a writer is at work on all partitions,
the node is killed, and started again. Prints the time to `ready` (every log is recovered), and to the first
acknowledgement behind it. The page cache survives kill -9, and so do the sizes of files: this is about work, not about disks.
"""
import argparse
import os
import sys
import threading
import time

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "test", "cluster"))
from node import Node  # noqa: E402
from records import Client, batch, produce, produced  # noqa: E402

DEPTH = 16


def fill(port, partitions, bytes_):
    """Writes with acks=1 and a bounded number of requests on the way."""
    data = batch([os.urandom(1 << 20)[:(1 << 20) - 200]], 1)
    with Client(port, timeout=60) as client:
        waiting = 0
        for number in range(bytes_ // len(data)):
            client.send(produce("t", number % partitions, data, 1, number))
            waiting += 1
            if waiting == DEPTH:
                correlation, error, _ = produced(client.receive())
                assert error == 0, (correlation, error)
                waiting -= 1
        for _ in range(waiting):
            assert produced(client.receive())[1] == 0


def load(port, partitions, stop):
    small = batch([b"x" * 1000] * 16, 1)
    with Client(port) as client:
        number = 0
        try:
            while not stop.is_set():
                for _ in range(64):
                    client.send(produce("t", number % partitions, small, 1, number))
                    number += 1
                for _ in range(64):
                    if client.receive() is None:
                        return
        except OSError:
            return  # the node was killed


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--partitions", type=int, default=5000)
    parser.add_argument("--gigabytes", type=float, default=20)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--durability", default="page-cache", help="of the topic while it is filled (default page-cache, the one that leaves more to do)")
    options = parser.parse_args()
    with Node() as node:
        with Client(node.port) as client:
            assert client.create_topic("t", options.partitions, durability=options.durability) == 0
        begin = time.monotonic()
        fill(node.port, options.partitions, int(options.gigabytes * 1e9))
        print(f"filled {options.gigabytes} GB in {options.partitions} partitions in {time.monotonic() - begin:.0f} s", flush=True)
        for number in range(options.rounds):
            stop = threading.Event()
            writer = threading.Thread(target=load, args=(node.port, options.partitions, stop))
            writer.start()
            time.sleep(5)
            node.kill()
            stop.set()
            writer.join()
            begin = time.monotonic()
            node.start(wait=300)
            ready = time.monotonic() - begin
            with Client(node.port) as client:
                client.send(produce("t", number, batch([b"x"], 1), -1, 7))
                assert produced(client.receive())[1] == 0
            print(f"ready after {ready:.2f} s, acknowledged after {time.monotonic() - begin:.2f} s", flush=True)


main()
