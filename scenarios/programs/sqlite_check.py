"""The file is sound, and holds whole transactions: as many as were acknowledged, or more."""

import sqlite3
import sys
from pathlib import Path

acknowledged = len(Path(sys.argv[2]).read_text().splitlines())
base = sqlite3.connect(f"{sys.argv[1]}/base")
try:
    sound = base.execute("pragma integrity_check").fetchall()
    numbers = {row[0] for row in base.execute("select number from rows")}
except sqlite3.Error as error:
    sys.exit(str(error) if acknowledged or "no such table" not in str(error) else 0)
count = len(numbers) // 2
if sound != [("ok",)]:
    sys.exit(f"not sound: {sound}")
if numbers != {*range(count), *range(1000, 1000 + count)}:
    sys.exit("a part of a transaction")
if count < acknowledged:
    sys.exit("a transaction is lost")
