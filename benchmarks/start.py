"""What a command costs before and after its work: CPU time of whole processes, compared with `import pyarrow`."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

from measure import Row

ROUNDS = 9
PEER = "python -c 'import pyarrow'"
GOAL = 1 / 1.5
SMALL_TABLE = "tables/9.4.2/chain/table"
"""28 rows in two partitions."""


def start_rows(golden: Path) -> Iterator[Row]:
    """Compare each command on a small table; the least of the rounds counts, as other processes only add time."""
    table = golden / SMALL_TABLE
    commands = {
        "tornproof --help": ("--help",),
        "verify a table of 28 rows": ("verify", table),
        "read a table of 28 rows": ("read", table),
        "inspect its _txn": ("inspect", table / "_txn"),
    }
    programs = {what: ("-m", "tornproof", *map(str, arguments)) for what, arguments in commands.items()}
    seconds: dict[str, list[float]] = {name: [] for name in (*programs, PEER)}
    for _ in range(ROUNDS):
        for what, program in (*programs.items(), (PEER, ("-c", "import pyarrow"))):
            seconds[what].append(_cpu_seconds(program))
    for what in programs:
        yield Row(
            what=f"{what}: CPU time of the process, least of {ROUNDS}",
            peer=PEER,
            ours_ms=min(seconds[what]) * 1e3,
            peer_ms=min(seconds[PEER]) * 1e3,
            rounds=ROUNDS,
            goal=GOAL,
        )


def _cpu_seconds(program: Sequence[str]) -> float:
    """Run Python without output, and return the user and system time of the process and its children."""
    nothing = [(os.POSIX_SPAWN_OPEN, descriptor, os.devnull, os.O_RDWR, 0) for descriptor in (1, 2)]
    # Byte code is kept, as when installed; otherwise this would measure Python's compiler.
    environment: Mapping[str, str] = {**os.environ, "PYTHONDONTWRITEBYTECODE": ""}
    process = os.posix_spawn(sys.executable, [sys.executable, *program], environment, file_actions=nothing)
    _, status, usage = os.wait4(process, 0)
    assert os.waitstatus_to_exitcode(status) == 0, program
    return usage.ru_utime + usage.ru_stime
