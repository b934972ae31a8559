"""The commands of mq-delivery.7 do what the page says."""
import os
import pathlib
import re
import subprocess
import tempfile

from node import MQ, Node

PAGE = pathlib.Path(__file__).resolve().parents[2] / "man/mq-delivery.7.scd"


def commands():
    """(command, what it prints or None)"""
    for block in re.findall(r"^```\n(.*?)^```$", PAGE.read_text(), flags=re.M | re.S):
        for line in block.splitlines():
            command, _, expected = line.partition("#=>")
            yield command.strip(), expected.strip() if "#=>" in line else None


def test_the_page_is_a_page():
    made = subprocess.run(["scdoc"], input=PAGE.read_text(), capture_output=True, text=True, timeout=30)
    assert made.returncode == 0 and ".TH" in made.stdout, made.stderr


def test_every_command_does_what_the_page_says():
    found = list(commands())
    assert len(found) >= 10 and sum(expected is not None for _, expected in found) >= 5, found
    with Node("--set", "group.initial.rebalance.delay.ms=0") as node, tempfile.TemporaryDirectory() as directory:
        (pathlib.Path(directory) / "mq").symlink_to(MQ)
        work = pathlib.Path(directory) / "work"
        work.mkdir()
        environment = dict(os.environ, PATH=f"{directory}:{os.environ['PATH']}", MQ_BROKERS=node.address)
        for command, expected in found:
            ran = subprocess.run(["bash", "-euo", "pipefail", "-c", command], cwd=work, env=environment, stdin=subprocess.DEVNULL,
                                 capture_output=True, text=True, timeout=120)
            assert ran.returncode == 0, f"{command}: {ran.returncode}\n{ran.stderr}"
            if expected is not None:
                assert ran.stdout.strip() == expected, f"{command}: {ran.stdout!r}\n{ran.stderr}"
