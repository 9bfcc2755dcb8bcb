"""Rows that are older than a SHORT, BYTE, CHAR or BOOLEAN column, which has no nulls.

A server stores such a column as required, with 0 in these rows, counts them as nulls and leaves them out of the bounds.
Readers, `verify` and `migrate` called such a table damaged; and by its bounds a condition on 0 found none of the rows.
"""

from typing import Any

import pyarrow as pa
import pytest
import table_builder as tb
from real_tables import rows_of, snapshot_of, verified

from tornproof.harness.common.copies import open_writer_of_copy
from tornproof.harness.simulator.filesystem.memory import MemoryStorage
from tornproof.impl.query.predicate_text import parse_predicate
from tornproof.impl.read.counters import ReadCounters
from tornproof.impl.types.questdb import TypeTag

OLDER_COUNT, ROW_COUNT = 2, 4
NUMBERS = pa.array([0, 0, 5, 6], pa.int32())
TYPES: dict[str, tuple[int, pa.Array]] = {
    "sh": (TypeTag.SHORT, NUMBERS),
    "by": (TypeTag.BYTE, NUMBERS),
    "ch": (TypeTag.CHAR, NUMBERS),
    "bo": (TypeTag.BOOLEAN, pa.array([False, False, True, True])),
}


def table_of(name: str, tag: int | None = None, *, null_count: int = OLDER_COUNT, **options: Any) -> MemoryStorage:
    """Return a table with one of the columns, whose statistics are those of the newer rows."""
    columns = {name: (TYPES[name][0] if tag is None else tag, TYPES[name][1])}
    built = tb.build(columns, is_required=True, edit=lambda data: tb.with_older_rows(data, null_count), **options)
    return MemoryStorage.of(built.image())


def values_in(storage: MemoryStorage, name: str, where: str | None = None) -> list[Any]:
    snapshot = snapshot_of("/table", storage)
    predicate = None if where is None else parse_predicate(where, snapshot.columns)
    return [value for batch in snapshot.batches([name], where=predicate) for value in batch[name].to_pylist()]


@pytest.mark.parametrize("name", TYPES)
@pytest.mark.parametrize("has_checksums", [False, True])
def test_such_a_table_is_sound_and_read(name: str, has_checksums: bool) -> None:
    storage = table_of(name, write_page_checksum=has_checksums)
    assert verified("/table", storage).all_problems == ()
    assert values_in(storage, name) == TYPES[name][1].to_pylist()


@pytest.mark.parametrize("name", TYPES)
@pytest.mark.parametrize("has_checksums", [False, True])
@pytest.mark.parametrize("null_count", [1, 3, 4, 5])
def test_another_number_of_older_rows_is_damage(name: str, has_checksums: bool, null_count: int) -> None:
    storage = table_of(name, null_count=null_count, write_page_checksum=has_checksums)
    # With fewer, a row that is not counted has less than the minimum, which checksums make no matter.
    is_seen = not (has_checksums and null_count == 1)
    assert verified("/table", storage).sound is not is_seen


@pytest.mark.parametrize("tag", [TypeTag.INT, TypeTag.IPV4])
def test_a_required_column_of_another_type_has_no_nulls(tag: int) -> None:
    problems = verified("/table", table_of("sh", tag)).all_problems
    assert "NULL_COUNT" in problems[0].field


@pytest.mark.parametrize(
    ("name", "where", "expected"),
    [
        ("sh", "sh = 0", [0, 0]),
        ("sh", "sh < 5", [0, 0]),
        ("sh", "NOT sh > 4", [0, 0]),
        ("by", "by IN (0, 6)", [0, 0, 6]),
        ("by", "by != 5", [0, 0, 6]),
        ("bo", "bo = false", [False, False]),
        ("sh", "sh IS NULL", []),
        ("sh", "sh > 6", []),
    ],
)
def test_a_condition_finds_them_as_what_they_hold(name: str, where: str, expected: list[Any]) -> None:
    assert values_in(table_of(name), name, where) == expected


def test_what_no_row_holds_is_pruned_all_the_same() -> None:
    snapshot, counters = snapshot_of("/table", table_of("sh")), ReadCounters()
    assert not [*snapshot.batches(["sh"], where=parse_predicate("sh = 7", snapshot.columns), counters=counters)]
    assert counters.pruned.total() == counters.row_group_count == 1


@pytest.mark.parametrize("is_rewritten", [False, True])
def test_rows_can_be_written_among_them_and_the_partition_rewritten(is_rewritten: bool) -> None:
    storage = table_of("sh")
    with open_writer_of_copy(storage, "/table") as writer:
        if is_rewritten:
            writer.rewrite_partition(tb.DAY_MICROSECONDS)
        time = tb.DAY_MICROSECONDS + tb.SECOND // 2
        writer.write(pa.table({"ts": pa.array([time], pa.timestamp("us")), "sh": pa.array([7], pa.int16())}))
        writer.commit()
    assert verified("/table", storage).all_problems == ()
    assert rows_of(snapshot_of("/table", storage))["sh"].to_pylist() == [0, 7, 0, 5, 6]
    assert values_in(storage, "sh", "sh = 0") == [0, 0]
