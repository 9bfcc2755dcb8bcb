"""Everything can be read, and there are whole batches: as many as were acknowledged, or more."""

import sys
from pathlib import Path

import plyvel

acknowledged = len(Path(sys.argv[2]).read_text().splitlines())
try:
    with plyvel.DB(sys.argv[1], create_if_missing=True) as base:
        rows = dict(base)
except (plyvel.Error, OSError) as error:
    sys.exit(f"{type(error).__name__}: {error}".replace(sys.argv[1], "."))
count = len(rows) // 2
if rows.keys() != {b"%s%d" % (part, number) for part in (b"a", b"b") for number in range(count)}:
    sys.exit("a part of a batch, or a batch after one that is lost")
if any(value != b"x" * 600 for value in rows.values()):
    sys.exit("a value that was never written")
if count < acknowledged:
    sys.exit("a batch is lost")
