"""A cluster of real processes: it begins, replicates, and goes on when a node dies, is wiped, is added or restarted."""
import re
import shutil
import signal
import subprocess
import threading
import time

from node import MQ
from quorum import Quorum
from wire import eventually, read_metadata


class Load:
    """Numbered lines by one `mq produce`, acks=all; what was not acknowledged at the end is an error."""

    def __init__(self, cluster, topic, per_second=200):
        self.cluster, self.topic, self.sent, self.stopping = cluster, topic, 0, False
        self.process = subprocess.Popen([MQ, "produce", topic, "-b", cluster.brokers, "-X", "acks=all", "-X", "enable.idempotence=true",
                                         "-X", "linger.ms=5"], stdin=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
        self.thread = threading.Thread(target=self.run, args=(per_second,), daemon=True)
        self.thread.start()

    def run(self, per_second):
        try:
            while not self.stopping:
                self.process.stdin.write(f"{self.sent:08d}\n")
                self.process.stdin.flush()
                self.sent += 1
                time.sleep(1 / per_second)
        except BrokenPipeError:
            pass

    def end(self, within=60):
        self.stopping = True
        self.thread.join(10)
        self.process.stdin.close()
        error = self.process.stderr.read()
        code = self.process.wait(within)
        assert code == 0, f"produce ended with {code}:\n{error}\n{self.cluster.logs()}"
        return self.sent


def read_all(cluster, topic):
    return cluster.mq("consume", topic, "-e", timeout=60).stdout.split()


def check(cluster, topic, count):
    lines = sorted(read_all(cluster, topic))
    wanted = [f"{n:08d}" for n in range(count)]
    if lines != wanted:
        lost = sorted(set(wanted) - set(lines))
        time.sleep(2)
        again = read_all(cluster, topic)
        raise AssertionError(f"{len(lines)} lines of {count}, {len(lost)} lost ({lost[:3]}..{lost[-3:]}), {len(lines) - len(set(lines))} doubled; "
                             f"2 s later {len(set(wanted) - set(again))} lost\n{cluster.logs()}")


def test_begins_and_replicates():
    with Quorum(3) as cluster:
        assert len({re.search(r'"cluster":"([^"]+)"', node.log()).group(1) for node in cluster.nodes.values()}) == 1
        cluster.create("t", partitions=6)
        for node in cluster.nodes.values():  # each of them knows, whoever was asked
            rows = cluster.describe("t", node)
            assert len(rows) == 6 and {row["leader"] for row in rows.values()} == {1, 2, 3}, rows
        load = Load(cluster, "t", 1000)
        time.sleep(2)
        check(cluster, "t", load.end())
        cluster.wait_in_sync("t")


def test_goes_on_when_a_leader_is_killed():
    with Quorum(3) as cluster:
        cluster.create("t", partitions=6)
        load = Load(cluster, "t")
        for number in (1, 2, 3):
            time.sleep(1)
            cluster[number].kill()
            assert eventually(lambda: all(row["leader"] not in (-1, number) for row in cluster.describe("t").values()), 10), cluster.logs()
            time.sleep(0.5)
            cluster.start()
            cluster.wait_in_sync("t")
        check(cluster, "t", load.end())


def test_a_rolling_restart_loses_nothing():
    with Quorum(3) as cluster:
        cluster.create("t", partitions=6)
        load = Load(cluster, "t")
        for number in (1, 2, 3):
            time.sleep(0.5)
            assert cluster[number].stop() == 0
            cluster.start()
            cluster.wait_in_sync("t")
        check(cluster, "t", load.end())


def test_all_killed_at_once_come_back():
    with Quorum(3) as cluster:
        cluster.create("t", partitions=6)
        load = Load(cluster, "t")
        time.sleep(1)
        for node in cluster.nodes.values():
            node.process.send_signal(signal.SIGKILL)
        for node in cluster.nodes.values():
            node.process.wait(10)
        cluster.start()
        cluster.wait_in_sync("t")
        time.sleep(0.5)
        check(cluster, "t", load.end())


def test_a_wiped_node_gets_everything_again():
    with Quorum(3) as cluster:
        cluster.create("t", partitions=3)
        load = Load(cluster, "t")
        time.sleep(1)
        cluster[2].kill()
        shutil.rmtree(cluster[2].data)
        time.sleep(0.5)
        cluster.start()
        cluster.wait_in_sync("t")
        count = load.end()
        # What it has now is enough: the others go, one of them the other voter that is left, and come back.
        cluster[1].kill()
        cluster.start()
        check(cluster, "t", count)
        assert "voter-lost" in "".join(node.log() for node in cluster.nodes.values())


def test_a_fourth_node_joins():
    with Quorum(3) as cluster:
        cluster.create("t", partitions=3)
        cluster.add(4)
        assert eventually(lambda: set(read_metadata(cluster[1].port)[0]) == {1, 2, 3, 4}), cluster.logs()
        cluster.create("u", partitions=8)
        assert any(4 in row["replicas"] for row in cluster.describe("u").values())
        load = Load(cluster, "u")
        time.sleep(1)
        check(cluster, "u", load.end())
        cluster[4].stop()
        cluster[4].start()
        cluster.wait_in_sync("u")
        check(cluster, "u", load.sent)


def test_two_of_three_gone_and_back():
    with Quorum(3) as cluster:
        cluster.create("t", partitions=3)
        load = Load(cluster, "t")
        time.sleep(1)
        cluster[1].kill()
        cluster[3].kill()
        time.sleep(2)
        cluster.start()
        cluster.wait_in_sync("t")
        check(cluster, "t", load.end())


def test_a_node_that_waits_for_its_cluster_says_so_and_can_be_stopped():
    with Quorum(3, start=False) as cluster:
        node = cluster[1].spawn()
        assert eventually(lambda: "waits for its cluster: node 2 cannot be reached" in node.log(), 15), node.log()
        assert not node.is_ready()
        assert node.stop(10) == 0
        cluster.start()


def test_leaders_move_and_replicas_too():
    with Quorum(3) as cluster:
        cluster.create("t", partitions=3)
        cluster.add(4)
        load = Load(cluster, "t")
        time.sleep(0.5)
        cluster.mq("reassign", "move", "t", "--to", "4,1,2")
        assert eventually(lambda: all(sorted(row["replicas"]) == [1, 2, 4] for row in cluster.describe("t").values()), 20), cluster.logs()
        cluster.wait_in_sync("t")
        cluster.mq("leader", "balance")
        assert {row["leader"] for row in cluster.describe("t").values()} == {1, 2, 4}
        check(cluster, "t", load.end())
        # Node 3 has nothing of it any more.
        assert eventually(lambda: not list(cluster[3].data.glob("t-*")), 10), list(cluster[3].data.iterdir())
        assert "healthy" in cluster.mq("cluster", "health").stdout
        cluster[4].kill()
        assert eventually(lambda: cluster.mq("cluster", "health", check=False).returncode == 10, 10)


def test_votes_come_and_go():
    with Quorum(3) as cluster:
        cluster.add(4)
        def role(node):
            rows = [line.split() for line in cluster.mq("cluster", "quorum").stdout.splitlines()[2:]]
            return {int(row[0]): row[1] for row in rows}.get(node)
        assert eventually(lambda: role(4) == "observer"), cluster.mq("cluster", "quorum").stdout
        cluster.mq("cluster", "join", "4")
        assert role(4) in ("voter", "leader")
        cluster.mq("cluster", "leave", "4", "--yes")
        assert eventually(lambda: role(4) in (None, "observer"))
        assert cluster.mq("cluster", "join", "9", check=False).returncode == 5
