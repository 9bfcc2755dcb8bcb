"""A server starts from the file, and has the first values: as many as were acknowledged, or more."""

import sys
from pathlib import Path

from redis_server import answer, served

acknowledged = len(Path(sys.argv[2]).read_text().splitlines())
try:
    with served(sys.argv[1], "no") as connection:
        found = [answer(connection, f"strlen key{number}") for number in range(3)]
except OSError as error:
    sys.exit(f"the server does not start: {error}")
count = found.count(":600")
if found != [":600"] * count + [":0"] * (3 - count):
    sys.exit(f"values that were never set so: {found}")
if count < acknowledged:
    sys.exit("a value is lost")
