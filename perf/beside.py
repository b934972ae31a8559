"""Brokers to measure beside each other: those of the side-by-side benchmark, whose targets/NAME.sh start and stop them."""
import os
import subprocess
import tempfile


def add_options(parser, targets="mq,kafka"):
    parser.add_argument("--bench", required=True, help="folder of the side-by-side benchmark")
    parser.add_argument("--targets", default=targets)
    parser.add_argument("--mq", default="build/mq")
    parser.add_argument("--dir", default=None, help="where the brokers keep their data")


def cpu_seconds(pids):
    total = 0
    for pid in pids:
        with open(f"/proc/{pid}/stat") as f:
            fields = f.read().rsplit(")", 1)[1].split()
        total += int(fields[11]) + int(fields[12])
    return total / os.sysconf("SC_CLK_TCK")


class Target:
    """One node, its data in a directory of its own. `options` are those of add_options()."""

    def __init__(self, name, options, durability="page-cache"):
        self.name, self.options, self.durability = name, options, durability
        self.script = os.path.join(options.bench, "targets", name + ".sh")
        self.directory = tempfile.mkdtemp(prefix=f"beside-{name}-", dir=options.dir)

    def up(self):
        environment = dict(os.environ, MQ_BIN=os.path.abspath(self.options.mq), DURABILITY=self.durability)
        out = subprocess.run([self.script, "up", self.directory, "1"], check=True, capture_output=True, text=True, env=environment).stdout
        self.address = out.split("bootstrap ")[1].split()[0]
        self.port = int(self.address.rsplit(":", 1)[1])
        self.pids = [int(line.split()[3]) for line in out.splitlines() if line.startswith("node ")]

    def down(self):
        subprocess.run([self.script, "down", self.directory], check=False, capture_output=True)
        subprocess.run(["rm", "-rf", self.directory], check=False)

    def mq(self, *arguments, **options):
        return subprocess.run([os.path.abspath(self.options.mq), *arguments, "-b", self.address], check=True, capture_output=True, text=True, **options)

    def __enter__(self):
        try:
            self.up()
        except BaseException:
            self.down()
            raise
        return self

    def __exit__(self, *_):
        self.down()
