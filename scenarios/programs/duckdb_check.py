"""The table can be read, and has whole transactions: as many as were acknowledged, or more."""

import sys
from pathlib import Path

import duckdb

acknowledged = len(Path(sys.argv[2]).read_text().splitlines())
try:
    base = duckdb.connect(f"{sys.argv[1]}/base", config={"threads": 1})
    rows = dict(base.execute("select number, text from rows").fetchall())
except duckdb.CatalogException as error:
    sys.exit(str(error).splitlines()[0] if acknowledged else 0)
except duckdb.Error as error:
    sys.exit(f"{type(error).__name__}: {error}".splitlines()[0].replace(sys.argv[1], "."))
count = len(rows) // 2
if rows.keys() != {*range(count), *range(1000, 1000 + count)}:
    sys.exit("a part of a transaction")
if any(text != "x" * 600 for text in rows.values()):
    sys.exit("a text that was never written")
if count < acknowledged:
    sys.exit("a transaction is lost")
