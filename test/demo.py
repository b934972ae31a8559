#!/usr/bin/env python3
"""`./dev run`: a node with the main job shown on real data. Stays up on a terminal until Ctrl-C; with --once, or elsewhere, it stops."""
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


def main():
    once = "--once" in sys.argv[1:] or not sys.stdout.isatty()
    unknown = [a for a in sys.argv[1:] if a != "--once"]
    if unknown:
        sys.exit(f"dev: run takes --once, not {unknown[0]}")
    port = pick_port(9092)
    broker = f"127.0.0.1:{port}"
    os.environ["MQ_BROKERS"] = broker
    os.environ["PATH"] = f"{ROOT / 'build'}:{os.environ['PATH']}"

    node = subprocess.Popen([MQ, "serve", "--data-dir", DATA, "--listen", broker, "--peer-listen", f"127.0.0.1:{port + 1}"],
                            stdin=subprocess.DEVNULL, start_new_session=True)
    try:
        deadline = time.monotonic() + 30
        while is_free(port):
            if node.poll() is not None:
                sys.exit(f"dev: the node did not start (exit {node.returncode}); its reason is above")
            if time.monotonic() > deadline:
                sys.exit("dev: the node does not listen after 30 s")
            time.sleep(0.02)
        show(broker)
        if once:
            say("\nstopping the node (data stays in mq-data/)")
        else:
            say(f"\nThe node stays up at {broker}. Ctrl-C stops it; data stays in mq-data/.")
            try:
                node.wait()
            except KeyboardInterrupt:
                pass
    finally:
        if node.poll() is None:
            node.send_signal(signal.SIGTERM)
            node.wait(30)
    return node.returncode


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
