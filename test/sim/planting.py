"""What planted*.py share: plant one fault of a list after the other, build, hunt, put the file back.

A fault is name -> (file below the root, a text that is in it once, what takes its place).
"""
import argparse
import pathlib
import signal
import subprocess
import sys
import time

ROOT = pathlib.Path(__file__).resolve().parents[2]


def run(command, **options):
    return subprocess.run(command, cwd=ROOT, capture_output=True, text=True, **options)


def is_there(fault):
    path, before, _ = fault
    return (ROOT / path).read_text().count(before) == 1


def build(directory, targets):
    built = run(["ninja", "-C", directory, *targets])
    if built.returncode != 0:
        print(built.stdout[-3000:], built.stderr[-1000:], sep="\n", file=sys.stderr)
    return built.returncode == 0


def in_time(command, seconds):
    """What it came to; None: it did not end."""
    try:
        return run(command, timeout=seconds)
    except subprocess.TimeoutExpired:
        return None


def broken_scenarios(directory, folder):
    program = str(pathlib.Path(directory).resolve() / f"test/scenario/{folder}_scenario")
    names = []
    for path in sorted((ROOT / "test/scenario" / folder).glob("*.txt")):
        ran = in_time([program, str(path)], 30)
        if ran is None or ran.returncode != 0:
            names.append(path.stem)
    return [f"scenarios ({' '.join(names)})"] if names else []


def main(doc, faults, targets, seeds, hunt):
    """`hunt(build directory, seeds)`: what found the fault, in words, a list; empty: nothing did. 1: one was missed."""
    parser = argparse.ArgumentParser(description=doc, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--list", action="store_true")
    parser.add_argument("--seeds", type=int, default=seeds)
    parser.add_argument("--build", default=str(ROOT / "build"))
    parser.add_argument("names", nargs="*", help="parts of names")
    options = parser.parse_args()
    chosen = [name for name in faults if not options.names or any(part in name for part in options.names)]
    if options.list:
        stale = [name for name in chosen if not is_there(faults[name])]
        print("\n".join(f"{name}{': STALE, its text is not once in its file' if name in stale else ''}" for name in chosen))
        return 1 if stale else 0
    if changed := run(["git", "status", "--porcelain", "src"]).stdout:
        print(f"src/ has changes, and would be put back without them:\n{changed}", file=sys.stderr)
        return 2
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(1))  # the file is put back on the way
    missed = 0
    for name in chosen:
        path, before, after = faults[name]
        file = ROOT / path
        if not is_there(faults[name]):
            print(f"{name}: STALE, {path} has not its text once", flush=True)
            missed += 1
            continue
        text = file.read_text()
        began = time.monotonic()
        file.write_text(text.replace(before, after))
        try:
            compiles = build(options.build, targets)
            found = hunt(options.build, options.seeds) if compiles else []
        finally:
            file.write_text(text)
        missed += not found
        said = f"found by {', '.join(found)}" if found else "MISSED" if compiles else "does not compile"
        print(f"{name}: {said} ({time.monotonic() - began:.0f} s)", flush=True)
    build(options.build, targets)
    print(f"{len(chosen)} faults, {missed} missed")
    return 1 if missed else 0
