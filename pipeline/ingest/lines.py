"""Parses lines into rows: valid blocks at once, others line by line.

The fast path accepts only whole blocks, with exactly the result of the slow one. It checks what pyarrow's JSON reader
does not: that reader ignores line ends and has no line numbers, accepts numbers that JSON does not have, and aborts the
process if the first line is `null`.
"""

from __future__ import annotations

import itertools
import json
import re
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, TypeAlias

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.json as pj

from tornproof.impl.types.questdb import TypeTag
from tornproof.pipeline.ingest.schema import DOUBLES, ArchiveColumn, ArchiveSchema
from tornproof.pipeline.ingest.source import BLANKS, RAW_BYTES_KEPT, Block, Reject
from tornproof.pipeline.ingest.values import (
    LINE_BYTES_MAX,
    Leaf,
    LineRejectedError,
    Tree,
    exact_row,
    micros_of,
    tree_of,
)

PIECES = 16
EXACT_LINES_MAX = 64
WHOLE_FLOATS_MAX = 1 << 53
NEWLINE, RETURN, OPENING, CLOSING = b"\n\r{}"
_JSON_TYPES = {
    TypeTag.BOOLEAN: pa.bool_(),
    **dict.fromkeys((TypeTag.BYTE, TypeTag.SHORT, TypeTag.INT, TypeTag.LONG), pa.int64()),
    **dict.fromkeys((TypeTag.FLOAT, TypeTag.DOUBLE), pa.float64()),
    **dict.fromkeys((TypeTag.STRING, TypeTag.VARCHAR), pa.string()),
    DOUBLES: pa.list_(pa.field("element", pa.float64())),
}
_INTEGER_MINUS_ZERO = re.compile(rb"-0(?![0-9.eE])")
Offsets: TypeAlias = npt.NDArray[np.int64]


@dataclass(slots=True, kw_only=True)
class Taken:
    """The result of a block: its lines are rows, rejects or blank."""

    tables: list[pa.Table]
    rejects: list[Reject]
    blank_count: int = 0

    @property
    def row_count(self) -> int:
        """The rows of all tables."""
        return sum(table.num_rows for table in self.tables)


class LineReader:
    """Parses blocks of lines into rows of one schema."""

    def __init__(self, schema: ArchiveSchema) -> None:
        self._schema = schema
        self._tree = tree_of(schema)
        self._arrow = schema.arrow

    def take(self, block: Block) -> Taken:
        """Return the rows of a block in line order, and its rejects."""
        taken = Taken(tables=[], rejects=[])
        content = np.frombuffer(block.text, np.uint8)
        ends = np.flatnonzero(content == NEWLINE)
        if not block.text.endswith(b"\n"):
            ends = np.append(ends, len(content))
        starts = np.concatenate([np.zeros(1, np.int64), ends[:-1] + 1])
        kinds = _kinds_of_times(block.text[: ends[0]], self._tree)
        quick = _FastPath(self._schema, self._tree, self._arrow, kinds)
        self._take(quick, block, content, starts, ends, 0, taken)
        return taken

    def _take(
        self,
        quick: _FastPath,
        block: Block,
        content: npt.NDArray[np.uint8],
        starts: Offsets,
        ends: Offsets,
        first: int,
        taken: Taken,
    ) -> None:
        """Parse lines; `first` is the number of lines before them in the block."""
        text = block.text[starts[0] : ends[-1]]
        rows = quick.rows(text, len(starts)) if _are_objects(content, starts, ends) else None
        if rows is not None:
            taken.tables.append(rows)
        elif len(starts) <= EXACT_LINES_MAX:
            self._take_exactly(block, starts, ends, first, taken)
        else:
            borders = np.linspace(0, len(starts), PIECES + 1).astype(np.int64).tolist()
            for low, high in itertools.pairwise(borders):
                self._take(quick, block, content, starts[low:high], ends[low:high], first + low, taken)

    def _take_exactly(self, block: Block, starts: Offsets, ends: Offsets, first: int, taken: Taken) -> None:
        rows = []
        spans = zip(starts.tolist(), ends.tolist(), strict=True)
        for number, (start, end) in enumerate(spans, block.first_line + first):
            line = block.text[start:end]
            if not line.strip(BLANKS):
                taken.blank_count += 1
                continue
            try:
                rows.append(exact_row(line, self._schema, self._tree))
            except LineRejectedError as rejected:
                raw = line[:RAW_BYTES_KEPT]
                taken.rejects.append(Reject(line=number, reason=rejected.reason, detail=rejected.detail, raw=raw))
        if rows:
            columns = [
                pa.array(values, field.type) for field, values in zip(self._arrow, zip(*rows, strict=True), strict=True)
            ]
            taken.tables.append(pa.Table.from_arrays(columns, schema=self._arrow))


class _FastPath:
    """Parses all lines of a block at once, if all are valid."""

    def __init__(self, schema: ArchiveSchema, tree: Tree, arrow: pa.Schema, kinds: dict[int, pa.DataType]) -> None:
        self._schema = schema
        self._arrow = arrow
        self._options = pj.ParseOptions(
            explicit_schema=pa.schema(_json_fields(tree, kinds)), unexpected_field_behavior="error"
        )

    def rows(self, text: bytes, line_count: int) -> pa.Table | None:
        """Return the rows of lines that begin and end like objects, or None unless all of them are valid."""
        if not text.isascii():
            try:
                text.decode("utf-8")
            except UnicodeDecodeError:
                return None
        reading = pj.ReadOptions(use_threads=False, block_size=len(text) + 1)
        try:
            found = pj.read_json(pa.BufferReader(text), read_options=reading, parse_options=self._options)
        except (pa.ArrowInvalid, pa.ArrowNotImplementedError):
            return None
        # Each line has at least one row, so if the counts agree it has exactly one.
        if found.num_rows != line_count:
            return None
        try:
            columns = [self._column(found, column, text) for column in self._schema.columns]
        except ValueError:
            return None
        return pa.Table.from_arrays(columns, schema=self._arrow)

    def _column(self, found: pa.Table, column: ArchiveColumn, text: bytes) -> pa.Array:
        """Return the values of a column of lines; raises ValueError (ArrowInvalid is one) for an invalid value."""
        values = found[column.keys[0]].combine_chunks()
        if len(column.keys) > 1:
            values = pc.struct_field(values, list(column.keys[1:]))
        is_designated = column.name == self._schema.timestamp
        if is_designated and values.null_count:
            raise ValueError("no timestamp")
        if column.type == TypeTag.TIMESTAMP:
            micros = micros_of(values, is_designated=is_designated)
            if pa.types.is_floating(values.type):
                # Of a whole number among them, these might not be the microseconds that it stands for by itself.
                _reject_inexact(values)
                _reject_inexact(micros)
            return micros.cast(column.arrow)
        if values.null_count and not self._schema.has_null(column):
            values = values.fill_null(False if column.type == TypeTag.BOOLEAN else 0)
        if column.type in (TypeTag.FLOAT, TypeTag.DOUBLE, DOUBLES):
            values = values.cast(column.arrow)
            _check_numbers(values, text)
        return values.cast(column.arrow)


def _reject_inexact(numbers: pa.Array) -> None:
    """Raise ValueError unless floats hold all whole numbers up to these."""
    largest = pc.max(pc.abs(numbers)).as_py()
    if largest is not None and largest >= WHOLE_FLOATS_MAX:
        raise ValueError("a number that a float may have rounded")


def _check_numbers(values: pa.Array, text: bytes) -> None:
    """Raise ValueError for numbers that JSON does not have, and where a 0 may have a sign that it should not."""
    numbers = values.flatten() if pa.types.is_list(values.type) else values
    content = (numbers.fill_null(0) if numbers.null_count else numbers).to_numpy(zero_copy_only=False)
    if not np.isfinite(content).all():
        raise ValueError("a number that JSON does not have")
    # -0.0 keeps its sign, and the integer -0 has none; pyarrow gives both one.
    if (np.signbit(content) & (content == 0)).any() and _INTEGER_MINUS_ZERO.search(text):
        raise ValueError("an integer with a float's sign")


def _are_objects(content: npt.NDArray[np.uint8], starts: Offsets, ends: Offsets) -> bool:
    """Return whether each line begins and ends like an object and is not too long, so that no object spans two."""
    if (ends <= starts).any() or (ends - starts > LINE_BYTES_MAX).any():
        return False
    last = content[ends - 1]
    if (last == RETURN).any():
        last = np.where((last == RETURN) & (ends - starts > 1), content[ends - 2], last)
    return bool((content[starts] == OPENING).all() and (last == CLOSING).all())


def _json_fields(tree: Tree, kinds: dict[int, pa.DataType]) -> list[pa.Field]:
    fields = []
    for key, node in tree.items():
        if isinstance(node, Leaf):
            kind = kinds.get(node.index, pa.string()) if node.column.type == TypeTag.TIMESTAMP else None
            fields.append(pa.field(key, kind or _JSON_TYPES[node.column.type]))
        else:
            fields.append(pa.field(key, pa.struct(_json_fields(node, kinds))))
    return fields


def _kinds_of_times(line: bytes, tree: Tree) -> dict[int, pa.DataType]:
    """Return by column whether times are integers, floats or texts, judged by one line."""
    try:
        frame = json.loads(line)
    except (ValueError, RecursionError):
        return {}
    return dict(_kinds(frame, tree))


def _kinds(frame: Any, tree: Tree) -> Iterator[tuple[int, pa.DataType]]:
    for key, node in tree.items() if isinstance(frame, dict) else ():
        value = frame.get(key)
        if not isinstance(node, Leaf):
            yield from _kinds(value, node)
        elif type(value) in (int, float):
            yield node.index, pa.int64() if type(value) is int else pa.float64()
