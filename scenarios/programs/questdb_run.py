"""A row in each of three commits; the argument is the commit mode."""

import sys

from questdb_server import served

with served(".", sys.argv[1]) as server:
    for number in range(1, 4):
        server.execute(f"insert into rows values ({number}, {number})")
        print("saved", flush=True)
    server.stop()
