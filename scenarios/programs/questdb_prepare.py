"""A table with a row; the argument is the commit mode."""

import sys

from questdb_server import served

with served(".", sys.argv[1]) as server:
    server.execute("create table rows (at timestamp, number int) timestamp(at) partition by hour bypass wal")
    server.execute("insert into rows values (0, 0)")
    server.stop()
