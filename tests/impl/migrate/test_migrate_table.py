"""Migration of tables on a storage: what is written, left alone and rejected, and what a later run finds."""

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import golden_data
import pm_builder as pm
import pytest
from damage import flipped
from depth import sampled
from real_tables import (
    CHAIN,
    files_below,
    in_memory,
    parquet_rows_of_json,
    put,
    read_json,
    rows_of,
    snapshot_of,
    sql_rows,
    verified,
)

from tornproof.harness.common.made_rows import rows_for
from tornproof.harness.simulator.filesystem.faulty import Fault, FaultyStorage
from tornproof.harness.simulator.filesystem.intercept import CallKind
from tornproof.harness.simulator.filesystem.memory import MemoryStorage
from tornproof.harness.systems.table import GROWING
from tornproof.impl.errors import BusyError, NotATableError, StorageError
from tornproof.impl.layout import txn as txn_layout
from tornproof.impl.layout.parquet import DATA_FILE
from tornproof.impl.migrate.convert import ConversionMode, convert
from tornproof.impl.migrate.partition_migration import committed_footer_digest
from tornproof.impl.migrate.plan import Migration, Outcome, PartitionMigration
from tornproof.impl.migrate.table_migration import migrate_table
from tornproof.impl.pm.chain import walk
from tornproof.impl.repair.repair import ActionKind, forget_kept, repair_table
from tornproof.impl.storage.interface import File, OpenMode, StorageReason
from tornproof.impl.table.partition import PM_FILE
from tornproof.impl.table.table import open_table
from tornproof.impl.txn.pins import PINS_FILE, pin_committed, take_writer_lock
from tornproof.impl.txn.transaction import TXN_FILE, Partition, Transaction, area_of
from tornproof.impl.write.table_writer import open_writer

LEGACY = "legacy/9.3.4/chain"
DAY = "2024-01-01.1"
OLD_HEADER = "power-loss/9.4.2/pm-header-old-txn-new"
TAIL = b"bytes of a writer that was killed"


def opened(questdb_data: Path, name: str = f"{LEGACY}/table") -> tuple[str, MemoryStorage]:
    return in_memory(questdb_data / name)


def changed(storage: MemoryStorage, path: str, file: str, content: bytes) -> MemoryStorage:
    """The table with another content of a file."""
    return MemoryStorage.of(storage.image().with_file(f"{path}/{file}", content))


def golden_pm(questdb_data: Path, name: str) -> dict[str, bytes]:
    """What the real migration wrote, by the file's name below the table."""
    return {f"{file.stem}/{PM_FILE}": file.read_bytes() for file in (questdb_data / name / "migrated").glob("*.pm")}


def outcomes(done: Migration) -> list[Outcome]:
    return [partition.outcome for partition in done.partitions]


def only_one(done: Migration) -> PartitionMigration:
    (partition,) = done.partitions
    return partition


def demand_rejected(storage: MemoryStorage, path: str, words: str, **settings: Any) -> None:
    """The one partition is rejected with this message, and nothing changes but `_pins`."""
    before = files_below(path, storage)
    done = migrate_table(storage, path, **settings)
    assert outcomes(done) == [Outcome.REJECTED]
    assert words in only_one(done).sentence
    assert not done.is_complete
    assert files_below(path, storage) == before


# What is written


@pytest.mark.parametrize("name", golden_data.LEGACY_TABLES)
def test_a_legacy_table_gets_the_files_that_the_real_migration_wrote(questdb_data: Path, name: str) -> None:
    path, storage = opened(questdb_data, f"{name}/table")
    before, expected = files_below(path, storage), golden_pm(questdb_data, name)
    done = migrate_table(storage, path)
    assert expected and files_below(path, storage) == before | expected
    assert done.is_complete and set(outcomes(done)) == {Outcome.MIGRATED}
    written = {f"{each.name}/{PM_FILE}": each.pm_bytes for each in done.partitions}
    assert written == {file: len(content) for file, content in expected.items()}
    assert {each.written_to for each in done.partitions} == {f"{path}/{file}" for file in expected}
    native = [each for each in snapshot_of(path, storage).transaction.partitions if not each.is_parquet]
    assert done.native_count == len(native) > 0


@pytest.mark.parametrize("name", golden_data.LEGACY_TABLES)
def test_a_migrated_table_is_sound_and_has_the_rows_that_its_server_answered(questdb_data: Path, name: str) -> None:
    path, storage = opened(questdb_data, f"{name}/table")
    migrate_table(storage, path)
    report = verified(path, storage)
    assert (report.all_problems, report.notes) == ((), ())
    snapshot = snapshot_of(path, storage)
    expected = read_json(questdb_data / name / "expected.json")
    answered = parquet_rows_of_json(expected["rows"], expected["timestamp"], snapshot)
    assert answered
    assert sql_rows(rows_of(snapshot), [column["type"] for column in expected["columns"]]) == answered


@pytest.mark.parametrize("name", golden_data.LEGACY_TABLES)
def test_a_migrated_table_takes_commits(questdb_data: Path, name: str) -> None:
    path, storage = opened(questdb_data, f"{name}/table")
    migrate_table(storage, path)
    count = rows_of(snapshot_of(path, storage)).num_rows
    with open_writer(storage, path, allow_parquet_last=True) as writer:
        first = next(each for each in writer.transaction.partitions if each.is_parquet)
        writer.write(rows_for(writer.table, [first.timestamp, first.timestamp + 1], seed=0))
        writer.commit()
    assert rows_of(snapshot_of(path, storage)).num_rows == count + 2
    assert verified(path, storage).sound
    assert repair_table(storage, path).problems == ()


@pytest.mark.parametrize("name", [*golden_data.LEGACY_TABLES, *golden_data.TABLES])
def test_what_is_sound_already_is_never_written_again(questdb_data: Path, name: str) -> None:
    path, storage = opened(questdb_data, f"{name}/table")
    migrate_table(storage, path)
    before = storage.image().files
    written_bytes = storage.counters().written_bytes
    again = migrate_table(storage, path)
    assert again.is_complete
    assert set(outcomes(again)) == {Outcome.ALREADY}
    assert storage.counters().written_bytes == written_bytes
    assert storage.image().files == before


def test_a_chain_of_generations_survives(questdb_data: Path) -> None:
    path, storage = opened(questdb_data, CHAIN)
    before = storage.image().files
    report = verified(path, storage)
    assert max(partition.generations for partition in report.partitions) > 1
    assert outcomes(migrate_table(storage, path)) == [Outcome.ALREADY]
    assert storage.image().files == before


@pytest.mark.parametrize("name", sampled(5, golden_data.TABLES))
def test_a_lost_pm_of_a_newer_release_is_made_again(questdb_data: Path, name: str) -> None:
    path, storage = opened(questdb_data, f"{name}/table")
    rows = rows_of(snapshot_of(path, storage))
    lost = [file for file in files_below(path, storage) if file.endswith(f"/{PM_FILE}")]
    for file in lost:
        storage.unlink(f"{path}/{file}")
    done = migrate_table(storage, path)
    assert outcomes(done) == [Outcome.MIGRATED] * len(lost)
    assert verified(path, storage).sound
    assert rows_of(snapshot_of(path, storage)).equals(rows)


def test_a_dry_run_reports_the_same_and_changes_nothing(questdb_data: Path) -> None:
    path, storage = opened(questdb_data)
    before = storage.image().files
    planned = migrate_table(storage, path, dry_run=True)
    assert storage.image().files == before
    assert migrate_table(storage, path) == planned


def test_one_partition_alone(questdb_data: Path) -> None:
    name = "legacy/9.3.4/many"
    path, storage = opened(questdb_data, f"{name}/table")
    before, expected = files_below(path, storage), golden_pm(questdb_data, name)
    (first, *_) = sorted(expected)
    done = migrate_table(storage, path, only=first.partition("/")[0])
    assert (outcomes(done), done.native_count) == ([Outcome.MIGRATED], 0)
    assert files_below(path, storage) == before | {first: expected[first]}
    native = migrate_table(storage, path, only="2024-10-01T07.15")
    assert (outcomes(native), native.native_count, native.is_complete) == ([], 1, True)


def test_a_directory_that_no_version_names_has_no_committed_end(questdb_data: Path) -> None:
    path, storage = opened(questdb_data)
    done = migrate_table(storage, path, only="2023-01-01")
    assert (done.is_complete, done.reason) == (
        False,
        "_txn names no partition 2023-01-01, so the end of its data.parquet is not known",
    )


@pytest.mark.parametrize("tail", [TAIL, b"PAR1", bytes(4096)], ids=["text", "magic", "zeros"])
def test_bytes_behind_the_token_are_not_examined(questdb_data: Path, tail: bytes) -> None:
    path, storage = opened(questdb_data)
    file = f"{DAY}/{DATA_FILE}"
    data = files_below(path, storage)[file]
    storage = changed(storage, path, file, data + tail)
    assert outcomes(migrate_table(storage, path)) == [Outcome.MIGRATED]
    after = files_below(path, storage)
    assert after[f"{DAY}/{PM_FILE}"] == golden_pm(questdb_data, LEGACY)[f"{DAY}/{PM_FILE}"]
    assert after[file] == data + tail


def test_a_complete_update_that_was_never_committed_is_not_examined(questdb_data: Path) -> None:
    path, storage = opened(questdb_data)
    file = f"{DAY}/{DATA_FILE}"
    committed = files_below(path, storage)[file]
    migrate_table(storage, path)
    with open_writer(storage, path, options=GROWING, allow_parquet_last=True) as writer:
        writer.write(rows_for(writer.table, [writer.transaction.partitions[0].timestamp], seed=0))
        writer.commit()
    grown = files_below(path, storage)[file]
    assert grown.startswith(committed) and grown.endswith(b"PAR1") and len(grown) > len(committed)
    _, fresh = opened(questdb_data)
    fresh = changed(fresh, path, file, grown)
    assert outcomes(migrate_table(fresh, path)) == [Outcome.MIGRATED]
    assert files_below(path, fresh)[f"{DAY}/{PM_FILE}"] == golden_pm(questdb_data, LEGACY)[f"{DAY}/{PM_FILE}"]


@pytest.mark.parametrize("has_pm", [False, True])
def test_what_an_interrupted_run_left_is_removed(questdb_data: Path, has_pm: bool) -> None:
    path, storage = opened(questdb_data)
    expected = files_below(path, storage) | golden_pm(questdb_data, LEGACY)
    if has_pm:
        migrate_table(storage, path)
    storage = changed(storage, path, f"{DAY}/{PM_FILE}.migrating", b"half")
    planned = migrate_table(storage, path, dry_run=True)
    assert f"{DAY}/{PM_FILE}.migrating" in files_below(path, storage)
    assert outcomes(planned) == [Outcome.ALREADY if has_pm else Outcome.MIGRATED]
    migrate_table(storage, path)
    assert files_below(path, storage) == expected


def test_files_go_beside_the_table_where_that_is_asked_for(questdb_data: Path) -> None:
    path, storage = opened(questdb_data)
    before = files_below(path, storage)
    planned = migrate_table(storage, path, out="made/by/us", dry_run=True)
    assert storage.image().files.keys() == {f"{path}/{file}" for file in before}
    done = migrate_table(storage, path, out="made/by/us")
    assert done == planned
    assert only_one(done).written_to == f"made/by/us/{DAY}.pm"
    (golden,) = golden_pm(questdb_data, LEGACY).values()
    after = dict(storage.image().files)
    assert after.pop(f"made/by/us/{DAY}.pm") == golden
    assert after == {f"{path}/{file}": content for file, content in before.items()}
    assert outcomes(migrate_table(storage, path, out="made/by/us")) == [Outcome.ALREADY]
    storage = MemoryStorage.of(storage.image().with_file(f"made/by/us/{DAY}.pm", b"other"))
    assert outcomes(migrate_table(storage, path, out="made/by/us")) == [Outcome.REPLACED]
    assert storage.image().files[f"made/by/us/{DAY}.pm"] == golden


def test_a_sound_pm_in_the_table_does_not_keep_one_from_being_made_beside_it(questdb_data: Path) -> None:
    path, storage = opened(questdb_data, CHAIN)
    done = migrate_table(storage, path, mode=ConversionMode.TOOL, out="out")
    golden = (questdb_data / "tables/9.4.2/chain/regenerated" / f"{DAY}.pm").read_bytes()
    assert outcomes(done) == [Outcome.MIGRATED]
    assert storage.image().files[f"out/{DAY}.pm"] == golden != storage.image().files[f"{path}/{DAY}/{PM_FILE}"]


# An existing `_pm` that is invalid


def txn_base(path: str, storage: MemoryStorage) -> txn_layout.BaseHeader:
    return txn_layout.BaseHeader.unpack(files_below(path, storage)[TXN_FILE], 0, file=TXN_FILE)


def foreign(questdb_data: Path) -> bytes:
    """A sound `_pm` of another data.parquet."""
    return (questdb_data / CHAIN / DAY / PM_FILE).read_bytes()


def test_a_dangling_link_in_place_of_an_unfinished_file_is_removed(questdb_data: Path) -> None:
    """A dangling link with the name of an unfinished `_pm` made every migration fail for ever."""
    path, storage = opened(questdb_data)
    ((file, _), *_) = golden_pm(questdb_data, LEGACY).items()
    storage.link_symbolically("/nowhere", f"{path}/{file}.migrating")
    assert outcomes(migrate_table(storage, path)) == [Outcome.MIGRATED]
    assert outcomes(migrate_table(storage, path)) == [Outcome.ALREADY]


INVALID: Mapping[str, tuple[Callable[[bytes, Path], bytes], str]] = {
    "empty": (lambda _, __: b"", "_pm: PARQUET_META_FILE_SIZE"),
    "cut": (lambda pm, _: pm[: len(pm) // 2], "_pm: PARQUET_META_FILE_SIZE"),
    "a flipped bit": (lambda pm, _: flipped(pm, 8 * 900), "_pm: CHECKSUM"),
    "of another file": (lambda _, data: foreign(data), "_txn: token at byte"),
    "zeros": (lambda pm, _: bytes(len(pm)), "_pm: PARQUET_META_FILE_SIZE"),
}


def test_an_invalid_pm_whose_bytes_cannot_be_kept_is_rejected_also_by_a_dry_run(questdb_data: Path) -> None:
    (file, golden), *_ = golden_pm(questdb_data, LEGACY).items()
    path, storage = opened(questdb_data)
    storage = changed(changed(storage, path, file, golden[:-1]), path, "_recovered", b"")
    planned, done = (migrate_table(storage, path, dry_run=dry_run) for dry_run in (True, False))
    assert done == planned
    assert only_one(done).outcome is Outcome.REJECTED
    assert "_recovered" in only_one(done).sentence
    assert files_below(path, storage)[file] == golden[:-1]


@pytest.mark.parametrize("how", INVALID)
def test_an_invalid_pm_is_named_and_replaced_and_its_bytes_are_kept(questdb_data: Path, how: str) -> None:
    break_it, words = INVALID[how]
    (file, golden), *_ = golden_pm(questdb_data, LEGACY).items()
    path, storage = opened(questdb_data)
    invalid = break_it(golden, questdb_data)
    storage = changed(storage, path, file, invalid)
    before = files_below(path, storage)
    planned = migrate_table(storage, path, dry_run=True)
    assert files_below(path, storage) == before
    done = migrate_table(storage, path)
    assert done == planned
    partition = only_one(done)
    assert (partition.outcome, partition.kept_as) == (Outcome.REPLACED, f"_recovered/{file}")
    assert words in partition.sentence
    assert files_below(path, storage) == before | {file: golden, f"_recovered/{file}": invalid}
    assert outcomes(migrate_table(storage, path)) == [Outcome.ALREADY]
    assert [action.kind for action in forget_kept(storage, path).actions] == [ActionKind.FORGET]
    assert files_below(path, storage) == before | {file: golden}


def test_the_tokens_that_a_foreign_pm_knows_are_named(questdb_data: Path) -> None:
    path, storage = opened(questdb_data)
    storage = changed(storage, path, f"{DAY}/{PM_FILE}", foreign(questdb_data))
    (problem,) = only_one(migrate_table(storage, path)).problems
    token = len((questdb_data / LEGACY / "table" / DAY / DATA_FILE).read_bytes())
    assert problem.actual == str(token)
    known = [position.token for position in walk(foreign(questdb_data), file=PM_FILE)]
    assert ", ".join(map(str, known)) in problem.expected


def test_a_pm_that_contradicts_the_thrift_footer_is_replaced(questdb_data: Path) -> None:
    (file, golden), *_ = golden_pm(questdb_data, LEGACY).items()
    path, storage = opened(questdb_data)
    storage = changed(storage, path, file, pm.set_chunk(golden, "total_compressed", 7))
    done = migrate_table(storage, path)
    assert outcomes(done) == [Outcome.REPLACED]
    fields = [problem.field for problem in only_one(done).problems]
    assert fields == ["row_groups[0].columns[0].total_compressed_size"]
    assert files_below(path, storage)[file] == golden


def test_a_generation_that_recovery_can_publish_is_left_to_it(questdb_data: Path) -> None:
    path, storage = opened(questdb_data, f"{OLD_HEADER}/table")
    assert not verified(path, storage).sound
    demand_rejected(storage, path, "`tornproof recover` publishes it with its history")
    assert repair_table(storage, path).problems == ()
    assert outcomes(migrate_table(storage, path)) == [Outcome.ALREADY]


def test_a_pm_of_an_unknown_release_is_not_changed(questdb_data: Path) -> None:
    (file, golden), *_ = golden_pm(questdb_data, LEGACY).items()
    path, storage = opened(questdb_data)
    demand_rejected(
        changed(storage, path, file, pm.set_header(golden, "feature_flags", 1 << 40)), path, "FEATURE_FLAGS"
    )


def test_a_row_count_that_no_pm_agrees_with_is_rejected(questdb_data: Path) -> None:
    path, storage = opened(questdb_data)
    transaction = open_table(storage, path).transaction()
    partition = next(each for each in transaction.partitions if each.is_parquet)
    record_offset = area_of(txn_base(path, storage), transaction.version).record_offset
    txn = files_below(path, storage)[TXN_FILE]
    # The record's sum as well, so that `_txn` does not contradict itself.
    sum_offset = record_offset + txn_layout.TransactionRecord.layout.offset_of("fixed_row_count")
    for offset_bytes in (partition.row_count_offset_bytes, sum_offset):
        txn = put(offset_bytes, bytes([txn[offset_bytes] + 1]))(txn)
    demand_rejected(changed(storage, path, TXN_FILE, txn), path, "no _pm agrees with both")


# What is rejected


def test_data_that_ends_before_the_token_is_rejected(questdb_data: Path) -> None:
    path, storage = opened(questdb_data)
    data = files_below(path, storage)[f"{DAY}/{DATA_FILE}"]
    for size in (0, 3, len(data) - 1):
        short = changed(storage, path, f"{DAY}/{DATA_FILE}", data[:size])
        demand_rejected(short, path, f"expected {len(data)} bytes or more, the committed token, found {size} bytes")


def test_a_token_that_is_no_end_of_a_parquet_file_is_rejected(questdb_data: Path) -> None:
    path, storage = opened(questdb_data)
    data = files_below(path, storage)[f"{DAY}/{DATA_FILE}"]
    demand_rejected(changed(storage, path, f"{DAY}/{DATA_FILE}", data[:-4] + b"PARE"), path, f"{DATA_FILE}: MAGIC at")
    long_footer = put(len(data) - 8, (len(data)).to_bytes(4, "little"))(data)
    demand_rejected(changed(storage, path, f"{DAY}/{DATA_FILE}", long_footer), path, f"at most {len(data) - 8}")
    negative = put(len(data) - 8, b"\xff" * 4)(data)
    demand_rejected(changed(storage, path, f"{DAY}/{DATA_FILE}", negative), path, f"at most {len(data) - 8}")


def test_a_data_file_that_is_not_there_is_rejected_and_others_are_migrated(questdb_data: Path) -> None:
    path, storage = opened(questdb_data, "legacy/9.3.4/many/table")
    storage.unlink(f"{path}/2024-10-01T04.4/{DATA_FILE}")
    done = migrate_table(storage, path)
    by_name = {each.name: each.outcome for each in done.partitions}
    assert by_name.pop("2024-10-01T04.4") is Outcome.REJECTED
    assert set(by_name.values()) == {Outcome.MIGRATED}
    assert not done.is_complete


def test_a_damaged_txn_is_a_problem_of_the_table(questdb_data: Path) -> None:
    path, storage = opened(questdb_data)
    done = migrate_table(changed(storage, path, TXN_FILE, b"short"), path)
    assert (done.is_complete, done.version, done.partitions) == (False, None, ())
    assert done.problems[0].file == TXN_FILE
    storage.unlink(f"{path}/{TXN_FILE}")
    with pytest.raises(NotATableError):
        migrate_table(storage, path)


def meanwhile(monkeypatch: pytest.MonkeyPatch, do: Callable[[], None]) -> None:
    """Let something happen between the conversion and its publication."""

    def convert_and_then(*arguments: Any, **settings: Any) -> bytes:
        content = convert(*arguments, **settings)
        do()
        return content

    monkeypatch.setattr("tornproof.impl.migrate.partition_migration.convert", convert_and_then)


def overwrite(storage: MemoryStorage, path: str, change: Callable[[File], None]) -> None:
    with storage.open_for_writing(path) as file:
        change(file)


def committing(
    path: str, storage: MemoryStorage, transaction: Transaction, partition: Partition
) -> Callable[[File], None]:
    """Return what makes a partition one byte longer in `_txn`."""
    record_offset = area_of(txn_base(path, storage), transaction.version).record_offset

    def commit(file: File) -> None:
        # Two versions later the record is in the same area.
        version = (transaction.version + 2).to_bytes(8, "little")
        file.pwrite(version, record_offset + txn_layout.TransactionRecord.layout.offset_of("txn"))
        file.pwrite((partition.token + 1).to_bytes(8, "little"), partition.token_offset_bytes)
        file.pwrite(version, 0)

    return commit


@pytest.mark.parametrize("settings", [{}, {"out": "out"}], ids=["in the table", "beside it"])
@pytest.mark.parametrize(
    ("file", "change", "words"),
    [
        (f"{DAY}/{DATA_FILE}", lambda file: file.truncate(file.size_bytes() - 1), "or more, the committed token"),
        (f"{DAY}/{DATA_FILE}", lambda file: file.pwrite(b"x", file.size_bytes() - 60), "changed while it was read"),
    ],
    ids=["shrank", "other footer"],
)
def test_data_that_changes_meanwhile_is_rejected(
    questdb_data: Path,
    monkeypatch: pytest.MonkeyPatch,
    file: str,
    change: Callable[[File], None],
    words: str,
    settings: dict[str, str],
) -> None:
    path, storage = opened(questdb_data)
    meanwhile(monkeypatch, lambda: overwrite(storage, f"{path}/{file}", change))
    done = migrate_table(storage, path, **settings)  # type: ignore[arg-type]
    assert outcomes(done) == [Outcome.REJECTED]
    assert words in only_one(done).sentence
    assert not any(name.endswith((".pm", PM_FILE, ".migrating")) for name in storage.image().files)


def test_a_version_that_changes_the_partition_meanwhile_makes_it_busy(
    questdb_data: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path, storage = opened(questdb_data)
    transaction = open_table(storage, path).transaction()
    partition = next(each for each in transaction.partitions if each.is_parquet)
    commit = committing(path, storage, transaction, partition)
    meanwhile(monkeypatch, lambda: overwrite(storage, f"{path}/{TXN_FILE}", commit))
    done = migrate_table(storage, path)
    assert "a writer changed the partition meanwhile" in only_one(done).sentence
    assert f"{DAY}/{PM_FILE}" not in files_below(path, storage)


def test_a_commit_while_the_footer_is_compared_makes_it_busy(
    questdb_data: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path, storage = opened(questdb_data)
    transaction = open_table(storage, path).transaction()
    partition = next(each for each in transaction.partitions if each.is_parquet)
    digests: list[int] = []

    def digest_and_then(*arguments: Any) -> int:
        digests.append(committed_footer_digest(*arguments))
        if len(digests) == 2:
            overwrite(storage, f"{path}/{TXN_FILE}", committing(path, storage, transaction, partition))
        return digests[-1]

    monkeypatch.setattr("tornproof.impl.migrate.partition_migration.committed_footer_digest", digest_and_then)
    done = migrate_table(storage, path)
    assert "a writer changed the partition meanwhile" in only_one(done).sentence
    assert f"{DAY}/{PM_FILE}" not in files_below(path, storage)


def test_a_version_that_changes_another_partition_meanwhile_does_not_matter(
    questdb_data: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path, storage = opened(questdb_data)

    def commit() -> None:
        with open_writer(storage.fork_process(), path, allow_parquet_last=True) as writer:
            later = writer.transaction.partitions[0].timestamp + 40 * 86_400_000_000
            writer.write(rows_for(writer.table, [later], seed=0))
            writer.commit()

    meanwhile(monkeypatch, commit)
    before = open_table(storage, path).transaction().version
    assert outcomes(migrate_table(storage, path)) == [Outcome.MIGRATED]
    assert open_table(storage, path).transaction().version == before + 1


def test_bytes_appended_meanwhile_do_not_matter(questdb_data: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path, storage = opened(questdb_data)
    append = lambda file: file.pwrite(TAIL, file.size_bytes())  # noqa: E731
    meanwhile(monkeypatch, lambda: overwrite(storage, f"{path}/{DAY}/{DATA_FILE}", append))
    assert outcomes(migrate_table(storage, path)) == [Outcome.MIGRATED]


# Locks and disks that fail


def test_another_writer_keeps_migration_out(questdb_data: Path) -> None:
    path, storage = opened(questdb_data)
    with take_writer_lock(storage.fork_process(), path):
        before = storage.image().files
        with pytest.raises(BusyError, match="another writer has the table open"):
            migrate_table(storage, path)
        assert storage.image().files == before
        assert outcomes(migrate_table(storage, path, dry_run=True)) == [Outcome.MIGRATED]
        assert outcomes(migrate_table(storage, path, out="out")) == [Outcome.MIGRATED]
    assert outcomes(migrate_table(storage, path)) == [Outcome.MIGRATED]
    take_writer_lock(storage, path).release()


def test_a_reader_keeps_an_invalid_pm_from_being_replaced_but_no_new_one_from_being_made(questdb_data: Path) -> None:
    path, storage = opened(questdb_data)
    storage.open_for_writing(f"{path}/{PINS_FILE}", OpenMode.NEW).close()
    with pin_committed(storage.fork_process(), path) as pin:
        assert pin.is_held
        assert outcomes(migrate_table(storage, path)) == [Outcome.MIGRATED]
        broken = changed(storage, path, f"{DAY}/{PM_FILE}", b"")
        with pin_committed(broken.fork_process(), path):
            demand_rejected(broken, path, "a reader has the table open")
    assert outcomes(migrate_table(broken, path)) == [Outcome.REPLACED]


def test_a_table_in_which_nothing_is_to_be_done_gets_no_lock_file(questdb_data: Path) -> None:
    path, storage = opened(questdb_data, CHAIN)
    migrate_table(storage, path)
    assert f"{path}/{PINS_FILE}" not in storage.image().files
    path, storage = opened(questdb_data)
    migrate_table(storage, path)
    assert f"{path}/{PINS_FILE}" in storage.image().files


@pytest.mark.parametrize("kind", [CallKind.PWRITE, CallKind.FSYNC, CallKind.RENAME], ids=str)
@pytest.mark.parametrize("settings", [{}, {"out": "out"}], ids=["in the table", "beside it"])
def test_a_disk_that_fails_leaves_nothing_behind(questdb_data: Path, kind: CallKind, settings: dict[str, str]) -> None:
    path, storage = opened(questdb_data)
    before = files_below(path, storage)
    fault = Fault(at=0, reason=StorageReason.NO_SPACE, among=frozenset({kind}), written_bytes=100)
    done = migrate_table(FaultyStorage(storage, fault), path, **settings)  # type: ignore[arg-type]
    assert outcomes(done) == [Outcome.REJECTED]
    assert "no space is left" in only_one(done).sentence
    assert files_below(path, storage) == before
    assert migrate_table(storage, path, **settings).is_complete  # type: ignore[arg-type]


def test_a_name_that_is_not_durable_is_not_called_migrated(questdb_data: Path) -> None:
    path, storage = opened(questdb_data)
    for _ in range(2):
        fault = Fault(at=0, reason=StorageReason.INPUT_OUTPUT, among=frozenset({CallKind.SYNC_DIRECTORY}))
        assert outcomes(migrate_table(FaultyStorage(storage, fault), path)) == [Outcome.REJECTED]
        assert f"{DAY}/{PM_FILE}" in files_below(path, storage)
    assert outcomes(migrate_table(storage, path)) == [Outcome.ALREADY]


def test_a_pm_that_is_a_directory_is_rejected(questdb_data: Path) -> None:
    path, storage = opened(questdb_data)
    storage.mkdir(f"{path}/{DAY}/{PM_FILE}")
    demand_rejected(storage, path, "it is not a regular file")


@pytest.mark.parametrize("dry_run", [True, False])
def test_a_directory_in_place_of_an_unfinished_pm_is_rejected(questdb_data: Path, dry_run: bool) -> None:
    """A dry run counted the partition as migrated, and the real run said that the directory was already there."""
    path, storage = opened(questdb_data)
    storage.mkdir(f"{path}/{DAY}/{PM_FILE}.migrating")
    words = f"{PM_FILE}.migrating: cannot replace: it is not a regular file"
    demand_rejected(storage, path, words, dry_run=dry_run)


def test_a_table_that_cannot_be_read_is_not_reported_as_damaged(questdb_data: Path) -> None:
    path, storage = opened(questdb_data)
    fault = Fault(at=0, reason=StorageReason.INPUT_OUTPUT, among=frozenset({CallKind.PREAD}))
    with pytest.raises(StorageError):
        migrate_table(FaultyStorage(storage, fault), path)


# What real crashes and power cuts left


@pytest.mark.parametrize("name", sampled(12, [*golden_data.CRASHES, *golden_data.POWER_LOSSES]))
def test_migration_makes_no_table_worse(questdb_data: Path, name: str) -> None:
    path, storage = opened(questdb_data, f"{name}/table")
    before, files = verified(path, storage, quick=True), files_below(path, storage)
    done = migrate_table(storage, path)
    if before.version is None:
        assert done.problems == before.problems
    unsound = {each.name: each.problems for each in before.partitions if each.problems and each.format == "parquet"}
    for partition in done.partitions:
        if partition.name not in unsound:
            assert partition.outcome is Outcome.ALREADY
        elif partition.outcome is Outcome.REPLACED:
            assert partition.problems == unsound[partition.name]
            assert (files[f"{partition.name}/{PM_FILE}"]) == files_below(path, storage)[str(partition.kept_as)]
            after = verified(path, storage)
            assert not next(each.problems for each in after.partitions if each.name == partition.name)
        else:
            assert partition.outcome is Outcome.REJECTED
    if Outcome.REPLACED not in outcomes(done):
        assert files_below(path, storage) == files
