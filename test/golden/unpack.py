#!/usr/bin/env python3
"""unpack.py IN.xz OUT: what xz -d does, without needing xz."""
import lzma
import shutil
import sys

with lzma.open(sys.argv[1]) as packed, open(sys.argv[2], "wb") as plain:
    shutil.copyfileobj(packed, plain)
