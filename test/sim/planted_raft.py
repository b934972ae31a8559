#!/usr/bin/env python3
"""Faults of the consensus core, planted one at a time: what finds them.

    test/sim/planted_raft.py [--list] [--seeds 1000] [--build build] [NAME...]        in a tree without changes

Each fault is an edit of one file of src/raft/. It is made, random runs (mq_raft_sim), scenarios and unit tests are tried,
and the file is put back. Prints what found it. Exit 1 if a fault went unnoticed by all of them or could not be planted.
"""
import pathlib
import re
import sys

import planting

# name: file, before, after. `before` stands exactly once in the file.
FAULTS = {
    "entries of earlier terms commit by counting": (
        "src/raft/leader.cc", "if (index > commit_ && log_.termAt(index) == hard_.term) setCommit(index);", "if (index > commit_) setCommit(index);"),
    "a vote is given twice": ("src/raft/election.cc", "      hard_.vote = message.from.id;\n", ""),
    "a vote is forgotten in a restart": (
        "src/raft/core.cc", "write.hardState = hard_;", "write.hardState = HardState{hard_.term, kNoNode};"),
    "messages leave before the term is durable": (
        "src/raft/core.cc", "  if (!isDurablyTermed()) return;\n  ready.messages", "  ready.messages"),
    "a vote for a worse log": (
        "src/raft/election.cc", "bool isGranted = isUpToDate(request.last, log_.last());", "bool isGranted = request.last.index >= log_.lastIndex();"),
    "entries are acknowledged before they are durable": (
        "src/raft/follower.cc", "int64_t index = std::min(verified_, log_.durableIndex());", "int64_t index = verified_;"),
    "a leader counts itself before its entry is durable": (
        "src/raft/leader.cc", "id == self_.id ? log_.durableIndex() : followers_.at(id).match;", "id == self_.id ? log_.lastIndex() : followers_.at(id).match;"),
    "what is durable stays so when it is cut off": (
        "src/raft/log_view.cc", "  handedOut_ = std::min(handedOut_, last_.index);\n", ""),
    "a snapshot is acknowledged before it is durable": (
        "src/raft/log_view.cc", "  durable_ = handedOut_ = -1;", "  durable_ = handedOut_ = start.index;"),
    "what is committed is applied before it is durable": (
        "src/raft/core.cc", "std::min(commit_, log_.durableIndex()) + 1; applied_", "commit_ + 1; applied_"),
    "the entry before is not compared": (
        "src/raft/follower.cc", "if (!log_.has(append.previous)) {", "if (append.previous.index > log_.lastIndex()) {"),
    "a conflicting entry stays": (
        "src/raft/follower.cc", "return !log_.has({entry.index, entry.term}); };", "return entry.index > log_.lastIndex(); };"),
    "a late append cuts off what came since": (
        "src/raft/follower.cc", "  if (fresh == entries.end()) return true;\n",
        "  if (fresh == entries.end()) {\n    if (!entries.empty() && entries.back().index < log_.lastIndex() && entries.back().index >= commit_)\n"
        "      log_.truncate(entries.back().index + 1);\n    return true;\n  }\n"),
    "a follower commits what it has, not what it has in common": (
        "src/raft/follower.cc", "setCommit(std::min(append.commit, end));", "setCommit(std::min(append.commit, log_.lastIndex()));"),
    "a heartbeat tells more than was acknowledged": (
        "src/raft/leader.cc", "  int64_t commit = std::min(progress.match, commit_);\n", "  int64_t commit = commit_;\n"),
    "a read does not wait for its round": (
        "src/raft/leader.cc", "id == self_.id ? round_ : followers_.at(id).roundConfirmed;", "id == self_.id || true ? round_ : followers_.at(id).roundConfirmed;"),
    "a new leader reads before it has committed": (
        "src/raft/leader.cc", "if (reads_.hasAsked() && commit_ >= termStart_) {", "if (reads_.hasAsked()) {"),
    "a read does not wait until all is applied": (
        "src/raft/read_index.cc", "read.round > roundConfirmed || read.index > applied;", "read.round > roundConfirmed;"),
    "the committed membership counts, not the one in the log": (
        "src/raft/leader.cc", "  int64_t index = majorityOf(members_.latest(),\n", "  int64_t index = majorityOf(members_.at(commit_),\n"),
    "members change before the term has committed anything": (
        "src/raft/change.cc", "  if (commit_ < termStart_)\n", "  if (commit_ < 0)\n"),
    "two changes of members at a time": (
        "src/raft/change.cc", "  if (members_.latestIndex() > commit_)\n", "  if (members_.latestIndex() > commit_ + 1'000'000)\n"),
    "a membership outlives its entry": ("src/raft/follower.cc", "    members_.truncate(fresh->index);\n", ""),
    "a voter that an uncommitted entry removes is silent": (
        "src/raft/election.cc", "(isVoter() || committed.isVoter(self_))", "isVoter()"),
    "a removed leader stays": ("src/raft/change.cc", "  if (isVoter()) return;\n", "  if (isVoter() || true) return;\n"),
    "who is removed is not told": (
        "src/raft/election.cc", "  send(replica, Removed{index});\n", "  (void)index;\n"),
    "an old rumour silences a member": ("src/raft/election.cc", "&& removedAt_ <= index;", "&& removedAt_ < 0;"),
    "no pre-vote": ("src/raft/core.cc", "if (mayCampaign()) return beginPreVote();", "if (mayCampaign()) return beginElection(false);"),
    "a leader that nobody answers stays": ("src/raft/leader.cc", "  if (now_ >= quorumEnd()) return stepDown();\n", ""),
    "no sticky leader": ("src/raft/core.cc", "    if (hasLiveLeader() && !vote->isTransfer) return;\n", ""),
    "the candidate of a transfer is ignored": ("src/raft/core.cc", "if (hasLiveLeader() && !vote->isTransfer) return;", "if (hasLiveLeader()) return;"),
    "leadership goes to one that lacks entries": (
        "src/raft/change.cc", "found->second.match < log_.lastIndex()) return;", "found->second.match < 0) return;"),
    "what is lost is not sent again": (
        "src/raft/progress.cc", "  if (!window_.empty() && now - window_.front().at >= patience) probe();\n", ""),
    "a chunk is taken twice": (
        "src/raft/follower.cc", "  if (chunk.offset == incoming_->data.size())\n", "  if (chunk.offset <= incoming_->data.size())\n"),
    "a snapshot forgets the members": (
        "src/raft/follower.cc", "  members_.reset(id.index, incoming.snapshot.members);\n", "  members_.reset(id.index, members_.latest());\n"),
    "the window is not bounded": (
        "src/raft/progress.cc", "return window_.size() < options.windowMessagesMax && windowBytes_ < options.windowBytesMax;", "return true;"),
    "uncommitted entries are not bounded": (
        "src/raft/leader.cc", "  if (uncommittedBytes_ + cost > options_.uncommittedBytesMax)\n", "  if (uncommittedBytes_ + cost > 1'000'000'000)\n"),
    "two writes at a time": ("src/raft/core.cc", "  if (writing_) return;\n", ""),
    "nobody notices that the log contradicts what is committed": (
        "src/raft/follower.cc", "if (fresh->index <= std::max(commit_, verified_)) {", "if (fresh->index <= 0) {"),
    "a wiped replica is taken for the old one": (
        "src/raft/core.cc", "message.to != self_ ||", "message.to.id != self_.id ||"),
}
TARGETS = ["test/sim/raft/mq_raft_sim", "test/scenario/raft_scenario", "test/unit/raft/raft_test"]


def hunt(directory, seeds):
    program = pathlib.Path(directory).resolve()
    ran = planting.in_time([str(program / TARGETS[0]), "--runs", str(seeds)], 600)
    found = []
    if ran is None:
        found.append("runs (without end)")
    elif broken := re.search(r"seed (\d+): BROKEN: (.*)", ran.stdout):
        found.append(f"runs (seed {broken[1]}: {broken[2][:90]})")
    elif ran.returncode:
        found.append(f"runs (ended with {ran.returncode})")
    unit = planting.in_time([str(program / TARGETS[2])], 60)
    return found + planting.broken_scenarios(directory, "raft") + ["unit tests"] * (unit is None or unit.returncode != 0)


if __name__ == "__main__":
    sys.exit(planting.main(__doc__, FAULTS, TARGETS, 1000, hunt))
