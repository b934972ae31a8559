"""Bytes that are not ours on the Kafka port: nothing crashes, hangs or grows, and other clients notice nothing."""
import os
import socket
import struct
import time
import zlib

from node import Node
from records import Client, produce, produced, sealed
from wire import Raw, eventually, frame, metadata_request


def alive(node):
    with Raw(node.port) as client:
        client.send(metadata_request())
        assert client.receive() is not None


def test_http_tls_and_noise_are_closed_and_named_in_the_log():
    with Node() as node:
        for data in (b"GET / HTTP/1.1\r\nHost: x\r\n\r\n", bytes.fromhex("16030100c8010000c40303") + b"\0" * 200, os.urandom(100_000), b"\x80\0\0\0", b"\xff" * 64):
            with Raw(node.port) as client:
                try:
                    client.send(data)
                except (ConnectionResetError, BrokenPipeError):
                    pass
                assert client.closed(), data[:16]
        log = node.log()
        assert "HTTP" in log and "TLS" in log, log
        alive(node)


def test_a_browser_in_a_loop_fills_neither_memory_nor_the_log_and_holds_nobody_up():
    with Node() as node, Raw(node.port) as other:
        alive(node)
        before = node.rss_kb()
        for number in range(1000):
            with Raw(node.port) as client:
                client.send(b"GET / HTTP/1.1\r\nHost: x\r\n\r\n")
                assert client.closed()
            if number % 100 == 0:
                other.send(metadata_request(correlation=number))
                assert struct.unpack(">i", other.receive()[:4])[0] == number
        assert node.rss_kb() - before < 20_000, (before, node.rss_kb())
        assert node.log_path.read_text().count("an HTTP request") < 500  # as many lines a second as anybody reads


def test_a_huge_length_without_a_body_costs_nothing():
    with Node() as node:
        alive(node)
        before = node.rss_kb()
        clients = [Raw(node.port) for _ in range(200)]
        for client in clients:
            client.send(struct.pack(">i", 104857600))
        time.sleep(1)
        assert node.rss_kb() - before < 40_000, (before, node.rss_kb())
        alive(node)
        for client in clients:
            client.close()


def test_unknown_requests_and_versions_close_but_api_versions_answers():
    with Node() as node:
        for data in (frame(999, 0), frame(3, 99), frame(52, 0)):
            with Raw(node.port) as client:
                client.send(data)
                assert client.closed()
        # Who it was, and what was asked.
        for part in ("127.0.0.1:", "API key 999 version 0", "API key 3 version 99"):
            assert part in node.log(), (part, node.log())
        for version in (0, 3, 4, 5, 127):
            with Raw(node.port) as client:
                # From version 3 on the body has compact strings, and the answer compact arrays behind a header without tags.
                flexible = 3 <= version <= 5
                rest = {5: b"\0\xff\xff\xff\xff\0"}.get(version, b"\0")
                client.send(frame(18, version, b"\x02a\x021" + rest if flexible else b"", flexible=flexible))
                answer = client.receive()
                assert answer[:4] == struct.pack(">i", 1)
                error, = struct.unpack(">h", answer[4:6])
                count = answer[6] - 1 if flexible else struct.unpack(">i", answer[6:10])[0]
                assert error == (35 if version == 127 else 0) and count >= 1, (version, answer[:12])
                client.send(frame(18, 0, correlation=2))
                assert client.receive()[:6] == struct.pack(">ih", 2, 0)


def test_a_slow_writer_is_closed_and_holds_nobody_up():
    with Node("--set", "request.read.timeout.ms=1000") as node:
        with Raw(node.port) as slow:
            slow.send(b"\0\0\0\x40\0")
            begin = time.monotonic()
            alive(node)
            assert time.monotonic() - begin < 1
            assert slow.closed(15)


def test_many_idle_connections_within_few_descriptors():
    with Node("--set", "max.connections=100") as node:
        sockets = [socket.create_connection(("127.0.0.1", node.port)) for _ in range(300)]
        try:
            time.sleep(1)
            assert node.descriptors() < 250, node.descriptors()
            # They sit in the slots; once they go, there is room again.
        finally:
            for s in sockets:
                s.close()

        def served():
            try:
                alive(node)
                return True
            except (AssertionError, OSError):
                return False
        assert eventually(served, 20)


def test_requests_answer_in_the_order_they_were_sent():
    with Node() as node:
        with Raw(node.port) as client:
            client.send(b"".join(metadata_request(correlation=i) for i in range(1, 201)))
            for i in range(1, 201):
                assert struct.unpack(">i", client.receive()[:4])[0] == i


def test_odd_topic_names_are_refused_everywhere():
    with Node("--set", "auto.create.topics.enable=true") as node:
        for name in (".", "..", "a/b", "x" * 250, "ü", "a b", ""):
            result = node.mq("topic", "create", name, check=False)
            assert result.returncode != 0, name
        node.mq("topic", "create", "x" * 249)
        node.mq("produce", "x" * 249, input="1\n")
        assert node.mq("consume", "x" * 249, "-e").stdout == "1\n"
        node.mq("topic", "create", "a.b")
        result = node.mq("topic", "create", "a_b", check=False)
        assert result.returncode != 0 and "a.b" in result.stderr, result.stderr


def test_a_request_that_decodes_to_far_more_than_its_bytes_costs_little():
    """Metadata v9 for so many empty names: two bytes each in the frame, a hundred once decoded."""
    def names(count):
        size, n = b"", count + 1
        while n > 127:
            size += bytes([n & 127 | 128])
            n >>= 7
        return frame(3, 9, size + bytes([n]) + b"\x01\0" * count + b"\0\0\0\0", flexible=True)

    with Node() as node:
        alive(node)
        before = node.rss_kb()
        for _ in range(5):
            with Raw(node.port) as client:
                client.send(names(20_000_000))
                assert client.closed()
        assert node.rss_kb() - before < 100_000, (before, node.rss_kb())
        assert "Metadata" in node.log() and "once decoded" in node.log(), node.log()
        with Raw(node.port) as client:
            client.send(names(10_000))
            assert client.receive() is not None


def test_clients_that_ask_and_never_read_cost_little_and_hold_nobody_up():
    with Node() as node:
        node.mq("topic", "create", *[f"topic-{i}" for i in range(20)], "-p", "200")
        alive(node)
        before = node.rss_kb()
        asked = b"".join(metadata_request(correlation=i) for i in range(200))  # an answer has about 100 KB
        clients = [Raw(node.port, 60) for _ in range(20)]
        try:
            for client in clients:
                client.send(asked)
            for _ in range(10):
                alive(node)
                assert node.rss_kb() - before < 150_000, (before, node.rss_kb())
                time.sleep(0.1)
            # Whoever reads on gets everything.
            for i in range(200):
                assert struct.unpack(">i", clients[0].receive()[:4])[0] == i
        finally:
            for client in clients:
                client.close()
        assert eventually(lambda: node.descriptors() < 60)


def zeros_by_gzip(megabytes):
    """Members of 16 MiB behind each other."""
    packer = zlib.compressobj(9, wbits=31)
    return (packer.compress(bytes(16 << 20)) + packer.flush()) * (megabytes // 16)


def zeros_by_zstd(megabytes):
    """One frame without its size, of blocks that say: this byte, 128 KiB times."""
    blocks = megabytes * 8
    block = b"".join(struct.pack("<I", (128 << 10) << 3 | 1 << 1 | last)[:3] + b"\0" for last in (0, 1))
    return b"\x28\xb5\x2f\xfd\x00\x58" + block[:4] * (blocks - 1) + block[4:]


def test_batches_that_expand_to_gigabytes_are_refused_for_little():
    TOO_LARGE = 10
    bombs = {"gzip": (1, zeros_by_gzip(960)), "snappy": (2, b"\xff\xff\xff\xff\x07\x00a"), "zstd": (4, zeros_by_zstd(4096))}
    with Node() as node:
        with Client(node.port) as client:
            topics = {"as-sent": "producer", "unpacked": "uncompressed", "repacked": "lz4"}
            for topic, kind in topics.items():
                assert client.create_topic(topic, 1, compression_type=kind) == 0
            assert client.create_topic("compacted", 1, cleanup_policy="compact") == 0
            before = node.rss_kb()
            for topic in (*topics, "compacted"):
                for name, (codec, data) in bombs.items():
                    data = sealed(data, 1, codec)
                    assert len(data) < 1 << 20
                    client.send(produce(topic, 0, data, -1, 1))
                    assert produced(client.receive())[1] == TOO_LARGE, (topic, name)
                assert client.offset(topic, 0, -1) == (0, 0) and client.offset(topic, 0, 0) == (0, -1)
        # 128 MiB is what a batch may unpack to, one at a time on each of two shards; none of it stays.
        assert node.rss_kb(peak=True) - before < 350_000 and node.rss_kb() - before < 50_000, (before, node.rss_kb(), node.rss_kb(peak=True))
        alive(node)
