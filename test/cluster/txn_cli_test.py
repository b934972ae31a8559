"""`mq produce --txn` is all or nothing; `mq txn` shows what is open, who holds up readers, and ends it."""
import json
import os
import signal
import subprocess
import threading

from node import MQ, Node
from wire import eventually

QUICK = ("--set", "group.initial.rebalance.delay.ms=0", "--set", "offsets.topic.num.partitions=3", "--set",
         "transaction.state.log.num.partitions=3")


def lines(first, end):
    return "".join(f"{i}\n" for i in range(first, end))


def numbers(text):
    return sorted(map(int, text.split()))


def committed(node, topic):
    """What a reader of committed records sees in front of the last stable offset."""
    return numbers(node.mq("consume", topic, "-e").stdout)


def assert_committed(node, topic, expected):
    """The answer to EndTxn leaves when the end is decided; the markers that readers wait for come a moment behind it."""
    assert eventually(lambda: committed(node, topic) == expected), committed(node, topic)


def everything(node, topic):
    return numbers(node.mq("consume", topic, "-e", "--read-uncommitted").stdout)


def rows(node, *arguments, **options):
    return [json.loads(line) for line in node.mq("txn", *arguments, "-J", **options).stdout.splitlines()]


class Producing:
    """mq produce whose stdin stays open."""

    def __init__(self, node, *arguments):
        self.process = subprocess.Popen([MQ, "produce", *arguments, "-b", node.address], stdin=subprocess.PIPE, stdout=subprocess.PIPE,
                                        stderr=subprocess.PIPE, text=True)

    def write(self, text):
        self.process.stdin.write(text)
        self.process.stdin.flush()

    def end(self, number=None):
        """(exit code, stderr)"""
        if number is not None:
            self.process.send_signal(number)
        watchdog = threading.Timer(60, self.process.kill)
        watchdog.start()
        try:
            _, err = self.process.communicate()
        finally:
            watchdog.cancel()
        return self.process.returncode, err


def test_a_file_is_there_as_a_whole_or_not_at_all():
    with Node(*QUICK) as node:
        node.mq("topic", "create", "t", "-p", "3")
        done = node.mq("produce", "t", "--txn", "a", input=lines(0, 1000))
        assert "read 1000, committed 1000, aborted 0" in done.stderr, done.stderr
        assert_committed(node, "t", list(range(1000)))
        # A line that is none takes the others with it.
        bad = "".join(f'{{"value":"{i}"}}\n' for i in range(1000, 1100)) + "{nonsense\n"
        refused = node.mq("produce", "t", "--txn", "a", "-J", input=bad, check=False)
        assert refused.returncode == 1 and "committed 0, aborted 101" in refused.stderr and "line 101" in refused.stderr, refused.stderr
        assert_committed(node, "t", list(range(1000)))
        assert len(everything(node, "t")) >= 1000
        # The id goes on.
        node.mq("produce", "t", "--txn", "a", input=lines(1000, 1100))
        assert_committed(node, "t", list(range(1100)))


def test_an_interrupt_aborts():
    for number, code in ((signal.SIGINT, 130), (signal.SIGTERM, 143)):
        with Node(*QUICK) as node:
            node.mq("topic", "create", "t")
            producing = Producing(node, "t", "--txn", "a")
            producing.write(lines(0, 5000))
            assert eventually(lambda: rows(node, "list", "--state", "Ongoing"))
            left, err = producing.end(number)
            assert left == code and "committed 0, aborted" in err, (left, err)
            assert rows(node, "list", "--state", "Ongoing") == []
            assert committed(node, "t") == []


def test_after_kill_9_the_next_run_ends_what_was_open():
    with Node(*QUICK) as node:
        node.mq("topic", "create", "t", "-p", "2")
        producing = Producing(node, "t", "--txn", "a")
        producing.write(lines(0, 3000))
        assert eventually(lambda: len(everything(node, "t")) >= 1000)
        producing.end(signal.SIGKILL)
        assert committed(node, "t") == []
        assert [row["id"] for row in rows(node, "list", "--state", "Ongoing")] == ["a"]
        node.kill()
        node.start()
        assert committed(node, "t") == []
        assert [row["id"] for row in rows(node, "list", "--state", "Ongoing")] == ["a"]
        node.mq("produce", "t", "--txn", "a", input=lines(5000, 5100))
        assert_committed(node, "t", list(range(5000, 5100)))
        assert rows(node, "list", "--state", "Ongoing") == []


def test_transactions_of_so_many_records_each():
    with Node(*QUICK) as node:
        node.mq("topic", "create", "t", "-p", "2")
        done = node.mq("produce", "t", "--txn", "a", "--txn-every", "70", input=lines(0, 1000))
        assert "committed 1000, aborted 0" in done.stderr, done.stderr
        assert_committed(node, "t", list(range(1000)))
        producing = Producing(node, "t", "--txn", "a", "--txn-every", "100")
        producing.write(lines(1000, 1250))
        assert eventually(lambda: len(committed(node, "t")) == 1200)
        code, err = producing.end(signal.SIGINT)
        assert code == 130 and "committed 200, aborted 50" in err, err
        assert_committed(node, "t", list(range(1200)))


def test_transactions_of_a_time_each_also_while_nothing_comes():
    with Node(*QUICK) as node:
        node.mq("topic", "create", "t")
        producing = Producing(node, "t", "--txn", "a", "--txn-every", "200ms")
        producing.write(lines(0, 50))
        assert eventually(lambda: committed(node, "t") == list(range(50)))  # though stdin stays open
        producing.write(lines(50, 80))
        assert eventually(lambda: committed(node, "t") == list(range(80)))
        code, err = producing.end()
        assert code == 0 and "read 80, committed 80, aborted 0" in err, (code, err)


def test_what_is_open_is_shown_and_can_be_aborted():
    with Node(*QUICK) as node:
        node.mq("topic", "create", "t", "-p", "2")
        node.mq("produce", "t", input=lines(0, 10))
        producing = Producing(node, "t", "--txn", "a", "-K", ":")
        producing.write("".join(f"{i}:{i}\n" for i in range(100, 400)))  # by key: to both partitions
        assert eventually(lambda: len(everything(node, "t")) == 310)
        described = rows(node, "describe", "a")[0]
        assert described["state"] == "Ongoing" and described["timeoutMs"] == 60000 and described["startedMs"] > 0, described
        assert {(p["topic"], p["partition"]) for p in described["partitions"]} == {("t", 0), ("t", 1)}, described
        shown = node.mq("txn", "describe", "a").stdout
        assert "state:       Ongoing" in shown and "t-0 t-1" in shown, shown
        assert [row["id"] for row in rows(node, "list", "--older-than", "0")] == ["a"]
        assert rows(node, "list", "--older-than", "3600") == []
        assert [row["id"] for row in rows(node, "list", "--pattern", "a|b")] == ["a"]
        assert rows(node, "list", "--pattern", "b.*") == []
        open_ = rows(node, "producers", "--open", "t")
        assert len(open_) == 2 and all(row["openFrom"] >= 0 and row["producer"] == described["producer"] for row in open_), open_
        assert len(rows(node, "producers", "t:1")) <= 2 and {row["partition"] for row in rows(node, "producers", "t:1")} == {1}
        # Its coordinator knows it, so it does not hang.
        quiet = node.mq("txn", "hanging", "--older-than", "0")
        assert quiet.stdout == "" and "nothing hangs" in quiet.stderr, quiet
        # Past the coordinator it cannot be ended by mistake.
        refused = node.mq("txn", "abort", "--producer", str(described["producer"]), "t:0", "--yes", check=False)
        assert refused.returncode == 6 and "mq txn abort a" in refused.stderr, refused.stderr
        asks = node.mq("txn", "abort", "a", check=False)
        assert asks.returncode == 2 and "--yes" in asks.stderr, asks.stderr
        assert node.mq("txn", "abort", "a", "--dry-run").returncode == 0
        assert rows(node, "describe", "a")[0]["state"] == "Ongoing"
        node.mq("txn", "abort", "a", "--yes")
        assert_committed(node, "t", list(range(10)))
        assert rows(node, "producers", "--open", "t") == []
        # The id is there, and has begun nothing that could be old.
        assert [row["state"] for row in rows(node, "list")] == ["Empty"]
        assert rows(node, "list", "--older-than", "0") == []
        code, err = producing.end()
        assert code == 1 and "committed 0" in err and "could not be aborted" not in err, (code, err)
        again = node.mq("txn", "abort", "a", "--yes", check=False)
        assert again.returncode == 6 and "no open transaction" in again.stderr, again.stderr


def test_what_hangs_is_found_and_ended_on_its_partition():
    with Node(*QUICK) as node:
        node.mq("topic", "create", "t")
        producing = Producing(node, "t", "--txn", "a")
        producing.write(lines(0, 300))
        assert eventually(lambda: len(everything(node, "t")) == 300)
        producing.end(signal.SIGKILL)
        producer = rows(node, "describe", "a")[0]["producer"]
        # A cluster that has lost what its coordinator knew.
        assert node.stop() == 0
        for path in node.data.glob("__transaction_state-*"):
            for file in path.glob("*.log"):
                os.truncate(file, 0)
            for file in [*path.glob("*.index"), *path.glob("*.timeindex"), *path.glob("*.snapshot"), *path.glob("*.txnindex")]:
                file.unlink()
        for name in ("recovery-point-offset-checkpoint", ".kafka_cleanshutdown"):
            (node.data / name).unlink(missing_ok=True)
        node.start()
        assert node.mq("txn", "describe", "a", check=False).returncode == 5
        found = node.mq("txn", "hanging", "--older-than", "0", "-J", check=False)
        assert found.returncode == 10, found
        assert [(row["topic"], row["partition"], row["producer"]) for row in map(json.loads, found.stdout.splitlines())] == [("t", 0, producer)]
        assert node.mq("txn", "hanging", "--older-than", "3600").stdout == ""
        # The command that it suggests works.
        hint = next(line for line in found.stderr.splitlines() if "end one with" in line).split(": mq ", 1)[1].split()
        node.mq(*hint, "--yes")
        assert node.mq("txn", "hanging", "--older-than", "0").returncode == 0
        node.mq("produce", "t", input=lines(500, 510))
        assert_committed(node, "t", list(range(500, 510)))


def test_wrong_words():
    with Node(*QUICK) as node:
        node.mq("topic", "create", "t")

        def refused(code, *arguments, says):
            ran = node.mq(*arguments, check=False, input="")
            assert ran.returncode == code and says in ran.stderr and ran.stdout == "", (arguments, ran)

        refused(5, "txn", "describe", "nobody", says="mq txn list")
        refused(5, "txn", "abort", "nobody", "--yes", says="nobody")
        refused(2, "txn", "abort", says="which?")
        refused(2, "txn", "abort", "--producer", "7", says="TOPIC:N")
        refused(3, "txn", "abort", "--producer", "7", "t:0", "--yes", says="no open transaction")
        refused(5, "txn", "producers", "t:9", says="no partition 9")
        refused(2, "txn", "list", "--state", "Sleeping", says="Ongoing")
        refused(2, "produce", "t", "--txn", "a", "--acks", "1", says="--acks all")
        refused(2, "produce", "t", "--txn-every", "5", says="--txn")
        for wrong in ("0", "-1", "5 s", "1h", "ms", "99999999999999999999"):
            refused(2, "produce", "t", "--txn", "a", f"--txn-every={wrong}", says="100ms or 5s")
        refused(2, "produce", "t", "--txn", "", says="transactional id")
        refused(5, "produce", "nowhere", "--txn", "a", says="mq topic create")
        empty = node.mq("produce", "t", "--txn", "a", input="")
        assert "read 0, committed 0, aborted 0" in empty.stderr, empty.stderr
