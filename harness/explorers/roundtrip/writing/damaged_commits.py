"""Whether a commit to a damaged partition is refused, or leaves the damage to be seen, and never calls it sound.

A writer keeps row groups that it does not read, and gives them new footers with right checksums. So what was damaged
before must not be readable as something else afterwards.
"""

from __future__ import annotations

import functools
import io
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from tornproof.harness.common.patch import Controls, not_noticed, original_of
from tornproof.harness.common.whose_error import the_only
from tornproof.harness.explorers.corruption.plan import BITS_IN_BYTE, Flip
from tornproof.harness.explorers.roundtrip.writing.kills import Rows, commit, rows_in, table_of_rows
from tornproof.harness.simulator.filesystem.image import DiskImage
from tornproof.harness.simulator.filesystem.memory import MemoryStorage
from tornproof.harness.systems.workload import FIRST_TIME
from tornproof.impl.errors import RowsRejectedError, TornproofError
from tornproof.impl.layout.parquet import DATA_FILE
from tornproof.impl.storage.interface import OpenMode
from tornproof.impl.table.partition import PM_FILE
from tornproof.impl.table.table import open_table
from tornproof.impl.types.questdb import TypeTag
from tornproof.impl.verify.verify import TableReport, verify_table
from tornproof.impl.write.writer_options import WriterOptions

PROPERTY = "damage is not made sound by a commit"
PATH = "damaged"
NOTHING = TableReport(table=PATH, version=None)
GROUP_ROWS = 3
OPTIONS = WriterOptions(row_group_row_count_max=GROUP_ROWS, rewrite_unused_ratio=1_000.0)
FIRST: Rows = [(FIRST_TIME + 10 * number, f"text {number}") for number in range(3 * GROUP_ROWS)]
ADDED: dict[str, tuple[int, str]] = {
    "behind all row groups": (FIRST_TIME + 1_000, "new"),
    "in the first row group": (FIRST_TIME + 5, "new"),
}
BIT_STEP = 53
"""One bit of so many is flipped: about every seventh byte, each time another bit."""


@dataclass(frozen=True, slots=True, kw_only=True)
class DamagedCommit:
    """A bit of a partition's file, and where a row is added afterwards."""

    file: str
    bit: int
    where: str

    @property
    def name(self) -> str:
        """It in words."""
        return f"bit {self.bit} of {self.file} flipped, and a row added {self.where}"

    @property
    def kind(self) -> str:
        """The file, and the place of the row."""
        return f"{self.file} {self.where}"


@functools.cache
def damaged_commits() -> tuple[DamagedCommit, ...]:
    """Return all commits, always in the same order."""
    image = _image()
    return tuple(
        DamagedCommit(file=file, bit=bit, where=where)
        for file in (PM_FILE, DATA_FILE)
        for bit in range(0, len(image.files[_path(file)]) * BITS_IN_BYTE, BIT_STEP)
        for where in ADDED
    )


def problem_of(case: DamagedCommit) -> str | None:
    """Say what can be read after the commit, and must not; None if nothing."""
    image, path = _image(), _path(case.file)
    files = {**image.files, path: Flip(path, case.bit).apply(image.files[path])}
    storage = MemoryStorage.of(DiskImage(files, image.directories))
    added = ADDED[case.where]
    try:
        commit(storage, PATH, [added], options=OPTIONS)
    except TornproofError:
        return None if storage.image().files == files else "the commit is refused, and files are others"
    expected, rows = sorted([*FIRST, added]), _rows(storage)
    if rows is not None and rows != expected:
        return f"the rows are {rows} after the commit"
    # What was damaged may be among what the commit has replaced.
    if verify_table(open_table(storage, PATH)).all_problems:
        return None
    if rows is None:
        return "verify reports nothing, and the rows cannot be read"
    seen = _rows_seen_by_others(storage)
    return None if seen == expected else f"verify reports nothing, and others see the rows {seen}"


def failed_controls() -> Iterator[str]:
    """Yield what is not noticed of writers that continue metadata without a look at its checksum, or change others."""
    commit_rows = original_of(f"{__name__}:commit")

    def refuse_late(*of: Any, options: WriterOptions) -> None:
        commit_rows(*of, options=options)
        raise RowsRejectedError("the rows are refused too late")

    def refuse_and_leave(storage: MemoryStorage, path: str, *_: Any, **__: Any) -> None:
        storage.open_for_writing(f"{path}/left", OpenMode.NEW).close()
        raise RowsRejectedError("the rows are refused, and a file is left")

    unchecked: Controls = (
        ("any checksum is right", "tornproof.impl.pm.chain:check_checksum", lambda *_, **__: None, "after the commit"),
    )
    others: Controls = (
        ("no row is added", f"{__name__}:commit", lambda *_, **__: None, "after the commit"),
        ("what is refused has changed files", f"{__name__}:commit", refuse_late, "is refused, and files are others"),
        ("what is refused leaves a file", f"{__name__}:commit", refuse_and_leave, "is refused, and files are others"),
        ("nothing is verified", f"{__name__}:verify_table", lambda _: NOTHING, "and the rows cannot be read"),
        ("others see nothing", f"{__name__}:_rows_seen_by_others", lambda _: [], "verify reports nothing, and others"),
    )
    for file, controls in ((PM_FILE, unchecked), (DATA_FILE, others)):
        yield from not_noticed(controls, problem_of, [each for each in damaged_commits() if each.file == file])


def _rows(storage: MemoryStorage) -> list[tuple[int, str]] | None:
    """Return all rows, None if they cannot be read."""
    try:
        return rows_in(storage, PATH)
    except TornproofError:
        return None


def _rows_seen_by_others(storage: MemoryStorage) -> list[tuple[int, str]]:
    """Return the rows that pyarrow reads."""
    table = open_table(storage, PATH)
    partition = the_only(table.transaction().partitions)
    with table.files_of(partition).open_data() as data:
        rows = pq.read_table(io.BytesIO(data.pread(partition.token, 0)))
    return list(zip(rows["ts"].cast(pa.int64()).to_pylist(), rows["v"].to_pylist(), strict=True))


def _path(file: str) -> str:
    return the_only(path for path in _image().files if path.endswith(f"/{file}"))


@functools.cache
def _image() -> DiskImage:
    return table_of_rows(PATH, FIRST, of=TypeTag.VARCHAR, options=OPTIONS)
