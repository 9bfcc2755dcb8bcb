"""The files of a campaign's directory: its spec, its final result, and the results of its tasks."""

from __future__ import annotations

import functools
import itertools
import re
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from tornproof.reports.kit.json_fields import Fields, ResultError, read_document, shortened, visible
from tornproof.reports.kit.page import VERDICTS

CAMPAIGN_FILE = "campaign.json"
SUMMARY_FILE = "summary.json"
RESULTS = "results"
FORMAT = 2
GROUPS_MAX = 1000
ROWS_A_FILE_MAX = 100_000
"""A spec allows no larger tasks."""
BYTES_A_FILE_MAX = 1 << 30
"""Larger files, by their own footer, are not read."""
NAME_CHARACTERS_MAX = 120
SENTENCE_CHARACTERS_MAX = 400
CELL = ("scenario", "preset", "fault")
TEXTS = (*CELL, "verdict", "property", "part", "kind", "sentence", "injected_fault", "model", "step", "disk", "error")
NUMBERS = ("seed", "step_count", "event_count")
REACHED = "reached"
REACHED_PATH = f"{REACHED}.list.element"
COLUMNS = (*TEXTS, *NUMBERS, REACHED)
_TASK_FILE = re.compile(r"task-(\d{7,12})\.parquet")
_TYPES: dict[str, Any] = {
    **dict.fromkeys(TEXTS, pa.string()),
    **dict.fromkeys(NUMBERS, pa.int64()),
    REACHED: pa.list_(pa.string()),
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Group:
    """A group of the spec; one of the controls with which every campaign begins is in no spec, and has no seeds."""

    name: str
    is_control: bool
    first_seed: int | None = None
    seed_count: int | None = None
    seeds_a_task: int | None = None
    watches_steps: bool = False

    @property
    def seeds(self) -> str:
        """The first and last seed as text, empty if not known."""
        if self.first_seed is None or self.seed_count is None:
            return ""
        return f"{self.first_seed:,} to {self.first_seed + self.seed_count - 1:,}"


@dataclass(frozen=True, slots=True, kw_only=True)
class Spec:
    """The campaign of a directory."""

    name: str
    seed: int
    groups: tuple[Group, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class End:
    """The final result of a campaign."""

    verdict: str
    result_hash: str
    run_count: int
    task_count: int
    notes: tuple[str, ...]


class TaskFile(NamedTuple):
    """The result file of a task; `number` is its index in the plan."""

    number: int
    group: str
    path: Path


@functools.lru_cache(maxsize=4096)
def shown(text: str, characters_max: int = NAME_CHARACTERS_MAX) -> str:
    """Return text from a file for a page: invisible characters written out, and shortened."""
    return shortened(visible(text), characters_max)


def read_spec(directory: Path) -> Spec:
    """Return the spec in a directory; raises ResultError."""
    fields = _document(directory / CAMPAIGN_FILE)
    fields.demand_format(FORMAT)
    spec = fields.inner("spec")
    groups = [_group(group) for group in spec.inners("groups", GROUPS_MAX)]
    return Spec(
        name=shown(spec.text("name")),
        seed=spec.number("seed", 0),
        groups=tuple(groups),
    )


def read_end(directory: Path) -> End | None:
    """Return the final result, None for an incomplete campaign; raises ResultError."""
    path = directory / SUMMARY_FILE
    if not path.exists():
        return None
    fields = _document(path)
    verdict = fields.text("verdict")
    if verdict not in VERDICTS:
        fields.reject("verdict", f"one of {', '.join(VERDICTS)}", verdict)
    return End(
        verdict=verdict,
        result_hash=shown(fields.text("result_hash")),
        run_count=fields.number("runs"),
        task_count=fields.number("tasks"),
        notes=tuple(shown(note, SENTENCE_CHARACTERS_MAX) for note in fields.texts("notes")),
    )


def task_files(directory: Path) -> list[TaskFile]:
    """Return the result files, in the order of the plan."""
    found = []
    for path in (directory / RESULTS).glob("group=*/task-*.parquet"):
        match = _TASK_FILE.fullmatch(path.name)
        if match is not None:
            found.append(TaskFile(int(match[1]), path.parent.name.removeprefix("group="), path))
    return sorted(found)


def read_task(file: TaskFile) -> dict[str, list[Any]]:
    """Return the columns of a task's results; raises ResultError for invalid content.

    A task has one cell, and consecutive seeds.
    """
    table = _read(file)
    for name, column in zip(COLUMNS, table.columns, strict=True):
        inner_null_count = column.combine_chunks().flatten().null_count if name == REACHED else 0
        _expect(file, name, "a value in each row", "nothing", column.null_count + inner_null_count == 0)
    columns = {name: _values(column) for name, column in zip(COLUMNS, table.columns, strict=True)}
    for name in CELL:
        _expect(file, name, "the same in all rows", f"also {shown(columns[name][-1])!r}", len(set(columns[name])) == 1)
    seeds = columns["seed"]
    is_range = seeds == list(range(seeds[0], seeds[0] + len(seeds)))
    _expect(file, "seed", "numbers that follow each other", "others", is_range)
    for verdict in sorted({*columns["verdict"]} - {*VERDICTS}):
        _expect(file, "verdict", f"one of {', '.join(VERDICTS)}", repr(shown(verdict)), False)
    return columns


def _read(file: TaskFile) -> pa.Table:
    try:
        metadata = pq.read_metadata(file.path)
        _check_types(file, metadata.schema)
        _check_size(file, metadata)
        # A long text that all rows share is in memory once.
        with pq.ParquetFile(file.path, metadata=metadata, read_dictionary=[*TEXTS, REACHED_PATH]) as parquet:
            # The moves are most of a file, and pages do not show them.
            table = parquet.read(columns=list(COLUMNS), use_threads=False).select(COLUMNS)
            table.validate(full=True)
            return table
    except (OSError, MemoryError, pa.ArrowException) as error:
        actual = shown(str(error).partition("\n")[0], SENTENCE_CHARACTERS_MAX)
        raise ResultError(file=str(file.path), field="the file", expected="a task's results", actual=actual) from error


def _values(column: pa.ChunkedArray) -> list[Any]:
    """Return the values of a column, each text of a dictionary as one object."""
    if pa.types.is_list(column.type):
        values = _values(pa.chunked_array([column.combine_chunks().flatten()]))
        ends = itertools.accumulate(pc.list_value_length(column).to_pylist(), initial=0)
        return [values[start:end] for start, end in itertools.pairwise(ends)]
    if not pa.types.is_dictionary(column.type):
        return list(column.to_pylist())
    values = []
    for chunk in column.chunks:
        texts = chunk.dictionary.to_pylist()
        values += [texts[index] for index in chunk.indices.to_pylist()]
    return values


def _check_size(file: TaskFile, metadata: pq.FileMetaData) -> None:
    row_count = metadata.num_rows
    _expect(file, "rows", f"1 to {ROWS_A_FILE_MAX:,}", f"{row_count:,}", 1 <= row_count <= ROWS_A_FILE_MAX)
    chunks = [
        group.column(index)
        for group in map(metadata.row_group, range(metadata.num_row_groups))
        for index in range(group.num_columns)
    ]
    size_bytes = sum(
        chunk.total_uncompressed_size for chunk in chunks if chunk.path_in_schema.partition(".")[0] in COLUMNS
    )
    _expect(file, "size", f"at most {BYTES_A_FILE_MAX:,} bytes", f"{size_bytes:,}", size_bytes <= BYTES_A_FILE_MAX)


def _check_types(file: TaskFile, parquet_schema: pq.ParquetSchema) -> None:
    schema = parquet_schema.to_arrow_schema()
    for name, wanted in _TYPES.items():
        indices = schema.get_all_field_indices(name)
        _expect(file, name, "one such column", f"{len(indices)} of them", len(indices) == 1)
        actual = schema.field(indices[0]).type
        _expect(file, name, str(wanted), shown(str(actual)), actual == wanted)
    paths = {parquet_schema.column(index).path for index in range(len(parquet_schema))}
    _expect(file, REACHED, f"the column {REACHED_PATH}", "another one", REACHED_PATH in paths)


def _expect(file: TaskFile, field: str, expected: str, actual: str, is_right: bool) -> None:
    if not is_right:
        raise ResultError(file=str(file.path), field=field, expected=expected, actual=actual)


def _document(path: Path) -> Fields:
    return Fields(read_document(path), file=str(path))


def _group(fields: Fields) -> Group:
    seeds = fields.inner("seeds")
    return Group(
        name=shown(fields.text("name")),
        is_control=fields.flag("control", False),
        first_seed=seeds.number("first", 0),
        seed_count=seeds.number("count"),
        seeds_a_task=fields.number("seeds_a_task", 200),
        watches_steps=fields.flag("watches_steps", True),
    )
