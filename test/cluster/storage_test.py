"""The disk under a running node: full, damaged, failing; and data that comes and goes while it is written."""
import os
import pathlib
import random
import subprocess
import tempfile
import threading
import time
import unittest

from node import Node
from records import Client, batch, batches, produce, produced
from wire import eventually

STORAGE_ERROR = 56
CORRUPT = 2
UNKNOWN_TOPIC = 3
INVALID_TIMESTAMP = 32
TOO_LARGE = 10


def put(client, topic, data, partition=0):
    """error, base offset"""
    client.send(produce(topic, partition, data, -1, 1))
    return produced(client.receive())[1:]


def now():
    return int(time.time() * 1000)


def read_values(client, topic, partition=0, offset=None):
    values = []
    error, at = client.offset(topic, partition, -2)
    at = at if offset is None else offset
    _, end = client.offset(topic, partition, -1)
    while at < end:
        error, _, data = client.fetch(topic, partition, at)
        if error or not data:
            raise AssertionError((topic, at, end, error))
        for base, records in batches(data):
            values += records[max(0, at - base):]
            at = base + len(records)
    return values


class SmallDisk:
    """A file system of its own of so many MB; None where it may not be mounted."""

    def __init__(self, megabytes):
        self.path = tempfile.mkdtemp(prefix="mq-disk-")
        self.mounted = subprocess.run(["mount", "-t", "tmpfs", "-o", f"size={megabytes}m", "tmpfs", self.path], capture_output=True).returncode == 0

    def __enter__(self):
        return self.path if self.mounted else None

    def __exit__(self, *_):
        if self.mounted:
            subprocess.run(["umount", "-l", self.path], check=True)
        os.rmdir(self.path)


def test_a_full_disk_refuses_writes_serves_reads_restarts_and_recovers():
    with SmallDisk(48) as disk:
        if not disk:
            raise unittest.SkipTest("a small tmpfs may not be mounted here")
        with Node(directory=disk + "/data") as node:
            sent = []
            with Client(node.port) as client:
                assert client.create_topic("t", 1, internal_segment_bytes=1 << 20) == 0
                assert client.create_topic("other", 1) == 0
                assert put(client, "other", batch([b"kept"], now()))[0] == 0
                producer, epoch = client.producer_id()

                def fill(data):
                    """Until the node refuses; what was refused is sent again as it was."""
                    for _ in range(500):
                        sequence = len(sent)
                        value = b"%d/" % sequence + os.urandom(100_000)
                        item = data.pop() if data else (value, batch([value], now(), producer, epoch, sequence))
                        error, base = put(client, "t", item[1])
                        if error:
                            assert error == STORAGE_ERROR, error
                            data.append(item)
                            return
                        assert base == sequence
                        sent.append(item[0])
                    raise AssertionError("never full")

                refused = []
                fill(refused)
                assert len(sent) > 200, len(sent)
                # Reads, and requests that change nothing big, go on.
                assert set(read_values(client, "other")) == {b"kept"}
                assert read_values(client, "t") == sent
                # The floor is looked at once a second; until then a small record may still fit.
                assert eventually(lambda: put(client, "other", batch([b"kept"], now()))[0] == STORAGE_ERROR)
            assert "disk-full" in node.log(), node.log()
            # The last bytes go to somebody else.
            try:
                with open(disk + "/ballast", "wb") as ballast:
                    while True:
                        ballast.write(b"\0" * 4096)
                        ballast.flush()
            except OSError:
                pass
            for ending in (node.stop, node.kill):
                ending()
                node.start()
                with Client(node.port) as again:
                    assert read_values(again, "t") == sent
                    error, _ = put(again, "t", refused[0][1])
                    assert error == STORAGE_ERROR, error
            # Room comes back by deleting records, without a restart, and the producer goes on where it was.
            os.unlink(disk + "/ballast")
            with Client(node.port) as client:
                error, low = client.delete_records("t", 0, 150)
                assert (error, low) == (0, 150)

                def resumes():
                    return put(client, "t", refused[0][1])
                assert eventually(lambda: resumes()[0] == 0, within=20)
                sent.append(refused[0][0])
                error, base = put(client, "t", refused[0][1])
                assert (error, base) == (0, len(sent) - 1), (error, base)  # a duplicate
                for _ in range(10):
                    value = b"%d/" % len(sent)
                    assert put(client, "t", batch([value], now(), producer, epoch, len(sent))) == (0, len(sent))
                    sent.append(value)
            node.kill()
            node.start()
            with Client(node.port) as client:
                assert read_values(client, "t") == sent[150:]


def test_one_flipped_bit_costs_one_batch():
    with Node() as node:
        with Client(node.port) as client:
            assert client.create_topic("t", 1, internal_segment_bytes=1 << 17, compression_type="producer") == 0
            for i in range(200):
                assert put(client, "t", batch([b"%d/" % i + b"v" * 4000], now()))[0] == 0
        node.kill()
        log = sorted((node.data / "t-0").glob("*.log"))[1]
        data = bytearray(log.read_bytes())
        first = int(log.stem)
        sizes = [base for base, _ in batches(bytes(data))]
        victim = sizes[len(sizes) // 2]
        at = data.index(b"%d/vvv" % victim) + 100
        data[at] ^= 4
        log.write_bytes(data)
        node.start()
        with Client(node.port) as client:
            assert eventually(lambda: client.fetch("t", 0, victim)[0] == CORRUPT, within=30), node.log()
            assert "batch-damaged" in node.log()
            assert read_values(client, "t", offset=victim + 1)[0].startswith(b"%d/" % (victim + 1))
            error, _, bytes_before = client.fetch("t", 0, first)
            assert error == 0
            assert [base for base, _ in batches(bytes_before)][-1] == victim - 1
            assert client.offset("t", 0, -1) == (0, 200)
        assert log.name in node.log()
        data[at] ^= 4
        node.stop()
        log.write_bytes(data)
        node.start()
        with Client(node.port) as client:
            assert len(read_values(client, "t")) == 200


def test_orphans_and_foreign_indexes_are_put_right():
    with Node() as node:
        with Client(node.port) as client:
            assert client.create_topic("t", 1, internal_segment_bytes=1 << 17, compression_type="producer") == 0
            for i in range(100):
                assert put(client, "t", batch([b"%d/" % i + b"v" * 4000], 1_700_000_000_000 + 1000 * i))[0] == 0
        node.stop()
        directory = node.data / "t-0"
        logs = sorted(directory.glob("*.log"))
        for suffix in (".index", ".timeindex"):
            logs[2].with_suffix(suffix).write_bytes(logs[0].with_suffix(suffix).read_bytes())
            (directory / ("%020d%s" % (77777, suffix))).write_bytes(logs[0].with_suffix(suffix).read_bytes())
        node.start()
        with Client(node.port) as client:
            for i in random.sample(range(100), 20) + [0, 99]:
                assert read_values(client, "t", offset=i)[0].startswith(b"%d/" % i)
                assert client.offset("t", 0, 1_700_000_000_000 + 1000 * i) == (0, i)
        assert not list(directory.glob("*77777*")) and "77777" in node.log()


def test_a_log_start_inside_a_batch_survives_kills_and_even_a_lost_tail():
    with Node() as node:
        with Client(node.port) as client:
            assert client.create_topic("t", 1) == 0
            assert put(client, "t", batch([b"%d" % i for i in range(100)], now())) == (0, 0)
            assert client.delete_records("t", 0, 37) == (0, 37)
        for _ in range(2):
            node.kill()
            node.start()
            with Client(node.port) as client:
                assert client.offset("t", 0, -2) == (0, 37)
                assert read_values(client, "t") == [b"%d" % i for i in range(37, 100)]
        with Client(node.port) as client:
            assert client.delete_records("t", 0, -1) == (0, 100)
            assert put(client, "t", batch([b"next"], now())) == (0, 100)
            assert read_values(client, "t") == [b"next"]


def test_topics_deleted_while_they_are_written_and_synced_touch_nobody_else():
    with Node("--set", "log.flush.interval.messages=1") as node:
        with Client(node.port) as client:
            assert client.create_topic("other", 1) == 0
        stop = threading.Event()
        strange, others = [], []

        def write(number):
            with Client(node.port) as client:
                while not stop.is_set():
                    name = f"t{round_now[0]}"
                    error, _ = put(client, name, batch([b"v" * 1000], now()), random.randrange(4))
                    if error not in (0, UNKNOWN_TOPIC, 6):
                        strange.append((name, error))

        def write_other():
            with Client(node.port) as client:
                while not stop.is_set():
                    error, _ = put(client, "other", batch([b"v"], now()))
                    others.append(error)

        round_now = [0]
        before = None
        threads = [threading.Thread(target=write, args=(n,)) for n in range(3)] + [threading.Thread(target=write_other)]
        with Client(node.port) as client:
            for thread in threads:
                thread.start()
            for i in range(40):
                assert client.create_topic(f"t{i}", 4) == 0
                round_now[0] = i
                time.sleep(0.05)
                assert client.delete_topic(f"t{i}") == 0
                if i == 10:
                    before = node.descriptors()
            stop.set()
            for thread in threads:
                thread.join(20)
            assert not strange, strange[:5]
            assert others and not any(others), [e for e in others if e][:5]
            assert eventually(lambda: node.descriptors() <= before + 10, within=20), (before, node.descriptors())
            assert eventually(lambda: not [p for p in node.data.iterdir() if p.name.endswith("-delete")], within=20)
        assert "directory-offline" not in node.log()


def test_times_in_the_future_are_refused_and_where_allowed_pin_nothing():
    with Node("--set", "log.retention.check.interval.ms=200") as node:
        with Client(node.port) as client:
            assert client.create_topic("strict", 1) == 0
            later = now() + 10 * 365 * 86_400_000
            assert put(client, "strict", batch([b"v"], later))[0] == INVALID_TIMESTAMP
            assert client.create_topic("lax", 1, retention_ms=1500, message_timestamp_after_max_ms=(1 << 63) - 1, internal_segment_bytes=10_000) == 0
            for _ in range(20):
                assert put(client, "lax", batch([b"v" * 2000], later))[0] == 0
            assert eventually(lambda: client.offset("lax", 0, -2)[1] == 20, within=20)


def test_what_grows_over_the_limit_when_it_is_unpacked_is_refused():
    with Node() as node:
        with Client(node.port) as client:
            assert client.create_topic("t", 1, compression_type="uncompressed", max_message_bytes=1 << 20) == 0
            data = batch([b"v" * (5 << 20)], now(), compress=True)
            assert len(data) < 200_000
            assert put(client, "t", data)[0] == TOO_LARGE
            assert client.offset("t", 0, -1) == (0, 0)
            assert put(client, "t", batch([b"small"], now())) == (0, 0)


def test_a_disk_that_fails_takes_the_directory_offline_and_a_restart_brings_it_back():
    tools = os.environ.get("MQ_POWERLOSS")
    if not tools:
        raise unittest.SkipTest("MQ_POWERLOSS names no directory with powerloss.so and powerloss")
    for knob in ("fail_sync=5", "fail_write=5", "fail_write=28"):
        with Node(start=False) as node:
            node.data.mkdir()
            state = node.base / "power"
            node.environment.update(POWERLOSS_DIR=str(node.data), POWERLOSS_STATE=str(state), UV_USE_IO_URING="0",
                                    LD_PRELOAD=str(pathlib.Path(tools) / "powerloss.so"))

            def turn(setting):
                subprocess.run([pathlib.Path(tools) / "powerloss", "set", state, setting], check=True)

            node.start()
            with Client(node.port) as client:
                assert client.create_topic("t", 1) == 0
                assert put(client, "t", batch([b"before"], now())) == (0, 0)
                turn(knob)
                assert put(client, "t", batch([b"lost"], now()))[0] == STORAGE_ERROR
                turn(knob.split("=")[0] + "=0")
                error, _ = put(client, "t", batch([b"after"], now()))
                # Lack of space is over when there is space; a disk that failed is not trusted again.
                assert error == (0 if knob.endswith("28") else STORAGE_ERROR), (knob, error)
                assert ("directory-offline" in node.log()) == (not knob.endswith("28"))
            node.kill()
            node.start()
            with Client(node.port) as client:
                values = read_values(client, "t")
                assert values[0] == b"before" and put(client, "t", batch([b"more"], now()))[0] == 0, values
