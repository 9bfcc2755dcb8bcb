"""Files with other contents than their names promise, impossible sizes, and what they may cost."""

from collections.abc import Callable
from pathlib import Path

import pytest
from msgspec.structs import replace
from pm_builder import newest
from real_tables import Seen, put, seen, seen_with, table_image, verified, word
from rejections import rejection
from work import peak_bytes

from tornproof.impl.errors import Problem, UnsupportedError
from tornproof.impl.verify.verify import PROBLEMS_PER_PARTITION, TableReport

DAY = "2024-01-01.1"
DATA, PM = f"{DAY}/data.parquet", f"{DAY}/_pm"
TOKEN, PM_BYTES_MAX, MEMORY_BYTES_MAX = 10642, 64 << 20, 300_000_000


@pytest.mark.parametrize("file", [PM, DATA])
def test_file_that_txn_names_must_be_a_file(file: str, questdb_data: Path) -> None:
    path, image = table_image(questdb_data)
    missing = image.without_file(f"{path}/{file}")
    directory = missing.with_file(f"{path}/{file}/entry", b"")
    for damaged, actual in ((missing, "none"), (directory, "it is a directory")):
        (problem,) = verified(path, damaged).all_problems
        assert (problem.file, problem.field, problem.offset_bytes, problem.actual) == (file, "file", None, actual)


@pytest.mark.parametrize("size_bytes", [0, 1, 7, 8, 79, 80, 5000])
def test_garbage_instead_of_a_file_is_a_problem(size_bytes: int, questdb_data: Path) -> None:
    garbage = bytes(position * 37 % 251 for position in range(size_bytes))
    (of_pm,) = seen_with(questdb_data, PM, lambda _: garbage)
    assert of_pm == (PM, "PARQUET_META_FILE_SIZE", 0)
    assert seen_with(questdb_data, DATA, lambda _: garbage) == [(DATA, "size", None)]
    whole = seen_with(questdb_data, DATA, lambda data: (garbage * len(data))[: len(data)] or b"")
    assert whole[0] == ((DATA, "MAGIC", TOKEN - 4) if garbage else (DATA, "size", None))
    assert len(whole) <= PROBLEMS_PER_PARTITION


@pytest.mark.parametrize("published", [0, 1, 79, 1 << 31, (1 << 32) - 1, (1 << 63) - 1, 1 << 63, (1 << 64) - 1])
def test_published_size_that_no_generation_can_end_at_is_a_problem(published: int, questdb_data: Path) -> None:
    assert seen_with(questdb_data, PM, put(0, word(published))) == [(PM, "PARQUET_META_FILE_SIZE", 0)]


def test_published_size_beyond_the_file_is_a_problem_of_that_size(questdb_data: Path) -> None:
    path, image = table_image(questdb_data)
    size_bytes = len(image.files[f"{path}/{PM}"])
    for published in (size_bytes + 1, PM_BYTES_MAX):
        assert seen_with(questdb_data, PM, put(0, word(published))) == [(PM, "PARQUET_META_FILE_SIZE", 0)]


def test_published_size_inside_of_a_generation_is_a_problem(questdb_data: Path) -> None:
    path, image = table_image(questdb_data)
    pm = image.files[f"{path}/{PM}"]
    ends = [newest(pm).end_bytes, newest(pm).fixed.prev_parquet_meta_file_size]
    for published in (80, ends[1] + 1, ends[0] - 1):
        assert len(seen_with(questdb_data, PM, put(0, word(published)))) == 1
    assert seen_with(questdb_data, PM, put(0, word(ends[1])))[0][:2] == ("_txn", "token")
    assert seen_with(questdb_data, PM, put(0, word(ends[0]))) == []


@pytest.mark.parametrize(
    ("file", "size_bytes", "published", "found"),
    [
        (DATA, 1 << 36, None, []),
        (PM, 1 << 36, None, []),
        (PM, PM_BYTES_MAX, PM_BYTES_MAX, [(PM, "FOOTER_LENGTH", PM_BYTES_MAX - 4)]),
        ("_txn", 1 << 36, None, []),
    ],
)
def test_sparse_giant_costs_little_memory(
    file: str, size_bytes: int, published: int | None, found: Seen, copy_of: Callable[[str], Path]
) -> None:
    table = copy_of("tables/9.4.2/chain/table")
    sound = verified(table).partitions[0]
    with (table / file).open("r+b") as handle:
        before = handle.seek(0, 2)
        handle.truncate(size_bytes)
        if published is not None:
            handle.seek(0)
            handle.write(word(published))
    reports: list[TableReport] = []
    assert peak_bytes(lambda: reports.append(verified(table))) < MEMORY_BYTES_MAX
    (report,) = reports
    assert seen(report) == found
    if not found:
        grown = 0 if file == "_txn" else size_bytes - before
        assert report.partitions[0] == replace(sound, dead_bytes=grown)


@pytest.mark.parametrize(("size_bytes", "published"), [(1 << 36, 1 << 31), (1 << 36, PM_BYTES_MAX + 1)])
def test_sparse_giant_that_is_published_is_unsupported_and_not_read(
    size_bytes: int, published: int, copy_of: Callable[[str], Path]
) -> None:
    table = copy_of("tables/9.4.2/chain/table")
    with (table / PM).open("r+b") as handle:
        handle.truncate(size_bytes)
        handle.write(word(published))
    problems: list[Problem] = []
    assert peak_bytes(lambda: problems.append(rejection(lambda: verified(table), UnsupportedError))) < PM_BYTES_MAX
    (problem,) = problems
    assert (problem.file, problem.field, problem.offset_bytes) == (PM, "PARQUET_META_FILE_SIZE", 0)
    assert problem.expected == f"at most {PM_BYTES_MAX}"


def test_generation_behind_a_giant_published_size_is_not_searched_for(copy_of: Callable[[str], Path]) -> None:
    table = copy_of("power-loss/9.4.2/pm-header-old-txn-new/table")
    (named,) = verified(table, whole=False).all_problems
    with (table / PM).open("r+b") as handle:
        handle.truncate(1 << 36)
    (unnamed,) = verified(table, whole=False).all_problems
    assert ("ends at byte" in named.actual, "ends at byte" in unnamed.actual) == (True, False)
    assert named.offset_bytes == unnamed.offset_bytes
