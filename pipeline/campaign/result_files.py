"""The result files of a campaign's tasks: finding them, and reading them, which may have been changed since.

Those of small tasks are looked at together, because each look takes longer than their rows.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, NamedTuple, NoReturn, TypeAlias

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
import xxhash

from tornproof.harness.common.verdict import Verdict
from tornproof.impl.errors import StorageError
from tornproof.pipeline.campaign.spec import CampaignError
from tornproof.pipeline.campaign.tasks import KEY, RESULT_SCHEMA, RESULTS
from tornproof.pipeline.files import Location

RESULT_NAMES = tuple(RESULT_SCHEMA.names)
ROWS_A_FILE_MAX = 100_000
"""A spec allows no larger tasks."""
BYTES_A_FILE_MAX = 1 << 30
"""Larger files, by their own footer, are not read."""
MESSAGE_CHARACTERS_MAX = 400
_TASK_FILE = re.compile(r"group=([^/]*)/task-(\d{7,12})\.parquet")
CODES_MAX = 1 << 62
FACTOR = 0x9E3779B97F4A7C15
"""Its powers are odd and have no pattern in 64 bits."""
VERDICTS = tuple(verdict.name for verdict in Verdict)
TOGETHER_ROWS = 20_000
"""Files are read until they have so many rows, and then looked at together."""
GROUP, REACHED = "group", "reached"
RAW = ("moves", "events_digest")
"""Texts that nearly every run has for itself, and that nothing but the digest of the rows needs."""
TEXTS = tuple(field.name for field in RESULT_SCHEMA if field.type == pa.string() and field.name not in RAW)
NUMBERS = tuple(field.name for field in RESULT_SCHEMA if field.type in (pa.int64(), pa.bool_()))
Integers: TypeAlias = npt.NDArray[np.integer[Any]]
Hashes: TypeAlias = npt.NDArray[np.uint64]


class ResultFile(NamedTuple):
    """The result file of a task, or that of its events; `number` is its index in the plan."""

    number: int
    group: str
    location: Location


def result_files(out: Location, kind: str = RESULTS) -> list[ResultFile]:
    """Return the files of results, or of events, that there are, in the order of the plan."""
    directory = out / kind
    if not directory.exists():
        return []
    found = ((_TASK_FILE.fullmatch(file.relative_to(directory)), file) for file, _ in directory.files_below())
    return sorted(ResultFile(int(match[2]), match[1], file) for match, file in found if match)


@dataclass(frozen=True, slots=True, kw_only=True)
class Texts:
    """Texts of some rows: each is the one of its code among the `values`, which are all different."""

    codes: Integers
    values: tuple[str, ...]

    def counts(self, is_counted: npt.NDArray[np.bool_] | None = None) -> Iterator[tuple[str, int]]:
        """Yield each text that there is, with its number of rows, or of those that are counted."""
        codes = self.codes if is_counted is None else self.codes[is_counted]
        counts = np.bincount(codes, minlength=len(self.values)).tolist()
        return ((value, count) for value, count in zip(self.values, counts, strict=True) if count)

    def hashes(self) -> Hashes:
        """Return a hash of the text of each row."""
        hashes = np.array([xxhash.xxh3_64_intdigest(value.encode()) for value in self.values], np.uint64)
        found: Hashes = hashes[self.codes]
        return found


@dataclass(frozen=True, kw_only=True)
class Results:
    """The results of tasks, one after the other; the rows of each have one cell, and seeds that follow each other.

    `edges` are the numbers of the tasks' first rows, and of all rows. `reached` are the points of all rows, of which
    each row has `reached_counts`. The groups of the tasks are among the texts.
    """

    files: tuple[ResultFile, ...]
    edges: Integers
    texts: Mapping[str, Texts]
    numbers: Mapping[str, Integers]
    reached: Texts
    reached_counts: Integers
    raw: Mapping[str, pa.Array]

    @property
    def row_count(self) -> int:
        """Number of rows of all tasks."""
        return int(self.edges[-1])

    @property
    def seeds(self) -> Integers:
        """The seed of each row."""
        return self.numbers["seed"]

    @cached_property
    def reached_edges(self) -> Integers:
        """The numbers of the first points of each row, and of all points."""
        return np.concatenate([np.zeros(1, np.int64), np.cumsum(self.reached_counts)])

    def tasks(self) -> Iterator[tuple[ResultFile, slice]]:
        """Yield each task with its rows."""
        for file, first, stop in zip(self.files, self.edges[:-1].tolist(), self.edges[1:].tolist(), strict=True):
            yield file, slice(first, stop)

    def file_of(self, row: int) -> ResultFile:
        """Return the file that has a row."""
        return self.files[int(np.searchsorted(self.edges, row, "right")) - 1]

    def text(self, name: str, row: int) -> str:
        """Return the text of a row."""
        texts = self.texts[name]
        return texts.values[int(texts.codes[row])]

    def rows_with(self, name: str, values: Collection[str]) -> npt.NDArray[np.intp]:
        """Return the rows that have one of some texts."""
        texts = self.texts[name]
        has = np.array([value in values for value in texts.values], np.bool_)
        return np.flatnonzero(has[texts.codes])

    def mixed(self, names: Sequence[str], first: int = 0) -> Hashes:
        """Return a hash of the texts of some columns in each row; each column has a factor of its own."""
        mixed = np.zeros(self.row_count, np.uint64)
        for number, name in enumerate(names, first):
            mixed += self.texts[name].hashes() * np.uint64(pow(FACTOR, number + 1, 1 << 64))
        return mixed

    def groups(self, names: Sequence[str], rows: npt.NDArray[Any] | None = None) -> Iterator[Group]:
        """Yield the texts of some columns that come together, the first row and the number of rows of each."""
        chosen = np.arange(self.row_count) if rows is None else rows
        codes, size = np.zeros(len(chosen), np.int64), 1
        for name in names:
            texts = self.texts[name]
            if size * len(texts.values) > CODES_MAX:
                codes = np.unique(codes, return_inverse=True)[1]
                size = len(codes)
            codes = codes * len(texts.values) + texts.codes[chosen]
            size *= len(texts.values)
        _, first, counts = np.unique(codes, return_index=True, return_counts=True)
        for position, count in sorted(zip(first.tolist(), counts.tolist(), strict=True)):
            row = int(chosen[position])
            yield Group(tuple(self.text(name, row) for name in names), row, count)

    def digests(self) -> Iterator[bytes]:
        """Yield a digest of the rows of each task, whatever the file looks like that they come from."""
        texts, reached = (hashes.astype("<u8", copy=False) for hashes in (self.mixed(TEXTS), self.reached.hashes()))
        numbers = [
            np.ascontiguousarray(of_rows.astype("<i8", copy=False))
            for of_rows in (self.reached_counts, *(self.numbers[name] for name in NUMBERS))
        ]
        raw = [
            (
                pc.binary_length(array).to_numpy().astype("<i4", copy=False),
                np.frombuffer(array.buffers()[1], np.int32)[array.offset :],
                memoryview(array.buffers()[2] or b""),
            )
            for array in map(self.raw.__getitem__, RAW)
        ]
        for file, rows in self.tasks():
            digest = xxhash.xxh3_128(f"{file.group} {rows.stop - rows.start}".encode())
            digest.update(texts[rows].data)
            digest.update(reached[self.reached_edges[rows.start] : self.reached_edges[rows.stop]].data)
            for of_rows in numbers:
                digest.update(of_rows[rows].data)
            for lengths, offsets, content in raw:
                digest.update(lengths[rows].data)
                digest.update(content[offsets[rows.start] : offsets[rows.stop]])
            yield digest.digest()


class Group(NamedTuple):
    """Texts that come together, the first row that has them, and the number of these rows."""

    values: tuple[str, ...]
    row: int
    row_count: int


def read_results(files: Iterable[ResultFile], on_error: Callable[[CampaignError], None]) -> Iterator[Results]:
    """Yield the results of tasks, some together; calls `on_error` for each file that no task has written."""
    held: list[tuple[ResultFile, pa.Table]] = []
    row_count = 0
    for file in files:
        try:
            held.append((file, _read(file)))
        except CampaignError as error:
            on_error(error)
            continue
        row_count += len(held[-1][1])
        if row_count >= TOGETHER_ROWS:
            yield from _checked(held, on_error)
            held, row_count = [], 0
    yield from _checked(held, on_error)


def _checked(
    held: Sequence[tuple[ResultFile, pa.Table]], on_error: Callable[[CampaignError], None]
) -> Iterator[Results]:
    """Yield what is held as one, or without those that are wrong."""
    try:
        results = [_results_of(held)] if held else []
    except CampaignError as error:
        if len(held) == 1:
            on_error(error)
        else:
            for each in held:
                yield from _checked([each], on_error)
        return
    yield from results


def _results_of(held: Sequence[tuple[ResultFile, pa.Table]]) -> Results:
    """Return the results of files; raises CampaignError for what no task writes, with the name of the first file."""
    file = held[0][0]
    rows = pa.concat_tables([table for _, table in held]).unify_dictionaries().combine_chunks()
    for name, column in zip(rows.column_names, rows.columns, strict=True):
        if column.null_count:
            reject(file, f"{name}: expected a value in each row, found nothing")
    edges = np.cumsum([0, *(len(table) for _, table in held)])
    is_inside = np.ones(len(rows) + 1, np.bool_)
    is_inside[edges] = False
    is_inside = is_inside[1:-1]
    seeds = rows.column("seed").to_numpy()
    if (seeds[1:] - seeds[:-1] != 1)[is_inside].any():
        reject(file, "seed: expected numbers that follow each other, found others")
    texts = {name: _texts(file, name, rows.column(name)) for name in TEXTS}
    for field in KEY[:3]:
        codes = texts[field.name].codes
        if (codes[1:] != codes[:-1])[is_inside].any():
            reject(file, f"{field.name}: expected the same in all rows, found others")
    for verdict, _ in texts["verdict"].counts():
        if verdict not in VERDICTS:
            reject(file, f"verdict: expected one of {', '.join(VERDICTS)}, found another one")
    groups = tuple(dict.fromkeys(each.group for each, _ in held))
    codes_of_tasks = [groups.index(each.group) for each, _ in held]
    texts[GROUP] = Texts(codes=np.repeat(codes_of_tasks, np.diff(edges)), values=groups)
    reached = rows.column(REACHED)
    return Results(
        files=tuple(each for each, _ in held),
        edges=edges,
        texts=texts,
        numbers={name: rows.column(name).cast(pa.int64()).to_numpy() for name in NUMBERS},
        reached=_texts(file, REACHED, pa.chunked_array([reached.combine_chunks().flatten()])),
        reached_counts=pc.list_value_length(reached).to_numpy().astype(np.int64),
        raw={name: rows.column(name).combine_chunks() for name in RAW},
    )


def _read(file: ResultFile) -> pa.Table:
    dictionaries = [*TEXTS, f"{REACHED}.list.element"]
    try:
        with file.location.open_for_reading(mapped=True) as source:
            try:
                parquet = pq.ParquetFile(source, read_dictionary=dictionaries)
            except KeyError:
                # It lacks one of these columns, so its schema is rejected.
                parquet = pq.ParquetFile(source)
            _check_schema(file, parquet.metadata.schema.to_arrow_schema())
            _check_size(file, parquet.metadata)
            rows: pa.Table = parquet.read(columns=list(RESULT_NAMES), use_threads=False)
            rows.validate(full=True)
            # Without what a schema says besides, in which files of other writers differ.
            return pa.Table.from_arrays(rows.columns, names=rows.column_names)
    except (OSError, MemoryError, KeyError, pa.ArrowException, StorageError) as error:
        reject(file, str(error).partition("\n")[0])


def _texts(file: ResultFile, name: str, column: pa.ChunkedArray) -> Texts:
    array = column.combine_chunks()
    if isinstance(array, pa.ChunkedArray):
        array = array.chunk(0) if array.num_chunks else pa.array([], pa.dictionary(pa.int32(), pa.string()))
    if array.null_count or array.dictionary.null_count:
        reject(file, f"{name}: expected a value in each row, found nothing")
    values = array.dictionary.to_pylist()
    codes = array.indices.to_numpy()
    if len(set(values)) < len(values):
        # Of a writer of somebody else.
        first = {value: position for position, value in reversed(list(enumerate(values)))}
        codes = np.array([first[value] for value in values], np.int32)[codes]
    return Texts(codes=codes, values=tuple(values))


def reject(file: ResultFile, why: str) -> NoReturn:
    """Raise the error of a file that no task has written."""
    raise CampaignError(f"{file.location}: not the results of a task: {why[:MESSAGE_CHARACTERS_MAX]}")


def _check_schema(file: ResultFile, schema: pa.Schema) -> None:
    for wanted in RESULT_SCHEMA:
        indices = schema.get_all_field_indices(wanted.name)
        if len(indices) != 1 or schema.field(indices[0]).type != wanted.type:
            found = ", ".join(str(schema.field(index).type) for index in indices) or "none"
            reject(file, f"{wanted.name}: expected one column of type {wanted.type}, found {found}")


def _check_size(file: ResultFile, metadata: pq.FileMetaData) -> None:
    if not 1 <= metadata.num_rows <= ROWS_A_FILE_MAX:
        reject(file, f"rows: expected 1 to {ROWS_A_FILE_MAX:,}, found {metadata.num_rows:,}")
    if metadata.num_row_groups != 1:
        reject(file, f"row groups: expected 1, found {metadata.num_row_groups:,}")
    size_bytes = metadata.row_group(0).total_byte_size
    if size_bytes > BYTES_A_FILE_MAX:
        reject(file, f"size: expected at most {BYTES_A_FILE_MAX:,} bytes, found {size_bytes:,}")
