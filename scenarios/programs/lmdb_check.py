"""Everything can be read, and there are whole transactions: as many as were acknowledged, or more."""

import sys
from pathlib import Path

import lmdb

acknowledged = len(Path(sys.argv[2]).read_text().splitlines())
if not acknowledged and not Path(sys.argv[1], "data.mdb").exists():
    sys.exit()
try:
    with lmdb.open(sys.argv[1], map_size=1 << 18, lock=False) as environment, environment.begin() as transaction:
        rows = dict(transaction.cursor())
except lmdb.Error as error:
    sys.exit(f"{type(error).__name__}: {error}")
count = len(rows) // 2
if rows.keys() != {b"%s%d" % (part, number) for part in (b"a", b"b") for number in range(count)}:
    sys.exit("a part of a transaction")
if any(value != b"x" * 600 for value in rows.values()):
    sys.exit("a value that was never written")
if count < acknowledged:
    sys.exit("a transaction is lost")
