"""Record batches and the few requests that a checker needs, by hand: what is sent and what comes back is known to the byte."""
import ctypes
import ctypes.util
import gzip
import struct

from wire import Raw, frame

_isal = ctypes.CDLL(ctypes.util.find_library("isal") or "libisal.so.2")
_isal.crc32_iscsi.restype = ctypes.c_uint32
_isal.crc32_iscsi.argtypes = [ctypes.c_char_p, ctypes.c_int, ctypes.c_uint32]


def crc32c(data):
    return ~_isal.crc32_iscsi(data, len(data), 0xFFFFFFFF) & 0xFFFFFFFF


def varint(number):
    number = (number << 1) ^ (number >> 63)
    out = bytearray()
    while number > 0x7F:
        out.append(number & 0x7F | 0x80)
        number >>= 7
    out.append(number)
    return bytes(out)


def read_varint(data, at):
    shift = value = 0
    while True:
        byte = data[at]
        at += 1
        value |= (byte & 0x7F) << shift
        if byte < 0x80:
            return (value >> 1) ^ -(value & 1), at
        shift += 7


def batch(values, timestamp, producer=-1, epoch=-1, sequence=-1, compress=False):
    """One batch, its values as records without keys; of one time, or a list of theirs."""
    times = timestamp if isinstance(timestamp, list) else [timestamp] * len(values)
    records = bytearray()
    for delta, value in enumerate(values):
        body = b"\0" + varint(times[delta] - times[0]) + varint(delta) + varint(-1) + varint(len(value)) + value + varint(0)
        records += varint(len(body)) + body
    data = gzip.compress(bytes(records), 1) if compress else bytes(records)
    return sealed(data, len(values), 1 if compress else 0, times[0], max(times), producer, epoch, sequence)


def sealed(data, count, attributes=0, first=0, last=0, producer=-1, epoch=-1, sequence=-1):
    """A batch around the bytes of its records, whatever they are."""
    tail = struct.pack(">hiqqqhii", attributes, count - 1, first, last, producer, epoch, sequence, count) + data
    return struct.pack(">qiibI", 0, len(tail) + 9, -1, 2, crc32c(tail)) + tail


def batches(data):
    """(base offset, values) of each whole batch; a wrong checksum or a codec other than gzip is an AssertionError."""
    at = 0
    while at + 61 <= len(data):
        base, length = struct.unpack_from(">qi", data, at)
        end = at + 12 + length
        if end > len(data):
            return
        _, magic, crc = struct.unpack_from(">ibI", data, at + 12)
        assert magic == 2, magic
        assert crc32c(data[at + 21:end]) == crc, f"the batch at offset {base} has a wrong checksum"
        attributes, last_delta = struct.unpack_from(">hi", data, at + 21)
        count, = struct.unpack_from(">i", data, at + 57)
        records = data[at + 61:end]
        if attributes & 7:
            assert attributes & 7 == 1, attributes
            records = gzip.decompress(records)
        values, position = [], 0
        for _ in range(count):
            size, position = read_varint(records, position)
            stop = position + size
            position += 1
            _, position = read_varint(records, position)
            _, position = read_varint(records, position)
            key, position = read_varint(records, position)
            position += max(key, 0)
            length, position = read_varint(records, position)
            values.append(records[position:position + length])
            position = stop
        assert last_delta == len(values) - 1, (base, last_delta, len(values))
        yield base, values
        at = end


def keyed(pairs, timestamp):
    """One batch of (key, value); None is null."""
    records = bytearray()
    for delta, pair in enumerate(pairs):
        body = b"\0" + varint(0) + varint(delta)
        for field in pair:
            body += varint(-1) if field is None else varint(len(field)) + field
        body += varint(0)
        records += varint(len(body)) + body
    tail = struct.pack(">hiqqqhii", 0, len(pairs) - 1, timestamp, timestamp, -1, -1, -1, len(pairs)) + bytes(records)
    return struct.pack(">qiibI", 0, len(tail) + 9, -1, 2, crc32c(tail)) + tail


def keyed_records(data):
    """last offset, [(offset, key, value)] of each whole, uncompressed batch; compaction may have taken any of them."""
    at = 0
    while at + 61 <= len(data):
        base, length = struct.unpack_from(">qi", data, at)
        end = at + 12 + length
        if end > len(data):
            return
        crc, attributes, last_delta = struct.unpack_from(">Ihi", data, at + 17)
        assert crc32c(data[at + 21:end]) == crc, f"the batch at offset {base} has a wrong checksum"
        assert attributes & 7 == 0, attributes
        count, = struct.unpack_from(">i", data, at + 57)
        found, position = [], at + 61
        for _ in range(count):
            size, position = read_varint(data, position)
            stop = position + size
            _, position = read_varint(data, position + 1)
            delta, position = read_varint(data, position)
            fields = []
            for _ in range(2):
                length, position = read_varint(data, position)
                fields.append(None if length < 0 else data[position:position + length])
                position += max(length, 0)
            found.append((base + delta, *fields))
            position = stop
        yield base + last_delta, found
        at = end


def string(text):
    return struct.pack(">h", len(text)) + text.encode()


def produce(topic, partition, data, acks, correlation):
    return frame(0, 7, struct.pack(">hhi", -1, acks, 10000) + struct.pack(">i", 1) + string(topic) +
                 struct.pack(">iii", 1, partition, len(data)) + data, correlation)


def produced(answer):
    """correlation, error, base offset of an answer that has one partition."""
    correlation, _, length = struct.unpack_from(">iih", answer)
    error, base = struct.unpack_from(">hq", answer, 10 + length + 8)
    return correlation, error, base


class Client(Raw):
    """One request at a time."""

    def ask(self, api, version, body):
        self.send(frame(api, version, body))
        answer = self.receive()
        if answer is None:
            raise ConnectionError("closed")
        return answer[4:]

    def producer_id(self):
        _, error, producer, epoch = struct.unpack_from(">ihqh", self.ask(22, 1, struct.pack(">hi", -1, 60000)))
        assert error == 0, error
        return producer, epoch

    def fetch(self, topic, partition, offset, bytes_max=1 << 20):
        """error, high watermark, bytes"""
        body = struct.pack(">iiiib", -1, 0, 0, bytes_max, 0) + struct.pack(">i", 1) + string(topic)
        answer = self.ask(1, 4, body + struct.pack(">iiqi", 1, partition, offset, bytes_max))
        at = 4 + 4 + 2 + len(topic) + 4
        _, error, high, _, aborted = struct.unpack_from(">ihqqi", answer, at)
        at += 26 + 16 * max(aborted, 0)
        length, = struct.unpack_from(">i", answer, at)
        return error, high, answer[at + 4:at + 4 + max(length, 0)]

    def offset(self, topic, partition, timestamp):
        """error, offset; -1 is the end, -2 the start"""
        answer = self.ask(2, 1, struct.pack(">ii", -1, 1) + string(topic) + struct.pack(">iiq", 1, partition, timestamp))
        error, _, offset = struct.unpack_from(">hqq", answer, 4 + 2 + len(topic) + 4 + 4)
        return error, offset

    def delete_records(self, topic, partition, offset):
        """error, new start"""
        answer = self.ask(21, 1, struct.pack(">i", 1) + string(topic) + struct.pack(">iiqi", 1, partition, offset, 10000))
        low, error = struct.unpack_from(">qh", answer, 4 + 4 + 2 + len(topic) + 4 + 4)
        return error, low

    def create_topic(self, name, partitions, **configs):
        body = struct.pack(">i", 1) + string(name) + struct.pack(">ihii", partitions, 1, 0, len(configs))
        body += b"".join(string(key.replace("_", ".")) + string(str(value)) for key, value in configs.items())
        answer = self.ask(19, 2, body + struct.pack(">ib", 10000, 0))
        return struct.unpack_from(">h", answer, 8 + 2 + len(name))[0]

    def delete_topic(self, name):
        answer = self.ask(20, 1, struct.pack(">i", 1) + string(name) + struct.pack(">i", 10000))
        return struct.unpack_from(">h", answer, 8 + 2 + len(name))[0]
