"""A real mq process for tests: its own data directory and ports, on loopback, stopped by pid.

    with Node() as node:
        node.mq("topic", "create", "t")
        node.kill()        # SIGKILL
        node.start()       # the same directory and ports

Every wait has a deadline. What the node printed is in node.log_path.
"""
import os
import pathlib
import shutil
import signal
import socket
import subprocess
import tempfile
import time

ROOT = pathlib.Path(__file__).resolve().parents[2]
MQ = os.environ.get("MQ_BIN") or str(ROOT / "build" / "mq")


def free_port():
    with socket.socket() as s:
        s.bind(("127.0.0.1", 0))
        return s.getsockname()[1]


class Node:
    def __init__(self, *arguments, directory=None, environment=None, start=True, keep=False):
        self.base = pathlib.Path(tempfile.mkdtemp(prefix="mq-test-"))
        self.data = pathlib.Path(directory) if directory else self.base / "data"
        self.port = free_port()
        self.peer_port = free_port()
        self.arguments = list(arguments)
        self.environment = dict(os.environ, **(environment or {}))
        self.log_path = self.base / "log"
        self.process = None
        self.keep = keep
        if start:
            self.start()

    @property
    def address(self):
        return f"127.0.0.1:{self.port}"

    def command(self):
        return [MQ, "serve", "--data-dir", str(self.data), "--listen", self.address,
                "--peer-listen", f"127.0.0.1:{self.peer_port}", *self.arguments]

    def start(self, wait=30.0):
        return self.spawn().ready(wait)

    def spawn(self):
        """Starts the process; ready() waits for it."""
        with open(self.log_path, "ab") as log:
            self.began = log.tell()
            self.process = subprocess.Popen(self.command(), stdin=subprocess.DEVNULL, stdout=log, stderr=log,
                                            env=self.environment, start_new_session=True)
        return self

    def ready(self, wait=30.0):
        deadline = time.monotonic() + wait
        while time.monotonic() < deadline:
            if self.process.poll() is not None:
                raise RuntimeError(f"mq ended with {self.process.returncode}:\n{self.log()}")
            if self.is_ready():
                return self
            time.sleep(0.01)
        raise RuntimeError(f"mq is not up after {wait} s:\n{self.log()}")

    def is_ready(self):
        return b'"event":"ready"' in self.log_path.read_bytes()[self.began:]

    def running(self):
        return self.process is not None and self.process.poll() is None

    def stop(self, wait=30.0):
        """SIGTERM; returns the exit code."""
        self.process.send_signal(signal.SIGTERM)
        return self.process.wait(wait)

    def kill(self):
        self.process.kill()
        self.process.wait(10)

    def log(self):
        return self.log_path.read_text(errors="replace")[-8000:] if self.log_path.exists() else ""

    def mq(self, *arguments, input=None, check=True, timeout=60, text=True):
        """Runs a command of the binary against this node; returns the CompletedProcess."""
        environment = dict(self.environment, MQ_BROKERS=self.address)
        result = subprocess.run([MQ, *arguments], input=input, capture_output=True, text=text, timeout=timeout, env=environment)
        if check and result.returncode != 0:
            raise AssertionError(f"mq {' '.join(arguments)}: exit {result.returncode}\n{result.stderr}\n--- node:\n{self.log()}")
        return result

    def rss_kb(self, peak=False):
        for line in open(f"/proc/{self.process.pid}/status"):
            if line.startswith("VmHWM" if peak else "VmRSS"):
                return int(line.split()[1])

    def descriptors(self):
        return len(os.listdir(f"/proc/{self.process.pid}/fd"))

    def close(self):
        if self.process and self.process.poll() is None:
            self.process.terminate()
            try:
                self.process.wait(10)
            except subprocess.TimeoutExpired:
                self.kill()
        if not self.keep:
            shutil.rmtree(self.base, ignore_errors=True)

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.close()
