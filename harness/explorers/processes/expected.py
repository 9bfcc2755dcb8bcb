"""What every version must hold after the operations of a writer, computed without the implementation.

Rows are made from the number of the attempt that writes them, so no two attempts at one version have equal content.
"""

from __future__ import annotations

import enum
import hashlib
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from tornproof.harness.common.made_rows import array_of, value_maker
from tornproof.impl.types.questdb import TypeTag, tag_of

Integers = npt.NDArray[np.int64]

ROW_COUNT_MAX = 32
SLOT_COUNT = 1 << 20
SLOT_FACTOR = 387_421
"""An odd number that moves adjacent slots far apart, for rows that are written out of order."""
PARTITION_ROW_COUNT_MAX = 1_000
TARGET_COUNT_MAX = 3
REWRITE_CHANCE, DROP_CHANCE, ORDERED_CHANCE = 0.15, 0.1, 0.5


@dataclass(frozen=True, slots=True, kw_only=True)
class Target:
    """A partition that the run writes to, in units of the timestamp; it is never dropped if `is_kept`."""

    start: int
    length: int
    is_kept: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class Form:
    """How rows are made: `number` names a column for their unique number, and `types` are those of all in QuestDB."""

    schema: pa.Schema
    types: tuple[int, ...]
    timestamp: str
    number: str | None
    targets: tuple[Target, ...]


class Change(enum.StrEnum):
    """What an attempt does: anything, or only add rows to a partition, which grows in place or is rewritten."""

    ANY = "any"
    GROW = "grow"
    REWRITE = "rewrite"


@dataclass(frozen=True, slots=True, kw_only=True)
class Operation:
    """One attempt to commit: rows for some targets, rewrites and drops; targets are indexes into `Form.targets`.

    Ordered rows are newer than all earlier ones of their target; others are between them.
    """

    attempt: int
    rows: tuple[tuple[int, int], ...] = ()
    rewrites: tuple[int, ...] = ()
    drops: tuple[int, ...] = ()
    is_ordered: bool = True


@dataclass(frozen=True, slots=True, kw_only=True)
class Content:
    """The digest of a partition, and its rows if the run writes to it."""

    digest: bytes
    rows: pa.Table | None = None

    @classmethod
    def of(cls, rows: pa.Table) -> Content:
        """Return the content for these rows."""
        return cls(digest=digest_of_rows(rows), rows=rows)


@dataclass(frozen=True, slots=True, kw_only=True)
class ExpectedVersion:
    """What one version must hold; `contents` are by the start of the partition."""

    version: int
    contents: Mapping[int, Content]

    @property
    def digest(self) -> str:
        """The digest that every correct read of this version has."""
        return digest_of_table((start, self.contents[start].digest) for start in sorted(self.contents))

    def row_count(self, target: Target) -> int:
        """Return the number of rows of a target."""
        content = self.contents.get(target.start)
        return 0 if content is None or content.rows is None else content.rows.num_rows

    def after(self, operation: Operation, form: Form) -> ExpectedVersion:
        """Return what the next version must hold if the operation makes it."""
        contents = dict(self.contents)
        for index in operation.drops:
            del contents[form.targets[index].start]
        for start, rows in new_rows(self, operation, form).items():
            before = contents.get(start)
            if before is None or before.rows is None:
                contents[start] = Content.of(_in_time_order(rows, form))
            else:
                contents[start] = Content.of(_in_time_order(pa.concat_tables([before.rows, rows]), form))
        return replace(self, version=self.version + 1, contents=contents)


def new_rows(expected: ExpectedVersion, operation: Operation, form: Form) -> dict[int, pa.Table]:
    """Return the rows that an operation adds, by the start of their partition.

    No row has the time of another one, because a table with keys would replace it.
    """
    rows = {}
    for index, row_count in operation.rows:
        target = form.targets[index]
        numbers = operation.attempt * ROW_COUNT_MAX + np.arange(row_count, dtype=np.int64)
        timestamps = _timestamps(target, numbers, is_ordered=operation.is_ordered)
        content = expected.contents.get(target.start)
        if content is not None and content.rows is not None and index not in operation.drops:
            is_new = ~np.isin(timestamps, _integers(content.rows[form.timestamp]))
            numbers, timestamps = numbers[is_new], timestamps[is_new]
        rows[target.start] = _make_rows(form, numbers, timestamps)
    return rows


def plan_operation(
    expected: ExpectedVersion, form: Form, *, seed: int, attempt: int, change: Change = Change.ANY
) -> Operation:
    """Return what a writer tries next, the same for the same arguments; any change where `change` is impossible."""
    draw = np.random.default_rng([seed, attempt])
    indexes = [int(index) for index in draw.permutation(len(form.targets))]
    present = [index for index in indexes if form.targets[index].start in expected.contents]
    own = [index for index in present if not form.targets[index].is_kept]
    full = [index for index in own if expected.row_count(form.targets[index]) > PARTITION_ROW_COUNT_MAX]
    room = [index for index in indexes if expected.row_count(form.targets[index]) <= PARTITION_ROW_COUNT_MAX]
    open_indexes = [index for index in present if index in room]
    if change is not Change.ANY and open_indexes:
        index = open_indexes[0]
        rows = ((index, int(draw.integers(1, ROW_COUNT_MAX, endpoint=True))),)
        return Operation(attempt=attempt, rows=rows, rewrites=(index,) if change is Change.REWRITE else ())
    drops = full[:1] or (own[:1] if len(present) > 1 and draw.random() < DROP_CHANCE else [])
    kept = [index for index in present if index not in drops]
    rewrites = kept[:1] if draw.random() < REWRITE_CHANCE else []
    count = int(draw.integers(0, TARGET_COUNT_MAX, endpoint=True))
    if not drops and not rewrites:
        count = max(count, 1)
    return Operation(
        attempt=attempt,
        rows=tuple((index, int(draw.integers(1, ROW_COUNT_MAX, endpoint=True))) for index in sorted(room[:count])),
        rewrites=tuple(rewrites),
        drops=tuple(drops),
        is_ordered=bool(draw.random() < ORDERED_CHANCE),
    )


def digest_of_table(partitions: Iterable[tuple[int, bytes]]) -> str:
    """Return the digest of a version from its partitions' starts and digests, in order."""
    total = hashlib.sha256()
    for start, digest in partitions:
        total.update(start.to_bytes(8, "little", signed=True) + digest)
    return total.hexdigest()


def digest_of_rows(rows: pa.Table) -> bytes:
    """Return a digest of all values in all columns, in order, independent of their chunks."""
    total = hashlib.sha256(rows.num_rows.to_bytes(8, "little"))
    for column in rows.columns:
        for part in _canonical(column):
            total.update(len(part).to_bytes(8, "little") + part)
    return total.digest()


def _canonical(column: pa.ChunkedArray) -> Iterator[bytes]:
    array = pa.concat_arrays(column.chunks) if column.num_chunks else pa.array([], column.type)
    if isinstance(array, pa.ExtensionArray):
        array = array.storage
    if pa.types.is_primitive(array.type):
        yield pc.is_valid(array).to_numpy(zero_copy_only=False).tobytes()
        # The bytes of a null are arbitrary.
        yield pc.fill_null(array, _zero(array.type)).to_numpy(zero_copy_only=False).tobytes()
    else:
        yield repr(array.to_pylist()).encode()


def _zero(of: pa.DataType) -> pa.Scalar:
    return pa.scalar(False if pa.types.is_boolean(of) else 0, pa.int64() if pa.types.is_temporal(of) else of).cast(of)


def _timestamps(target: Target, numbers: Integers, *, is_ordered: bool) -> Integers:
    """Return a distinct time for each number: ordered ones in the second half of the target, others in the first."""
    half = target.length // 2
    step = half // SLOT_COUNT
    assert step > 0, "a partition has room for all slots"
    slots = numbers % SLOT_COUNT if is_ordered else numbers * SLOT_FACTOR % SLOT_COUNT
    times: Integers = target.start + (half if is_ordered else 0) + slots * step
    return times


def _make_rows(form: Form, numbers: Integers, timestamps: Integers) -> pa.Table:
    arrays = []
    for field, of in zip(form.schema, form.types, strict=True):
        # A new symbol would change the dictionary of the table, too, which no version here includes.
        make = None if tag_of(of) is TypeTag.SYMBOL else value_maker(of, is_ascii=False)
        if field.name == form.timestamp:
            arrays.append(pa.array(timestamps).cast(field.type))
        elif field.name == form.number:
            arrays.append(pa.array(numbers))
        elif make is not None:
            arrays.append(array_of([*map(make, numbers.tolist())], field.type))
        else:
            arrays.append(_nothing(field, len(numbers)))
    return pa.Table.from_arrays(arrays, schema=form.schema)


def _nothing(field: pa.Field, row_count: int) -> pa.Array:
    storage = field.type.storage_type if isinstance(field.type, pa.BaseExtensionType) else field.type
    if field.nullable:
        return pa.nulls(row_count, storage).cast(field.type)
    return pa.repeat(_zero(storage), row_count).cast(field.type)


def _in_time_order(rows: pa.Table, form: Form) -> pa.Table:
    return rows.take(np.argsort(_integers(rows[form.timestamp]), kind="stable"))


def _integers(timestamps: pa.ChunkedArray) -> np.ndarray[Any, np.dtype[np.int64]]:
    return np.asarray(timestamps.cast(pa.int64()).to_numpy())
