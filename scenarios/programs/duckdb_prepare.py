"""An empty database, unless `new` is among the arguments."""

import sys

import duckdb

if "new" not in sys.argv:
    duckdb.connect("base", config={"default_block_size": 16384}).close()
