"""Damage of single files, each beside the same files undamaged."""

import struct
from collections.abc import Callable
from functools import partial
from pathlib import Path, PurePosixPath

import pytest
import table_builder as tb
from golden_data import CopyOf
from msgspec.structs import replace
from pm_builder import newest, set_chunk, set_footer
from real_tables import CHAIN, Seen, put, seen, seen_with, snapshot_of, table_image, verified, word
from rejections import rejection
from work import peak_bytes

from tornproof.harness.simulator.filesystem.image import DiskImage
from tornproof.impl.errors import Problem, UnsupportedError
from tornproof.impl.layout import txn
from tornproof.impl.parquet.footer import decode_footer
from tornproof.impl.storage.operating_system import OperatingSystemStorage
from tornproof.impl.table.table import open_table
from tornproof.impl.txn.transaction import I64_MAX, I64_MIN, area_of
from tornproof.impl.txn.write import lag_checksum
from tornproof.impl.verify.transaction_record import _lag_checksums
from tornproof.impl.verify.verify import PROBLEMS_PER_PARTITION, TableReport, verify_table

DAY = "2024-01-01.1"
DATA, PM = f"{DAY}/data.parquet", f"{DAY}/_pm"
TOKEN = 10642


def with_format_bit(image: DiskImage, path: str, position: int, value: int) -> DiskImage:
    """Set bit 61 of a partition's entry in `_txn`, by the index of the partition."""
    partition = snapshot_of(path, image).transaction.partitions[position]
    content, offset = bytearray(image.files[f"{path}/_txn"]), partition.flags_offset_bytes
    word = struct.unpack_from("<Q", content, offset)[0]
    struct.pack_into("<Q", content, offset, word & ~(1 << 61) | value << 61)
    return image.with_file(f"{path}/_txn", bytes(content))


def test_parquet_directory_under_a_native_entry_is_a_problem_of_the_entry(questdb_data: Path) -> None:
    path, image = table_image(questdb_data)
    flipped = with_format_bit(image, path, 0, 0)
    entry = snapshot_of(path, image).transaction.partitions[0].flags_offset_bytes
    assert seen(verified(path, flipped)) == [("_txn", f"PARQUET_FORMAT of {DAY}", entry)]
    for name in ("ts.d", "ts.d.7"):
        with_columns = flipped.with_file(f"{path}/{DAY}/{name}", b"")
        assert verified(path, with_columns, whole=False).sound
        assert f"PARQUET_FORMAT of {DAY}" not in [field for _, field, _ in seen(verified(path, with_columns))]


def test_a_partition_with_a_copy_elsewhere_is_sound_and_one_that_is_only_there_is_not_supported(
    questdb_data: Path,
) -> None:
    """A server marks it in the highest bit of the token, which was called damaged."""
    path, image = table_image(questdb_data)
    entry = snapshot_of(path, image).transaction.partitions[0]
    content = bytearray(image.files[f"{path}/_txn"])
    content[entry.token_offset_bytes + 7] |= 0x80
    remote = image.with_file(f"{path}/_txn", bytes(content))
    assert verified(path, remote).sound
    struct.pack_into("<Q", content, entry.flags_offset_bytes, 1 << 61 | entry.row_count)
    away = remote.with_file(f"{path}/_txn", bytes(content)).without_file(f"{path}/{DATA}").without_file(f"{path}/{PM}")
    with pytest.raises(UnsupportedError, match="the partition is remote"):
        verified(path, away)


def test_native_directory_under_a_parquet_entry_is_a_problem(questdb_data: Path) -> None:
    path, image = table_image(questdb_data)
    token = snapshot_of(path, image).transaction.partitions[1].token_offset_bytes
    damaged = with_format_bit(image, path, 1, 1)
    assert verified(path, image).sound
    assert seen(verified(path, damaged)) == [("_txn", "token", token)]
    assert verified(path, damaged).notes == ()
    content = bytearray(damaged.files[f"{path}/_txn"])
    struct.pack_into("<q", content, token, 1000)
    with_token = damaged.with_file(f"{path}/_txn", bytes(content))
    assert seen(verified(path, with_token)) == [("2024-01-02/data.parquet", "file", None)]


def test_missing_directory_of_a_partition_is_a_problem(questdb_data: Path) -> None:
    path, image = table_image(questdb_data)

    def without(name: str) -> DiskImage:
        files = {position: content for position, content in image.files.items() if f"/{name}/" not in position}
        return DiskImage(
            files, frozenset(str(parent) for position in files for parent in PurePosixPath(position).parents)
        )

    assert seen(verified(path, without("2024-01-02"))) == [("2024-01-02", "directory", None)]
    assert seen(verified(path, without(DAY))) == [(PM, "file", None)]


def test_quick_leaves_pages_out_and_nothing_else(questdb_data: Path) -> None:
    path = questdb_data / "power-loss/9.4.2/one-byte-flipped-inside-a-data-page/table"
    slow, quick = verified(path, whole=False), verified(path, quick=True, whole=False)
    assert (slow.sound, quick.sound) == (False, True)
    assert (quick.counts.chunks, quick.counts.pages_bytes) == (0, 0)
    pages = ("chunks", "decoded_chunks", "pages_bytes")
    assert replace(quick.counts, **{name: getattr(slow.counts, name) for name in pages}) == slow.counts
    zeros = verified(questdb_data / "power-loss/9.4.2/data-tail-zeros/table", quick=True, whole=False)
    assert [problem.field for problem in zeros.all_problems] == ["MAGIC", "FOOTER_LENGTH", "version"]


def test_problems_of_a_partition_are_capped_and_its_counts_are_not_lost(questdb_data: Path) -> None:
    path, image = table_image(questdb_data, "tables/9.4.2/wide/table")
    sound = verified(path, image).partitions[0]
    data = f"{path}/{sound.name}/data.parquet"
    damaged = image.with_file(data, bytes(sound.token) + image.files[data][sound.token :])
    report = verified(path, damaged)
    assert len(report.all_problems) == PROBLEMS_PER_PARTITION
    assert replace(report.partitions[0], problems=()) == sound
    assert 0 < report.counts.chunks <= PROBLEMS_PER_PARTITION


def test_progress_names_every_partition_in_order(questdb_data: Path) -> None:
    names: list[str] = []
    table = open_table(OperatingSystemStorage(), str(questdb_data / "tables/9.4.2/many/table"))
    report = verify_table(table, progress=names.append)
    assert names == [partition.name for partition in report.partitions]
    assert len(names) > 10


def test_impossible_time_of_a_partition_is_a_problem_of_the_table(questdb_data: Path) -> None:
    path, image = table_image(questdb_data)
    partition = snapshot_of(path, image).transaction.partitions[-1]
    content = bytearray(image.files[f"{path}/_txn"])
    struct.pack_into("<q", content, partition.entry_offset_bytes, (1 << 63) - 1)
    report = verified(path, image.with_file(f"{path}/_txn", bytes(content)))
    assert seen(report) == [("_txn", "TIMESTAMP of a partition", partition.entry_offset_bytes)]
    assert (report.version, report.partitions, len(report.problems)) == (None, (), 1)
    assert txn.PARQUET_FORMAT.mask == 1 << 61


@pytest.mark.parametrize(
    ("change", "found"),
    [
        (lambda data: data, []),
        (lambda data: data + b"dead", []),
        (lambda data: data[:-1], [("size", None)]),
        (lambda data: data[:-1] + b"2", [("MAGIC", 4)]),
        (lambda data: None, [("file", None)]),
    ],
)
def test_partition_without_pm_must_have_its_data(
    change: Callable[[bytes], bytes | None], found: list[tuple[str, int | None]], questdb_data: Path
) -> None:
    path, image = table_image(questdb_data, "legacy/9.3.4/chain/table")
    position = f"{path}/{DATA}"
    data = image.files[position]
    changed = change(data)
    damaged = image.without_file(position) if changed is None else image.with_file(position, changed)
    report = verified(path, damaged)
    assert seen(report) == [(DATA, field, back and len(data) - back) for field, back in found]
    assert len(report.notes) == (not found)


def entry_and_fixed_rows(questdb_data: Path) -> tuple[int, int]:
    """Where `_txn` of the chain table has the first partition's rows, and the rows of all but the last."""
    path, image = table_image(questdb_data)
    snapshot = snapshot_of(path, image)
    base = txn.BaseHeader.unpack(image.files[f"{path}/_txn"], 0, file="_txn")
    fixed = txn.TransactionRecord.layout.offset_of("fixed_row_count")
    record = area_of(base, snapshot.transaction.version).record_offset
    return snapshot.transaction.partitions[0].row_count_offset_bytes, record + fixed


@pytest.mark.parametrize("rows", [0, 22, 24, (1 << 44) - 1])
def test_row_count_of_txn_must_be_that_of_the_row_groups(rows: int, questdb_data: Path) -> None:
    entry, fixed = entry_and_fixed_rows(questdb_data)
    path, image = table_image(questdb_data)
    old = struct.unpack_from("<Q", image.files[f"{path}/_txn"], entry)[0]
    changed = put(entry, word(old >> 44 << 44 | rows))
    assert seen_with(questdb_data, "_txn", changed) == [("_txn", "FIXED_ROW_COUNT", fixed)]
    both = seen_with(questdb_data, "_txn", lambda data: put(fixed, word(rows))(changed(data)))
    assert both == [("_txn", f"ROW_COUNT of {DAY}", entry)]


@pytest.mark.parametrize("token", [-1, 0, 7, TOKEN - 1, TOKEN + 1, (1 << 63) - 1, -(1 << 63)])
def test_token_without_a_generation_is_a_problem_of_txn(token: int, questdb_data: Path) -> None:
    path, image = table_image(questdb_data)
    position = snapshot_of(path, image).transaction.partitions[0].token_offset_bytes
    assert seen_with(questdb_data, "_txn", put(position, word(token))) == [("_txn", "token", position)]


def test_token_of_an_older_generation_leaves_the_newer_ones_as_orphans(questdb_data: Path) -> None:
    path, image = table_image(questdb_data)
    partition = snapshot_of(path, image).transaction.partitions[0]
    pm = image.files[f"{path}/{PM}"]
    older = newest(pm[: newest(pm).fixed.prev_parquet_meta_file_size])
    changed = image.with_file(
        f"{path}/_txn", put(partition.token_offset_bytes, word(older.token))(image.files[f"{path}/_txn"])
    )
    report = verified(path, changed)
    assert [problem.field for problem in report.all_problems] == [f"ROW_COUNT of {DAY}"]
    found = report.partitions[0]
    assert (found.generations, found.orphans) == (3, 1)
    assert found.dead_bytes == TOKEN - older.token + len(pm) - older.end_bytes


@pytest.mark.parametrize(
    ("change", "found"),
    [
        (lambda data: data + b"x" * 100, []),
        (lambda data: data[:-1], [("size", None)]),
        (lambda data: b"", [("size", None)]),
        (put(TOKEN - 4, b"PAR2"), [("MAGIC", TOKEN - 4)]),
        (put(TOKEN - 4, b"PARE"), [("MAGIC", TOKEN - 4)]),
        (put(TOKEN - 8, b"\0"), [("FOOTER_LENGTH", TOKEN - 8)]),
        (put(TOKEN - 8, b"\xff\xff\xff\xff"), [("FOOTER_LENGTH", TOKEN - 8)]),
    ],
)
def test_data_must_reach_the_token_and_end_there_as_parquet_does(
    change: Callable[[bytes], bytes], found: list[tuple[str, int | None]], questdb_data: Path
) -> None:
    assert seen_with(questdb_data, DATA, change) == [(DATA, field, offset) for field, offset in found]


def test_problem_of_the_metadata_names_column_and_row_group(questdb_data: Path) -> None:
    found = seen_with(questdb_data, PM, lambda pm: set_chunk(pm, "num_values", 5, column=1, row_group=2))
    assert [(file, field) for file, field, _ in found] == [
        (PM, "NUM_VALUES of column 'v' of row group 2"),
        (DATA, "row_groups[2].columns[1].num_values"),
        (DATA, "pages"),
    ]


def test_problem_of_an_older_generation_is_found(questdb_data: Path) -> None:
    path, image = table_image(questdb_data)
    pm = image.files[f"{path}/{PM}"]
    older_end = newest(pm).fixed.prev_parquet_meta_file_size
    broken = set_footer(pm[:older_end], "unused_bytes", 1 << 40) + pm[older_end:]
    sealed = set_footer(broken, "unused_bytes", newest(pm).fixed.unused_bytes)
    report = verified(path, image.with_file(f"{path}/{PM}", sealed))
    assert [(problem.file, problem.field) for problem in report.all_problems] == [(PM, "UNUSED_BYTES")]
    assert report.partitions[0].generations == 4


@pytest.mark.parametrize(
    ("name", "limited"),
    [("THRIFT_LIMIT_BYTES", 100), ("decode_footer", partial(decode_footer, node_count_max=100))],
    ids=["bytes", "nodes"],
)
def test_thrift_footer_above_the_limit_is_left_out_with_a_note(
    name: str, limited: object, questdb_data: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path, image = table_image(questdb_data)
    sound = verified(path, image)
    monkeypatch.setattr(f"tornproof.impl.verify.verify.{name}", limited)
    report = verified(path, image)
    assert (sound.counts.thrift_footers, sound.notes) == (1, ())
    assert (report.sound, report.counts.thrift_footers) == (True, 0)
    (note,) = report.notes
    assert note.startswith(f"{DAY} has a Thrift footer")


def record_of(questdb_data: Path, table: str = CHAIN) -> tuple[int, txn.TransactionRecord]:
    """Return where a table's record is in `_txn`, and what it says."""
    path, image = table_image(questdb_data, table)
    transaction = snapshot_of(path, image).transaction
    return transaction.record_offset, transaction.record


def seen_of_record(questdb_data: Path, record: txn.TransactionRecord, table: str = CHAIN) -> list[str]:
    """Return the fields with problems of a table that is sound but for its record."""
    at, _ = record_of(questdb_data, table)
    path, image = table_image(questdb_data, table)
    changed = put(at, record.pack())(image.files[f"{path}/_txn"])
    return [field for _, field, _ in seen(verified(path, image.with_file(f"{path}/_txn", changed)))]


@pytest.mark.parametrize(
    ("field", "found"),
    [
        *((name, "LAG_CHECKSUM") for name in ("seq_txn", "lag_checksum", "lag_txn_count", "lag_row_count")),
        *((name, "LAG_CHECKSUM") for name in ("lag_min_timestamp", "lag_max_timestamp")),
        ("min_timestamp", "MIN_TIMESTAMP"),
        ("max_timestamp", "MAX_TIMESTAMP"),
    ],
)
def test_flipped_bit_of_the_record_is_a_problem(field: str, found: str, questdb_data: Path) -> None:
    """A table with a flipped bit in any of these was called sound."""
    at, record = record_of(questdb_data)
    assert seen_of_record(questdb_data, record) == []
    assert seen_of_record(questdb_data, record.changed(**{field: getattr(record, field) ^ 1})) == [found]
    position = at + record.layout.offset_of(found.lower())
    path, image = table_image(questdb_data)
    changed = put(at, record.changed(**{field: getattr(record, field) ^ 1}).pack())(image.files[f"{path}/_txn"])
    assert seen(verified(path, image.with_file(f"{path}/_txn", changed), quick=True)) == [("_txn", found, position)]


def test_checksums_that_servers_leave_without_a_lag_are_no_problem(questdb_data: Path) -> None:
    """TRUNCATE leaves that of a new table; a lag that is taken back, that of SEQ_TXN 0, with its sign behind it."""
    _, record = record_of(questdb_data)
    assert record.seq_txn
    of_new = lag_checksum(record.changed(txn=0, seq_txn=0))
    assert seen_of_record(questdb_data, record.changed(lag_checksum=of_new)) == ["LAG_CHECKSUM"]
    times = {"min_timestamp": I64_MAX, "max_timestamp": I64_MIN, "transient_row_count": 0}
    emptied = record.changed(**times, lag_checksum=of_new, symbol_column_count=0)
    empty = tb.BuiltTable(files={"_txn": tb.txn(rows=0, token=0, entries=[])}).image()
    at = txn.BaseHeader.layout.size_bytes
    content = empty.files["/table/_txn"]
    emptied = emptied.changed(txn=tb.VERSION, fixed_row_count=0)
    assert verified("/table", empty.with_file("/table/_txn", put(at, emptied.pack())(content))).sound
    for version in (1, 2, 3, 4):
        taken_back = record.changed(txn=version)
        checksum = lag_checksum(taken_back.changed(seq_txn=0))
        taken_back = taken_back.changed(lag_checksum=checksum, lag_txn_count=-(checksum < 0))
        assert checksum in _lag_checksums(taken_back, has_wal=True)
        assert checksum not in _lag_checksums(taken_back, has_wal=False)


def test_a_row_that_is_inserted_after_the_log_was_taken_from_a_table_leaves_it_sound(questdb_data: Path) -> None:
    """The sign of the checksum became a lag of -1 transactions, whose checksum a server counts as that of 1."""
    table = "tables/9.4.2/nonwal/table"
    _, record = record_of(questdb_data, table)
    unordered = record.changed(lag_txn_count=-1)
    assert seen_of_record(questdb_data, unordered.changed(lag_checksum=lag_checksum(unordered)), table) == []
    checksum = lag_checksum(record.changed(lag_txn_count=1))
    assert seen_of_record(questdb_data, unordered.changed(lag_checksum=checksum), table) == []
    flipped_sequence = unordered.changed(lag_checksum=checksum, seq_txn=record.seq_txn ^ 1)
    assert seen_of_record(questdb_data, flipped_sequence, table) == ["LAG_CHECKSUM"]


def test_a_table_that_was_restored_from_a_checkpoint_is_sound_without_a_checksum_of_its_lag(questdb_data: Path) -> None:
    """It was damage until its next commit, because a checkpoint leaves the checksum out."""
    _, record = record_of(questdb_data)
    restored = record.changed(lag_checksum=0)
    assert seen_of_record(questdb_data, restored) == []
    assert seen_of_record(questdb_data, restored.changed(lag_row_count=1)) == ["LAG_CHECKSUM"]


def test_a_partition_whose_only_rows_are_in_the_lag_is_sound_without_rows(questdb_data: Path) -> None:
    """A server makes a partition of no rows for the first rows in the lag, which was damage until they were applied."""
    table = "tables/9.4.2/nonwal/table"
    _, record = record_of(questdb_data, table)
    times = {"lag_min_timestamp": record.max_timestamp, "lag_max_timestamp": record.max_timestamp}
    lagging = record.changed(transient_row_count=0, lag_row_count=1, lag_txn_count=1, **times)
    assert seen_of_record(questdb_data, lagging.changed(lag_checksum=lag_checksum(lagging)), table) == []


def test_native_rows_that_a_flipped_bit_hides_are_missed(questdb_data: Path) -> None:
    _, record = record_of(questdb_data, "tables/9.4.2/nonwal/table")
    assert record.transient_row_count == 1
    fewer = record.changed(transient_row_count=0)
    assert seen_of_record(questdb_data, fewer, "tables/9.4.2/nonwal/table") == ["TRANSIENT_ROW_COUNT"]
    later = record.changed(max_timestamp=record.max_timestamp + 1)
    assert seen_of_record(questdb_data, later, "tables/9.4.2/nonwal/table") == ["MAX_TIMESTAMP"]


# Other contents than their names promise, impossible sizes, and what they may cost


PM_BYTES_MAX, MEMORY_BYTES_MAX = 64 << 20, 300_000_000


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
    file: str, size_bytes: int, published: int | None, found: Seen, copy_of: CopyOf
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
    size_bytes: int, published: int, copy_of: CopyOf
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


def test_generation_behind_a_giant_published_size_is_not_searched_for(copy_of: CopyOf) -> None:
    table = copy_of("power-loss/9.4.2/pm-header-old-txn-new/table")
    (named,) = verified(table, whole=False).all_problems
    with (table / PM).open("r+b") as handle:
        handle.truncate(1 << 36)
    (unnamed,) = verified(table, whole=False).all_problems
    assert ("ends at byte" in named.actual, "ends at byte" in unnamed.actual) == (True, False)
    assert named.offset_bytes == unnamed.offset_bytes
