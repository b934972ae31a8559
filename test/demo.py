#!/usr/bin/env python3
"""`./dev run`: a node with the main job shown on real data; with --nodes 3 a cluster, one of whose nodes is killed under load. Stays up on a
terminal until Ctrl-C; with --once, or elsewhere, it stops."""
import argparse
import hashlib
import os
import pathlib
import signal
import socket
import subprocess
import sys
import tarfile
import tempfile
import time

ROOT = pathlib.Path(__file__).resolve().parents[1]
MQ = ROOT / "build" / "mq"
DATA = ROOT / "mq-data"


def say(text=""):
    print(text, flush=True)


def is_free(port):
    with socket.socket() as s:
        s.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            s.bind(("127.0.0.1", port))
            return True
        except OSError:
            return False


def pick_port(wanted):
    port = wanted
    while not (is_free(port) and is_free(port + 1)):
        port += 2
        if port > wanted + 200:
            sys.exit("dev: no free port near 9092")
    if port != wanted:
        say(f"port {wanted} is taken; using {port}")
    return port


def run(command, **options):
    say(f"$ {command}")
    return subprocess.run(command, shell=True, cwd=ROOT, executable="/bin/bash", **options)


def digest(data):
    return hashlib.sha256(data).hexdigest()[:16]


class Nodes:
    """1: a node alone, in mq-data/; more: a cluster, in mq-cluster/n1, n2, ..."""

    def __init__(self, count):
        self.ports = [pick_port(9092)]
        while len(self.ports) < count:
            self.ports.append(pick_port(self.ports[-1] + 10))
        self.data = DATA if count == 1 else ROOT / "mq-cluster"
        self.running = {}
        for number in range(1, count + 1):
            self.start(number)

    @property
    def brokers(self):
        return ",".join(f"127.0.0.1:{port}" for port in self.ports)

    def start(self, number):
        port = self.ports[number - 1]
        command = [MQ, "serve", "--listen", f"127.0.0.1:{port}", "--peer-listen", f"127.0.0.1:{port + 1}"]
        if len(self.ports) == 1:
            command += ["--data-dir", DATA]
        else:
            controllers = ",".join(f"{n}@127.0.0.1:{other + 1}" for n, other in enumerate(self.ports, 1))
            command += ["--data-dir", self.data / f"n{number}", "--node-id", str(number), "--controllers", controllers]
            (self.data / f"n{number}").mkdir(parents=True, exist_ok=True)
        log = None if len(self.ports) == 1 else open(self.data / f"n{number}.log", "ab")
        self.running[number] = subprocess.Popen(command, stdin=subprocess.DEVNULL, stderr=log, start_new_session=True)

    def ready(self):
        deadline = time.monotonic() + 30
        for number, node in self.running.items():
            while is_free(self.ports[number - 1]):
                if node.poll() is not None:
                    sys.exit(f"dev: node {number} did not start (exit {node.returncode}); its reason is above, or in {self.data}/")
                if time.monotonic() > deadline:
                    sys.exit(f"dev: node {number} does not listen after 30 s")
                time.sleep(0.02)

    def wait(self):
        for node in self.running.values():
            node.wait()

    def stop(self):
        for node in self.running.values():
            if node.poll() is None:
                node.send_signal(signal.SIGTERM)
        for node in self.running.values():
            node.wait(30)
        return max(abs(node.returncode) for node in self.running.values())


def main():
    parser = argparse.ArgumentParser(prog="./dev run", description="Starts a node, or a cluster, and shows the main job.")
    parser.add_argument("--once", action="store_true", help="stop when it has been shown")
    parser.add_argument("--nodes", type=int, default=1, choices=[1, 3, 5], help="how many (default 1)")
    options = parser.parse_args()
    once = options.once or not sys.stdout.isatty()
    os.environ["PATH"] = f"{ROOT / 'build'}:{os.environ['PATH']}"
    nodes = Nodes(options.nodes)
    os.environ["MQ_BROKERS"] = nodes.brokers
    place = "mq-data/" if options.nodes == 1 else "mq-cluster/"
    code = 1
    try:
        nodes.ready()
        show(nodes.brokers)
        if options.nodes > 1:
            show_failover(nodes)
        if once:
            say(f"\nstopping (data stays in {place})")
        else:
            say(f"\nIt stays up at {nodes.brokers}. Ctrl-C stops it; data stays in {place}.")
            try:
                nodes.wait()
            except KeyboardInterrupt:
                pass
    finally:
        code = nodes.stop()
    return code


def show_failover(nodes):
    topic = f"failover-{int(time.time())}"
    say("\nthree replicas of a topic, a node killed while records come in, and all of them out again:")
    run(f"mq topic create {topic} -p 6 -r 3", check=True)
    count = 3000
    say(f"$ mq produce {topic} -X acks=all        # {count} lines, 500 a second")
    producer = subprocess.Popen([MQ, "produce", topic, "-X", "acks=all", "-X", "enable.idempotence=true"], stdin=subprocess.PIPE, text=True)
    for line in range(count):
        producer.stdin.write(f"{line}\n")
        producer.stdin.flush()
        if line == count // 3:
            say("$ kill -9 (node 2)")
            nodes.running[2].kill()
            nodes.running[2].wait()
        if line == 2 * count // 3:
            say("$ (node 2 starts again)")
            nodes.start(2)
        time.sleep(0.002)
    producer.stdin.close()
    if producer.wait(60) != 0:
        sys.exit("dev: not everything was acknowledged")
    nodes.ready()
    back = subprocess.run([MQ, "consume", topic, "-e"], check=True, capture_output=True, text=True).stdout.split()
    lost, doubled = count - len(set(back)), len(back) - len(set(back))
    say(f"$ mq consume {topic} -e | sort -n | uniq | wc -l      {len(set(back))} of {count}: {lost} lost, {doubled} doubled")
    if lost or doubled:
        sys.exit("dev: what came out is not what went in")


def show(broker):
    topic = f"demo-{int(time.time())}"
    say()
    run(f"mq topic create {topic} -p 1", check=True)
    run(f"mq topic create {topic}-lines -p 3", check=True)

    # Text: every line of the project's own sources.
    lines = b"".join(sorted((line + b"\n") for path in sorted((ROOT / "src").rglob("*.cc")) for line in path.read_bytes().splitlines()))
    with tempfile.TemporaryDirectory() as directory:
        text = pathlib.Path(directory) / "lines.txt"
        text.write_bytes(lines)
        say(f"\n{len(lines.splitlines())} lines of the sources in, and out again:")
        run(f"mq produce {topic}-lines < {text}", check=True)
        back = subprocess.run([MQ, "consume", f"{topic}-lines", "-e"], check=True, capture_output=True).stdout
        back = b"".join(sorted(back.splitlines(keepends=True)))
        say(f"$ mq consume {topic}-lines -e | sort | sha256sum     sent {digest(lines)}, got {digest(back)}")

        # Bytes: a tar of the source tree.
        archive = pathlib.Path(directory) / "src.tar"
        with tarfile.open(archive, "w") as tar:
            tar.add(ROOT / "src", "src")
        data = archive.read_bytes()
        say(f"\na tar of {len(data)} bytes in chunks, and out again:")
        run(f"mq produce {topic} -p 0 --chunk 512K < {archive}", check=True)
        raw = subprocess.run([MQ, "consume", topic, "-p", "0", "-e", "--raw"], check=True, capture_output=True).stdout
        say(f"$ mq consume {topic} -p 0 -e --raw | sha256sum      sent {digest(data)}, got {digest(raw)}")
        if lines != back or data != raw:
            sys.exit("dev: what came out is not what went in")

    say()
    run(f"mq topic describe {topic}-lines", check=True)
    say(f"""
What to try next (MQ_BROKERS={broker}):
  seq 10 | build/mq produce hello --create -b {broker}
  build/mq consume hello -b {broker} -e -J
  kcat -b {broker} -L
  build/mq topic list -b {broker}
  build/mq help""")


if __name__ == "__main__":
    sys.exit(main())
