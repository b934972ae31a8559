#!/usr/bin/env python3
"""Consumer groups in number: commits, memory, and how soon they are back after a restart.

    perf/groups.py [--groups 10000] [--partitions 100] [--members 500]        MQ_BIN or build/mq

Commits one request per group, each of all partitions, with many on the way; prints commits per second, memory per offset,
and the time from the start of the process until every group can be read again, after a clean stop and after kill -9.
Then one group of so many members on 1,000 partitions, in the classic protocol: from the first join to stable, less the
initial delay, and the generations it took.
"""
import argparse
import os
import struct
import sys
import threading
import time

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "test", "cluster"))
from node import Node  # noqa: E402
from records import Client, string  # noqa: E402
from wire import frame  # noqa: E402

DEPTH = 64
LOADING, AWAY = 14, 16


def find_coordinator(client, group):
    client.ask(10, 0, string(group))


def commit_request(group, topic, partitions, offset):
    body = string(group) + struct.pack(">i", -1) + string("") + struct.pack(">q", -1) + struct.pack(">i", 1) + string(topic)
    body += struct.pack(">i", partitions)
    body += b"".join(struct.pack(">iqh", p, offset, 0) for p in range(partitions))
    return frame(8, 2, body)


def fetch_all(client, group):
    """error, number of offsets"""
    answer = client.ask(9, 2, string(group) + struct.pack(">i", -1))
    error, = struct.unpack_from(">h", answer, len(answer) - 2)
    topics, = struct.unpack_from(">i", answer)
    if error or not topics:
        return error, 0
    length, = struct.unpack_from(">h", answer, 4)
    return error, struct.unpack_from(">i", answer, 6 + length)[0]


def commit_all(client, groups, partitions):
    waiting = 0
    for number in range(groups):
        client.send(commit_request(f"g{number}", "t", partitions, number))
        waiting += 1
        while waiting >= DEPTH or (number == groups - 1 and waiting):
            answer = client.receive()
            length, = struct.unpack_from(">h", answer, 8)
            for i in range(partitions):
                error, = struct.unpack_from(">h", answer, 10 + length + 4 + i * 6 + 4)
                assert error == 0, error
            waiting -= 1


def until_back(node, groups, partitions):
    begin = time.monotonic()
    node.start(wait=120)
    ready = time.monotonic() - begin
    with Client(node.port, timeout=60) as client:
        for number in range(groups):
            while True:
                error, count = fetch_all(client, f"g{number}")
                if error == 0:
                    assert count == partitions, (number, count)
                    break
                assert error in (LOADING, AWAY), error
                time.sleep(0.005)
            if number == 0:
                first = time.monotonic() - begin
            if number == min(groups, 1000) - 1:  # by then every partition of the offsets topic was asked
                print(f"    ready {ready:.2f} s, first group {first:.2f} s, all of the first {number + 1} {time.monotonic() - begin:.2f} s", flush=True)


def join(client, group, member):
    body = string(group) + struct.pack(">ii", 30000, 60000) + string(member) + string("consumer") + struct.pack(">i", 1)
    body += string("range") + struct.pack(">i", 4) + b"meta"
    answer = client.ask(11, 3, body)  # throttle, error, generation, protocol, leader, member, members
    error, generation = struct.unpack_from(">hi", answer, 4)
    at, words = 10, []
    for _ in range(3):
        length, = struct.unpack_from(">h", answer, at)
        words.append(answer[at + 2:at + 2 + length].decode())
        at += 2 + length
    members = []
    count, = struct.unpack_from(">i", answer, at)
    at += 4
    for _ in range(count):
        length, = struct.unpack_from(">h", answer, at)
        members.append(answer[at + 2:at + 2 + length].decode())
        at += 2 + length
        at += 4 + struct.unpack_from(">i", answer, at)[0]
    return error, generation, words[1], words[2], members


def sync(client, group, generation, member, assignments):
    body = string(group) + struct.pack(">i", generation) + string(member) + struct.pack(">i", len(assignments))
    body += b"".join(string(m) + struct.pack(">i", len(a)) + a for m, a in assignments)
    answer = client.ask(14, 1, body)
    return struct.unpack_from(">h", answer, 4)[0]


def large_group(node, size):
    done = []
    lock = threading.Lock()

    def member():
        with Client(node.port, timeout=120) as client:
            identity = ""
            while True:
                error, generation, leader, identity, members = join(client, "large", identity)
                assert error == 0, error
                share = struct.pack(">i", 1000 // size) * 8
                error = sync(client, "large", generation, identity, [(m, share) for m in members])
                if error == 0:
                    with lock:
                        done.append((time.monotonic(), generation))
                    return
                assert error == 27, error

    begin = time.monotonic()
    threads = [threading.Thread(target=member) for _ in range(size)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    print(f"one group of {len(done)} members: stable after {max(t for t, _ in done) - begin - 3:.2f} s behind the initial delay, generation {max(g for _, g in done)}", flush=True)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--groups", type=int, default=10000)
    parser.add_argument("--partitions", type=int, default=100)
    parser.add_argument("--members", type=int, default=500)
    options = parser.parse_args()
    offsets = options.groups * options.partitions
    with Node() as node:
        with Client(node.port, timeout=60) as client:
            assert client.create_topic("t", options.partitions) == 0
            find_coordinator(client, "g0")
            while fetch_all(client, "g0")[0]:
                time.sleep(0.01)
            before = node.rss_kb()
            begin = time.monotonic()
            commit_all(client, options.groups, options.partitions)
            took = time.monotonic() - begin
        print(f"{options.groups} groups, {offsets} offsets: {options.groups / took:.0f} requests/s, {offsets / took:.0f} offsets/s, "
              f"{(node.rss_kb() - before) * 1024 / offsets:.0f} bytes of memory an offset", flush=True)
        node.stop()
        print("after a clean stop:")
        until_back(node, options.groups, options.partitions)
        print(f"    {(node.rss_kb()) * 1024 / offsets:.0f} bytes of all memory an offset", flush=True)
        node.kill()
        print("after kill -9:")
        until_back(node, options.groups, options.partitions)
        large_group(node, options.members)


main()
