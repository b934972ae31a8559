"""A transactional producer by hand, and what a reader of committed records sees. Shared by tests."""
import struct
import time

from records import batches, crc32c, varint
from wire import Raw, eventually, frame


def text(value):
    value = value.encode() if isinstance(value, str) else value
    return struct.pack(">h", len(value)) + value


def transactional(values, producer, epoch, sequence):
    records = bytearray()
    for delta, value in enumerate(values):
        body = b"\0" + varint(0) + varint(delta) + varint(-1) + varint(len(value)) + value + varint(0)
        records += varint(len(body)) + body
    now = int(time.time() * 1000)
    tail = struct.pack(">hiqqqhii", 0x10, len(values) - 1, now, now, producer, epoch, sequence, len(values)) + bytes(records)
    return struct.pack(">qiibI", 0, len(tail) + 9, -1, 2, crc32c(tail)) + tail


class Producer:
    """A transactional producer by hand, in the requests from before KIP-890: every answer is an error number."""

    NONE, NOT_READY, CONCURRENT = 0, (6, 14, 15, 16, 19), 51

    def __init__(self, node, name, timeout_ms=60000):
        self.node, self.name, self.timeout_ms = node, name, timeout_ms
        self.raw, self.id, self.epoch, self.sequences = None, -1, -1, {}

    def call(self, api, version, body):
        if self.raw is None:
            self.raw = Raw(self.node.port)
        self.raw.send(frame(api, version, body))
        answer = self.raw.receive()
        if answer is None:
            raise ConnectionError("closed")
        return answer[4:]

    def lost(self):
        if self.raw:
            self.raw.close()
        self.raw = None

    def init(self):
        """Tries until it is given an id: at most ten seconds."""
        self.sequences = {}

        def attempt():
            self.call(10, 1, text(self.name) + b"\1")  # FindCoordinator makes the topic
            error, self.id, self.epoch = struct.unpack_from(">hqh", self.call(22, 1, text(self.name) + struct.pack(">i", self.timeout_ms)), 4)
            assert error == 0 or error == self.CONCURRENT or error in self.NOT_READY, error
            return error == 0

        assert eventually(attempt, within=10, every=0.02), f"{self.name} gets no producer id"
        return self

    def add(self, topic, partitions):
        def attempt():
            body = text(self.name) + struct.pack(">qh", self.id, self.epoch) + struct.pack(">i", 1) + text(topic)
            body += struct.pack(f">i{len(partitions)}i", len(partitions), *partitions)
            answer = self.call(24, 0, body)
            self.error = struct.unpack_from(">h", answer, len(answer) - 2)[0]
            return self.error != self.CONCURRENT and self.error not in self.NOT_READY

        eventually(attempt, within=10, every=0.02)
        return self.error

    def write(self, topic, partition, values):
        sequence = self.sequences.get((topic, partition), 0)
        data = transactional(values, self.id, self.epoch, sequence)
        body = text(self.name) + struct.pack(">hi", -1, 10000) + struct.pack(">i", 1) + text(topic)
        body += struct.pack(">iii", 1, partition, len(data)) + data

        def attempt():
            answer = self.call(0, 7, body)
            self.error = struct.unpack_from(">h", answer, 4 + 2 + len(topic) + 4 + 4)[0]
            return self.error not in self.NOT_READY

        eventually(attempt, within=10, every=0.02)
        if self.error == 0:
            self.sequences[topic, partition] = sequence + len(values)
        return self.error

    def commit(self, group, topic, offset):
        """An offset of partition 0, inside the transaction."""
        def attempt():
            whose = struct.pack(">qh", self.id, self.epoch)
            self.error = struct.unpack_from(">h", self.call(25, 0, text(self.name) + whose + text(group)), 4)[0]
            if self.error == 0:
                body = text(self.name) + text(group) + whose + struct.pack(">i", 1) + text(topic)
                answer = self.call(28, 0, body + struct.pack(">iiqh", 1, 0, offset, -1))
                self.error = struct.unpack_from(">h", answer, len(answer) - 2)[0]
            return self.error != self.CONCURRENT and self.error not in self.NOT_READY

        eventually(attempt, within=10, every=0.02)
        return self.error

    def end(self, commits):
        def attempt():
            body = text(self.name) + struct.pack(">qhb", self.id, self.epoch, commits)
            self.error = struct.unpack_from(">h", self.call(26, 1, body), 4)[0]
            return self.error != self.CONCURRENT and self.error not in self.NOT_READY

        eventually(attempt, within=10, every=0.02)
        return self.error


def fetch(raw, topic, partition, offset, committed=True):
    """Fetch v4: high watermark, last stable offset, aborted (producer, first offset), bytes."""
    body = struct.pack(">iiiib", -1, 0, 1, 1 << 26, committed) + struct.pack(">i", 1) + text(topic)
    body += struct.pack(">iiqi", 1, partition, offset, 1 << 26)
    raw.send(frame(1, 4, body))
    answer = raw.receive()[4:]
    at = 4 + 4 + 2 + len(topic) + 4
    _, error, high, stable, count = struct.unpack_from(">ihqqi", answer, at)
    assert error == 0, error
    at += 26
    aborted = [struct.unpack_from(">qq", answer, at + 16 * i) for i in range(max(count, 0))]
    at += 16 * max(count, 0)
    size = struct.unpack_from(">i", answer, at)[0]
    return high, stable, aborted, answer[at + 4:at + 4 + max(size, 0)]


def visible(node, topic, partition):
    """Values that a reader of committed records is to see, by the rules of the protocol."""
    values, aborting, offset = [], set(), 0
    with Raw(node.port) as raw:
        while True:
            _, stable, aborted, data = fetch(raw, topic, partition, offset)
            if offset >= stable:
                return values
            pending = sorted(aborted, key=lambda one: one[1])
            at = 0
            before = offset
            while at + 61 <= len(data):
                base, length = struct.unpack_from(">qi", data, at)
                if at + 12 + length > len(data):
                    break
                attributes, delta = struct.unpack_from(">hi", data, at + 21)
                producer = struct.unpack_from(">q", data, at + 43)[0]
                while pending and pending[0][1] <= base + delta:
                    aborting.add(pending.pop(0)[0])
                if attributes & 0x20:
                    aborting.discard(producer)
                elif not (attributes & 0x10 and producer in aborting):
                    for _, batch in batches(data[at:at + 12 + length]):
                        values += batch
                offset = base + delta + 1
                at += 12 + length
            assert offset > before, "no progress below the last stable offset"


def settled(node, topics):
    """Whether no transaction holds a reader back any more."""
    with Raw(node.port) as raw:
        return all(high == stable for high, stable, _, _ in (fetch(raw, topic, partition, 0) for topic, partition in topics))


def committed_offset(node, group, topic):
    """Of partition 0; -1: none."""
    with Raw(node.port) as raw:
        raw.send(frame(9, 1, text(group) + struct.pack(">i", 1) + text(topic) + struct.pack(">ii", 1, 0)))
        answer = raw.receive()[4:]
    offset, length = struct.unpack_from(">qh", answer, 4 + 2 + len(topic) + 8)
    error = struct.unpack_from(">h", answer, 4 + 2 + len(topic) + 18 + max(length, 0))[0]
    return offset if error == 0 else None
