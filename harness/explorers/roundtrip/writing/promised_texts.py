"""Whether all texts of a partition are ASCII where its header promises that, whatever rows a writer adds.

Servers cut texts of such columns at bytes (docs/format.md). Here a header gets the promise, which is true at first.
"""

from __future__ import annotations

import functools
from collections.abc import Iterator
from dataclasses import dataclass

from msgspec.structs import replace

from tornproof.harness.common.new_tables import metadata_with
from tornproof.harness.common.patch import Controls, not_noticed
from tornproof.harness.common.whose_error import the_only
from tornproof.harness.explorers.corruption.crafted import overwritten
from tornproof.harness.explorers.roundtrip.metadata.metadata_draft import (
    COLUMN_FIELDS,
    DESCRIPTOR_BYTES,
    HEADER_BYTES,
    with_checksum,
)
from tornproof.harness.explorers.roundtrip.writing.kills import (
    WRITER,
    Rows,
    commit,
    execute_and_spoil,
    reported,
    rows_in,
    table_of_rows,
)
from tornproof.harness.simulator.filesystem.image import DiskImage
from tornproof.harness.simulator.filesystem.memory import MemoryStorage
from tornproof.harness.systems.workload import FIRST_TIME
from tornproof.impl.table.metadata_file import META_FILE
from tornproof.impl.table.partition import PM_FILE
from tornproof.impl.table.table import open_table
from tornproof.impl.types.questdb import TypeTag
from tornproof.impl.write.partition_change import PartitionChanger

PROPERTY = "texts are ASCII where the header of their partition says so"
PATH = "promised"
ASCII = 2
"""The bit of a column's flags."""
FLAGS_AT = HEADER_BYTES + DESCRIPTOR_BYTES + COLUMN_FIELDS["flags"]
"""Where the flags of the second column are."""
FIRST: Rows = [(FIRST_TIME + 10 * number, f"text {number}") for number in range(1, 5)]
TEXTS = ("text", "", None, "größe", "🌡", "\x7f", "\x80")
TIMES = {"behind the others": 45, "between others": 15, "before the others": 5, "at the time of another": 20}


@dataclass(frozen=True, slots=True, kw_only=True)
class PromisedText:
    """Rows that are added one after the other, and when; the column may have another name than in the file."""

    texts: tuple[str | None, ...]
    kind: str
    is_renamed: bool

    @property
    def name(self) -> str:
        """It in words."""
        return f"rows with the texts {list(self.texts)} {self.kind}{' in a renamed column' if self.is_renamed else ''}"


@functools.cache
def promised_texts() -> tuple[PromisedText, ...]:
    """Return all rows, always in the same order."""
    together = (*((text,) for text in TEXTS), ("text", "größe"), ("größe", "text", None))
    return tuple(
        PromisedText(texts=texts, kind=kind, is_renamed=is_renamed)
        for is_renamed in (False, True)
        for kind in TIMES
        for texts in together
    )


def problem_of(case: PromisedText) -> str | None:
    """Say what is wrong with the partition after the commit; None if nothing is."""
    storage = MemoryStorage.of(_renamed() if case.is_renamed else _image())
    added = [(FIRST_TIME + TIMES[case.kind] + number, text) for number, text in enumerate(case.texts)]
    commit(storage, PATH, added)
    expected = sorted([*FIRST, *added], key=lambda row: row[0])
    if (rows := rows_in(storage, PATH)) != expected:
        return f"the rows are {rows} instead of {expected}"
    if (problem := reported(storage, PATH)) is not None:
        return problem
    table = open_table(storage, PATH)
    partition = the_only(table.transaction().partitions)
    content = storage.image().files[f"{table.files_of(partition).path}/{PM_FILE}"]
    is_ascii = all((text or "").isascii() for text in case.texts)
    return "its header still says that all texts are ASCII" if content[FLAGS_AT] & ASCII and not is_ascii else None


def failed_controls() -> Iterator[str]:
    """Yield what is not noticed of writers that keep a promise which is no longer true, or lose a row or a byte."""
    controls: Controls = (
        ("rows are lost", f"{__name__}:rows_in", lambda *_: [], "the rows are"),
        ("the name is lost", f"{WRITER}:execute", execute_and_spoil, "verify reports"),
        (
            "texts are not looked at",
            "tornproof.impl.write.partition_change:PartitionChanger",
            _Careless,
            "still says that all texts are ASCII",
        ),
    )
    # Made before all mistakes, because they are kept.
    _renamed()
    return not_noticed(controls, problem_of, promised_texts())


class _Careless(PartitionChanger, kw_only=True):
    """A writer that does not look at texts."""

    def _breaks_ascii(self, *_: object) -> bool:
        return False


@functools.cache
def _image() -> DiskImage:
    image = table_of_rows(PATH, FIRST, of=TypeTag.VARCHAR)
    path = the_only(path for path in image.files if path.endswith(PM_FILE))
    content = image.files[path]
    # The header of its only generation says that the second column is ASCII.
    promising = overwritten(content, FLAGS_AT, bytes([content[FLAGS_AT] | ASCII]))
    return image.with_file(path, with_checksum(promising))


@functools.cache
def _renamed() -> DiskImage:
    image = _image()
    content = metadata_with(
        image, PATH, lambda columns: (replace(column, name=f"{column.name} of today") for column in columns)
    )
    return image.with_file(f"{PATH}/{META_FILE}", content)
