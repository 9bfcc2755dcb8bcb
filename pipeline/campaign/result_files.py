"""The result files of a campaign's tasks: finding them, and reading one, which may have been changed since."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
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
REACHED = "reached"
RAW = ("moves", "events_digest")
"""Texts that nearly every run has for itself, and that nothing but the digest of the rows needs."""
TEXTS = tuple(field.name for field in RESULT_SCHEMA if field.type == pa.string() and field.name not in RAW)
NUMBERS = tuple(field.name for field in RESULT_SCHEMA if field.type in (pa.int64(), pa.bool_()))
Integers: TypeAlias = npt.NDArray[np.integer[Any]]
Hashes: TypeAlias = npt.NDArray[np.uint64]


class ResultFile(NamedTuple):
    """The result file of a task; `number` is its index in the plan."""

    number: int
    group: str
    location: Location


def result_files(out: Location) -> list[ResultFile]:
    """Return the result files that there are, in the order of the plan."""
    directory = out / RESULTS
    if not directory.exists():
        return []
    found = ((_TASK_FILE.fullmatch(file.relative_to(directory)), file) for file, _ in directory.files_below())
    return sorted(ResultFile(int(match[2]), match[1], file) for match, file in found if match)


@dataclass(frozen=True, slots=True, kw_only=True)
class Texts:
    """Texts of some rows: each is the one of its code among the `values`, which are all different."""

    codes: Integers
    values: tuple[str, ...]

    def counts(self) -> Iterator[tuple[str, int]]:
        """Yield each text that there is, with its number of rows."""
        counts = np.bincount(self.codes, minlength=len(self.values)).tolist()
        return ((value, count) for value, count in zip(self.values, counts, strict=True) if count)

    def hashes(self) -> Hashes:
        """Return a hash of the text of each row."""
        hashes = np.array([xxhash.xxh3_64_intdigest(value.encode()) for value in self.values], np.uint64)
        found: Hashes = hashes[self.codes]
        return found


@dataclass(frozen=True, slots=True, kw_only=True)
class Results:
    """The results of a task, whose rows have one cell, and seeds from `first_seed` on.

    `reached` are the points of all rows, of which each row has `reached_counts`.
    """

    row_count: int
    first_seed: int
    texts: Mapping[str, Texts]
    numbers: Mapping[str, Integers]
    reached: Texts
    reached_counts: Integers
    raw: Mapping[str, pa.Array]

    def text(self, name: str, row: int = 0) -> str:
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

    def digest(self, group: str) -> bytes:
        """Return a digest of all rows, whatever the file looks like that they come from."""
        digest = xxhash.xxh3_128(f"{group} {self.row_count}".encode())
        for hashes in (self.mixed(TEXTS), self.reached.hashes()):
            digest.update(hashes.astype("<u8", copy=False).data)
        for numbers in (self.reached_counts, *(self.numbers[name] for name in NUMBERS)):
            digest.update(np.ascontiguousarray(numbers.astype("<i8", copy=False)).data)
        for name in RAW:
            array = self.raw[name]
            digest.update(pc.binary_length(array).to_numpy().astype("<i4", copy=False).tobytes())
            offsets = np.frombuffer(array.buffers()[1], np.int32)
            start, stop = int(offsets[array.offset]), int(offsets[array.offset + len(array)])
            digest.update(memoryview(array.buffers()[2] or b"")[start:stop])
        return digest.digest()


class Group(NamedTuple):
    """Texts that come together, the first row that has them, and the number of these rows."""

    values: tuple[str, ...]
    row: int
    row_count: int


def read_results(file: ResultFile) -> Results:
    """Return the results of a task; raises CampaignError for what no task writes.

    A task has one cell, and consecutive seeds.
    """
    rows = _read(file)
    seeds = rows.column("seed").to_numpy()
    if (seeds[1:] - seeds[:-1] != 1).any():
        reject(file, "seed: expected numbers that follow each other, found others")
    texts = {name: _texts(file, name, rows.column(name)) for name in TEXTS}
    for field in KEY[:3]:
        if len({texts[field.name].values[code] for code in np.unique(texts[field.name].codes)}) != 1:
            reject(file, f"{field.name}: expected the same in all rows, found others")
    for verdict, _ in texts["verdict"].counts():
        if verdict not in VERDICTS:
            reject(file, f"verdict: expected one of {', '.join(VERDICTS)}, found another one")
    reached = rows.column(REACHED)
    return Results(
        row_count=len(rows),
        first_seed=int(seeds[0]),
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
            metadata = pq.read_metadata(source)
            _check_schema(file, metadata.schema.to_arrow_schema())
            _check_size(file, metadata)
            parquet = pq.ParquetFile(source, metadata=metadata, read_dictionary=dictionaries)
            rows = parquet.read(columns=list(RESULT_NAMES), use_threads=False).unify_dictionaries()
            rows.validate(full=True)
    except (OSError, MemoryError, KeyError, pa.ArrowException, StorageError) as error:
        reject(file, str(error).partition("\n")[0])
    for name, column in zip(rows.column_names, rows.columns, strict=True):
        if column.null_count:
            reject(file, f"{name}: expected a value in each row, found nothing")
    return rows


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
