"""Verifying and reading a table in a process of its own, to see what the process takes at most.

Run as a script it starts such a process and waits for it: the operating system starts to count with the size of the
process that starts another, and this one is small.
"""

import json
import resource
import subprocess
import sys
from pathlib import Path
from typing import Any

MEBIBYTE = 1 << 20
KIBIBYTE = 1 << 10
HANG_SECONDS = 900  # not from another module: this process has to stay small
WORK = """
import json, sys
from tornproof.impl.errors import ProblemError
from tornproof.impl.storage.operating_system import OperatingSystemStorage
from tornproof.impl.read.reader import open_snapshot
from tornproof.impl.table.table import open_table
from tornproof.impl.verify.verify import verify_table

def tried(action):
    try:
        return action()
    except ProblemError as error:
        return [type(error).__name__, error.problem.file, error.problem.field]

def verify():
    report = verify_table(open_table(storage, sys.argv[1]))
    return [report.sound, sorted({problem.field for problem in report.all_problems}), report.counts.thrift_footers]

def read():
    rows = largest_bytes = 0
    for batch in open_snapshot(open_table(storage, sys.argv[1])).batches(sys.argv[2:] or None):
        rows += batch.num_rows
        largest_bytes = max(largest_bytes, batch.nbytes)
    return [rows, largest_bytes]

storage = OperatingSystemStorage()
print(json.dumps([tried(verify), tried(read)]))
"""


def cost_of(table: Path, *columns: str) -> tuple[Any, Any, float]:
    """Return what verifying and reading (those columns, or all) gave, and the most memory that it took, in MiB."""
    command = [sys.executable, __file__, str(table), *columns]
    done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=HANG_SECONDS)
    assert done.returncode == 0, done.stderr
    verified, read, peak_bytes = json.loads(done.stdout)
    return verified, read, peak_bytes / MEBIBYTE


def main() -> None:
    """Print the child's two results and its largest size in bytes, as JSON."""
    done = subprocess.run([sys.executable, "-c", WORK, *sys.argv[1:]], stdout=subprocess.PIPE, text=True, check=True)
    peak_bytes = resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss * KIBIBYTE
    print(json.dumps([*json.loads(done.stdout), peak_bytes]))


if __name__ == "__main__":
    main()
