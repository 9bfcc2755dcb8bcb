"""`_cv` after a commit: which entries there are, and where they are stored."""

import struct
from collections.abc import Iterable

import pytest
from txn_files import applied

from tornproof.harness.simulator.filesystem.memory import MemoryStorage
from tornproof.impl.errors import CorruptError, UnsupportedError
from tornproof.impl.layout.cv import ColumnVersion
from tornproof.impl.storage.interface import OpenMode
from tornproof.impl.table.column_versions import (
    DEFAULT_PARTITION,
    ENTRY_BYTES,
    NEW_FILE_BYTES,
    ColumnVersions,
    decode_column_versions,
    is_ahead,
    plan_column_versions,
)
from tornproof.impl.txn.transaction import I64_MAX

DAYS = (100, 200, 300)
LATE, OTHER, SYMBOL, FIRST = 4, 5, 6, 0
"""Two columns that came in the last partition, a dictionary that was made anew, and a column of the first day."""
BEFORE = (
    (DEFAULT_PARTITION, LATE, 7, DAYS[2]),
    (DEFAULT_PARTITION, OTHER, 8, DAYS[2]),
    (DEFAULT_PARTITION + 1, SYMBOL, 9, 0),
    (DAYS[1], LATE, 3, 2),
    (DAYS[2], OTHER, 8, 5),
)
ROW_COUNTS = dict.fromkeys(DAYS, 10)


def versions(entries: Iterable[tuple[int, int, int, int]]) -> ColumnVersions:
    names = ColumnVersion.layout.names
    return ColumnVersions({entry[:2]: ColumnVersion(**dict(zip(names, entry, strict=True))) for entry in entries})


def after(
    *, dropped: Iterable[int] = (), written: Iterable[int] = (), columns: Iterable[int] = (FIRST, LATE, OTHER)
) -> ColumnVersions:
    kept = {day: count for day, count in ROW_COUNTS.items() if day not in {*dropped} - {*written}}
    return versions(BEFORE).after(kept, dropped={*dropped}, written={*written}, column_ids=columns)


def test_no_row_of_a_written_partition_is_older_than_a_column_and_names_stay() -> None:
    changed = [(DAYS[0], LATE, 7, 0), (DAYS[0], OTHER, 8, 0)]
    assert after(written=DAYS[:1]) == versions([*BEFORE, *changed])
    changed = [(DAYS[1], LATE, 3, 0), (DAYS[1], OTHER, 8, 0)]
    assert after(written=DAYS[1:2]) == versions([*BEFORE, *changed])
    assert after(written=DAYS[2:]) == versions([*BEFORE, (DAYS[2], OTHER, 8, 0)])
    assert after(written=DAYS[:1], columns=(FIRST, OTHER)) == versions([*BEFORE, (DAYS[0], OTHER, 8, 0)])


def test_nothing_changes_if_no_partition_is_written_that_has_older_rows() -> None:
    assert after() == after(written=DAYS, columns=(FIRST,)) == versions(BEFORE)
    once = after(written=DAYS)
    assert once.after(ROW_COUNTS, dropped=set(), written={*DAYS}, column_ids=(LATE, OTHER)) == once


def test_a_dropped_partition_has_no_entries_also_if_it_is_written_anew() -> None:
    assert after(dropped=DAYS[1:2]) == versions([*BEFORE[:3], *BEFORE[4:]])
    anew = [(DAYS[1], LATE, 7, 0), (DAYS[1], OTHER, 8, 0)]
    assert after(dropped=DAYS[1:2], written=DAYS[1:2]) == versions([*BEFORE[:3], *BEFORE[4:], *anew])


def test_columns_of_a_last_partition_that_is_dropped_begin_behind_the_new_last() -> None:
    """They began in the dropped one, and a server took rows that it put into earlier ones for older than them."""
    late, other = (DEFAULT_PARTITION, LATE, 7, DAYS[1]), (DEFAULT_PARTITION, OTHER, 8, DAYS[1])
    expected = [late, other, *BEFORE[2:4], (DAYS[1], OTHER, 8, 10)]
    assert after(dropped=DAYS[2:]) == versions(expected)
    emptied = [(DEFAULT_PARTITION, LATE, 7, DEFAULT_PARTITION), (DEFAULT_PARTITION, OTHER, 8, DEFAULT_PARTITION)]
    assert after(dropped=DAYS) == versions([*emptied, BEFORE[2]])


@pytest.mark.parametrize("count", [0, 3, 200])
@pytest.mark.parametrize("version", [0, 1, 6, 7])
def test_each_version_is_stored_beside_the_one_before_and_counts_by_the_number_in_txn(version: int, count: int) -> None:
    content = struct.pack("<q", version).ljust(NEW_FILE_BYTES, b"\0")
    known = ColumnVersions({})
    # Later ones are larger, equal and smaller, so that areas are before and behind each other.
    for number, more in enumerate((count, count + 1, count + 1, 1), version):
        following = versions((day, LATE, 7, 0) for day in range(more))
        plan = plan_column_versions(content, following, version=number)
        grown = content.ljust(plan.file_size_bytes, b"\0")
        for store in plan.record_stores:
            assert store.offset_bytes >= 8
            grown = applied(grown, (store,))
            assert decode_column_versions(grown, version=number, file="_cv") == known
        content = applied(grown, (plan.version_store,))
        assert decode_column_versions(content, version=number, file="_cv") == known
        assert decode_column_versions(content, version=number + 1, file="_cv") == following
        assert len(content) % NEW_FILE_BYTES == 0
        known = following


def test_entries_are_stored_in_the_order_in_which_servers_search_them() -> None:
    stored = [*struct.iter_unpack("<4q", versions(reversed(BEFORE)).encode())]
    assert stored == sorted(BEFORE) and len(stored) * ENTRY_BYTES == len(versions(BEFORE).encode())


def test_a_version_that_a_killed_commit_left_is_stored_anew() -> None:
    left = struct.pack("<5q", 4, 40, 32, 72, 32) + struct.pack("<8q", 1, LATE, 7, 0, 2, LATE, 7, 0)
    plan = plan_column_versions(left, versions(BEFORE), version=3)
    stored = applied(left.ljust(plan.file_size_bytes, b"\0"), (*plan.record_stores, plan.version_store))
    assert decode_column_versions(stored, version=4, file="_cv") == versions(BEFORE)
    assert decode_column_versions(stored, version=3, file="_cv") == versions([(2, LATE, 7, 0)])


def test_a_file_that_is_damaged_or_would_be_too_large_is_not_written_to(monkeypatch: pytest.MonkeyPatch) -> None:
    for version in (1, 3):
        with pytest.raises(CorruptError, match="VERSION"):
            plan_column_versions(struct.pack("<5q", 4 - version, 0, 0, 0, 0), versions(BEFORE), version=version)
    end = struct.pack("<5q", I64_MAX, 0, 0, 0, 0)
    with pytest.raises(UnsupportedError, match="VERSION"):
        plan_column_versions(end, versions(BEFORE), version=I64_MAX)
    storage = MemoryStorage()
    with storage.open_for_writing("_cv", OpenMode.NEW) as file:
        file.pwrite(end, 0)
    assert not is_ahead(storage, "_cv", I64_MAX) and is_ahead(storage, "_cv", I64_MAX - 1)
    monkeypatch.setattr("tornproof.impl.table.column_versions.CV_LIMIT_BYTES", NEW_FILE_BYTES)
    with pytest.raises(UnsupportedError, match="size"):
        plan_column_versions(bytes(NEW_FILE_BYTES), versions((day, LATE, 7, 0) for day in range(200)), version=0)
