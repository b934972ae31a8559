#!/usr/bin/env python3
"""How many offset commits a second: groups that commit at the same time, each over a connection of its own.

    perf/commits.py --bench BENCH [--targets mq,kafka] [--mq build/mq] [--seconds 3] [--rounds 3] [--in-flight 4]

Twice: with both brokers acknowledging out of the page cache, as Kafka does, and with both syncing each batch of offsets,
as mq does (Kafka: log.flush.interval.messages=1). Each group has so many requests on the way; what is measured begins
behind a warm-up round. Prints commits a second and CPU us of the broker for a request: medians of the rounds, in which
the targets alternate; the ratios are medians of those of a round.
"""
import argparse
import contextlib
import os
import select
import socket
import statistics
import struct
import sys
import time

from beside import Target, add_options, cpu_seconds

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "test", "cluster"))
from records import Client, string  # noqa: E402
from wire import frame  # noqa: E402

PARTITIONS = 100
SHAPES = [(groups, partitions) for groups in (1, 50) for partitions in (1, PARTITIONS)]


def request(group, partitions):
    """OffsetCommit v2 of somebody who is no member."""
    body = string(group) + struct.pack(">i", -1) + string("") + struct.pack(">q", -1) + struct.pack(">i", 1) + string("t")
    body += struct.pack(">i", partitions)
    return frame(8, 2, body + b"".join(struct.pack(">iqh", p, 42, 0) for p in range(partitions)))


def find_coordinator(port, groups):
    with Client(port, timeout=30) as client:
        for group in range(groups):
            deadline = time.monotonic() + 60
            while struct.unpack_from(">h", client.ask(10, 0, string(f"g{group}")))[0]:
                assert time.monotonic() < deadline, "no coordinator"
                time.sleep(0.1)
            while True:
                client.send(request(f"g{group}", 1))
                error = struct.unpack_from(">h", client.receive(), 4 + 4 + 2 + 1 + 4 + 4)[0]
                if error == 0:
                    break
                assert error in (14, 15, 16) and time.monotonic() < deadline, error
                time.sleep(0.1)


def measure(target, groups, partitions, seconds, in_flight):
    """commits a second, CPU us each"""
    size = 4 + 4 + 4 + 2 + 1 + 4 + partitions * 6  # of an answer
    good = struct.pack(">i", 1) + string("t") + struct.pack(">i", partitions) + b"".join(struct.pack(">ih", p, 0) for p in range(partitions))
    poll, connections = select.epoll(), {}
    with contextlib.ExitStack() as stack:
        for group in range(groups):
            s = stack.enter_context(socket.create_connection(("127.0.0.1", target.port), timeout=30))
            s.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            poll.register(s, select.EPOLLIN)
            connections[s.fileno()] = [s, request(f"g{group}", partitions), b""]
        cpu, begin, done = cpu_seconds(target.pids), time.monotonic(), 0
        for s, data, _ in connections.values():
            s.sendall(data * in_flight)
        while time.monotonic() - begin < seconds:
            ready = poll.poll(10)
            assert ready, f"{target.name} does not answer"
            for descriptor, _ in ready:
                connection = connections[descriptor]
                s, data, left = connection
                piece = s.recv(1 << 18)
                assert piece, f"{target.name} has closed a connection"
                left += piece
                count = len(left) // size
                for at in range(0, count * size, size):
                    assert left[at + 8:at + size] == good, f"{target.name} refuses a commit: {left[at:at + 40].hex()}"
                connection[2] = left[count * size:]
                done += count
                if count:
                    s.sendall(data * count)
        took = time.monotonic() - begin
        return done / took, (cpu_seconds(target.pids) - cpu) / done * 1e6


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    add_options(parser)
    parser.add_argument("--seconds", type=float, default=3)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--in-flight", type=int, default=4, help="requests of one group on the way")
    options = parser.parse_args()
    names = options.targets.split(",")
    print("| durability | groups | partitions in a commit | " + " | ".join(f"{name} commits/s" for name in names) + " | ratio | " +
          " | ".join(f"{name} CPU us" for name in names) + " | ratio |\n" + "|---" * (5 + 2 * len(names)) + "|")
    for durability in ("page-cache", "fsync"):
        results = {}
        with contextlib.ExitStack() as stack:
            targets = [stack.enter_context(Target(name, options, durability)) for name in names]
            for target in targets:
                target.mq("topic", "create", "t", "-p", str(PARTITIONS))
                find_coordinator(target.port, max(groups for groups, _ in SHAPES))
            for round_ in range(-1, options.rounds):
                for target in targets if round_ % 2 else reversed(targets):
                    for shape in SHAPES:
                        figures = measure(target, *shape, options.seconds, options.in_flight)
                        if round_ >= 0:
                            results.setdefault((target.name, shape), []).append(figures)
        for shape in SHAPES:
            cells = []
            for which in (0, 1):
                columns = [[figures[which] for figures in results[name, shape]] for name in names]
                cells += [f"{statistics.median(column):.0f}" for column in columns]
                cells.append(f"{statistics.median(a / b for a, b in zip(columns[0], columns[-1])):.2f}")
            print(f"| {durability} | {shape[0]} | {shape[1]} | " + " | ".join(cells) + " |", flush=True)


main()
