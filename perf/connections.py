#!/usr/bin/env python3
"""What many connections cost: the same rate of small batches over few and over many connections, in turns.

    perf/connections.py --bench BENCH --targets mq,kafka --mq build/mq [--many 1000] [--rate 2000] [--rounds 3]

BENCH is the folder of the side-by-side benchmark (its targets/NAME.sh start and stop a broker). Each connection produces
one batch of 100 bytes, acks=all, to its topic (of 100, one partition each), at times fixed in advance; latency counts
from the due time. What is measured begins when each connection has had one answer: accepting them is another matter. Prints per target and count of connections: p50 and p99 in us, server CPU us per request, and the
ratios many/few, medians of the rounds.
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
from wire import Raw, frame  # noqa: E402

TOPICS = 100


def text(value):
    return struct.pack(">h", len(value)) + value.encode()


def exactly(s, count):
    data = b""
    while len(data) < count:
        piece = s.recv(count - len(data))
        if not piece:
            raise SystemExit("a connection was closed")
        data += piece
    return data


class Measured(Target):
    def up(self):
        super().up()
        names = [f"c{i}" for i in range(TOPICS)]
        self.mq("topic", "create", "-p", "1", *names)
        self.mq("produce", "c0", input="x" * 100)
        self.batch = self.read_batch()

    def read_batch(self):
        """The batch that holds the first record, as the broker keeps it."""
        body = struct.pack(">iiiibi", -1, 1000, 1, 1 << 20, 0, 1) + text("c0")
        body += struct.pack(">iiqi", 1, 0, 0, 1 << 20)
        with Raw(self.port) as raw:
            raw.send(frame(1, 4, body))
            answer = raw.receive()
        # correlation, throttle, topics, name, partitions, index, error, high watermark, last stable, aborted, size
        at = 4 + 4 + 4 + 2 + 2 + 4 + 4 + 2 + 8 + 8
        aborted, = struct.unpack_from(">i", answer, at)
        at += 4 + max(aborted, 0) * 16
        size, = struct.unpack_from(">i", answer, at)
        return answer[at + 4:at + 4 + size]

    def run(self, connections):
        requests = []
        for i in range(TOPICS):
            body = struct.pack(">hhii", -1, -1, 30000, 1) + text(f"c{i}")
            body += struct.pack(">iii", 1, 0, len(self.batch)) + self.batch
            requests.append(frame(0, 3, body))
        sockets = []
        poll = select.epoll()
        by_descriptor = {}
        for i in range(connections):
            s = socket.create_connection(("127.0.0.1", self.port))
            s.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            poll.register(s, select.EPOLLIN)
            by_descriptor[s.fileno()] = [s, [], b""]  # socket, due times of what is under way, bytes of answers
            sockets.append(s)
        for i, s in enumerate(sockets):
            s.sendall(requests[i % TOPICS])
        for s in sockets:
            size, = struct.unpack(">i", exactly(s, 4))
            exactly(s, size)
        latencies = []
        rate, seconds = self.options.rate, self.options.seconds
        total = int(rate * seconds)
        cpu = cpu_seconds(self.pids)
        begin = time.monotonic() + 0.05
        sent = done = 0
        limit = begin + seconds + 30
        while done < total:
            now = time.monotonic()
            if now > limit:
                raise SystemExit(f"{self.name}: {total - done} answers are missing")
            while sent < total and begin + sent / rate <= now:
                s = sockets[sent % connections]
                by_descriptor[s.fileno()][1].append(begin + sent / rate)
                s.sendall(requests[sent % connections % TOPICS])
                sent += 1
            wait = begin + sent / rate - time.monotonic() if sent < total else 0.1
            for descriptor, _ in poll.poll(max(wait, 0)):
                entry = by_descriptor[descriptor]
                entry[2] += entry[0].recv(65536)
                now = time.monotonic()
                while len(entry[2]) >= 4:
                    size, = struct.unpack_from(">i", entry[2])
                    if len(entry[2]) < 4 + size:
                        break
                    # error code: behind correlation, topics, name, partitions, index
                    name, = struct.unpack_from(">h", entry[2], 4 + 4 + 4)
                    error, = struct.unpack_from(">h", entry[2], 4 + 4 + 4 + 2 + name + 4 + 4)
                    if error:
                        raise SystemExit(f"{self.name}: a produce was answered with error {error}")
                    entry[2] = entry[2][4 + size:]
                    latencies.append((now - entry[1].pop(0)) * 1e6)
                    done += 1
        cpu = cpu_seconds(self.pids) - cpu
        for s in sockets:
            s.close()
        latencies.sort()
        return {"p50_us": latencies[total // 2], "p99_us": latencies[total * 99 // 100], "cpu_us": cpu * 1e6 / total}


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    add_options(parser)
    parser.add_argument("--few", type=int, default=10)
    parser.add_argument("--many", type=int, default=1000)
    parser.add_argument("--rate", type=float, default=2000)
    parser.add_argument("--seconds", type=float, default=5)
    parser.add_argument("--rounds", type=int, default=3)
    options = parser.parse_args()
    results = {}
    with contextlib.ExitStack() as stack:
        targets = [stack.enter_context(Measured(name, options)) for name in options.targets.split(",")]
        for target in targets:
            target.run(options.few)  # warm
        for _ in range(options.rounds):
            for target in targets:
                for count in (options.few, options.many):
                    results.setdefault((target.name, count), []).append(target.run(count))
    metrics = ("p50_us", "p99_us", "cpu_us")
    print("| target | connections | p50 us | p99 us | server CPU us/request |\n|---|---|---|---|---|")
    for target in targets:
        middle = {}
        for count in (options.few, options.many):
            middle[count] = [statistics.median(r[m] for r in results[target.name, count]) for m in metrics]
            print(f"| {target.name} | {count} | " + " | ".join(f"{v:.0f}" for v in middle[count]) + " |")
        ratios = [many / few for few, many in zip(middle[options.few], middle[options.many])]
        print(f"| {target.name} | ratio | " + " | ".join(f"{v:.2f}" for v in ratios) + " |")


main()
