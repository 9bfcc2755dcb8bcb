"""What readers are asked for in words: columns in other letters, empty conditions, and rows without columns."""

from __future__ import annotations

import functools
import itertools
from collections.abc import Iterator
from typing import Any

import pyarrow as pa

from tornproof.harness.common.new_tables import new_table_of_rows
from tornproof.harness.explorers.roundtrip.metadata.chains import generation
from tornproof.harness.explorers.roundtrip.worked_out.question import Question, outcome_of
from tornproof.harness.explorers.roundtrip.writing.kills import table_of_rows
from tornproof.harness.simulator.filesystem.memory import MemoryStorage
from tornproof.harness.systems.workload import FIRST_TIME
from tornproof.impl.pm.view import VerifiedGenerations, open_view
from tornproof.impl.query.predicate import columns_of, truth
from tornproof.impl.query.predicate_literal import PredicateError
from tornproof.impl.query.predicate_text import parse_predicate
from tornproof.impl.read.reader import Snapshot, open_snapshot
from tornproof.impl.table.columns import SnapshotColumn
from tornproof.impl.table.partition import PM_FILE
from tornproof.impl.table.table import open_table
from tornproof.impl.types.physical import PhysicalType
from tornproof.impl.types.questdb import TypeTag

PATH = "table"
NAMES = ("price", "Price", "PRICE", "preis")
WIDE_NAMES = ("zeit", "größe", "abcdefg", "日本", "ab", "größen")
"""Some have as many bytes as others have characters."""
ROWS = [(FIRST_TIME + number, number) for number in range(5)]


def asked_in_words() -> Iterator[Question]:
    """Yield names of columns as tables and conditions write them, empty conditions, and conditions without columns."""
    for names, asked in itertools.product((*zip(NAMES), ("price", "PRICE"), ("a", "Preis")), NAMES):
        same = [name for name in names if name == asked] or [each for each in names if each.lower() == asked.lower()]
        words = f"which of the columns {', '.join(names)} a condition on {asked} is about"
        yield Question(
            "names", words, functools.partial(_column_of, names, asked), same[0] if len(same) == 1 else "PredicateError"
        )
    for where, expected in ((None, len(ROWS)), ("v > 2", 2), ("", "PredicateError"), (" ", "PredicateError")):
        for columns in (None, [], ["ts"]):
            words = f"how many rows of the columns {columns} come where {where!r} holds"
            yield Question("rows asked for", words, functools.partial(_row_count, where, columns), expected)

    for width, size_bytes in itertools.product((2, 16, 20), repeat=2):
        words = f"how many of two values of {width} bytes without a type are equal to one of {size_bytes}"
        expected = 1 if width == size_bytes else "PredicateError"
        yield Question("names", words, functools.partial(_equal_bytes, width, size_bytes), expected)
    for number, name in enumerate(WIDE_NAMES):
        words = f"the place of the column {name} in metadata"
        yield Question("names", words, functools.partial(_place_of, name), number)

    words = "whether a damaged copy of metadata is verified after the sound one, at another path"
    yield Question("copies", words, functools.partial(_viewed_after, "other/_pm"), "CorruptError")


def _viewed_after(path: str) -> Any:
    """Return what comes of a view of metadata of which a bound is another one, after one of the sound ones."""
    draft, verified = generation(0), VerifiedGenerations()
    content = draft.encoded()
    open_view(content, draft.token, file="one/_pm", verified=verified)
    at = draft.at["block 0"]
    damaged = content[:at] + bytes((content[at] ^ 1,)) + content[at + 1 :]
    return outcome_of(lambda: type(open_view(damaged, draft.token, file=path, verified=verified)).__name__)


def _equal_bytes(width: int, size_bytes: int) -> Any:
    column = SnapshotColumn(
        id=0, name="h", type=-1, physical_type=PhysicalType.FIXED_LEN_BYTE_ARRAY, fixed_byte_len=width
    )
    values = pa.array([bytes(width), b"\x22" * width], pa.binary(width))
    where = f"h = x'{'22' * size_bytes}'"
    return outcome_of(lambda: truth(parse_predicate(where, [column]), {0: values}).to_pylist().count(True))


def _place_of(name: str) -> int | None:
    storage = MemoryStorage()
    new_table_of_rows(
        storage, PATH, {each: "LONG" if number else "TIMESTAMP" for number, each in enumerate(WIDE_NAMES)}, [FIRST_TIME]
    )
    (partition,) = open_table(storage, PATH).transaction().partitions
    (content,) = (each for path, each in storage.image().files.items() if path.endswith(PM_FILE))
    return open_view(content, partition.token, file=PM_FILE, verified=VerifiedGenerations()).find_column(name)


def _column_of(names: tuple[str, ...], asked: str) -> str:
    columns = [
        SnapshotColumn(id=number, name=name, type=TypeTag.LONG, physical_type=2) for number, name in enumerate(names)
    ]
    try:
        predicate = parse_predicate(f"{asked} = 1", columns)
    except PredicateError as error:
        return type(error).__name__
    (column,) = columns_of(predicate)
    return column.name


def _row_count(where: str | None, columns: list[str] | None) -> Any:
    snapshot = _snapshot()
    return outcome_of(
        lambda: sum(batch.num_rows for batch in snapshot.batches(columns, where=snapshot.condition(where)))
    )


@functools.cache
def _snapshot() -> Snapshot:
    return open_snapshot(open_table(table_of_rows(PATH, ROWS), PATH))
