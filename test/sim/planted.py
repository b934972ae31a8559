#!/usr/bin/env python3
"""Faults planted on purpose, one at a time: whether the simulation finds them.

    test/sim/planted.py [--list] [--seeds 400] [--build build] [NAME...]        in a tree without changes

Each fault is an edit of one source file. It is made, mq_sim is built and runs seeds until a check fails, and the file is
put back. Prints what found it and at which seed. Exit 1 if a fault went unnoticed or could not be planted. A check that
has never failed proves nothing; this is the list for the checks of groups, commits and their storage.
"""
import argparse
import pathlib
import re
import signal
import subprocess
import sys
import time

ROOT = pathlib.Path(__file__).resolve().parents[2]

# name: file, before, after. `before` stands exactly once in the file.
FAULTS = {
    "answers leave before their records are committed": (
        "src/coordinator/runtime.cc", "    if (after <= committed_) {\n      answer();", "    if (after <= written_) {\n      answer();"),
    "a failed append leaves the machine as it is": (
        "src/coordinator/runtime.cc", "      fail(result.failure());", "      committed(revision);"),
    "a load ends one batch too early": (
        "src/coordinator/runtime.cc", "if (batch.nextOffset() > at) apply(", "if (batch.nextOffset() > at && batch.nextOffset() < end) apply("),
    "a load keeps the first value of a key": (
        "src/coordinator/groups.cc", "  group.offsets.set(place.topic,",
        "  if (isLoaded_ || group.offsets.find(place.topic, place.partition) == nullptr)\n    group.offsets.set(place.topic,"),
    "now and then a commit is not written": (
        "src/coordinator/groups.cc", "      effects.records.push_back(offsetRecord(", "      if (now.random.chance(9, 10)) effects.records.push_back(offsetRecord("),
    "what is read need not be committed": (
        "src/coordinator/groups.cc", "  Group& group = found->second;\n  effects.after = std::max(effects.after, group.written);\n",
        "  Group& group = found->second;\n"),
    "a commit of a former generation is taken": (
        "src/coordinator/classic_group.cc",
        "  if (generation != generation_) return Error::illegalGeneration;\n  if (isPlain && state_ == State::completingRebalance)",
        "  if (isPlain && state_ == State::completingRebalance)"),
    "generations do not grow": (
        "src/coordinator/classic_group.cc", "  ++generation_;\n  if (members_.empty())", "  if (members_.empty())"),
    "a partition is given away before it was given back": (
        "src/coordinator/consumer_group.cc", "return owner == owners_.end() || owner->second == forWhom;", "return true || owner->second == forWhom;"),
    "what is to be given back counts as free": (
        "src/coordinator/consumer_state.cc", "  own(id, member.pendingRevocation, true);\n", ""),
    "a member that must give back goes on at once": (
        "src/coordinator/consumer_group.cc", "auto stillOwns = [&](const Assignment& what) { return !what.empty() &&",
        "auto stillOwns = [&](const Assignment& what) { return what.size() > 99 &&"),
    "what a member has is forgotten in a restart": (
        "src/coordinator/groups.cc", "[&](auto* read) { consumer.applyCurrent(key.member, read); }",
        "[&](auto* read) { if (isLoaded_) consumer.applyCurrent(key.member, read); }"),
    "a silent member loses its place too early": (
        "src/coordinator/consumer_group.cc", "  member.sessionEnd = now.instant + session(member, now.image);\n  member.classicEnd.reset();",
        "  member.sessionEnd = now.instant + session(member, now.image) / 8;\n  member.classicEnd.reset();"),
    "a group that changes its protocol forgets who has what": (
        "src/coordinator/consumer_classic.cc",
        "    Assignment has = readAssignment(member.assignment.view(), now.image).value_or(Assignment());",
        "    Assignment has;"),
    "a decided end is forgotten in a restart": (
        "src/coordinator/transactions.cc", "    if (entry.transaction.isEnding()) outbox_->write(", "    if (entry.transaction.isEnding() && id.empty()) outbox_->write("),
    "time is never up for a transaction": (
        "src/coordinator/transactions.cc", "now.wall - transaction.started < transaction.timeoutMs)", "now.wall - transaction.started < transaction.timeoutMs * 1000LL)"),
    "an abort is written as a commit": (
        "src/coordinator/marker_writer.cc", "auto type = marker.commits ? record::ControlType::commit : record::ControlType::abort;",
        "auto type = record::ControlType::commit;"),
    "offsets of a transaction count at once": (
        "src/coordinator/groups_transactions.cc",
        "  pending_.add(producer, {of->group, of->topic, of->partition}, {offset->topicId, committedOffset(*offset)});",
        "  setOffset({of->group, of->topic, of->partition}, offset->topicId, committedOffset(*offset), revision);"),
    "offsets of a committed transaction do not count": (
        "src/coordinator/groups_transactions.cc", "if (committed && !pending.isOvertaken) {", "if (committed && pending.isOvertaken) {"),
    "readers are not told what was aborted": (
        "src/replica/partition.cc", "fetched.aborted = abortedIn(*slice, upTo);", "(void)abortedIn(*slice, upTo);"),
    "a batch joins a transaction that its coordinator does not know of": (
        "src/coordinator/transaction_gate.cc", "    auto allowed = co_await askCoordinator(asked);", "    Result<void> allowed;"),
}


def run(command, **options):
    return subprocess.run(command, cwd=ROOT, capture_output=True, text=True, **options)


def build(directory):
    built = run(["ninja", "-C", directory, "test/sim/cluster/mq_sim"])
    if built.returncode != 0:
        print(built.stdout[-3000:], built.stderr[-1000:], sep="\n", file=sys.stderr)
    return built.returncode == 0


def hunt(directory, seeds):
    """(what was found, at which seed) or None"""
    program = str(pathlib.Path(directory, "test/sim/cluster/mq_sim").resolve())
    ran = run([program, "--runs", str(seeds)], timeout=3600)
    found = re.search(r"seed (\d+): BROKEN: (.*)", ran.stdout)
    if found:
        return found[2][:110], int(found[1])
    return (f"the simulation itself ended with {ran.returncode}: {ran.stderr[-200:]}", -1) if ran.returncode != 0 else None


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--list", action="store_true")
    parser.add_argument("--seeds", type=int, default=400)
    parser.add_argument("--build", default=str(ROOT / "build"))
    parser.add_argument("names", nargs="*", help="parts of names")
    options = parser.parse_args()
    chosen = [name for name in FAULTS if not options.names or any(part in name for part in options.names)]
    if options.list:
        print("\n".join(chosen))
        return 0
    changed = run(["git", "status", "--porcelain", "src"]).stdout
    if changed:
        print(f"src/ has changes, and would be put back without them:\n{changed}", file=sys.stderr)
        return 2
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(1))  # the file is put back on the way
    missed = 0
    for name in chosen:
        path, before, after = FAULTS[name]
        file = ROOT / path
        text = file.read_text()
        if text.count(before) != 1:
            print(f"{name}: STALE, {path} has its text {text.count(before)} times", flush=True)
            missed += 1
            continue
        began = time.monotonic()
        file.write_text(text.replace(before, after))
        try:
            found = hunt(options.build, options.seeds) if build(options.build) else ("it does not compile", -1)
        finally:
            file.write_text(text)
        if found and found[1] >= 0:
            print(f"{name}: found at seed {found[1]} ({time.monotonic() - began:.0f} s): {found[0]}", flush=True)
        else:
            print(f"{name}: MISSED in {options.seeds} seeds{': ' + found[0] if found else ''}", flush=True)
            missed += 1
    build(options.build)
    return 1 if missed else 0


if __name__ == "__main__":
    sys.exit(main())
