#!/usr/bin/env python3
"""Consumer groups in number: commits, memory, and how soon they are back after a restart.

    perf/groups.py [--groups 10000] [--partitions 100] [--members 500]        MQ_BIN or build/mq

Commits one request per group, each of all partitions, with many on the way; prints commits per second, memory per offset,
and the time from the start of the process until every group can be read again, after a clean stop and after kill -9.
Then one group of so many members on 1,000 partitions, in each of the two protocols: from the first join to stable, less
the initial delay, and the generations it took.
"""
import argparse
import contextlib
import heapq
import os
import select
import socket
import struct
import sys
import threading
import time
import uuid

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


def compact(text):
    return unsigned(len(text) + 1) + text.encode()


def unsigned(number):
    out = bytearray()
    while number > 0x7F:
        out.append(number & 0x7F | 0x80)
        number >>= 7
    return bytes(out) + bytes([number])


def read_unsigned(data, at):
    shift = value = 0
    while True:
        value |= (data[at] & 0x7F) << shift
        shift += 7
        at += 1
        if data[at - 1] < 0x80:
            return value, at


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


class Member:
    """One of the consumer protocol (KIP-848): heartbeats as often as it is told, and at once when what it owns has changed."""

    def __init__(self, port, group, topic):
        self.socket = socket.create_connection(("127.0.0.1", port), timeout=60)
        self.socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self.group, self.topic, self.name = group, topic, str(uuid.uuid4())
        self.epoch, self.owned, self.topic_id, self.left = 0, set(), bytes(16), b""
        self.tells = True  # what it owns; always when that has changed

    def heartbeat(self):
        joins = self.epoch == 0
        body = compact(self.group) + compact(self.name) + struct.pack(">i", self.epoch) + b"\0\0" + struct.pack(">i", 60000 if joins else -1)
        body += b"\2" + compact(self.topic) if joins else b"\0"
        body += b"\0\0"  # expression, assignor
        if not self.tells:
            body += b"\0"
        elif not self.owned:
            body += b"\1"
        else:
            body += b"\2" + self.topic_id + unsigned(len(self.owned) + 1) + struct.pack(f">{len(self.owned)}i", *sorted(self.owned)) + b"\0"
        self.socket.sendall(frame(68, 1, body + b"\0", flexible=True))

    def receive(self):
        """Seconds until the next heartbeat; None: the answer is not whole yet."""
        piece = self.socket.recv(1 << 16)
        assert piece, "the node has closed the connection"
        self.left += piece
        if len(self.left) < 4 or len(self.left) < 4 + struct.unpack_from(">i", self.left)[0]:
            return None
        answer, self.left = self.left[4:], b""
        error, = struct.unpack_from(">h", answer, 9)  # behind correlation, tags, throttle
        assert error == 0, (error, answer)
        assert answer[11] == 0, answer                # message
        at = 12 + answer[12]                          # member id
        self.epoch, interval = struct.unpack_from(">ii", answer, at)
        at += 8
        self.tells = False
        if answer[at] == 1:  # an assignment
            owned = set()
            if answer[at + 1] > 1:
                self.topic_id = answer[at + 2:at + 18]
                count, at = read_unsigned(answer, at + 18)
                owned = set(struct.unpack_from(f">{count - 1}i", answer, at))
            self.tells = owned != self.owned
            self.owned = owned
        return 0 if self.tells else interval / 1000


def large_consumer_group(node, size):
    with contextlib.ExitStack() as stack:
        poll, members = select.epoll(), {}
        for _ in range(size):
            member = Member(node.port, "large-too", "wide")
            stack.callback(member.socket.close)
            poll.register(member.socket, select.EPOLLIN)
            members[member.socket.fileno()] = member
        begin = time.monotonic()
        due = [(begin, descriptor) for descriptor in members]
        heartbeats, epochs = 0, []
        while True:
            now = time.monotonic()
            assert now - begin < 120, "not stable within two minutes"
            while due and due[0][0] <= now:
                members[heapq.heappop(due)[1]].heartbeat()
                heartbeats += 1
            for descriptor, _ in poll.poll(max(0, due[0][0] - now) if due else 1):
                member = members[descriptor]
                pause = member.receive()
                if pause is not None:
                    heapq.heappush(due, (time.monotonic() + pause, descriptor))
            epochs = {member.epoch for member in members.values()}
            owned = [partition for member in members.values() for partition in member.owned]
            # Nobody has anything to tell any more, so this lasts.
            if len(epochs) == 1 and 0 not in epochs and sorted(owned) == list(range(1000)) and not any(m.tells for m in members.values()):
                break
        took = time.monotonic() - begin
    print(f"one group of {size} members in the consumer protocol: stable after {took:.2f} s, epoch {epochs.pop()}, {heartbeats} heartbeats", flush=True)


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
        with Client(node.port, timeout=60) as client:
            assert client.create_topic("wide", 1000) == 0
        large_consumer_group(node, options.members)


main()
