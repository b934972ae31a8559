#!/usr/bin/env python3
"""Runs the test functions of a module: run.py FILE [NAME...]. Each prints ok, skipped (it raised Skip, and why) or FAILED; exit 1 if any failed, 77 if it skipped all."""
import importlib.util
import pathlib
import sys
import time
import traceback
import unittest

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent))


def main():
    path = pathlib.Path(sys.argv[1]).resolve()
    sys.path.insert(0, str(path.parent))
    spec = importlib.util.spec_from_file_location(path.stem, path)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    names = sys.argv[2:] or [name for name in vars(module) if name.startswith("test_")]
    failed = skipped = 0
    for name in names:
        begin = time.monotonic()
        try:
            getattr(module, name)()
            print(f"ok      {name} ({time.monotonic() - begin:.1f} s)", flush=True)
        except unittest.SkipTest as why:
            skipped += 1
            print(f"skipped {name}: {why}", flush=True)
        except Exception:
            failed += 1
            print(f"FAILED  {name} ({time.monotonic() - begin:.1f} s)", flush=True)
            traceback.print_exc(file=sys.stdout)
    passed = len(names) - failed - skipped
    print(f"{passed} passed, {failed} failed, {skipped} skipped")
    return 1 if failed or not names else 0 if passed else 77


if __name__ == "__main__":
    sys.exit(main())
