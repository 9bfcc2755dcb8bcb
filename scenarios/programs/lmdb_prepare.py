"""An empty environment, unless `new` is among the arguments."""

import sys

import lmdb

if "new" not in sys.argv:
    with lmdb.open(".", map_size=1 << 18, lock=False) as environment:
        environment.sync(True)
