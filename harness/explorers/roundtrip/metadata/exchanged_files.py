"""Whether a data.parquet of another partition, sound in itself and as long, is noticed beside a `_pm`.

Its footer is as long, too: it has a longer name of the program, so that it is found where the `_pm` says.
"""

from __future__ import annotations

import functools
import itertools
import json
import struct
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from types import SimpleNamespace

from tornproof.harness.common.new_tables import new_table_of_rows
from tornproof.harness.common.patch import Controls, not_noticed
from tornproof.harness.common.whose_error import the_only
from tornproof.harness.simulator.filesystem.image import DiskImage
from tornproof.harness.simulator.filesystem.memory import MemoryStorage
from tornproof.harness.systems.answer import read_answer
from tornproof.harness.systems.workload import FIRST_TIME
from tornproof.impl.errors import TornproofError
from tornproof.impl.layout.parquet import DATA_FILE
from tornproof.impl.parquet.footer import ColumnChunk, ParquetFooter
from tornproof.impl.pm.chain import Metadata
from tornproof.impl.read.reader import open_snapshot
from tornproof.impl.repair.repair import RepairReport, repair_table
from tornproof.impl.table.table import open_table
from tornproof.impl.verify.verify import verify_table
from tornproof.impl.write.writer_options import WriterOptions

PROPERTY = "files of two partitions beside each other are noticed"
PATH = "exchanged"
END = struct.Struct("<I4s")
"""The end of a Parquet file: the length of its footer, and the magic."""
PROGRAM = b"tornproof"
USUAL = {"time": "TIMESTAMP", "number": "LONG", "name": "VARCHAR"}


@dataclass(frozen=True, slots=True, kw_only=True)
class Origin:
    """A table of one partition: its columns, its numbers of rows and of those in a row group, and the first number."""

    columns: Mapping[str, str]
    row_count: int = 12
    group_rows: int = 6
    seed: int = 0


ORIGINS = {
    "the usual ones": Origin(columns=USUAL),
    "a column less": Origin(columns={"time": "TIMESTAMP", "name": "VARCHAR"}),
    "a column more": Origin(columns={**USUAL, "half": "DOUBLE"}),
    "two columns more": Origin(columns={**USUAL, "half": "DOUBLE", "key": "UUID"}),
    "a column of another type": Origin(columns={**USUAL, "number": "DOUBLE"}),
    "a column of another name": Origin(columns={"time": "TIMESTAMP", "count": "LONG", "name": "VARCHAR"}),
    "columns in another order": Origin(columns={"time": "TIMESTAMP", "name": "VARCHAR", "number": "LONG"}),
    "other values": Origin(columns=USUAL, seed=40),
    "a row more": Origin(columns=USUAL, row_count=13),
    "a row group more": Origin(columns=USUAL, row_count=18),
    "a row group less": Origin(columns=USUAL, row_count=6),
    "other sizes of row groups": Origin(columns=USUAL, group_rows=7),
}


@dataclass(frozen=True, slots=True, kw_only=True)
class ExchangedFile:
    """Of which partition the `_pm` and the table are, and of which the data.parquet, by what they have."""

    table: str
    data: str

    @property
    def name(self) -> str:
        """It in words."""
        return f"a table with {self.table}, and a data.parquet with {self.data}"

    @property
    def kind(self) -> str:
        """What the data.parquet has."""
        return self.data


@functools.cache
def exchanged_files() -> tuple[ExchangedFile, ...]:
    """Return all pairs in which neither the data.parquet nor its footer is longer, always in the same order."""
    pairs = itertools.permutations(ORIGINS, 2)
    return tuple(ExchangedFile(table=table, data=data) for table, data in pairs if _fits(table, data))


def problem_of(case: ExchangedFile) -> str | None:
    """Say what is wrong with how the table is verified, read or recovered; None if nothing is."""
    image = _table_of(case.table)
    path = the_only(_data_paths(image))
    storage = MemoryStorage.of(
        image.with_file(path, b"".join(_lengthened(_halves_of(case.data), _halves_of(case.table))))
    )
    if not verify_table(open_table(storage, PATH)).all_problems:
        return "verify reports nothing"
    with suppress(TornproofError):
        read_answer(open_snapshot(open_table(storage, PATH)))
    try:
        report = repair_table(storage, PATH)
    except TornproofError:
        return None
    is_sound = not verify_table(open_table(storage, PATH)).all_problems
    return None if is_sound or report.problems else "it is said to be recovered, and verify reports problems"


def failed_controls() -> Iterator[str]:
    """Yield what is not noticed of verifications that look past the footer, and of recoveries that do nothing."""
    verify = "tornproof.impl.verify"

    nothing_done = RepairReport(table=PATH, version=None, is_dry_run=False)

    def chunks_in(metadata: Metadata, footer: ParquetFooter | None) -> Sequence[Sequence[ColumnChunk | None]]:
        if footer is None or len(footer.row_groups) != len(metadata.blocks):
            return [[None] * len(block.chunks) for block in metadata.blocks]
        return [group.chunks for group in footer.row_groups]

    sound = SimpleNamespace(all_problems=())
    controls: Controls = (
        ("nothing is verified", f"{__name__}:verify_table", lambda *_: sound, "verify reports nothing"),
        ("sizes of other columns are taken", f"{verify}.pages:_footer_chunks", chunks_in, "ValueError"),
        # An error of the explorer itself would be no problem.
        ("a reader has a mistake", f"{__name__}:read_answer", lambda _: json.loads(""), "JSONDecodeError"),
        ("nothing is recovered", f"{__name__}:repair_table", lambda *_: nothing_done, "said to be recovered"),
    )
    return not_noticed(controls, problem_of, exchanged_files())


@functools.cache
def _table_of(name: str) -> DiskImage:
    origin = ORIGINS[name]
    storage = MemoryStorage()
    times = [FIRST_TIME + number for number in range(origin.row_count)]
    options = WriterOptions(row_group_row_count_max=origin.group_rows)
    new_table_of_rows(storage, PATH, origin.columns, times, seed=origin.seed, options=options)
    return storage.image()


def _data_paths(image: DiskImage) -> list[str]:
    return [path for path in image.files if path.endswith(f"/{DATA_FILE}")]


def _halves_of(name: str) -> tuple[bytes, bytes]:
    """Return the pages of a table's data.parquet, and its footer without the end."""
    image = _table_of(name)
    path = the_only(_data_paths(image))
    content = image.files[path]
    footer_bytes, _ = END.unpack_from(content, len(content) - END.size)
    at = len(content) - END.size - footer_bytes
    return content[:at], content[at : -END.size]


def _fits(table: str, data: str) -> bool:
    missing = (len(one) - len(other) for one, other in zip(_halves_of(table), _halves_of(data), strict=True))
    return all(bytes_missing >= 0 for bytes_missing in missing)


def _lengthened(halves: tuple[bytes, bytes], others: tuple[bytes, bytes]) -> Iterator[bytes]:
    """Yield pages and footer that are as long as others, and the end of a file."""
    (pages, footer), (other_pages, other_footer) = halves, others
    yield pages.ljust(len(other_pages), b"\0")
    size = len(PROGRAM) + len(other_footer) - len(footer)
    length = bytes([size]) if size < 128 else bytes([128 | (size - 1) % 128, (size - 1) // 128])
    yield footer.replace(bytes([len(PROGRAM)]) + PROGRAM, length + PROGRAM.ljust(size - len(length) + 1))
    yield END.pack(len(other_footer), b"PAR1")
