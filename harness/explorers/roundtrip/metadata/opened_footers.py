"""Whether a Thrift footer that `verify` calls sound can be opened by pyarrow, which then reads the same values.

Readers of tables need little of it, because `_pm` says the same, but other programs read `data.parquet` alone. They may
read a column as the plain numbers or bytes that it is stored as, but no other times or decimals.
"""

from __future__ import annotations

import functools
import io
from collections.abc import Iterator
from dataclasses import dataclass
from decimal import Decimal
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from tornproof.harness.common.new_tables import commit_rows, new_table
from tornproof.harness.common.patch import Controls, not_noticed
from tornproof.harness.common.whose_error import the_only
from tornproof.harness.explorers.corruption.plan import BITS_IN_BYTE, Flip
from tornproof.harness.simulator.filesystem.image import DiskImage
from tornproof.harness.simulator.filesystem.memory import MemoryStorage
from tornproof.harness.systems.workload import FIRST_TIME
from tornproof.impl.layout.parquet import DATA_FILE, ParquetTail
from tornproof.impl.table.partition import resolve_partition
from tornproof.impl.table.table import open_table
from tornproof.impl.verify.verify import check_thrift_footer

PROPERTY = "what verify calls sound can be opened by others"
PATH = "opened"
COLUMNS = {"ts": "TIMESTAMP", "text": "VARCHAR", "digits": "DECIMAL(5,2)", "small": "SHORT", "name": "SYMBOL"}
ROWS: dict[str, list[Any]] = {
    "ts": [FIRST_TIME, FIRST_TIME + 1],
    "text": ["a", None],
    "digits": [Decimal("1.50"), Decimal("-2.00")],
    "small": [3, 4],
    "name": ["x", "y"],
}
BIT_STEP = 3
"""One bit of so many is flipped: two or three of each byte."""


FIRST_COUNT = 100
"""So many bits are in what a footer says of the types of columns."""


@dataclass(frozen=True, slots=True, kw_only=True)
class OpenedFooter:
    """A bit of the footer that is flipped."""

    bit: int
    kind: str = "footers"

    @property
    def name(self) -> str:
        """It in words."""
        return f"a footer whose bit {self.bit} is flipped"


@functools.cache
def opened_footers() -> tuple[OpenedFooter, ...]:
    """Return bits of all of the footer, always in the same order."""
    content = _image().files[_path()]
    end = len(content) - ParquetTail.layout.size_bytes
    start = end - ParquetTail.unpack(content, end, file=DATA_FILE).footer_length
    return tuple(OpenedFooter(bit=bit) for bit in range(start * BITS_IN_BYTE, end * BITS_IN_BYTE, BIT_STEP))


def problem_of(case: OpenedFooter) -> str | None:
    """Say why pyarrow does not open a footer that is called sound; None if it does, or if something is reported."""
    content = Flip(_path(), case.bit).apply(_image().files[_path()])
    if _reports(content):
        return None
    try:
        rows = _rows(content)
    except (OSError, pa.ArrowException) as error:
        return f"nothing is reported of it, and pyarrow says {str(error).splitlines()[0]}"
    different = [
        name
        for name, found, right in zip(COLUMNS, rows, _rows(_image().files[_path()]), strict=True)
        if found.type.id == right.type.id and not _has_values_of(found, right)
    ]
    return f"nothing is reported of it, and pyarrow reads other values of {different[0]}" if different else None


def failed_controls() -> Iterator[str]:
    """Yield what is not noticed of a verification that looks at nothing, and of one that looks at what it needs."""
    controls: Controls = (
        ("nothing is reported", f"{__name__}:check_thrift_footer", lambda *_: (None, []), "and pyarrow says"),
        ("others are not thought of", "tornproof.impl.verify.verify:check_for_others", lambda *_, **__: None),
    )
    of_values: Controls = (
        ("nothing is reported of values", f"{__name__}:check_thrift_footer", lambda *_: (None, []), "other values of"),
    )
    yield from not_noticed(controls, problem_of, opened_footers())
    # What the types of the columns are is said first.
    yield from not_noticed(of_values, problem_of, opened_footers()[:FIRST_COUNT])


def _reports(content: bytes) -> bool:
    """Return whether anything is reported of the footer, also that it could not be looked at."""
    image = _image()
    table = open_table(DiskImage({**image.files, _path(): content}, image.directories), PATH)
    partition = the_only(table.transaction().partitions)
    _, problems = check_thrift_footer(resolve_partition(table.files_of(partition), partition))
    return problems is None or bool(problems)


def _has_values_of(found: pa.ChunkedArray, right: pa.ChunkedArray) -> bool:
    """Say whether a column has the same values, of decimals with as many digits or others."""
    # Python has no times of so many digits, unless pandas is there.
    is_zoned = [getattr(column.type, "tz", None) is not None for column in (found, right)]
    try:
        return is_zoned[0] == is_zoned[1] and bool(found.cast(right.type).equals(right))
    except pa.ArrowInvalid:
        return False


def _rows(content: bytes) -> list[pa.ChunkedArray]:
    """Return the columns, which may have other types where an annotation is gone."""
    return list(pq.read_table(io.BytesIO(content)).columns)


@functools.cache
def _path() -> str:
    return the_only(path for path in _image().files if path.endswith(f"/{DATA_FILE}"))


@functools.cache
def _image() -> DiskImage:
    storage = MemoryStorage()
    new_table(storage, PATH, COLUMNS)
    commit_rows(storage, PATH, pa.table(ROWS))
    return storage.image()
