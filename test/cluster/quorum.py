"""Several mq processes that are one cluster, on loopback, for tests; and a client that knows which node leads what.

    with Quorum(3) as cluster:
        cluster.create("t", partitions=4, replicas=3)
        cluster.leader("t", 0).kill()
        cluster.wait_in_sync("t")
"""
from node import Node
from wire import eventually, read_metadata


class Quorum:
    def __init__(self, count=3, *arguments, start=True):
        self.arguments = list(arguments)
        self.nodes = {}
        for number in range(1, count + 1):
            self.nodes[number] = Node("--node-id", str(number), *arguments, start=False)
        self.controllers = ",".join(f"{n}@127.0.0.1:{node.peer_port}" for n, node in self.nodes.items())
        for node in self.nodes.values():
            node.arguments += ["--controllers", self.controllers]
        if start:
            self.start()

    def __getitem__(self, number):
        return self.nodes[number]

    def start(self, wait=30):
        """All that do not run."""
        waiting = [node.spawn() for node in self.nodes.values() if not node.running()]
        for node in waiting:
            node.ready(wait)
        return self

    def add(self, number, *arguments, start=True):
        """A broker that votes on nothing."""
        node = Node("--node-id", str(number), "--roles=broker", "--controllers", self.controllers, *self.arguments, *arguments,
                    start=False)
        self.nodes[number] = node
        if start:
            node.start()
        return node

    @property
    def brokers(self):
        return ",".join(node.address for node in self.nodes.values())

    def any(self, but=()):
        return next(node for number, node in self.nodes.items() if node.running() and number not in but)

    def mq(self, *arguments, **options):
        return self.any().mq(*arguments, "-b", self.brokers, **options)

    def create(self, topic, partitions=1, replicas=3, **configs):
        settings = [item for key, value in configs.items() for item in ("-c", f"{key.replace('_', '.')}={value}")]
        self.mq("topic", "create", topic, "-p", str(partitions), "-r", str(replicas), *settings)

    def describe(self, topic, node=None):
        """partition -> {leader, replicas, isr}, as that node (default: any) sees it."""
        rows = read_metadata((node or self.any()).port, [topic])[2][topic]
        if rows is None:
            raise AssertionError(f"there is no topic {topic}")
        return rows

    def leader(self, topic, partition=0):
        return self.nodes.get(self.leader_id(topic, partition))

    def leader_id(self, topic, partition=0):
        return self.describe(topic)[partition]["leader"]

    def wait_in_sync(self, topic, within=30, replicas=3):
        def whole():
            try:
                return all(len(row["isr"]) == replicas and row["leader"] >= 0 for row in self.describe(topic).values())
            except (AssertionError, OSError):
                return False
        if not eventually(whole, within):
            raise AssertionError(f"{topic} is not in sync after {within} s: {self.describe(topic)}\n{self.logs()}")

    def logs(self):
        return "".join(f"--- node {number}\n{node.log()[-3000:]}" for number, node in self.nodes.items())

    def close(self):
        for node in self.nodes.values():
            if node.running():
                node.process.terminate()
        for node in self.nodes.values():
            node.close()

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.close()
