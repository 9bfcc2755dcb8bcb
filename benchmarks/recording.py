"""How much slower a program runs while it is recorded: those of `scenarios/programs`, with and without alternately.

The time is that of the program itself, from its start to its end, measured beside it in both cases.
"""

from __future__ import annotations

import statistics
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

from measure import Row

sys.path.insert(0, str(Path(__file__).parent.parent / "tests" / "support"))
from real_programs import Program, missing, programs, words
from recorded_programs import PYTHON, recorded

ROUNDS = 7
LONG_SECONDS = 2.0
"""A program that takes longer runs in one round."""
GOAL = 0.1
CLOCK = (
    "import subprocess, sys, time; begin = time.perf_counter();"
    "code = subprocess.run(sys.argv[2:], stdout=subprocess.DEVNULL).returncode;"
    "open(sys.argv[1], 'w').write(str(time.perf_counter() - begin)); sys.exit(code)"
)


def recording_rows() -> Iterator[Row]:
    """Compare each program, recorded, with itself; without a package or a command it needs, say so and go on."""
    for program in programs().values():
        if reason := missing(program):
            print(f"recording {program.program} is skipped: it {reason}", file=sys.stderr)
        else:
            yield _row(program)


def _row(program: Program) -> Row:
    alone, within = [_seconds(program, is_recorded=False)], [_seconds(program, is_recorded=True)]
    for _ in range(ROUNDS - 1 if alone[0] < LONG_SECONDS else 0):
        alone.append(_seconds(program, is_recorded=False))
        within.append(_seconds(program, is_recorded=True))
    return Row(
        what=f"{program.program} ({program.settings[0].label}) while it is recorded",
        ours_ms=statistics.median(within) * 1e3,
        peer="itself",
        peer_ms=statistics.median(alone) * 1e3,
        rounds=len(alone),
        goal=GOAL,
    )


def _seconds(program: Program, *, is_recorded: bool) -> float:
    """Return how long the program took in a folder of its own."""
    setting = program.settings[0]
    with tempfile.TemporaryDirectory() as name, tempfile.TemporaryDirectory() as other:
        folder, clock = Path(name), Path(other) / "seconds"
        if program.prepare:
            subprocess.run([*words(program.prepare), *setting.arguments], cwd=folder, check=True)
        command = (*PYTHON, "-c", CLOCK, str(clock), *words(program.command), *setting.arguments)
        if is_recorded:
            recorded(folder, *command, acknowledges=program.acknowledges)
        else:
            subprocess.run(command, cwd=folder, check=True)
        return float(clock.read_text())
