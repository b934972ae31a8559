"""`mq log dump|verify` over the files of a node that runs, was stopped, or whose files are damaged."""
import json
import pathlib
import subprocess

from node import MQ, Node


def mq_log(*arguments):
    return subprocess.run([MQ, "log", *map(str, arguments)], capture_output=True, text=True, timeout=60)


def filled(node, count=2000):
    node.mq("topic", "create", "t", "-p", "2")
    node.mq("topic", "create", "other")
    for partition in (0, 1):
        node.mq("produce", "t", "-p", str(partition), input="".join(f"{i}\n" for i in range(partition, count, 2)))
    node.mq("produce", "other", "-k", "key", "-H", "h=v", input="value\n")


def flip(path, at):
    data = bytearray(path.read_bytes())
    data[at] ^= 0x20
    path.write_bytes(data)


def test_dump_and_verify_of_a_running_and_a_stopped_node():
    with Node() as node:
        filled(node)

        def looks_whole():
            verified = mq_log("verify", node.data)
            assert (verified.returncode, verified.stdout) == (0, ""), verified
            assert "3 partitions" in verified.stderr and "all whole" in verified.stderr, verified.stderr
            dumped = mq_log("dump", node.data)
            assert dumped.returncode == 0 and dumped.stderr == "", dumped.stderr
            assert "other-0/00000000000000000000.log" in dumped.stdout and "t-1/00000000000000000000.log" in dumped.stdout
            rows = [json.loads(line) for line in mq_log("dump", "-J", node.data).stdout.splitlines()]
            assert sum(row["count"] for row in rows if row["type"] == "batch") == 2001
            records = [json.loads(line) for line in mq_log("dump", "-r", "-J", node.data).stdout.splitlines()]
            assert sorted(int(r["value"]) for r in records if r["topic"] == "t") == list(range(2000))
            other = [r for r in records if r["topic"] == "other"]
            assert [(r["key"], r["value"], r["headers"], r["offset"]) for r in other] == [("key", "value", [["h", "v"]], 0)]

        looks_whole()
        # The same by partition, by file and by several paths; slashes at the end do not matter.
        log = node.data / "t-0" / "00000000000000000000.log"
        for paths in ([f"{node.data}/t-0/"], [log], [log, node.data / "other-0"]):
            assert mq_log("verify", *paths).returncode == 0 and "segment" in mq_log("dump", *paths).stdout
        assert node.stop() == 0
        looks_whole()
        before = sorted((p, p.stat().st_mtime_ns, p.stat().st_size) for p in node.data.rglob("*"))
        looks_whole()
        assert before == sorted((p, p.stat().st_mtime_ns, p.stat().st_size) for p in node.data.rglob("*")), "it wrote"


def test_damage_is_named_with_file_position_and_remedy_and_whole_records_can_be_saved():
    with Node() as node:
        filled(node)
        for i in range(3):
            node.mq("produce", "t", "-p", "0", input=f"later{i}\n")
        assert node.stop() == 0
        log = node.data / "t-0" / "00000000000000000000.log"
        whole = mq_log("dump", "-r", "-J", log).stdout.splitlines()
        flip(log, 100)
        verified = mq_log("verify", node.data)
        assert verified.returncode == 10, verified
        assert f"{log} at byte 0: the checksum is wrong; " in verified.stdout and "problems" in verified.stderr, verified
        rows = [json.loads(line) for line in mq_log("verify", "-J", node.data).stdout.splitlines()]
        assert {"file", "position", "problem", "remedy"} == set(rows[0]) and rows[0]["file"] == str(log), rows
        dumped = mq_log("dump", log)
        assert dumped.returncode == 10 and "DAMAGED" in dumped.stdout and str(log) in dumped.stderr, dumped
        saved = mq_log("dump", "-r", "-J", log)
        assert saved.returncode == 10 and 3 <= len(saved.stdout.splitlines()) < len(whole)
        node.start()
        node.mq("produce", "rescued", "-J", "--create", input=saved.stdout.replace('"topic":"t"', '"topic":"rescued"'))
        assert "later2" in node.mq("consume", "rescued", "-e").stdout
        # Cut short, and an index of noise: each is told, nothing ends in an exception.
        node.stop()
        log.write_bytes(log.read_bytes()[:-5])
        (node.data / "t-1" / "00000000000000000000.index").write_bytes(b"noise!!!" * 3)
        (node.data / "other-0" / "partition.metadata").write_text("nothing")
        verified = mq_log("verify", node.data)
        for part in ("behind the last whole batch", "00000000000000000000.index at byte", "rebuilds it", "partition.metadata at byte"):
            assert part in verified.stdout, (part, verified.stdout)


def test_wrong_paths_and_closed_pipes():
    with Node() as node:
        filled(node, 100_000)
        result = mq_log("dump", node.base / "nothing")
        assert result.returncode == 5 and str(node.base / "nothing") in result.stderr, result
        empty = node.base / "empty"
        empty.mkdir()
        result = mq_log("verify", empty)
        assert result.returncode == 3 and str(empty) in result.stderr, result
        result = mq_log("dump", node.log_path)
        assert result.returncode == 2 and str(node.log_path) in result.stderr, result
        assert mq_log("dump").returncode == 2
        shell = f"{MQ} log dump -r {node.data} | head -2 | wc -l; echo ${{PIPESTATUS[0]}}"
        result = subprocess.run(["bash", "-c", shell], capture_output=True, text=True, timeout=30)
        assert result.stdout == "2\n141\n" and result.stderr == "", result


def test_data_directories_of_kafka():
    fixtures = pathlib.Path(__file__).resolve().parents[1] / "golden" / "kafka-data"
    with Node(start=False) as node:
        for name in ("datadir", "txn", "unclean-killed"):
            target = node.base / name
            target.mkdir()
            subprocess.run(["tar", "-xJf", str(fixtures / f"{name}.tar.xz"), "-C", str(target)], check=True)
            verified = mq_log("verify", target)
            assert verified.returncode == 0, verified
            assert mq_log("dump", "-J", target).returncode == 0
