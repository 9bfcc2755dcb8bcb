"""Three values; the argument is appendfsync."""

import sys

from redis_server import answer, served

with served(".", sys.argv[1]) as connection:
    for number in range(3):
        if answer(connection, f"set key{number} {'x' * 600}") != "+OK":
            sys.exit("not set")
        print("saved", flush=True)
