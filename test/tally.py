#!/usr/bin/env python3
"""Adds up what `meson test` wrote in the build directories named and closes on `N passed, N failed`.

Exit 1 when something failed, or when a directory has no results at all: a run without tests proves nothing.
"""
import json
import pathlib
import sys

passed, failed, skipped = 0, [], []
for directory in sys.argv[1:]:
    log = pathlib.Path(directory) / "meson-logs" / "testlog.json"
    results = [json.loads(line) for line in log.read_text().splitlines()] if log.exists() else []
    if not results:
        failed.append(f"{directory}: no test ran")
    for result in results:
        name = f"{directory}: {result['name']}"
        if result["result"] in ("OK", "EXPECTEDFAIL"):
            passed += 1
        elif result["result"] == "SKIP":
            skipped.append(name)
        else:
            failed.append(f"{name}: {result['result']}")
for line in skipped:
    print(f"skipped {line}")
for line in failed:
    print(f"FAILED {line}")
print(f"{passed} passed, {len(failed)} failed" + (f", {len(skipped)} skipped" if skipped else ""))
sys.exit(1 if failed else 0)
