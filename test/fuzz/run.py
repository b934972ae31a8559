#!/usr/bin/env python3
"""`./dev fuzz [TARGET] [SECONDS]`: libFuzzer targets one after the other, with a corpus that stays in the build directory. Exit 1 at a finding."""
import pathlib
import subprocess
import sys

build = pathlib.Path(sys.argv[1]).resolve()
names = [a for a in sys.argv[2:] if not a.isdigit()]
seconds = next((int(a) for a in sys.argv[2:] if a.isdigit()), 60)
there = sorted(p.stem for p in pathlib.Path(__file__).parent.glob("*_fuzz.cc"))
unknown = [n for n in names if n not in there]
if unknown:
    sys.exit(f"dev: there is no fuzz target {unknown[0]}; there are: {' '.join(there)}")
failed = []
for name in names or there:
    corpus = build / "corpus" / name
    corpus.mkdir(parents=True, exist_ok=True)
    subprocess.run([build / "test/fuzz" / name, "--write-seeds", corpus], check=True)
    print(f"{name}: {seconds} s", flush=True)
    result = subprocess.run([build / "test/fuzz" / name, f"-max_total_time={seconds}", f"-artifact_prefix={build}/{name}-", "-print_final_stats=1", corpus])
    if result.returncode != 0:
        failed.append(name)
if failed:
    print(f"findings in {' '.join(failed)}; replay: {build}/test/fuzz/NAME {build}/NAME-crash-...")
sys.exit(1 if failed else 0)
