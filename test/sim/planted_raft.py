#!/usr/bin/env python3
"""Faults of the consensus core, planted one at a time: what finds them.

    test/sim/planted_raft.py [--list] [--seeds 1000] [--build build] [NAME...]        in a tree without changes

Each fault is an edit of one file of src/raft/. It is made, random runs (mq_raft_sim), scenarios and unit tests are tried,
and the file is put back. Prints what found it. Exit 1 if a fault went unnoticed by all of them or could not be planted.
"""
import argparse
import pathlib
import re
import signal
import subprocess
import sys
import time

from planted import ROOT, run

# name: file, before, after. `before` stands exactly once in the file.
FAULTS = {
    "entries of earlier terms commit by counting": (
        "leader.cc", "if (index > commit_ && log_.termAt(index) == hard_.term) setCommit(index);", "if (index > commit_) setCommit(index);"),
    "a vote is given twice": ("election.cc", "      hard_.vote = message.from.id;\n", ""),
    "a vote is forgotten in a restart": (
        "core.cc", "write.hardState = hard_;", "write.hardState = HardState{hard_.term, kNoNode};"),
    "messages leave before the term is durable": (
        "core.cc", "  if (!isDurablyTermed()) return;\n  ready.messages", "  ready.messages"),
    "a vote for a worse log": (
        "election.cc", "bool isGranted = isUpToDate(request.last, log_.last());", "bool isGranted = request.last.index >= log_.lastIndex();"),
    "entries are acknowledged before they are durable": (
        "follower.cc", "int64_t index = std::min(verified_, log_.durableIndex());", "int64_t index = verified_;"),
    "a leader counts itself before its entry is durable": (
        "leader.cc", "id == self_.id ? log_.durableIndex() : followers_.at(id).match;", "id == self_.id ? log_.lastIndex() : followers_.at(id).match;"),
    "what is durable stays so when it is cut off": (
        "log_view.cc", "  handedOut_ = std::min(handedOut_, last_.index);\n", ""),
    "a snapshot is acknowledged before it is durable": (
        "log_view.cc", "  durable_ = handedOut_ = -1;", "  durable_ = handedOut_ = start.index;"),
    "what is committed is applied before it is durable": (
        "core.cc", "std::min(commit_, log_.durableIndex()) + 1; applied_", "commit_ + 1; applied_"),
    "the entry before is not compared": (
        "follower.cc", "if (!log_.has(append.previous)) {", "if (append.previous.index > log_.lastIndex()) {"),
    "a conflicting entry stays": (
        "follower.cc", "return !log_.has({entry.index, entry.term}); };", "return entry.index > log_.lastIndex(); };"),
    "a late append cuts off what came since": (
        "follower.cc", "  if (fresh == entries.end()) return true;\n",
        "  if (fresh == entries.end()) {\n    if (!entries.empty() && entries.back().index < log_.lastIndex() && entries.back().index >= commit_)\n"
        "      log_.truncate(entries.back().index + 1);\n    return true;\n  }\n"),
    "a follower commits what it has, not what it has in common": (
        "follower.cc", "setCommit(std::min(append.commit, end));", "setCommit(std::min(append.commit, log_.lastIndex()));"),
    "a heartbeat tells more than was acknowledged": (
        "leader.cc", "  int64_t commit = std::min(progress.match, commit_);\n", "  int64_t commit = commit_;\n"),
    "a read does not wait for its round": (
        "leader.cc", "id == self_.id ? round_ : followers_.at(id).roundConfirmed;", "id == self_.id || true ? round_ : followers_.at(id).roundConfirmed;"),
    "a new leader reads before it has committed": (
        "leader.cc", "if (reads_.hasAsked() && commit_ >= termStart_) {", "if (reads_.hasAsked()) {"),
    "a read does not wait until all is applied": (
        "read_index.cc", "read.round > roundConfirmed || read.index > applied;", "read.round > roundConfirmed;"),
    "the committed membership counts, not the one in the log": (
        "leader.cc", "  int64_t index = majorityOf(members_.latest(),\n", "  int64_t index = majorityOf(members_.at(commit_),\n"),
    "members change before the term has committed anything": (
        "change.cc", "  if (commit_ < termStart_)\n", "  if (commit_ < 0)\n"),
    "two changes of members at a time": (
        "change.cc", "  if (members_.latestIndex() > commit_)\n", "  if (members_.latestIndex() > commit_ + 1'000'000)\n"),
    "a membership outlives its entry": ("follower.cc", "    members_.truncate(fresh->index);\n", ""),
    "a voter that an uncommitted entry removes is silent": (
        "election.cc", "(isVoter() || committed.isVoter(self_))", "isVoter()"),
    "a removed leader stays": ("change.cc", "  if (isVoter()) return;\n", "  if (isVoter() || true) return;\n"),
    "who is removed is not told": (
        "election.cc", "  send(replica, Removed{index});\n", "  (void)index;\n"),
    "an old rumour silences a member": ("election.cc", "&& removedAt_ <= index;", "&& removedAt_ < 0;"),
    "no pre-vote": ("core.cc", "if (mayCampaign()) return beginPreVote();", "if (mayCampaign()) return beginElection(false);"),
    "a leader that nobody answers stays": ("leader.cc", "  if (now_ >= quorumEnd()) return stepDown();\n", ""),
    "no sticky leader": ("core.cc", "    if (hasLiveLeader() && !vote->isTransfer) return;\n", ""),
    "the candidate of a transfer is ignored": ("core.cc", "if (hasLiveLeader() && !vote->isTransfer) return;", "if (hasLiveLeader()) return;"),
    "leadership goes to one that lacks entries": (
        "change.cc", "found->second.match < log_.lastIndex()) return;", "found->second.match < 0) return;"),
    "what is lost is not sent again": (
        "progress.cc", "  if (!window_.empty() && now - window_.front().at >= patience) probe();\n", ""),
    "a chunk is taken twice": (
        "follower.cc", "  if (chunk.offset == incoming_->data.size())\n", "  if (chunk.offset <= incoming_->data.size())\n"),
    "a snapshot forgets the members": (
        "follower.cc", "  members_.reset(id.index, incoming.snapshot.members);\n", "  members_.reset(id.index, members_.latest());\n"),
    "the window is not bounded": (
        "progress.cc", "return window_.size() < options.windowMessagesMax && windowBytes_ < options.windowBytesMax;", "return true;"),
    "uncommitted entries are not bounded": (
        "leader.cc", "  if (uncommittedBytes_ + cost > options_.uncommittedBytesMax)\n", "  if (uncommittedBytes_ + cost > 1'000'000'000)\n"),
    "two writes at a time": ("core.cc", "  if (writing_) return;\n", ""),
    "nobody notices that the log contradicts what is committed": (
        "follower.cc", "if (fresh->index <= std::max(commit_, verified_)) {", "if (fresh->index <= 0) {"),
    "a wiped replica is taken for the old one": (
        "core.cc", "message.to != self_ ||", "message.to.id != self_.id ||"),
}
SCENARIOS = sorted(path.name for path in (ROOT / "test/scenario/raft").glob("*.txt"))
TARGETS = ["test/sim/raft/mq_raft_sim", "test/scenario/raft_scenario", "test/unit/raft/raft_test"]


def build(directory):
    built = run(["ninja", "-C", directory, *TARGETS])
    if built.returncode != 0:
        print(built.stdout[-3000:], built.stderr[-1000:], sep="\n", file=sys.stderr)
    return built.returncode == 0


def in_time(command, seconds):
    try:
        return run(command, timeout=seconds)
    except subprocess.TimeoutExpired:
        return None


def hunt(directory, seeds):
    """(what random runs said or None, names of scenarios, whether a unit test failed)"""
    program = pathlib.Path(directory).resolve()
    ran = in_time([str(program / TARGETS[0]), "--runs", str(seeds)], 600)
    found = ran and re.search(r"seed (\d+): BROKEN: (.*)", ran.stdout)
    if found:
        random = f"seed {found[1]}: {found[2][:90]}"
    else:
        random = "does not end" if ran is None else f"ended with {ran.returncode}" if ran.returncode else None
    differ = []
    for name in SCENARIOS:
        ran = in_time([str(program / TARGETS[1]), str(ROOT / "test/scenario/raft" / name)], 30)
        if ran is None or ran.returncode != 0:
            differ.append(name.removesuffix(".txt"))
    unit = in_time([str(program / TARGETS[2])], 60)
    return random, differ, unit is None or unit.returncode != 0


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--list", action="store_true")
    parser.add_argument("--seeds", type=int, default=1000)
    parser.add_argument("--build", default=str(ROOT / "build"))
    parser.add_argument("names", nargs="*", help="parts of names")
    options = parser.parse_args()
    chosen = [name for name in FAULTS if not options.names or any(part in name for part in options.names)]
    if options.list:
        print("\n".join(chosen))
        return 0
    if changed := run(["git", "status", "--porcelain", "src/raft"]).stdout:
        print(f"src/raft/ has changes, and would be put back without them:\n{changed}", file=sys.stderr)
        return 2
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(1))  # the file is put back on the way
    missed = by_random = 0
    for name in chosen:
        path, before, after = FAULTS[name]
        file = ROOT / "src/raft" / path
        text = file.read_text()
        if text.count(before) != 1:
            print(f"{name}: STALE, {path} has its text {text.count(before)} times", flush=True)
            missed += 1
            continue
        began = time.monotonic()
        file.write_text(text.replace(before, after))
        try:
            random, differ, unit = hunt(options.build, options.seeds) if build(options.build) else (None, [], False)
        finally:
            file.write_text(text)
        by_random += random is not None
        found = [f"runs ({random})"] * (random is not None) + [f"scenarios ({' '.join(differ)})"] * bool(differ) + ["unit"] * unit
        missed += not found
        print(f"{name}: {', '.join(found) or 'MISSED'} ({time.monotonic() - began:.0f} s)", flush=True)
    build(options.build)
    print(f"{len(chosen)} faults, {by_random} found by random runs, {missed} missed")
    return 1 if missed else 0


if __name__ == "__main__":
    sys.exit(main())
