"""Three transactions; the arguments are the pragmas journal_mode and synchronous."""

import sqlite3
import sys

base = sqlite3.connect("base", isolation_level=None)
base.execute(f"pragma journal_mode = {sys.argv[1]}")
base.execute(f"pragma synchronous = {sys.argv[2]}")
base.execute("create table rows (number integer primary key, text)")
for number in range(3):
    base.execute("begin")
    for part in (0, 1000):
        base.execute("insert into rows values (?, ?)", (part + number, "x" * 600))
    base.execute("commit")
    print("saved", flush=True)
