#!/usr/bin/env python3
"""Faults planted on purpose, one at a time: whether the simulation finds them.

    test/sim/planted.py [--list] [--seeds 400] [--build build] [NAME...]        in a tree without changes

Each fault is an edit of one source file. It is made, mq_sim is built and runs seeds until a check fails; where none does,
the scenarios of groups and transactions are tried. The file is put back. Prints what found it and at which seed. Exit 1
if a fault went unnoticed or could not be planted. A check that has never failed proves nothing; this is the list for the
checks of groups, commits and their storage.
"""
import pathlib
import re
import sys

import planting

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
        "src/coordinator/offset_records.h", "      effects.records.push_back(offsetRecord(", "      if (now.random.chance(9, 10)) effects.records.push_back(offsetRecord("),
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
        "src/coordinator/transactions.cc", "now.wall - started < transaction.timeoutMs)", "now.wall - started < transaction.timeoutMs * 1000LL)"),
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


TARGETS = ["test/sim/cluster/mq_sim", "test/scenario/groups_scenario", "test/scenario/transactions_scenario"]


def hunt(directory, seeds):
    program = str(pathlib.Path(directory).resolve() / TARGETS[0])
    ran = planting.run([program, "--runs", str(seeds)], timeout=3600)
    if found := re.search(r"seed (\d+): BROKEN: (.*)", ran.stdout):
        return [f"seed {found[1]} ({found[2][:110]})"]
    if ran.returncode != 0:
        return [f"the end of the simulation itself, with {ran.returncode}: {ran.stderr[-200:]}"]
    return planting.broken_scenarios(directory, "groups") + planting.broken_scenarios(directory, "transactions")


if __name__ == "__main__":
    sys.exit(planting.main(__doc__, FAULTS, TARGETS, 400, hunt))
