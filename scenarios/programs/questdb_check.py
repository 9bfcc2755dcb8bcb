"""A server starts, and has the rows in their order: as many as were acknowledged, or more."""

import sys
from pathlib import Path

from questdb_server import served

from tornproof.harness.systems.server.client import ServerError

acknowledged = len(Path(sys.argv[2]).read_text().splitlines())
try:
    with served(sys.argv[1], "nosync") as server:
        found = [row[0] for row in server.execute("select number from rows")]
except ServerError as error:
    sys.exit(str(error).replace("\n", " "))
if found != list(range(len(found))):
    sys.exit(f"rows that were never committed so: {found}")
if len(found) - 1 < acknowledged:
    sys.exit("a row is lost")
