"""`mq consume -g` and `mq group`: a crash at any moment repeats records and never loses one; what a group has is shown, moved and saved as it is."""
import fcntl
import json
import os
import pathlib
import random
import re
import signal
import subprocess
import tempfile
import threading
import time

from node import MQ, Node
from wire import eventually

QUICK = ("--set", "group.initial.rebalance.delay.ms=0", "--set", "group.min.session.timeout.ms=500")
SHORT = ("-X", "session.timeout.ms=1000", "-X", "heartbeat.interval.ms=200")  # what a member that dies costs the others


def lines(first, end):
    return "".join(f"{i}\n" for i in range(first, end))


def numbers(text):
    return sorted(map(int, text.split()))


def member(node, *arguments, **options):
    """A consumer that goes on; its stdout is a pipe."""
    return subprocess.Popen([MQ, "consume", *arguments, "-b", node.address], stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                            stderr=subprocess.PIPE, text=True, **options)


def end(process, number=signal.SIGTERM, wait=20):
    if process.poll() is None:
        process.send_signal(number)
    watchdog = threading.Timer(wait, process.kill)
    watchdog.start()
    out, err = process.stdout.read(), process.stderr.read()  # not communicate(): it forgets what readline() has buffered
    process.wait(wait)
    watchdog.cancel()
    process.stdout.close()
    process.stderr.close()
    return out, err


def lags(node, group):
    """Rows of `mq group lag` by (topic, partition)."""
    rows = [json.loads(line) for line in node.mq("group", "lag", group, "-J").stdout.splitlines()]
    return {(row["topic"], row["partition"]): row for row in rows}


def committed(node, group):
    return sum(row["committed"] or 0 for row in lags(node, group).values())


def exists(node, group):
    return node.mq("group", "lag", group, check=False).returncode == 0


def described(node, group):
    return json.loads(node.mq("group", "describe", group, "-J").stdout)


def test_a_group_goes_on_where_it_stopped():
    with Node(*QUICK) as node:
        node.mq("topic", "create", "t", "-p", "3")
        node.mq("topic", "create", "u")
        for partition in range(3):
            node.mq("produce", "t", "-p", str(partition), input=lines(partition * 300, partition * 300 + 300))
        node.mq("produce", "u", input=lines(900, 1100))
        first = node.mq("consume", "-g", "g", "t", "u", "-n", "1000")
        assert "no offset stored" in first.stderr and "from the start" in first.stderr, first.stderr
        assert len(first.stdout.split()) == 1000 and committed(node, "g") == 1000
        # Left, not only gone: the next one need not wait for a session to end.
        assert described(node, "g")["state"] == "Empty"
        rest = node.mq("consume", "-g", "g", "t", "u", "-e", timeout=20)
        assert numbers(first.stdout + rest.stdout) == list(range(1100))
        assert all(row["lag"] == 0 and row["lagSeconds"] == 0 for row in lags(node, "g").values())
        again = node.mq("consume", "-g", "g", "t", "u", "-e", timeout=20)
        assert again.stdout == "" and again.stderr == "", again
        # The end is that of the beginning of the command; nothing is there beyond it.
        empty = node.mq("consume", "-g", "other", "t", "-e", "-o", "end", timeout=20)
        assert empty.stdout == ""
        # Without commits the group stays where it is; the lines say how to move it by hand.
        batch = node.mq("consume", "-g", "manual", "u", "-n", "10", "--no-commit", "-J").stdout
        assert lags(node, "manual") == {}
        again = node.mq("consume", "-g", "manual", "u", "-n", "10", "--no-commit", "-J").stdout
        assert again == batch
        done = "".join(json.dumps({"topic": r["topic"], "partition": r["partition"], "offset": r["offset"] + 1}) + "\n" for r in map(json.loads, batch.splitlines()))
        node.mq("group", "import", "-g", "manual", input=done)
        assert committed(node, "manual") == 10
        for wrong, why in ((("-g", "g", "t", "-p", "0"), "-p does not go with -g"), (("t", "--exec", "true"), "needs a group"),
                           (("t", "u"), "needs a group"), (("-g", "g", "t", "--protocol", "share"), "classic"),
                           (("-g", "g", "t", "--batch", "5"), "--exec"), (("-g", "g", "t", "-o", "5:stored"), "stored"),
                           (("t", "-o", "stored"), "group"), (("-g", "g", "t", "--exec", "x", "--no-commit"), "contradicts")):
            result = node.mq("consume", *wrong, check=False)
            assert result.returncode == 2 and why in result.stderr and result.stdout == "", (wrong, result)
        assert node.mq("consume", "-g", "g", "nowhere", check=False).returncode == 5
        assert node.mq("consume", "-g", "g", "t", "--timeout", "300", check=False).returncode == 3


def test_only_what_stdout_took_is_committed():
    with Node(*QUICK) as node:
        node.mq("topic", "create", "t")
        node.mq("produce", "t", input="".join(f"{i:09}\n" for i in range(50_000)))  # ten bytes each

        def start(group):
            process = member(node, "-g", group, "t")
            fcntl.fcntl(process.stdout, fcntl.F_SETPIPE_SZ, 4096)
            return process

        # Whoever reads us goes away in the middle of a record.
        process = start("pipe")
        taken = os.read(process.stdout.fileno(), 1005)
        process.stdout.close()
        process.wait(20)
        err = process.stderr.read()
        process.stderr.close()
        assert process.returncode == 141 and len(err.splitlines()) == 1, (process.returncode, err)
        at = committed(node, "pipe")
        assert len(taken) // 10 <= at <= (len(taken) + 8192) // 10, at
        assert described(node, "pipe")["state"] == "Empty"
        rest = node.mq("consume", "-g", "pipe", "t", "-e").stdout.split()
        assert list(map(int, rest)) == list(range(at, 50_000))

        # It does not read at all, and we are told to end.
        process = start("stuck")
        assert eventually(lambda: exists(node, "stuck") and committed(node, "stuck") > 0)
        process.send_signal(signal.SIGTERM)
        process.wait(20)
        got = process.stdout.read()
        process.stdout.close()
        process.stderr.close()
        assert process.returncode == 143 and committed(node, "stuck") == len(got) // 10, (process.returncode, len(got))
        shell = f"{MQ} consume -g head t -b {node.address} | head -3; echo ${{PIPESTATUS[0]}}"
        result = subprocess.run(["bash", "-c", shell], capture_output=True, text=True, timeout=30)
        assert result.stdout == "000000000\n000000001\n000000002\n141\n", result


def test_signals_commit_what_was_printed_and_nothing_else():
    with Node(*QUICK) as node:
        node.mq("topic", "create", "t", "-p", "4")
        for round, number in enumerate((signal.SIGTERM, signal.SIGINT)):
            node.mq("produce", "t", input=lines(round * 2000, round * 2000 + 1000))
            process = member(node, "-g", "g", "t")
            head = "".join(process.stdout.readline() for _ in range(300))
            node.mq("produce", "t", input=lines(round * 2000 + 1000, round * 2000 + 2000))
            tail, err = end(process, number)
            assert process.returncode == 128 + number, (process.returncode, err)
            assert described(node, "g")["state"] == "Empty"
            rest = node.mq("consume", "-g", "g", "t", "-e").stdout
            assert numbers(head + tail + rest) == list(range(round * 2000, round * 2000 + 2000))


def test_kill_9_repeats_but_does_not_lose():
    with Node(*QUICK) as node:
        node.mq("topic", "create", "t", "-p", "2")
        node.mq("produce", "t", input=lines(0, 5000))
        got = ""
        for _ in range(3):
            process = member(node, "-g", "g", "t", *SHORT)
            got += "".join(process.stdout.readline() for _ in range(1000))
            process.kill()
            got += "".join(line for line in process.stdout if line.endswith("\n"))
            process.wait(10)
            process.stdout.close()
            process.stderr.close()
        got += node.mq("consume", "-g", "g", "t", "-e", *SHORT, timeout=30).stdout
        assert set(map(int, got.split())) == set(range(5000))


def test_members_come_and_go_with_kcat_among_them():
    with Node(*QUICK) as node:
        node.mq("topic", "create", "t", "-p", "6")
        first = member(node, "-g", "g", "t", "-v", *SHORT)
        kcat = subprocess.Popen(["kcat", "-b", node.address, "-G", "g", "t", "-u", "-X", "auto.offset.reset=earliest", *SHORT],
                                stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True)
        second = member(node, "-g", "g", "t", "--instance", "fixed", *SHORT)

        def fill(start):
            for partition in range(6):
                node.mq("produce", "t", "-p", str(partition), input=lines(start + partition * 100, start + partition * 100 + 100))

        def settled(count):
            now = described(node, "g")
            owned = sum(len(p) for m in now["members"] for p in m["assigned"].values())
            return now["state"] == "Stable" and len(now["members"]) == count and owned == 6

        try:
            assert eventually(lambda: exists(node, "g"))
            assert eventually(lambda: settled(3), within=20), described(node, "g")
            table = node.mq("group", "members", "g").stdout
            assert len(table.splitlines()) == 4 and "fixed" in table and "rdkafka" in table and "t:" in table, table
            # Members would commit over it.
            for change in (("reset", "g", "--to", "start", "--yes"), ("seek", "g", "t=0"), ("delete", "g", "--yes")):
                refused = node.mq("group", *change, check=False)
                assert refused.returncode == 6 and "fixed" in refused.stderr and "NON_EMPTY_GROUP" in refused.stderr, (change, refused)
            fill(0)
            assert eventually(lambda: committed(node, "g") == 600, within=20), lags(node, "g")
            out, err = end(first)
            assert "assigned t-" in err and "gives up t-" in err, err
            assert eventually(lambda: settled(2), within=20)
            fill(600)
            assert eventually(lambda: committed(node, "g") == 1200, within=20), lags(node, "g")
            kcat.terminate()
            others = kcat.communicate(timeout=20)[0] + end(second)[0]
            assert set(map(int, (out + others).split())) == set(range(1200))
        finally:
            for process in (first, kcat, second):
                if process.poll() is None:
                    process.kill()
                    process.communicate(timeout=10)
        told = node.mq("group", "history", "g", "-J")
        rebalances = [json.loads(line) for line in told.stdout.splitlines()]
        assert len(rebalances) >= 3 and all(r["reason"] and r["began"] > 0 for r in rebalances), rebalances
        assert any("left" in r["reason"] for r in rebalances), rebalances
        assert [r["generation"] for r in rebalances] == sorted(r["generation"] for r in rebalances)
        assert re.search(r"since 20\d\d-", told.stderr), told.stderr
        assert node.mq("group", "history", "g").stdout.startswith("BEGAN")
        # A static member that is replaced says who did it.
        one = member(node, "-g", "s", "t", "--instance", "i", *SHORT)
        assert eventually(lambda: node.mq("group", "members", "s", check=False).stdout.count("\n") == 2, within=20)
        two = member(node, "-g", "s", "t", "--instance", "i", *SHORT)
        try:
            _, err = one.communicate(timeout=20)
            assert one.returncode == 6 and "FENCED_INSTANCE_ID" in err, (one.returncode, err)
        finally:
            end(two)


def test_exec_decides_what_is_committed():
    with Node(*QUICK) as node, tempfile.TemporaryDirectory() as directory:
        here = pathlib.Path(directory)
        node.mq("topic", "create", "t")
        node.mq("topic", "create", "k", "-p", "2")
        node.mq("produce", "t", input=lines(0, 20))
        node.mq("produce", "k", "-J", input='{"key":"a b","value":"x"}\n{"key":null,"value":null}\n{"key":"n\\u0000","value":"y"}\n')

        def run(group, topic, script, *arguments, code=0):
            result = node.mq("consume", "-g", group, topic, "-e", "--exec", f"cd {here}; {script}", *arguments, check=False)
            assert result.returncode == code and result.stdout == "", result
            return result.stderr

        # Values on stdin, the rest in variables.
        run("one", "t", 'cat >> out; echo "$MQ_TOPIC $MQ_PARTITION $MQ_OFFSET ${MQ_KEY-none}" >> log')
        assert (here / "out").read_text() == lines(0, 20)
        assert (here / "log").read_text() == "".join(f"t 0 {i} none\n" for i in range(20))
        assert committed(node, "one") == 20
        (here / "log").unlink()
        run("keys", "k", 'cat > /dev/null; echo "${MQ_KEY-none}" >> log')
        assert sorted((here / "log").read_text().splitlines()) == ["a b", "none", "none"]

        # Batches; a command that reads nothing is no failure.
        (here / "log").unlink()
        run("batch", "t", "echo $MQ_OFFSET >> log; exec <&-", "--batch", "8")
        assert (here / "log").read_text() == "0\n8\n16\n" and committed(node, "batch") == 20

        # 75: the same again, until it is taken.
        (here / "out").unlink()
        err = run("again", "t", 'if [ $MQ_OFFSET = 7 ] && ! [ -e ready ]; then [ -e once ] && touch ready; touch once; exit 75; fi; cat >> out')
        assert (here / "out").read_text() == lines(0, 20) and err.count("wants it again") == 2, err

        # Anything else: stops, and that record is the first of the next run.
        (here / "out").unlink()
        err = run("stop", "t", "[ $MQ_OFFSET = 5 ] && exit 3; cat >> out", code=1)
        assert "t-0 offset 5" in err and "ended with 3" in err, err
        assert (here / "out").read_text() == lines(0, 5) and committed(node, "stop") == 5
        run("stop", "t", "cat >> out")
        assert (here / "out").read_text() == lines(0, 20)

        # Or goes on, and says what was left out.
        (here / "out").unlink()
        err = run("skip", "t", "[ $MQ_OFFSET -ge 8 ] && [ $MQ_OFFSET -lt 12 ] && exit 1; cat >> out", "--on-error", "skip", "--batch", "4", code=1)
        assert "skipped t-0 offsets 8 to 11" in err and "4 records were skipped" in err, err
        assert (here / "out").read_text() == lines(0, 8) + lines(12, 20) and committed(node, "skip") == 20

        # Told to end: what is being done is finished and committed. Killed: it is done again.
        for number, code, at in ((signal.SIGTERM, 143, 1), (signal.SIGKILL, -9, 0)):
            (here / "go").unlink(missing_ok=True)
            (here / "begun").unlink(missing_ok=True)
            group = f"end{number}"
            process = member(node, "-g", group, "t", "--exec", f"cd {here}; touch begun; while ! [ -e go ]; do sleep 0.05; done", *SHORT)
            assert eventually((here / "begun").exists, within=20)
            process.send_signal(number)
            time.sleep(0.3)
            (here / "go").touch()
            _, err = process.communicate(timeout=20)
            assert process.returncode == code, (process.returncode, err)
            assert committed(node, group) == at
        out = node.mq("consume", "-g", "end9", "t", "-e", *SHORT, timeout=30).stdout
        assert out == lines(0, 20)


def test_a_slow_command_keeps_its_place_in_the_group():
    with Node(*QUICK) as node, tempfile.TemporaryDirectory() as directory:
        node.mq("topic", "create", "t", "-p", "2")
        for partition in range(2):
            node.mq("produce", "t", "-p", str(partition), input=lines(partition * 20, partition * 20 + 20))
        log = pathlib.Path(directory, "log")
        slow = f"cat >> {log}; case $MQ_PARTITION:$MQ_OFFSET in 0:0) sleep 3;; esac"

        # Longer than may pass between two polls: nothing is done twice.
        alone = node.mq("consume", "-g", "alone", "t", "-e", "--batch", "20", "--exec", slow, "-X", "session.timeout.ms=2000", "-X", "max.poll.interval.ms=2000")
        assert numbers(log.read_text()) == list(range(40)) and committed(node, "alone") == 40, (log.read_text(), alone.stderr)
        log.unlink()

        # Another member joins meanwhile: it gets its share when the batch is done, and does not begin with it.
        one = member(node, "-g", "g", "t", "-v", "--batch", "4", "--exec", slow, "-X", "heartbeat.interval.ms=200")
        two = None
        try:
            assert eventually(log.exists, within=20)
            two = member(node, "-g", "g", "t", "-v", "--batch", "4", "--exec", slow, "-X", "heartbeat.interval.ms=200")
            assert eventually(lambda: committed(node, "g") == 40, within=30), (lags(node, "g"), log.read_text())
        finally:
            said = end(one)[1] + (end(two)[1] if two else "")
        assert numbers(log.read_text()) == list(range(40)), (log.read_text(), said)
        assert said.count("assigned t-") >= 2, said


def test_a_broker_that_restarts_under_a_member():
    with Node(*QUICK) as node:
        node.mq("topic", "create", "t")
        node.mq("produce", "t", input=lines(0, 100))
        process = member(node, "-g", "g", "t", *SHORT)
        try:
            got = "".join(process.stdout.readline() for _ in range(100))
            assert eventually(lambda: committed(node, "g") == 100)
            node.kill()
            node.start()
            node.mq("produce", "t", input=lines(100, 200))
            # A member whose session ends meanwhile goes on from what is committed: what it has printed since comes again.
            new = set()
            while len(new) < 100:
                new.add(int(process.stdout.readline()))
            assert numbers(got) == list(range(100)) and new == set(range(100, 200))
            assert eventually(lambda: committed(node, "g") == 200, within=20)
            # It goes for good: so do we, and say what we could not do.
            node.mq("produce", "t", input=lines(200, 201))
            while (line := int(process.stdout.readline())) != 200:
                assert 100 <= line < 200, line
            node.kill()
        finally:
            _, err = end(process, wait=40)
        assert process.returncode in (1, 143) and (process.returncode == 143 or "could not be committed" in err), (process.returncode, err)


def test_retention_that_is_faster_than_the_group_is_told():
    with Node(*QUICK, "--set", "log.retention.check.interval.ms=200") as node:
        node.mq("topic", "create", "t", "-c", "segment.bytes=1048576")
        node.mq("produce", "t", input=lines(0, 10))
        node.mq("consume", "-g", "g", "t", "-n", "5")
        noise = random.Random(1)
        for _ in range(3):
            node.mq("produce", "t", input="".join(noise.choices("0123456789abcdef", k=900_000)) + "\n")
        node.mq("topic", "alter", "t", "-c", "retention.bytes=1000000")
        assert eventually(lambda: node.mq("topic", "offsets", "t").stdout.splitlines()[1].split()[1] != "0", within=20)
        assert lags(node, "g")[("t", 0)]["lag"] < 8  # what is gone is nothing to catch up with
        result = node.mq("consume", "-g", "g", "t", "-e")
        assert "t-0: the records from 5 to" in result.stderr and "are gone, deleted before group 'g' had read them" in result.stderr, result.stderr
        # A topic of the same name is another topic.
        node.mq("topic", "delete", "t", "--yes")
        node.mq("topic", "create", "t")
        node.mq("produce", "t", input=lines(0, 3))
        assert node.mq("consume", "-g", "g", "t", "-e").stdout == lines(0, 3)


def test_groups_are_shown_moved_saved_and_deleted():
    with Node(*QUICK) as node:
        now = int(time.time() * 1000)
        node.mq("topic", "create", "t", "-p", "2")
        node.mq("topic", "create", "appended", "-c", "message.timestamp.type=LogAppendTime")
        records = "".join(json.dumps({"value": str(i), "ts": now - 3_600_000 + i * 60_000}) + "\n" for i in range(10))
        for topic in ("t", "appended"):
            node.mq("produce", topic, "-J", "-p", "0", input=records)
        for i in range(10, 20):  # batches of their own: lag is as old as the batch with the record
            node.mq("produce", "t", "-J", "-p", "1", input=json.dumps({"value": str(i), "ts": now - 3_600_000 + (i - 10) * 60_000}) + "\n")

        moved = node.mq("group", "seek", "g", "t:0=3", "t:1=5", "appended=+2")
        assert "new" in moved.stdout and committed(node, "g") == 10, moved
        rows = lags(node, "g")
        assert (rows[("t", 0)]["lag"], rows[("t", 1)]["lag"], rows[("appended", 0)]["lag"]) == (7, 5, 8), rows
        old = time.time() - (now - 3_600_000 + 5 * 60_000) / 1000
        assert abs(rows[("t", 1)]["lagSeconds"] - old) < 60, rows
        assert rows[("appended", 0)]["lagSeconds"] < 60, rows
        assert rows[("t", 0)]["member"] is None
        assert [json.loads(line)["group"] for line in node.mq("group", "list", "-J").stdout.splitlines()] == ["g"]
        assert node.mq("group", "list", "--state", "Stable", "-J").stdout == ""
        whole = described(node, "g")
        assert whole["lag"] == 20 and whole["state"] == "Empty" and len(whole["partitions"]) == 3, whole
        assert "20 records" in node.mq("group", "describe", "g").stdout
        only = node.mq("group", "lag", "g", "appended").stdout
        assert "appended" in only and "t " not in only.splitlines()[1], only
        assert node.mq("group", "lag", "g", "nowhere", check=False).returncode == 3
        watched = node.mq("group", "watch", "g", "--seconds", "1", "--every", "300", "-J", timeout=20).stdout.splitlines()
        assert 2 <= len(watched) <= 5 and all(json.loads(line)["lag"] == 20 for line in watched), watched
        plain = node.mq("group", "watch", "g", "--seconds", "0").stdout
        assert plain.count("\n") == 1 and "20 records" in plain, plain

        # Nothing changes before somebody has said so.
        plan = node.mq("group", "reset", "g", "--to", "start", "--dry-run")
        assert re.search(r"t +0 +3 +0 +-3", plan.stdout) and committed(node, "g") == 10, plan.stdout
        refused = node.mq("group", "reset", "g", "--to", "start", check=False)
        assert refused.returncode == 2 and "--yes" in refused.stderr and committed(node, "g") == 10, refused
        node.mq("group", "reset", "g", "--to", "-1", "-t", "t:1", "--execute")
        assert lags(node, "g")[("t", 1)]["committed"] == 9
        node.mq("group", "reset", "g", "--to", f"@{now - 3_600_000 + 8 * 60_000}", "-t", "t", "--execute")
        assert lags(node, "g")[("t", 0)]["committed"] == 8 and lags(node, "g")[("t", 1)]["committed"] == 8
        beyond = node.mq("group", "seek", "g", "t:0=1000")
        assert "1000 is not there, the nearest is 10" in beyond.stderr and lags(node, "g")[("t", 0)]["committed"] == 10
        assert node.mq("group", "seek", "g", "t:0=0", "--dry-run").returncode == 0 and lags(node, "g")[("t", 0)]["committed"] == 10
        for wrong, code in ((("seek", "g", "t"), 2), (("seek", "g", "t:x=0"), 2), (("seek", "g", "t=middle"), 2), (("seek", "g", "t:7=0"), 5),
                            (("seek", "g", "nowhere=0"), 5), (("reset", "g"), 2), (("reset", "none", "--to", "start"), 5), (("describe", "none"), 5),
                            (("members", "none"), 5), (("lag", "none"), 5), (("history", "none"), 5), (("export", "none"), 5), (("watch", "none"), 5),
                            (("delete", "none"), 5), (("delete-offsets", "g", "nowhere", "--yes"), 3), (("export",), 2)):
            result = node.mq("group", *wrong, check=False)
            assert result.returncode == code and len(result.stderr.splitlines()) == 1, (wrong, result)

        # Out and in again, with all that a client has put there.
        odd = json.dumps({"group": "odd", "topic": "t", "partition": 0, "offset": 4, "leaderEpoch": 0, "metadata": "at \"noon\"\n\u00e4"}, ensure_ascii=False)
        node.mq("group", "import", input=odd + "\n")
        saved = node.mq("group", "export", "--all").stdout
        assert json.loads(saved.splitlines()[-1]) == json.loads(odd) and saved.count("\n") == 4, saved
        node.mq("group", "import", "--group", "copy", "--dry-run", input=saved)
        assert node.mq("group", "export", "copy", check=False).returncode == 5
        with tempfile.NamedTemporaryFile("w", suffix=".jsonl") as file:
            file.write(node.mq("group", "export", "g").stdout)
            file.flush()
            node.mq("group", "import", "--group", "copy", file.name)
        assert node.mq("group", "export", "copy").stdout == node.mq("group", "export", "g").stdout.replace('"group":"g"', '"group":"copy"')
        bad = node.mq("group", "import", input=odd + '\n{"group":"odd","topic":"t","partition":0}\n', check=False)
        assert bad.returncode == 1 and "line 2" in bad.stderr and "nothing was changed" in bad.stderr, bad

        # What a topic's end took with it.
        node.mq("topic", "delete", "appended", "--yes")
        assert node.mq("group", "delete-offsets", "copy", "t:0", check=False).returncode == 2
        node.mq("group", "delete-offsets", "copy", "t:0", "--dry-run")
        assert ("t", 0) in lags(node, "copy")
        node.mq("group", "delete-offsets", "copy", "t:0", "--yes")
        assert ("t", 0) not in lags(node, "copy") and ("t", 1) in lags(node, "copy")
        assert node.mq("group", "delete", "g", "copy", check=False).returncode == 2
        assert "would delete 'g', 'copy'" in node.mq("group", "delete", "g", "copy", "--dry-run").stdout
        node.mq("group", "delete", "g", "copy", "--yes")
        assert [json.loads(line)["group"] for line in node.mq("group", "list", "-J").stdout.splitlines()] == ["odd"]
