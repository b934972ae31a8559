"""`mq serve` as an operator meets it: start, stop, wrong input, directories and ports that cannot be had."""
import json
import os
import pathlib
import shutil
import signal
import socket
import subprocess
import tempfile
import threading
import time
import unittest

from node import MQ, Node, free_port
from wire import Raw, eventually, fetch_request, metadata_request


def serve(*arguments, timeout=20, environment=None):
    """A start that is expected to be refused."""
    return subprocess.run([MQ, "serve", *arguments], capture_output=True, text=True, timeout=timeout, stdin=subprocess.DEVNULL,
                          env=dict(os.environ, **(environment or {})))


def one_line(result, *words, code=None):
    """Refused with one readable line that names what it should."""
    assert result.returncode != 0, "it started"
    if code is not None:
        assert result.returncode == code, (result.returncode, result.stderr)
    text = result.stderr.strip()
    assert len(text.splitlines()) <= 2, text
    for word in words:
        assert str(word) in text, f"{word!r} is not in: {text}"
    assert "terminate called" not in text and "MQ_CHECK" not in text, text


def test_starts_serves_and_stops_cleanly():
    with Node() as node:
        ready = [json.loads(line) for line in node.log().splitlines() if '"event":"ready"' in line]
        assert len(ready) == 1, node.log()
        assert ready[0]["listening"] == [node.address] and ready[0]["new"] is True and ready[0]["durability"] == "fsync"
        node.mq("topic", "create", "t")
        assert node.mq("produce", "t", input="a\nb\n").returncode == 0
        assert node.mq("consume", "t", "-e").stdout == "a\nb\n"
        assert node.stop() == 0
        node.start()
        ready = [json.loads(line) for line in node.log().splitlines() if '"event":"ready"' in line]
        assert ready[-1]["new"] is False and ready[-1]["clean"] is True and ready[-1]["topics"] == 1, ready[-1]
        assert node.mq("consume", "t", "-e").stdout == "a\nb\n"


def test_a_second_process_on_the_same_directory_is_refused_and_named():
    with Node() as node:
        result = serve("--data-dir", str(node.data), "--listen", f"127.0.0.1:{free_port()}")
        one_line(result, node.data, node.process.pid)
        node.kill()  # the lock dies with the process
        node.start()


def test_a_port_in_use_is_refused_and_named():
    with Node() as node:
        base = tempfile.mkdtemp(prefix="mq-test-")
        try:
            result = serve("--data-dir", f"{base}/d", "--listen", node.address)
            one_line(result, node.address)
        finally:
            shutil.rmtree(base)


def test_directories_that_cannot_be_used_are_refused_untouched():
    base = pathlib.Path(tempfile.mkdtemp(prefix="mq-test-"))
    try:
        file = base / "file"
        file.write_text("x")
        one_line(serve("--data-dir", str(file), "--listen", f"127.0.0.1:{free_port()}"), file)

        kafka = base / "kafka"
        kafka.mkdir()
        (kafka / "meta.properties").write_text("version=1\ncluster.id=abc\nnode.id=1\n")
        (kafka / "t-0").mkdir()
        before = sorted(p.name for p in kafka.iterdir())
        one_line(serve("--data-dir", str(kafka), "--listen", f"127.0.0.1:{free_port()}"), "Kafka", kafka)
        assert sorted(p.name for p in kafka.iterdir()) == before
    finally:
        shutil.rmtree(base)


def test_another_node_id_or_a_newer_format_is_refused():
    with Node() as node:
        node.stop()
        one_line(serve("--data-dir", str(node.data), "--node-id", "7", "--listen", f"127.0.0.1:{free_port()}"), "7")
        mark = node.data / "mq-directory"
        text = mark.read_text()
        newer = "\n".join("format=99" if line.startswith("format") else line for line in text.splitlines()) + "\n"
        assert newer != text, text
        mark.write_text(newer)
        one_line(serve("--data-dir", str(node.data), "--listen", f"127.0.0.1:{free_port()}"), "99")
        mark.write_text(text)
        node.start()


def test_misspelt_settings_are_refused_with_the_nearest_name():
    one_line(serve("--set", "log.retention.byte=5"), "log.retention.byte", "log.retention.bytes", code=2)
    one_line(serve("--set", "num.partitions=many"), "num.partitions", "many", code=2)
    one_line(serve("--set", "num.partitions=168h"), "num.partitions", code=2)
    one_line(serve("--set", "auto.create.topics.enable=true "), "auto.create.topics.enable", code=2)
    one_line(serve("--set", "num.partitions"), "num.partitions", code=2)
    one_line(serve("--listne", "x"), "--listne", "--listen", code=2)
    one_line(serve("--listen", "127.0.0.1"), "127.0.0.1", code=2)
    one_line(serve("--listen", "::1:9092"), code=2)
    one_line(serve("--advertise", "0.0.0.0:9092"), "0.0.0.0", code=2)
    one_line(serve("--controllers", "2@127.0.0.1:2,3@127.0.0.1:3"), "controllers", code=2)
    one_line(serve(environment={"MQ_CFG_NUM_PARTITION": "3"}), "MQ_CFG_NUM_PARTITION", code=2)
    with tempfile.NamedTemporaryFile("w", suffix=".toml") as config:
        config.write('num.partitions = 3\nretention.hours = 5\n')
        config.flush()
        one_line(serve("--config", config.name), f"{config.name}:2", "retention.hours", code=2)
    one_line(serve("--config", "/nonexistent/mq.toml"), "/nonexistent/mq.toml", code=2)


def test_check_config_says_so_and_starts_nothing():
    with tempfile.NamedTemporaryFile("w", suffix=".toml") as config:
        config.write('num.partitions = 3\n')
        config.flush()
        result = serve("--config", config.name, "--check-config")
        assert result.returncode == 0 and "good" in result.stdout, result


def test_the_documented_configuration_is_accepted_as_it_is():
    root = pathlib.Path(__file__).resolve().parents[2]
    assert serve("--config", str(root / "etc/mq.toml"), "--check-config").returncode == 0


def test_sigterm_ends_long_polls_at_once_and_half_sent_requests_do_not_hold_it():
    with Node() as node:
        node.mq("topic", "create", "t")
        readers = [subprocess.Popen([MQ, "consume", "t", "-b", node.address], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL) for _ in range(5)]
        half = socket.create_connection(("127.0.0.1", node.port))
        half.sendall(b"\0\0\0\x20\0\x03")
        time.sleep(0.5)
        begin = time.monotonic()
        assert node.stop(20) == 0, node.log()
        took = time.monotonic() - begin
        for reader in readers:
            reader.terminate()
            reader.wait(10)
        assert took < 10, f"stop took {took:.1f} s"


def test_dev_mode_creates_topics_and_throws_its_data_away():
    port = free_port()
    process = subprocess.Popen([MQ, "serve", "--dev", "--listen", f"127.0.0.1:{port}", "--peer-listen", f"127.0.0.1:{free_port()}"], stderr=subprocess.PIPE, text=True)
    try:
        line = ""
        while '"event":"ready"' not in line:
            line = process.stderr.readline()
            assert line, "it ended"
        ready = json.loads(line)
        assert ready["throw_away"] is True and pathlib.Path(ready["data"]).is_dir()
        subprocess.run(["kcat", "-b", f"127.0.0.1:{port}", "-P", "-t", "first-use"], input=b"hello\n", check=True, timeout=30)
        got = subprocess.run(["kcat", "-b", f"127.0.0.1:{port}", "-C", "-t", "first-use", "-e", "-q"], capture_output=True, check=True, timeout=30)
        assert got.stdout == b"hello\n"
    finally:
        process.send_signal(signal.SIGINT)
        process.wait(20)
    assert not pathlib.Path(ready["data"]).exists()


def test_ipv6_with_brackets():
    with socket.socket(socket.AF_INET6) as probe:
        try:
            probe.bind(("::1", 0))
        except OSError:
            raise unittest.SkipTest("no IPv6 on this machine")
    port = free_port()
    node = Node(start=False)
    command = [MQ, "serve", "--data-dir", str(node.data), "--listen", f"[::1]:{port}", "--peer-listen", f"[::1]:{free_port()}"]
    process = subprocess.Popen(command, stderr=subprocess.DEVNULL)
    try:
        for _ in range(200):
            try:
                socket.create_connection(("::1", port), timeout=1).close()
                break
            except OSError:
                time.sleep(0.02)
        listing = subprocess.run(["kcat", "-b", f"[::1]:{port}", "-L", "-J"], capture_output=True, text=True, check=True, timeout=30)
        assert json.loads(listing.stdout)["brokers"][0]["name"] == f"::1:{port}", listing.stdout
        subprocess.run([MQ, "topic", "create", "t", "-b", f"[::1]:{port}"], check=True, capture_output=True, timeout=30)
    finally:
        process.terminate()
        process.wait(20)
        node.close()


def asks_and_does_not_read(node):
    client = Raw(node.port)
    client.socket.setblocking(False)
    try:
        while True:
            client.socket.send(metadata_request() * 100)
    except BlockingIOError:
        return client


def test_a_stop_waits_for_no_client_for_long_and_the_next_start_recovers_nothing():
    with Node() as node:
        node.mq("topic", "create", "t", "-p", "100")
        node.mq("produce", "t", input="a\n" * 1000)
        clients = []
        for _ in range(100):  # in a long poll of five minutes
            client = Raw(node.port)
            client.send(fetch_request(b"t", offset=1000, wait_ms=300_000))
            clients.append(client)
        clients += [asks_and_does_not_read(node) for _ in range(20)]
        half = Raw(node.port)
        half.send(b"\0\0\0\x20\0\x03")
        time.sleep(1)
        begin = time.monotonic()
        assert node.stop(30) == 0, node.log()
        took = time.monotonic() - begin
        for client in [*clients, half]:
            client.close()
        assert took < 20, f"stop took {took:.1f} s"  # two seconds for the clients; shutdown.timeout.ms is 30
        node.start()
        ready = [json.loads(line) for line in node.log().splitlines() if '"event":"ready"' in line][-1]
        assert ready["clean"] is True, ready
        assert node.mq("consume", "t", "-e").stdout == "a\n" * 1000


def test_a_second_sigterm_ends_it_at_once():
    with Node("--set", "shutdown.timeout.ms=60000") as node:
        node.mq("topic", "create", "t", "-p", "100")
        clients = [asks_and_does_not_read(node) for _ in range(20)]
        time.sleep(1)  # until the node has nobody left who takes an answer
        node.process.send_signal(signal.SIGTERM)
        time.sleep(0.5)
        node.process.send_signal(signal.SIGTERM)
        code = node.process.wait(10)
        for client in clients:
            client.close()
        assert code == 128 + signal.SIGTERM, code


def test_two_listeners_tell_each_client_the_address_of_its_own():
    inside, outside = free_port(), free_port()
    node = Node(start=False)
    try:
        node.port = inside
        node.arguments = ["--listen", f"OUT=127.0.0.2:{outside}", "--advertise", "OUT=broker.example.org:19092"]
        node.start()
        for address, told in ((f"127.0.0.1:{inside}", f"127.0.0.1:{inside}"), (f"127.0.0.2:{outside}", "broker.example.org:19092")):
            listing = subprocess.run(["kcat", "-b", address, "-L", "-J"], capture_output=True, text=True, check=True, timeout=30)
            assert [broker["name"] for broker in json.loads(listing.stdout)["brokers"]] == [told], listing.stdout
        ready = [json.loads(line) for line in node.log().splitlines() if '"event":"ready"' in line][0]
        assert ready["advertised"] == ["", "broker.example.org:19092"], ready
    finally:
        node.close()


def test_an_advertised_ipv6_address_is_told_without_brackets():
    with Node("--advertise", "[fd00::]:9092") as node:
        with Raw(node.port) as client:
            client.send(metadata_request())
            assert b"\0\x06fd00::" in client.receive()


def test_a_topic_is_made_on_first_use_once_or_not_at_all():
    def first_use(node, topic):
        clients = [subprocess.Popen(["kcat", "-b", node.address, "-P", "-t", topic], stdin=subprocess.PIPE, stderr=subprocess.PIPE) for _ in range(8)]
        for client in clients:
            client.stdin.write(b"x\n")
            client.stdin.close()
        return [client.wait(40) for client in clients]

    with Node("--set", "auto.create.topics.enable=true", "--set", "num.partitions=12") as node:
        assert first_use(node, "new") == [0] * 8
        assert node.mq("consume", "new", "-e").stdout == "x\n" * 8
        assert node.mq("topic", "list").stdout.split().count("new") == 1
    with Node() as node:
        result = subprocess.run(["kcat", "-b", node.address, "-P", "-t", "nope", "-X", "message.timeout.ms=1500", "-X", "topic.metadata.propagation.max.ms=500"], input=b"x\n", capture_output=True, timeout=40)
        assert result.returncode != 0, result
        subprocess.run(["kcat", "-b", node.address, "-L", "-t", "nope"], capture_output=True, timeout=40)
        assert "nope" not in node.mq("topic", "list").stdout


def test_a_topic_made_again_is_another_one_for_clients_that_go_on():
    def lines_of(process, count):
        got = []
        reader = threading.Thread(target=lambda: got.extend(process.stdout.readline() for _ in range(count)), daemon=True)
        reader.start()
        reader.join(40)
        return got

    with Node("--set", "auto.create.topics.enable=true") as node:
        node.mq("topic", "create", "t")
        old = [f"old-{i}\n" for i in range(1000)]
        new = [f"new-{i}\n" for i in range(10)]
        node.mq("produce", "t", input="".join(old))
        reader = subprocess.Popen([MQ, "consume", "t", "-b", node.address], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
        writer = subprocess.Popen([MQ, "produce", "t", "-b", node.address], stdin=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
        try:
            assert lines_of(reader, 1000) == old
            writer.stdin.write("old-1000\n")
            writer.stdin.flush()
            assert lines_of(reader, 1) == ["old-1000\n"]
            node.mq("topic", "delete", "t", "--yes")
            time.sleep(1)  # they ask for it meanwhile, which must not bring it back
            assert "t" not in node.mq("topic", "list").stdout.split()
            assert eventually(lambda: not list(node.data.glob("t-*")))
            node.mq("topic", "create", "t")
            writer.stdin.write("".join(new))
            writer.stdin.close()
            assert writer.wait(40) == 0, writer.stderr.read()
            # Its place is gone: that is told, not taken for the same place in another topic.
            assert reader.wait(40) == 1 and "made again" in reader.stderr.read()
            assert reader.stdout.read() == ""
            for command in (["kcat", "-C", "-b", node.address, "-t", "t", "-e", "-q"], [MQ, "consume", "t", "-b", node.address, "-e"]):
                assert subprocess.run(command, capture_output=True, text=True, timeout=40).stdout == "".join(new)
        finally:
            for process in (reader, writer):
                process.kill()
                process.wait()


def test_every_effective_setting_tells_where_it_comes_from():
    with tempfile.NamedTemporaryFile("w", suffix=".toml") as config:
        config.write("log.retention.hours = 5\nnum.partitions = 2\n")
        config.flush()
        with Node("--config", config.name, "--set", "default.replication.factor=1", environment={"MQ_CFG_MAX_CONNECTIONS": "900"}) as node:
            assert node.mq("config", "get", "--broker", "1", "log.retention.ms").stdout == "18000000\n"
            for key, words in (("log.retention.ms", ["18000000", f"{config.name}:1"]), ("num.partitions", ["2", f"{config.name}:2"]),
                               ("max.connections", ["900", "MQ_CFG_MAX_CONNECTIONS"]), ("default.replication.factor", ["--set"]),
                               ("fetch.max.bytes", ["57671680", "default"])):
                said = node.mq("config", "explain", "--broker", "1", key).stdout
                for word in words:
                    assert word in said, (word, said)
            node.mq("config", "set", "--broker", "1", "log.retention.ms=1000000")
            said = node.mq("config", "explain", "--broker", "1", "log.retention.ms").stdout
            assert "1000000" in said and "dynamic broker" in said, said
            for wrong in ("log.retention.ms=168h", "log.retention.mss=5", "log.retention.ms=-2", "auto.create.topics.enable=true"):
                result = node.mq("config", "set", "--broker", "1", wrong, check=False)
                assert result.returncode != 0 and wrong.split("=")[0] in result.stderr, (wrong, result)


def test_a_directory_that_cannot_be_written_is_refused_and_named():
    base = pathlib.Path(tempfile.mkdtemp(prefix="mq-test-"))
    try:
        base.chmod(0o755)
        binary = shutil.copy(MQ, base / "mq")  # where that somebody can reach it
        locked = base / "locked"
        locked.mkdir()
        locked.chmod(0o555)
        # Root may write everywhere, so it becomes somebody else.
        other = ["setpriv", "--reuid=65534", "--regid=65534", "--clear-groups"] if os.geteuid() == 0 else []
        for directory in (locked, locked / "new"):
            result = subprocess.run([*other, binary, "serve", "--data-dir", str(directory), "--listen", f"127.0.0.1:{free_port()}",
                                     "--peer-listen", f"127.0.0.1:{free_port()}"], capture_output=True, text=True, timeout=20)
            one_line(result, directory, "Permission denied", code=1)
        assert list(locked.iterdir()) == []
    finally:
        shutil.rmtree(base)
