#!/usr/bin/env python3
"""Style as a test: layers, the map, banned calls, leftovers, formatting, generated pages.

`tidy.py` checks the tree; `tidy.py --self-test` plants one fault for each check and sees it found.
"""
import os
import pathlib
import re
import shutil
import subprocess
import sys
import tempfile

HERE = pathlib.Path(__file__).resolve().parent
CODE = {".cc", ".h", ".c"}
LINE_MAX = 140  # .clang-format aims at 120; comments and tables may run over a little
FILE_LINES_MAX = 1000

# Calls that only runtime/ (the real world) and commands may make: everything else goes through the seam.
BANNED = [
    (r"\bstd::thread\b|\bpthread_create\b", "threads live in runtime/uv"),
    (r"\bsystem_clock\b|\bsteady_clock\b|\bgettimeofday\b|\bclock_gettime\b|[^\w.>:]time\(", "ask the Shard for the time"),
    (r"(?<!\w)::(?:open|read|write|rename|unlink|fsync)\(|[^\w.>:](?:fsync|fdatasync|pwrite|pread|unlink)\(", "files go through runtime/file.h"),
    (r"\bstd::(?:random_device|mt19937|uniform_)", "chance comes from Shard::random()"),
    (r"\bthread_local\b", "state belongs to a shard"),
    (r"[^\w.>:](?:rand|srand|getenv|system|exit)\(", "no process-wide state above runtime/"),
]
BANNED_EVERYWHERE = [
    (r"\bstrcpy\(|\bsprintf\(|\bgets\(", "unbounded C string call"),
    (r"\b(?:TO" r"DO|FIX" r"ME|XX" r"X)\b", "leftover: finish it or write it down in a README"),
]
FREE_FOLDERS = {"runtime", "cli", "base"}  # where BANNED does not apply (base has none of it but the check hook)


def layers(root):
    """folder -> set of folders it may include."""
    allowed, below = {}, []
    for line in (root / "test/tidy/layers.txt").read_text().splitlines():
        line = line.split("#")[0].strip()
        if not line:
            continue
        names, _, only = line.partition(":")
        row = names.split()
        for name in row:
            pure = name.endswith("!")
            folder = name.rstrip("!")
            allowed[folder] = {folder} | (set(only.split()) or {"base"} if pure else set(below))
        below += [name.rstrip("!") for name in row]
    return allowed


def code_files(root, *tops):
    for top in tops:
        for path in sorted((root / top).rglob("*")):
            if path.suffix in CODE and path.is_file():
                yield path


def without_comments(text):
    text = re.sub(r"/\*.*?\*/", lambda m: "\n" * m.group().count("\n"), text, flags=re.S)
    text = re.sub(r'"(?:[^"\\\n]|\\.)*"', '""', text)
    return re.sub(r"//[^\n]*", "", text)


def check_layers(root):
    allowed = layers(root)
    for path in code_files(root, "src"):
        parts = path.relative_to(root / "src").parts
        folder = parts[0] if len(parts) > 1 else "main"
        if folder != "main" and folder not in allowed:
            yield f"{path}: folder {folder} is not in test/tidy/layers.txt"
            continue
        for number, line in enumerate(path.read_text().splitlines(), 1):
            found = re.match(r'\s*#include "([a-z_]+)/', line)
            if found and folder != "main" and found.group(1) in allowed and found.group(1) not in allowed[folder]:
                yield f"{path}:{number}: {folder}/ may not include {found.group(1)}/ (test/tidy/layers.txt)"


def check_banned(root):
    for path in code_files(root, "src", "plugins", "subprojects"):
        relative = path.relative_to(root)
        folder = relative.parts[1]
        rules = BANNED_EVERYWHERE + ([] if folder in FREE_FOLDERS or relative.parts[0] != "src" else BANNED)
        text = path.read_text()
        code = without_comments(text)
        for rule, why in rules:
            where = text if why.startswith("leftover") else code
            for found in re.finditer(rule, where):
                yield f"{relative}:{where.count(chr(10), 0, found.start() + 1) + 1}: {found.group().strip()}: {why}"


def check_size(root):
    for path in code_files(root, "src", "test", "plugins", "perf"):
        lines = path.read_text().splitlines()
        if len(lines) > FILE_LINES_MAX:
            yield f"{path}: {len(lines)} lines: more than one job?"
        for number, line in enumerate(lines, 1):
            if len(line) > LINE_MAX and "http" not in line and not path.name.endswith("_test.cc"):
                yield f"{path}:{number}: line of {len(line)} characters"
    for path in code_files(root, "src"):
        if path.suffix == ".h" and "#pragma once" not in path.read_text():
            yield f"{path}: no #pragma once"


def check_map(root):
    """src/README.md names each folder of src/, and only those; each has a README."""
    text = (root / "src/README.md").read_text() if (root / "src/README.md").exists() else ""
    named = set(re.findall(r"^\| `([a-z_]+)/` \|", text, flags=re.M))
    real = {p.name for p in (root / "src").iterdir() if p.is_dir()}
    for folder in sorted(real - named):
        yield f"src/README.md does not name {folder}/"
    for folder in sorted(named - real):
        yield f"src/README.md names {folder}/, which does not exist"
    for folder in sorted(real):
        if not (root / "src" / folder / "README.md").exists():
            yield f"src/{folder}/README.md is missing"


def check_dead_files(root):
    """Every source file is built: a .cc that no meson.build names is dead."""
    for top in ("src", "test", "plugins", "perf"):
        if not (root / top).exists():
            continue
        named = "\n".join(p.read_text() for p in [*(root / top).rglob("meson.build"), root / "meson.build"] if p.exists())
        for path in code_files(root, top):
            if path.suffix == ".cc" and path.stem not in named:
                yield f"{path}: no meson.build names it"


def check_machine(root):
    """The repository speaks of mq alone: no paths of one machine."""
    pattern = re.compile(r"(^|[^A-Za-z0-9_.])/(wor" r"k|roo" r"t|far" r"m)/")
    for path in sorted(root.rglob("*")):
        relative = path.relative_to(root)
        if not path.is_file() or relative.parts[0].startswith(("build", ".git", "mq-data")) or ".cache" in relative.parts:
            continue
        if path.suffix in {".xz", ".gz", ".log", ".bin", ".pyc"}:
            continue
        try:
            text = path.read_text()
        except UnicodeDecodeError:
            continue
        for number, line in enumerate(text.splitlines(), 1):
            if pattern.search(line):
                yield f"{relative}:{number}: path of one machine"


def check_format(root):
    tool = shutil.which("clang-format-19")
    if not tool:
        yield "clang-format-19 is not installed"
        return
    files = [str(p) for p in code_files(root, "src", "test", "plugins", "perf")]
    for start in range(0, len(files), 100):
        result = subprocess.run([tool, "--dry-run", "--Werror", *files[start:start + 100]], capture_output=True, text=True)
        for found in sorted(set(re.findall(r"^(\S+?):\d+:\d+: (?:error|warning)", result.stderr, flags=re.M))):
            yield f"{found}: not formatted (./dev format)"


CHECKS = [check_layers, check_banned, check_size, check_map, check_dead_files, check_machine, check_format]


def run(root, checks=CHECKS):
    return [problem for check in checks for problem in check(root)]


def self_test():
    """Each check must find its planted fault, and find nothing in the clean tree."""
    faults = {
        check_layers: ("src/record/a.cc", '#include "storage/log.h"\n'),
        check_banned: ("src/storage/a.cc", "void f() { std::thread t; }\n"),
        check_size: ("src/storage/a.cc", "int " + "x" * 200 + ";\n"),
        check_map: ("src/storage/a.cc", "\n"),
        check_dead_files: ("src/storage/a.cc", "\n"),
        check_machine: ("src/storage/README.md", "see /wor" + "k/main\n"),
        check_format: ("src/storage/a.cc", "int   x ;\n"),
    }
    failures = 0
    for check, (name, text) in faults.items():
        with tempfile.TemporaryDirectory() as directory:
            root = pathlib.Path(directory)
            for top in ("src", "test/tidy", "plugins", "perf", "subprojects"):
                (root / top).mkdir(parents=True)
            shutil.copy(HERE / "layers.txt", root / "test/tidy/layers.txt")
            shutil.copy(HERE.parent.parent / ".clang-format", root / ".clang-format")
            if list(check(root)):
                print(f"{check.__name__} finds something in an empty tree")
                failures += 1
            (root / name).parent.mkdir(parents=True, exist_ok=True)
            (root / name).write_text(text)
            if not list(check(root)):
                print(f"{check.__name__} did not find its planted fault")
                failures += 1
    return failures


if __name__ == "__main__":
    if "--self-test" in sys.argv:
        sys.exit(1 if self_test() else 0)
    problems = run(HERE.parent.parent)
    for problem in problems[:100]:
        print(problem)
    if len(problems) > 100:
        print(f"... and {len(problems) - 100} more")
    sys.exit(1 if problems else 0)
