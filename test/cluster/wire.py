"""Raw bytes for tests: just enough of the protocol to send what no client would."""
import socket
import struct
import time


def frame(api, version, body=b"", correlation=1, client=b"raw", flexible=False):
    header = struct.pack(">hhih", api, version, correlation, len(client)) + client + (b"\0" if flexible else b"")
    return struct.pack(">i", len(header) + len(body)) + header + body


class Raw:
    def __init__(self, port, timeout=10):
        self.socket = socket.create_connection(("127.0.0.1", port), timeout=timeout)

    def send(self, data):
        self.socket.sendall(data)

    def receive(self):
        """One answer without its length; None once the peer has closed."""
        head = self._exactly(4)
        return None if head is None else self._exactly(struct.unpack(">i", head)[0])

    def closed(self, within=10):
        """Whether the peer closes (or resets) within so many seconds."""
        self.socket.settimeout(within)
        try:
            while self.socket.recv(65536):
                pass
            return True
        except ConnectionResetError:
            return True
        except TimeoutError:
            return False

    def _exactly(self, count):
        data = b""
        while len(data) < count:
            piece = self.socket.recv(count - len(data))
            if not piece:
                return None
            data += piece
        return data

    def close(self):
        self.socket.close()

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.close()


def metadata_request(topics=None, correlation=1):
    """Metadata v1: null is all."""
    body = struct.pack(">i", -1) if topics is None else struct.pack(">i", len(topics)) + b"".join(struct.pack(">h", len(t)) + t for t in topics)
    return frame(3, 1, body, correlation)


def fetch_request(topic, partition=0, offset=0, wait_ms=500, bytes_min=1, correlation=1):
    """Fetch v4 of one partition."""
    body = struct.pack(">iiiib", -1, wait_ms, bytes_min, 1 << 20, 0) + struct.pack(">i", 1) + struct.pack(">h", len(topic)) + topic
    body += struct.pack(">i", 1) + struct.pack(">iqi", partition, offset, 1 << 20)
    return frame(1, 4, body, correlation)


def eventually(check, within=10.0, every=0.05):
    deadline = time.monotonic() + within
    while True:
        value = check()
        if value or time.monotonic() > deadline:
            return value
        time.sleep(every)


def read_metadata(port, topics=None, timeout=10):
    """(brokers {id: port}, controller, topics {name: {partition: {error, leader, replicas, isr}}})"""
    with Raw(port, timeout) as raw:
        raw.send(metadata_request([t.encode() for t in topics] if topics is not None else None))
        data = raw.receive()
    at = 4  # the correlation id

    def take(form):
        nonlocal at
        values = struct.unpack_from(">" + form, data, at)
        at += struct.calcsize(">" + form)
        return values[0]

    def text():
        nonlocal at
        length = take("h")
        if length < 0:
            return None
        at += length
        return data[at - length:at].decode()

    def numbers():
        return [take("i") for _ in range(take("i"))]

    brokers = {}
    for _ in range(take("i")):
        node, _, where, _ = take("i"), text(), take("i"), text()
        brokers[node] = where
    controller = take("i")
    found = {}
    for _ in range(take("i")):
        error, name, _ = take("h"), text(), take("b")
        rows = found[name] = {} if error == 0 else None
        for _ in range(take("i")):
            row_error, index, leader, replicas, isr = take("h"), take("i"), take("i"), numbers(), numbers()
            rows[index] = {"error": row_error, "leader": leader, "replicas": replicas, "isr": isr}
    return brokers, controller, found
