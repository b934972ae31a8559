#!/usr/bin/env python3
"""Drives the clients of a conformance tool against a node, and compares with what it knows of Apache Kafka.

    conformance.py TOOL [--only CLIENT[:CHECK]...] [--suites] [--exempt] [--bootstrap HOST:PORT] [--out DIR]

TOOL is a folder with `run BOOTSTRAP --only ... --out result.json`, `suites/run` (the same, for the test suites that clients
ship) and `baseline.json`. What needs a capability that is not there yet is not run (exempt.tsv, README.md) unless --exempt
asks for just that, to see which exemptions have become stale. Exit 1 if a check failed that Kafka passes.
"""
import argparse
import collections
import fnmatch
import json
import pathlib
import subprocess
import sys
import tempfile

HERE = pathlib.Path(__file__).resolve().parent
sys.path.insert(0, str(HERE.parent / "cluster"))
from node import Node  # noqa: E402


def exemptions():
    rules = [line.split("\t") for line in (HERE / "exempt.tsv").read_text().splitlines() if line and not line.startswith("#")]

    def of(client, check):
        for pattern, reason in rules:
            wanted_client, _, wanted_check = pattern.partition(":")
            if fnmatch.fnmatchcase(client, wanted_client) and fnmatch.fnmatchcase(check, wanted_check):
                return reason
        return None
    return of


# Of the suites that the tool knows; the others mix groups into nearly every test, and run when --only names them.
SUITES = ("librdkafka", "franz-go-suite")


def is_suite(client):
    return client.startswith("librdkafka") or client.endswith("-suite")


def drive(runner, bootstrap, names, out, extra):
    """One run of the tool; returns its checks by (client, check)."""
    command = [str(runner), bootstrap, "--only", *names, "--out", str(out), *extra]
    subprocess.run(command, check=False, cwd=out.parent)
    return {(c["client"], c["scenario"]): c for c in json.loads(out.read_text())["checks"]}


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("tool", type=pathlib.Path)
    parser.add_argument("--only", nargs="+", default=["*"], metavar="CLIENT[:CHECK]")
    parser.add_argument("--suites", action="store_true", help="the clients' own test suites too")
    parser.add_argument("--exempt", action="store_true", help="what is exempt, and only that")
    parser.add_argument("--bootstrap", help="a node that runs already, instead of one of its own")
    parser.add_argument("--out", type=pathlib.Path, help="keep results and logs there")
    parser.add_argument("--jobs", default="2")
    parser.add_argument("--slow", default="1", help="multiplies the tool's limits")
    arguments = parser.parse_args()

    reason = exemptions()
    baseline = json.loads((arguments.tool / "baseline.json").read_text())["checks"]
    wanted, rows = [], collections.defaultdict(collections.Counter)
    for check in baseline:
        client, name = check["client"], check["scenario"]
        if "@" in client or check["status"] != "ok":
            continue
        if is_suite(client) and client not in arguments.only and not (arguments.suites and client in SUITES):
            continue
        if not any(fnmatch.fnmatchcase(client, o.partition(":")[0]) and fnmatch.fnmatchcase(name, o.partition(":")[2] or "*") for o in arguments.only):
            continue
        rows[client]["kafka"] += 1
        exempt = reason(client, name)
        rows[client]["exempt"] += exempt is not None
        if (exempt is not None) == arguments.exempt:
            wanted.append((client, name))

    out = arguments.out or pathlib.Path(tempfile.mkdtemp(prefix="mq-compat-"))
    out.mkdir(parents=True, exist_ok=True)
    options = ["--set", "auto.create.topics.enable=true", "--set", "num.partitions=4"]
    node = None if arguments.bootstrap else Node(*options)
    try:
        bootstrap = arguments.bootstrap or node.address
        found = {}
        for runner, suites in ((arguments.tool / "run", False), (arguments.tool / "suites" / "run", True)):
            names = [f"{client}:{name}" for client, name in wanted if is_suite(client) == suites]
            if names:
                result = out / ("suites.json" if suites else "clients.json")
                found |= drive(runner.resolve(), bootstrap, names, result.resolve(), ["--jobs", arguments.jobs, "--slow", arguments.slow])
    finally:
        if node:
            node.close()

    failed = []
    for client, name in wanted:
        check = found.get((client, name))
        status = check["status"] if check else "skip"
        rows[client][status] += 1
        if status == "FAIL":
            failed.append(f"{client} {name}: {check['detail'][:300]}")
    print("\n| client | Kafka passes | exempt | passed | failed | not run |\n|---|---|---|---|---|---|")
    for client, row in sorted(rows.items()):
        print(f"| {client} | {row['kafka']} | {row['exempt']} | {row['ok']} | {row['FAIL']} | {row['skip']} |")
    if arguments.exempt:
        stale = [f"{client}:{name}" for client, name in wanted if found.get((client, name), {}).get("status") == "ok"]
        print("\nexempt, and passed all the same: " + (" ".join(stale) or "none"))
        return 0
    for line in failed:
        print("FAILED", line)
    total = sum(rows.values(), collections.Counter())
    print(f"{total['ok']} passed, {total['FAIL']} failed, {total['skip']} skipped")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
