"""One inspected partition on its table's page: its generations, and maps of its files."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace

from markupsafe import Markup

from tornproof.reports.kit.byte_map import Mark, byte_map
from tornproof.reports.table.chain import Chain, Generation, read_chain
from tornproof.reports.table.fields import FORMAT, Partition, Problem, TableFields
from tornproof.reports.table.ranges import data_ranges, pm_ranges
from tornproof.reports.table.states import ORPHAN, STATES, FileRanges, coarsened

GENERATIONS_SHOWN = 30
PROBLEMS_READ_MAX = 200
NUMBERS_SHOWN = 12
OTHERS_MARKED = 8
"""Most problems that only `inspect` reports are consequences of others."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Inspected:
    """The inspection of a partition; `others` are problems that `verify` did not report.

    `error` says why it is incomplete, and `is_cut` whether the document was too large and shortened.
    """

    partition: Partition
    chain: Chain
    files: tuple[FileRanges, ...]
    others: tuple[Problem, ...]
    error: str
    is_cut: bool

    @property
    def orphan_bytes(self) -> int:
        """Bytes of generations that were never committed."""
        return sum(file.bytes_in(ORPHAN) for file in self.files)

    def file_of(self, problem: Problem) -> FileRanges | None:
        """Return the file of a problem, if it was inspected."""
        name = _file_name(problem.file)
        return next((file for file in self.files if file.name == name), None)

    def maps(self, count_max: int) -> list[Markup]:
        """Return the byte maps of the files, of at most `count_max` ranges each, with the problems marked."""
        maps = []
        for file in self.files:
            ranges, is_coarse = coarsened(file.ranges, count_max)
            marks = [
                Mark(start=problem.offset_bytes, end=problem.offset_bytes + 1, label=f"problem {problem.number}")
                for problem in (*self.partition.problems, *self.others[:OTHERS_MARKED])
                if problem.offset_bytes is not None and self.file_of(problem) is file
            ]
            name = f"{self.partition.name}/{file.name}"
            maps.append(byte_map(name, file.size_bytes, ranges, marks=marks, states=STATES, coarse=is_coarse))
        return maps

    def states(self) -> Iterator[str]:
        """Yield the states that the maps show."""
        for file in self.files:
            yield from (each.state for each in file.ranges)


@dataclass(frozen=True, slots=True, kw_only=True)
class GenerationRow:
    """A generation with its state, and the row groups in use that it wrote."""

    generation: Generation
    part: str
    wrote: str


def read_inspected(document: object, partition: Partition, version: int | None, *, file: str, path: str) -> Inspected:
    """Read the document of an inspection; raises ResultError for another document."""
    fields = TableFields(document, file=file, path=path)
    fields.demand_format(FORMAT)
    chain, files = Chain(), []
    if "pm" in fields:
        pm = fields.inner("pm")
        chain = read_chain(pm, partition.token, version)
        files.append(pm_ranges(pm, chain))
    if "data" in fields:
        files.append(data_ranges(fields.inner("data"), chain))
    found = [each.record(Problem, number=0) for each in fields.inners("problems", PROBLEMS_READ_MAX)]
    return Inspected(
        partition=partition,
        chain=chain,
        files=tuple(files),
        others=tuple(_unnamed(found, partition)),
        error=fields.text("error", ""),
        is_cut=fields.flag("cut", False),
    )


def numbered_on(inspections: Iterable[Inspected], first: int) -> list[Inspected]:
    """Return the inspections with their other problems numbered from `first`."""
    numbered = []
    for each in inspections:
        others = tuple(replace(problem, number=number) for number, problem in enumerate(each.others, first))
        numbered.append(replace(each, others=others))
        first += len(others)
    return numbered


def generation_rows(chain: Chain) -> list[GenerationRow]:
    """Return at most GENERATIONS_SHOWN generations, newest first, the committed one among them."""
    wrote: dict[int, list[int]] = {}
    for group in chain.row_groups:
        wrote.setdefault(group.writer, []).append(group.index)
    start = max(0, (chain.resolved or 0) - GENERATIONS_SHOWN // 2)
    kept = [each for each in chain.generations if each.index >= start][:GENERATIONS_SHOWN]
    return [
        GenerationRow(generation=each, part=_part(chain, each.index), wrote=_runs(wrote.get(each.index, [])))
        for each in kept
    ]


def _part(chain: Chain, index: int) -> str:
    if index == chain.resolved:
        return "committed" if chain.is_committed else "looked at"
    if chain.is_above(index):
        return chain.state_above(index)
    return "older"


def _runs(numbers: list[int]) -> str:
    """Return numbers as runs: `0, 3–5`."""
    runs: list[list[int]] = []
    for number in sorted(numbers):
        if runs and number == runs[-1][1] + 1:
            runs[-1][1] = number
        else:
            runs.append([number, number])
    shown = [str(first) if first == last else f"{first}–{last}" for first, last in runs[:NUMBERS_SHOWN]]
    return ", ".join(shown) + (f" and {len(runs) - NUMBERS_SHOWN} more runs" if len(runs) > NUMBERS_SHOWN else "")


def _unnamed(found: Iterable[Problem], partition: Partition) -> Iterator[Problem]:
    """Yield the problems that `verify` did not report, each once."""
    named = {(_file_name(each.file), each.field, each.offset_bytes) for each in partition.problems}
    for problem in found:
        key = (_file_name(problem.file), problem.field, problem.offset_bytes)
        if key not in named:
            named.add(key)
            yield replace(problem, file=f"{partition.name}/{key[0]}")


def _file_name(path: str) -> str:
    return path.rpartition("/")[2]
