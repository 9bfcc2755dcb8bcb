"""Writes docs/performance.md from the results of `make bench` and `make bench-pipeline` in benchmarks/results/."""

from __future__ import annotations

import os
import platform
from dataclasses import dataclass
from importlib.metadata import version
from pathlib import Path

import msgspec
from measure import Row
from simulator import Rate

HERE = Path(__file__).parent
RESULTS = HERE / "results" / "latest.json"
PIPELINE_RESULTS = HERE / "results" / "pipeline.txt"
DOCUMENT = HERE.parent / "docs" / "performance.md"
INTRODUCTION = """\
# Performance

Made by `make bench`: do not edit. Every comparison runs both sides in turns in one process, on warm caches and real
files, and takes the median of {rounds} rounds (one for programs of seconds). A ratio above 1 says how many times as
fast we are; a goal is what the project set itself.

Measured on {machine}.

"""
SIMULATOR = """\
The simulator, on one core, in CPU time. *Before* is the rate at the last commit before searches were made faster, by
the same benchmark, in turns with the first measurement after it."""
PIPELINE = """
## The pipeline

What `make bench-pipeline` said last:

```
{said}
```
"""


@dataclass(frozen=True, slots=True, kw_only=True)
class Results:
    """The results of one run: machine, comparisons, and the simulator's rates."""

    machine: str
    rows: list[Row]
    rates: list[Rate]

    def as_json(self) -> str:
        """Return the results as JSON with a line for each number."""
        return msgspec.json.format(msgspec.json.encode(self), indent=1).decode() + "\n"

    @classmethod
    def of_json(cls, text: str) -> Results:
        """Return the results in a JSON text."""
        return msgspec.json.decode(text, type=cls)


def this_machine() -> str:
    """Return processor, cores, and relevant versions."""
    cores = len(os.sched_getaffinity(0))
    libraries = ", ".join(f"{name} {version(name)}" for name in ("pyarrow", "isal"))
    return f"{_processor()}, {cores} cores, Python {platform.python_version()}, {libraries}"


def document(results: Results) -> str:
    """Return the text of docs/performance.md."""
    rounds = max(row.rounds for row in results.rows)
    lines = ["| what | ms | peer | peer ms | times as fast | goal |", "| --- | ---: | --- | ---: | ---: | ---: |"]
    for row in results.rows:
        goal = "" if row.goal is None else f"{row.goal:,.4g}" + ("" if row.is_met else ", missed")
        lines.append(
            f"| {row.what} | {row.ours_ms:,.3f} | {row.peer} | {row.peer_ms:,.3f} | {row.times_as_fast:,.2f} | {goal} |"
        )
    lines += ["", SIMULATOR, "", "| what | count | CPU seconds | a second | goal | before | note |"]
    lines.append("| --- | ---: | ---: | ---: | ---: | ---: | --- |")
    for rate in results.rates:
        goal = "" if rate.goal is None else f"{rate.goal:,}" + ("" if rate.per_second >= rate.goal else ", missed")
        before = "" if rate.before is None else f"{rate.before:,}"
        lines.append(
            f"| {rate.what} | {rate.count:,} | {rate.seconds:.2f} | {rate.per_second:,.0f} | {goal} | {before} "
            f"| {rate.note} |"
        )
    text = INTRODUCTION.format(rounds=rounds, machine=results.machine) + "\n".join(lines) + "\n"
    return text + (PIPELINE.format(said=PIPELINE_RESULTS.read_text().strip()) if PIPELINE_RESULTS.exists() else "")


def write_document() -> None:
    """Write the page from the stored results."""
    DOCUMENT.write_text(document(Results.of_json(RESULTS.read_text())))


def _processor() -> str:
    information = Path("/proc/cpuinfo")
    if information.exists():
        for line in information.read_text().splitlines():
            if line.startswith("model name"):
                return line.partition(":")[2].strip()
    return platform.machine()


if __name__ == "__main__":
    write_document()
