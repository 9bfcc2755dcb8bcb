"""Everything can be read, and there are whole batches: as many as were acknowledged, or more."""

import sys
from pathlib import Path

import plyvel
from key_values import check

try:
    with plyvel.DB(sys.argv[1], create_if_missing=True) as base:
        rows = dict(base)
except (plyvel.Error, OSError) as error:
    sys.exit(f"{type(error).__name__}: {error}".replace(sys.argv[1], "."))
check(rows, Path(sys.argv[2]))
