"""Three transactions; the arguments are a setting and its value."""

import sys

import duckdb

base = duckdb.connect("base", config={"threads": 1, "default_block_size": 16384})
base.execute(f"set {sys.argv[1]} = '{sys.argv[2]}'")
base.execute("create table rows (number integer, text varchar)")
for number in range(3):
    base.begin()
    for part in (0, 1000):
        base.execute("insert into rows values (?, ?)", [part + number, "x" * 600])
    base.commit()
    print("saved", flush=True)
base.close()
