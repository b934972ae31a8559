"""The HTTP port as machines that watch a node meet it: /livez, /readyz, /metrics, also while it starts, stops and fails."""
import json
import os
import pathlib
import re
import signal
import socket
import struct
import subprocess
import time
import urllib.error
import urllib.request

import openmetrics
from node import MQ, Node, free_port
from transactional import Producer
from wire import Raw, eventually, fetch_request

ROOT = pathlib.Path(__file__).resolve().parents[2]


class Watched(Node):
    def __init__(self, *arguments, **options):
        self.http = f"127.0.0.1:{free_port()}"
        super().__init__("--http-listen", self.http, *arguments, **options)

    def get(self, path, timeout=10):
        """Status, content type, text."""
        try:
            with urllib.request.urlopen(f"http://{self.http}{path}", timeout=timeout) as answer:
                return answer.status, answer.headers["Content-Type"], answer.read().decode()
        except urllib.error.HTTPError as error:
            return error.code, error.headers["Content-Type"], error.read().decode()

    def metrics(self, detail=""):
        status, kind, text = self.get("/metrics" + detail)
        assert status == 200 and kind.startswith("application/openmetrics-text"), (status, kind)
        return openmetrics.parse(text)

    def total(self, name):
        return openmetrics.total(self.metrics(), name)


def produce(node, topic, lines, *arguments):
    node.mq("produce", topic, *arguments, input="".join(f"{line}\n" for line in lines))


def listening_sockets(pid):
    inodes = {os.readlink(entry.path) for entry in os.scandir(f"/proc/{pid}/fd") if os.path.islink(entry.path)}
    rows = [line.split() for table in ("tcp", "tcp6") for line in open(f"/proc/{pid}/net/{table}").readlines()[1:]]
    return sum(row[3] == "0A" and f"socket:[{row[9]}]" in inodes for row in rows)


def test_the_port_is_off_unless_asked_for_and_announced_when_it_is():
    with Watched() as node:
        ready = [json.loads(line) for line in node.log().splitlines() if '"event":"ready"' in line][0]
        assert ready["http"] == node.http, ready
        assert node.get("/livez")[::2] == (200, "ok\n")
        assert node.get("/readyz")[::2] == (200, "ready\n")
        status, kind, text = node.get("/readyz?verbose")
        assert status == 200 and kind == "application/json" and json.loads(text)["ready"] is True, text
        assert node.get("/")[0] == 404
    with Node() as node:
        ready = [json.loads(line) for line in node.log().splitlines() if '"event":"ready"' in line][0]
        assert ready["http"] is None
        assert listening_sockets(node.process.pid) == 1


def test_a_taken_port_is_refused_and_named_and_the_directory_stays_as_it_was():
    with Watched() as node, Node(start=False) as other:
        other.arguments = ["--http-listen", node.http]
        result = subprocess.run(other.command(), capture_output=True, text=True, timeout=20)
        assert result.returncode == 1 and node.http in result.stderr and "in use" in result.stderr, result
        assert len(result.stderr.strip().splitlines()) == 1, result.stderr
        assert not other.data.exists()
        # The same for a client's port, of a directory that was stopped cleanly.
        other.arguments = []
        other.start()
        assert other.stop() == 0
        other.port = node.port
        result = subprocess.run(other.command(), capture_output=True, text=True, timeout=20)
        assert result.returncode == 1 and node.address in result.stderr, result
        other.port = free_port()
        other.start()
        ready = [json.loads(line) for line in other.log().splitlines() if '"event":"ready"' in line][-1]
        assert ready["clean"] is True, ready


def fill(node, partitions, megabytes):
    """Data that an unclean stop has to look through."""
    node.mq("topic", "create", "fill", "-p", str(partitions))
    node.mq("produce", "fill", "--chunk", "512K", input=os.urandom(megabytes << 20), text=False)


def test_readyz_tells_of_a_start_and_a_stop():
    with Watched("--set", "log.flush.offset.checkpoint.interval.ms=600000", "--set", "log.segment.bytes=1000000000") as node:
        fill(node, 1, 96)
        node.kill()
        with open(node.log_path, "ab") as log:
            node.process = subprocess.Popen(node.command(), stdin=subprocess.DEVNULL, stdout=log, stderr=log)
        seen = []

        def serving():
            try:
                status, _, text = node.get("/readyz?verbose", timeout=2)
            except OSError:
                return False
            state = json.loads(text)
            assert (status == 200) == state["ready"], (status, text)
            seen.extend(check["reason"] for check in state["checks"] if not check["ready"])
            try:
                socket.create_connection(("127.0.0.1", node.port), timeout=1).close()
                open_for_clients = True
            except OSError:
                open_for_clients = False
            assert open_for_clients or status != 200, "ready, but clients are refused"
            return status == 200

        assert eventually(serving, within=60, every=0.002), node.log()
        assert any(re.search("recovering: [0-9]+ of [0-9]+ partitions", reason) for reason in seen), seen
        # A reader that takes nothing holds the stop for a moment: long enough to ask.
        with Raw(node.port) as half:
            half.send(struct.pack(">i", 100) + b"\0\3\0\1")
            node.process.send_signal(signal.SIGTERM)
            states = []
            while node.process.poll() is None:
                try:
                    states.append(node.get("/readyz?verbose", timeout=2)[::2])
                except OSError:
                    pass
        assert node.process.wait(20) == 0
        assert all(status == 200 or "stopping" in text for status, text in states), states


def catalog():
    text = (ROOT / "src/metrics/catalog.def").read_text()
    return {name: kind for kind, name in re.findall(r'^MQ_\w+_METRIC\((\w+),\s*\w+,\s*"(\w+)"', text, flags=re.M)}


# What a plain run does not move; each is told of by a test of its own.
QUIET = {
    "mq_compaction_uncleanable_partitions": "a damaged segment: compaction_test",
    "mq_connections_idle_closed": "minutes of silence: kafka/connection_test",
    "mq_fetch_decompressed_batches": "a client that cannot lz4: kafka/fetch_test",
    "mq_fetch_decompressed_bytes": "the same",
    "mq_fetch_sessions": "librdkafka has none: kafka/fetch_sessions_test",
    "mq_fetches_waiting": "asked for while a consumer waits, below",
    "mq_group_answers_waiting": "between two requests it is 0",
    "mq_group_partitions_loading": "once a node is up it is 0",
    "mq_group_records_skipped": "records of another version: coordinator/records_test",
    "mq_log_directory_full": "test_live_settings",
    "mq_log_directory_offline": "test_a_failed_disk",
    "mq_log_duplicate_batches": "a retry of an acknowledged batch: kafka/produce_test",
    "mq_partitions_offline": "test_a_failed_disk",
    "mq_recovery_cut_bytes": "a torn tail: durability_test",
    "mq_request_errors": "below",
    "mq_request_memory_bytes": "between two requests it is 0",
    "mq_request_memory_pauses": "memory spent: kafka/connection_test",
    "mq_retention_disk_trimmed_bytes": "storage/log_directory_test",
    "mq_scrub_failures": "storage/log_test",
    "mq_transaction_partitions_loading": "once a node is up it is 0",
    "mq_transaction_records_skipped": "records of another version: coordinator/transaction_records_test",
    "mq_transactions_ending": "until the markers are written: scenario/transactions",
}


def node_end(node):
    """Of partition 0 of t."""
    rows = [line.split() for line in node.mq("topic", "offsets", "t").stdout.splitlines()[1:]]  # partition, start, end, records
    return next(int(row[2]) for row in rows if row[0] == "0")


def test_every_metric_is_fed():
    with Watched("--set", "log.retention.check.interval.ms=100", "--set", "max.connections.per.ip=30",
                 "--set", "request.read.timeout.ms=200", "--set", "shards=2", "--set", "log.cleaner.backoff.ms=50",
                 "--set", "group.initial.rebalance.delay.ms=0", "--set", "transaction.abort.timed.out.transaction.cleanup.interval.ms=100",
                 "--set", "transactional.id.expiration.ms=1000",
                 "--set", "transaction.remove.expired.transaction.cleanup.interval.ms=100") as node:
        node.mq("topic", "create", "t", "-p", "3")
        node.mq("topic", "create", "old", "-c", "segment.bytes=1048576", "-c", "retention.bytes=1500000")
        produce(node, "t", range(1000))
        node.mq("produce", "old", "--chunk", "500K", input=os.urandom(5_000_000), text=False)
        assert node.mq("consume", "t", "-e").stdout.count("\n") == 1000
        node.kill()  # so that there is something to recover
        node.start()
        produce(node, "t", range(1000))
        node.mq("produce", "old", "--chunk", "500K", input=os.urandom(5_000_000), text=False)
        node.mq("consume", "t", "-e")
        # Members of a group that commit; what is committed for a topic goes with it.
        node.mq("topic", "create", "gone")
        produce(node, "gone", range(10))
        for topic in ("t", "gone"):
            subprocess.run(["kcat", "-b", node.address, "-q", "-e", "-X", "auto.offset.reset=earliest", "-G", f"readers-of-{topic}", topic],
                           capture_output=True, timeout=30, check=True)
        node.mq("topic", "delete", "gone", "--yes")
        # A compacted log: records without a key from before it was one; then more that is not compacted yet.
        keyed = ("produce", "keyed", "-k", "key", "--chunk", "500K")
        node.mq("topic", "create", "keyed", "-c", "segment.bytes=1048576", "-c", "min.cleanable.dirty.ratio=0.9")
        node.mq(*keyed, input=os.urandom(1_500_000), text=False)
        node.mq("produce", "keyed", "--chunk", "500K", input=os.urandom(1_500_000), text=False)
        node.mq("topic", "alter", "keyed", "-c", "cleanup.policy=compact")
        assert eventually(lambda: node.total("mq_compactions") > 0)
        node.mq(*keyed, input=os.urandom(1_500_000), text=False)
        # One transaction of each end, and one that stays open.
        node.mq("topic", "create", "paid")
        for name, timeout_ms in (("commits", 60_000), ("aborts", 60_000), ("forgets", 1), ("dreams", 60_000)):
            producer = Producer(node, name, timeout_ms).init()
            assert producer.add("paid", [0]) == 0
            if name == "dreams":
                assert producer.commit("accounts", "paid", 1) == 0
            elif name != "forgets":
                assert producer.end(name == "commits") == 0
            producer.lost()
        node.mq("topic", "create", "t", check=False)  # exists already
        node.mq("topic", "create", "small", "-c", "max.message.bytes=100")
        subprocess.run(["kcat", "-b", node.address, "-P", "-t", "small"], input=b"x" * 5000, capture_output=True, timeout=30)
        with Raw(node.port) as noise:
            noise.send(b"GET / HTTP/1.1\r\n\r\n")
            assert noise.closed()
        half = Raw(node.port)
        half.send(struct.pack(">i", 100) + b"\0\3\0\1")
        crowd = [socket.create_connection(("127.0.0.1", node.port)) for _ in range(40)]
        known = catalog()
        moved = [name for name in known if name not in QUIET]

        def missing():
            families = node.metrics()
            absent = sorted(set(known) - set(families))
            assert not absent, f"not on the page: {absent}"
            return [name for name in moved if openmetrics.total(families, name) == 0]

        # Scrubbing begins a pass every ten seconds.
        eventually(lambda: not missing(), within=25, every=0.5)
        assert not missing(), missing()
        for s in [*crowd, half.socket]:
            s.close()
        with Raw(node.port) as reader:
            reader.send(fetch_request(b"t", offset=node_end(node), wait_ms=30_000))
            assert eventually(lambda: node.total("mq_fetches_waiting") == 1)
        assert eventually(lambda: node.total("mq_fetches_waiting") == 0)
        assert node.total("mq_request_errors") > 0
        assert set(QUIET) <= set(known), sorted(set(QUIET) - set(known))

        families = node.metrics()
        topics = {labels["topic"] for _, labels, _ in families["mq_log_append_bytes"]["samples"]}
        assert topics == {"t", "old", "keyed", "small", "paid", "__consumer_offsets", "__transaction_state"}, topics
        detailed = node.metrics("?detail=partition")
        rows = {(labels["topic"], labels["partition"]): value for _, labels, value in detailed["mq_log_append_records"]["samples"]}
        assert sum(rows[("t", str(p))] for p in range(3)) == 1000, rows  # since the start
        sent = {labels["topic"]: value for _, labels, value in families["mq_log_fetch_bytes"]["samples"]}
        assert sent["t"] > 0, sent
        # A deleted topic is gone from the page.
        node.mq("topic", "delete", "t", "--yes")
        assert eventually(lambda: "t" not in {labels["topic"] for _, labels, _ in node.metrics()["mq_log_size_bytes"]["samples"]})
        status = os.stat(f"/proc/{node.process.pid}")
        started = openmetrics.total(families, "process_start_time_seconds")
        assert abs(started - status.st_ctime) < 60, (started, status.st_ctime)


def test_a_topic_is_a_label_by_its_name_as_it_is():
    for name in ("a.b", "a_b", "__x", "x.-", "x" * 249):
        with Watched() as node:
            node.mq("topic", "create", name, "-p", "3")
            produce(node, name, range(10))
            samples = [(labels, value) for _, labels, value in node.metrics()["mq_log_append_records"]["samples"]]
            assert samples == [({"topic": name}, 10)], samples


def test_thousands_of_partitions_make_a_bounded_page():
    with Watched("--set", "metrics.series.max=2000") as node:
        for i in range(5):
            node.mq("topic", "create", f"many-{i}", "-p", "1000")
        plain = node.get("/metrics")[2]
        families = openmetrics.parse(plain)
        assert openmetrics.total(families, "mq_partitions") == 5000
        assert openmetrics.total(families, "mq_metrics_dropped_series") == 0
        assert len(families["mq_log_size_bytes"]["samples"]) == 5 and len(plain) < 300_000, len(plain)
        detailed = node.get("/metrics?detail=partition")[2]
        families = openmetrics.parse(detailed)
        assert openmetrics.total(families, "mq_metrics_dropped_series") > 3000
        assert len(families["mq_log_size_bytes"]["samples"]) < 2000 and len(detailed) < 3_000_000, len(detailed)
        # Many at once, also ones that do not read, hold up neither each other nor the clients.
        sleepers = [socket.create_connection(node.http.rsplit(":", 1)) for _ in range(20)]
        for sleeper in sleepers:
            sleeper.sendall(b"GET /metrics?detail=partition HTTP/1.1\r\nHost: x\r\n\r\n")
        produce(node, "many-0", range(10))
        assert node.get("/livez")[0] == 200
        openmetrics.parse(node.get("/metrics")[2])
        for sleeper in sleepers:
            sleeper.close()


def test_a_damaged_partition_shows_in_the_metrics():
    with Watched() as node:
        node.mq("topic", "create", "t")
        produce(node, "t", ["x" * 200] * 10)
        assert node.stop() == 0
        log = node.data / "t-0" / "00000000000000000000.log"
        log.unlink()
        node.start()
        assert node.total("mq_partitions_offline") == 1
        assert node.get("/readyz")[0] == 200  # the others are served
        ready = [json.loads(line) for line in node.log().splitlines() if '"event":"ready"' in line][-1]
        assert ready["offline_partitions"] == 1, ready


def test_a_failed_disk_is_told_by_readyz_and_the_metrics_and_the_stop():
    with Watched() as node:
        node.mq("topic", "create", "a")
        node.mq("topic", "create", "b")
        produce(node, "a", ["1"])
        (node.data / "b-0").touch()  # where the partition's directory should come
        def refused():  # on a busy machine a second may pass before anything is sent
            assert node.mq("produce", "b", "--timeout", "1000", input="2\n", check=False).returncode == 1
            return node.get("/readyz?verbose")[0] == 503

        assert eventually(refused, within=30)
        status, _, text = node.get("/readyz?verbose")
        assert status == 503 and str(node.data / "b-0") in text, text
        assert node.get("/livez")[0] == 200
        assert node.total("mq_log_directory_offline") == 1 and node.total("mq_partitions_offline") == 2
        assert "directory-offline" in node.log(), node.log()
        assert node.stop() == 0 and "not clean" in node.log(), node.log()
        (node.data / "b-0").unlink()
        node.start()
        assert node.mq("consume", "a", "-e").stdout == "1\n"
        produce(node, "b", ["2"])


def test_live_settings_reach_the_running_node():
    with Watched() as node:
        node.mq("topic", "create", "t")
        produce(node, "t", ["a"])
        # The floor, above what any disk has: writes are refused, reads go on.
        floor = str(1 << 60)
        node.mq("config", "set", "--broker", "1", f"disk.free.min.bytes={floor}", "disk.free.min.percent=99")
        full = eventually(lambda: node.total("mq_log_directory_full") == 1)
        free, size = node.total("mq_log_directory_free_bytes"), node.total("mq_log_directory_total_bytes")
        if free < size * 0.98:  # a disk that is all but empty has more than any floor
            assert full
            refused = node.mq("produce", "t", "--timeout", "3000", input="b\n", check=False)
            assert refused.returncode == 1 and "disk-full" in node.log(), (refused, node.log())
            assert node.mq("consume", "t", "-e").stdout == "a\n"
        node.mq("config", "set", "--broker", "1", "-d", "disk.free.min.bytes", "-d", "disk.free.min.percent")
        assert eventually(lambda: node.total("mq_log_directory_full") == 0)
        produce(node, "t", ["c"])
        # What needs a restart says so.
        result = node.mq("config", "set", "--broker", "1", "log.open.files.max=100", check=False)
        assert result.returncode != 0 and "log.open.files.max" in result.stderr and "restart" in result.stderr, result
