"""Everything can be read, and there are whole transactions: as many as were acknowledged, or more."""

import sys
from pathlib import Path

import lmdb
from key_values import check

try:
    with lmdb.open(sys.argv[1], map_size=1 << 18, lock=False) as environment, environment.begin() as transaction:
        rows = dict(transaction.cursor())
except lmdb.Error as error:
    sys.exit(f"{type(error).__name__}: {error}")
check(rows, Path(sys.argv[2]))
