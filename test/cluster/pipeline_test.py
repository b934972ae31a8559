"""`mq produce` and `mq consume` in pipelines: nothing is lost, doubled or changed without an exit code that says so."""
import base64
import json
import random
import re
import signal
import subprocess
import tempfile
import threading
import time

from node import MQ, Node, free_port
from wire import eventually


def summary(result):
    """Counts of the line on stderr: read, acknowledged, failed."""
    found = re.search(r"read (\d+), acknowledged (\d+), failed (\d+)", result.stderr)
    assert found, result.stderr
    return tuple(map(int, found.groups()))


def produce_to(address, *arguments, input, timeout=60):
    return subprocess.run([MQ, "produce", *arguments, "-b", address], input=input, capture_output=True, text=True, timeout=timeout)


def lines(count):
    return "".join(f"{i}\n" for i in range(count))


def test_what_cannot_be_delivered_is_told_by_the_exit_code():
    closed = f"127.0.0.1:{free_port()}"
    for address in (closed, "no-such-host.invalid:9092"):
        begin = time.monotonic()
        result = produce_to(address, "t", "--timeout", "1000", "--request-timeout", "1000", input=lines(1000))
        assert result.returncode == 1 and result.stdout == "", result
        assert address.rsplit(":", 1)[0] in result.stderr, result.stderr
        assert time.monotonic() - begin < 30
    with Node() as node:
        result = node.mq("produce", "nowhere", input="a\n", check=False)
        assert result.returncode == 5 and "mq topic create nowhere" in result.stderr, result
        node.mq("topic", "create", "small", "-c", "max.message.bytes=1000")
        big = "".join(random.Random(1).choices("abcdefghijklmnopqrstuvwxyz0123456789", k=5000))
        result = node.mq("produce", "small", input=f"a\n{big}\nb\n", check=False)
        assert result.returncode == 1 and result.stdout == "" and summary(result) == (3, 2, 1), result
        assert "line 2" in result.stderr and "max.message.bytes" in result.stderr, result.stderr
        assert node.mq("consume", "small", "-e").stdout == "a\nb\n"


def test_a_broker_that_dies_under_a_producer():
    with Node() as node:
        node.mq("topic", "create", "t")
        process = subprocess.Popen([MQ, "produce", "t", "-b", node.address, "--timeout", "2000"], stdin=subprocess.PIPE,
                                   stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
        process.stdin.write(lines(500))
        process.stdin.flush()
        assert eventually(lambda: node.mq("consume", "t", "-e").stdout.count("\n") == 500)  # sent, not only at the end
        node.kill()
        process.stdin.write(lines(100))
        process.stdin.close()
        process.stdin = None
        out, err = process.communicate(timeout=30)
        result = subprocess.CompletedProcess([], process.returncode, out, err)
        assert result.returncode == 1 and out == "", result
        assert summary(result) == (600, 500, 100), err


def test_every_piped_record_arrives_before_the_producer_ends():
    with Node() as node:
        for round in range(6):
            partitions = 1 if round % 2 else 50
            node.mq("topic", "create", f"t{round}", "-p", str(partitions))
            result = node.mq("produce", f"t{round}", input=lines(10000))
            assert summary(result) == (10000, 10000, 0), result.stderr
            got = node.mq("consume", f"t{round}", "-e").stdout.splitlines()
            assert sorted(map(int, got)) == list(range(10000)), (round, len(got))


def odd_values(count):
    rng = random.Random(42)
    values = [None, b"", b"\n", b"\r\n", b"\0", b"\xff", b"\xc3", "é\u2028".encode(), b"9007199254740993",
              b"<script>alert(1)</script>", b"[" * 10000, b'{"a":' * 1000, b"x" * 700_000]
    while len(values) < count:
        values.append(rng.randbytes(rng.choice((1, 10, 100, 5000))))
    return values


def as_json(value):
    if value is None:
        return None
    try:
        return value.decode()
    except UnicodeDecodeError:
        return {"base64": base64.b64encode(value).decode()}


def test_json_lines_copy_keys_values_headers_nulls_and_times():
    rng = random.Random(7)
    values = odd_values(300)
    records = []
    for i, value in enumerate(values):
        headers = [[rng.choice(("a", "b", "")), as_json(rng.choice((None, b"", b"v", b"\xfe\xff")))] for _ in range(rng.randrange(4))]
        if i == 20:
            headers = [["many", str(n)] for n in range(5000)]
        records.append({"headers": headers, "key": as_json(rng.choice((None, b"", b"k", rng.randbytes(8)))), "value": as_json(value),
                        "ts": rng.choice((1, 1700006400000, 1700006399999, 9223372036854))})
    with Node() as node:
        node.mq("topic", "create", "one", "-c", "message.timestamp.before.max.ms=9223372036854775807", "-c", "message.timestamp.after.max.ms=9223372036854775807")
        node.mq("topic", "create", "two", "-c", "message.timestamp.before.max.ms=9223372036854775807", "-c", "message.timestamp.after.max.ms=9223372036854775807")
        node.mq("produce", "one", "-J", input="".join(json.dumps(r) + "\n" for r in records))
        copy = node.mq("consume", "one", "-J", "-e").stdout
        node.mq("produce", "two", "-J", input=copy)
        again = node.mq("consume", "two", "-J", "-e").stdout
        for text in (copy, again):
            got = [json.loads(line) for line in text.split("\n")[:-1]]
            assert len(got) == len(records), len(got)
            for want, have in zip(records, got):
                assert have.get("headers", []) == want["headers"], (want, have)
                for field in ("key", "value", "ts"):
                    assert have[field] == want[field], (field, want, have)
                assert have["tstype"] == "create"
        # The one time that the client library has no way to send.
        zero = node.mq("produce", "two", "-J", input='{"value":"v","ts":0}\n{"value":"v","ts":0}\n')
        assert zero.stderr.count("cannot be sent") == 1 and "line 1" in zero.stderr, zero.stderr


def test_length_prefixed_and_raw_bytes_come_back_as_they_were():
    values = odd_values(200)
    framed = b"".join(b"\xff\xff\xff\xff" if v is None else len(v).to_bytes(4, "big") + v for v in values)
    with Node() as node:
        for topic in ("len", "raw", "nul"):
            node.mq("topic", "create", topic)
        node.mq("produce", "len", "--len", input=framed, text=False)
        assert node.mq("consume", "len", "--len", "-e", text=False).stdout == framed
        cut = node.mq("produce", "len", "--len", input=framed[:-3], text=False, check=False)
        at = len(framed) - 4 - len(values[-1])
        assert cut.returncode == 1 and f"byte {at}".encode() in cut.stderr, cut.stderr
        blob = random.Random(3).randbytes(3_000_001)
        node.mq("produce", "raw", "--chunk", "64K", input=blob, text=False)
        assert node.mq("consume", "raw", "--raw", "-e", text=False).stdout == blob
        node.mq("produce", "nul", "-0", input=b"a\nb\0\0c", text=False)
        assert node.mq("consume", "nul", "-0", "-e", text=False).stdout == b"a\nb\0\0c\0"
        one = node.mq("consume", "raw", "--raw", "-n", "1", text=False).stdout
        assert one == blob[:65536]


def test_last_line_empty_lines_crlf_huge_lines_and_slow_writers():
    with Node() as node:
        def arrives(topic, sent, *arguments, code=0):
            node.mq("topic", "create", topic)
            result = node.mq("produce", topic, *arguments, input=sent, text=False, check=False)
            assert result.returncode == code, (sent[:20], result.stderr[-500:])
            got = [json.loads(line) for line in node.mq("consume", topic, "-J", "-e").stdout.splitlines()]
            for record in got:
                assert abs(record["ts"] - time.time() * 1000) < 60_000, record
            return [record["value"] for record in got], result.stderr.decode()

        assert arrives("a", b"a\nb")[0] == ["a", "b"]
        assert arrives("b", b"\n\na\n")[0] == ["", "", "a"]
        assert arrives("c", b"a\r\n")[0] == ["a\r"]
        assert arrives("d", b"")[0] == []
        assert arrives("e", b"a<eol>b<eol>", "-D", "<eol>")[0] == ["a", "b"]
        assert arrives("f", b"a\0b", "-D", "\\x00")[0] == ["a", "b"]
        got, said = arrives("g", b"a\n" + b"x" * (64 << 20) + b"\nb\n", code=1)
        assert got == ["a", "b"] and "line 2" in said, said[-500:]
        with tempfile.NamedTemporaryFile() as file:
            file.write(b"from\na file")
            file.flush()
            assert arrives("h", b"", file.name)[0] == ["from", "a file"]

        node.mq("topic", "create", "slow")
        writer = subprocess.Popen([MQ, "produce", "slow", "-b", node.address], stdin=subprocess.PIPE, stderr=subprocess.DEVNULL)
        reader = subprocess.Popen([MQ, "consume", "slow", "-b", node.address], stdout=subprocess.PIPE, stderr=subprocess.DEVNULL)
        try:
            for i in range(3):  # each is seen before the next is written
                writer.stdin.write(f"{i}\n".encode())
                writer.stdin.flush()
                assert reader.stdout.readline() == f"{i}\n".encode()
        finally:
            writer.stdin.close()
            writer.wait(20)
            reader.terminate()
            reader.wait(20)
            reader.stdout.close()


def test_reading_to_the_end_ends():
    with Node() as node:
        node.mq("topic", "create", "empty")
        node.mq("topic", "create", "wide", "-p", "10")
        node.mq("topic", "create", "gone")
        node.mq("produce", "gone", input=lines(10))
        node.mq("topic", "alter", "gone", "-c", "retention.bytes=0")
        assert node.mq("consume", "empty", "-e", timeout=20).stdout == ""
        assert node.mq("consume", "wide", "-e", timeout=20).stdout == ""
        stop = threading.Event()
        busy = subprocess.Popen([MQ, "produce", "wide", "-b", node.address], stdin=subprocess.PIPE, stderr=subprocess.DEVNULL)

        def feed():
            try:
                while not stop.is_set():
                    busy.stdin.write(lines(1000).encode())
                    busy.stdin.flush()
            except BrokenPipeError:
                pass

        feeder = threading.Thread(target=feed)
        feeder.start()
        try:
            assert eventually(lambda: node.mq("consume", "wide", "-e", "-n", "1").stdout != "")
            got = node.mq("consume", "wide", "-e", timeout=30).stdout
            assert got.count("\n") > 0
            kcat = subprocess.run(["kcat", "-b", node.address, "-C", "-t", "empty", "-e", "-q"], capture_output=True, timeout=20)
            assert kcat.returncode == 0 and kcat.stdout == b""
        finally:
            stop.set()
            feeder.join(20)
            busy.stdin.close()
            busy.wait(30)
        # Every way to say it; what is not there ends too.
        for offset in ("end", "start:end", "5:5", "@+1h", "100:"):
            assert node.mq("consume", "gone", "-e", "-o", offset, timeout=20).stdout in ("", lines(10)), offset


def test_a_closed_pipe_ends_a_reader_silently():
    with Node() as node:
        node.mq("topic", "create", "t")
        node.mq("produce", "t", input=lines(100_000))
        shell = f"{MQ} consume t -e -b {node.address} | head -1; echo ${{PIPESTATUS[0]}}"
        result = subprocess.run(["bash", "-c", shell], capture_output=True, text=True, timeout=30)
        assert result.stdout == "0\n141\n" and result.stderr == "", result
        with open("/dev/full", "w") as full:
            result = subprocess.run([MQ, "consume", "t", "-e", "-b", node.address], stdout=full, stderr=subprocess.PIPE, text=True, timeout=30)
        assert result.returncode == 1 and "No space left" in result.stderr, result


def test_interrupted_producers_deliver_what_they_read():
    with Node() as node:
        node.mq("topic", "create", "t")
        process = subprocess.Popen([MQ, "produce", "t", "-b", node.address], stdin=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
        process.stdin.write(lines(1000))
        process.stdin.flush()
        assert eventually(lambda: node.mq("consume", "t", "-e").stdout.count("\n") == 1000)
        process.send_signal(signal.SIGINT)
        process.wait(20)
        err = process.stderr.read()
        process.stdin.close()
        process.stderr.close()
        assert process.returncode == 130, (process.returncode, err)
        assert summary(subprocess.CompletedProcess([], 130, "", err)) == (1000, 1000, 0), err
