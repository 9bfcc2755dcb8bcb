"""Commits of real servers are predicted byte for byte: placement, words that are stored, record and checksum."""

import itertools
from pathlib import Path, PurePosixPath

import golden_data
import pytest
from txn_files import applied, decoded

from tornproof.impl.layout import txn as layout
from tornproof.impl.txn.transaction import TXN_FILE
from tornproof.impl.txn.write import (
    NextVersion,
    PartitionState,
    encode_new_file,
    first_version,
    lag_checksum,
    next_version,
    plan_store,
)

STEPS = tuple(
    (older, newer)
    for older, newer in itertools.pairwise(golden_data.HISTORY_STEPS)
    if PurePosixPath(older).parent == PurePosixPath(newer).parent
)
SOUND = tuple(name for name in golden_data.files_named(TXN_FILE) if "txn-version-new-record-area-old" not in name)
# Its area A still holds the record of the table's creation.
YOUNG = "tables/9.4.2/rewrite/history/00/_txn"
GAP_START = layout.TransactionRecord.layout.field("left_over").offset_bytes
GAP_END = layout.TransactionRecord.layout.field("left_over").end_bytes


def version_of(content: bytes) -> NextVersion:
    """The committed version with its entries as they are stored."""
    read = decoded(content)
    entries = tuple(
        layout.PartitionEntry.unpack(content, partition.entry_offset_bytes, file=TXN_FILE)
        for partition in read.partitions
    )
    return NextVersion(record=read.record, symbol_counts=read.symbol_counts, entries=entries)


def test_all_commits_of_the_histories_are_compared() -> None:
    assert len(STEPS) == 63 and len(SOUND) == 139


@pytest.mark.parametrize("area_is_durable", [False, True])
@pytest.mark.parametrize(("older", "newer"), STEPS)
def test_the_planned_stores_change_one_real_file_into_the_next(
    questdb_data: Path, older: str, newer: str, area_is_durable: bool
) -> None:
    before, after = ((questdb_data / name / TXN_FILE).read_bytes() for name in (older, newer))
    plan = plan_store(before, version_of(after), area_is_durable=area_is_durable)
    assert plan.file_size_bytes == len(before)
    assert applied(before, (*plan.record_stores, plan.version_store)) == after


@pytest.mark.parametrize(("older", "newer"), STEPS)
def test_the_next_version_of_the_same_partitions_is_the_real_one(questdb_data: Path, older: str, newer: str) -> None:
    before, after = (decoded((questdb_data / name / TXN_FILE).read_bytes()) for name in (older, newer))
    predicted = next_version(
        before,
        partitions=[PartitionState.of(partition) for partition in after.partitions],
        min_timestamp=after.record.min_timestamp,
        max_timestamp=after.record.max_timestamp,
        symbol_counts=after.symbol_counts,
        seq_txn=after.record.seq_txn,
    )
    assert predicted.record == after.record.changed(left_over=predicted.record.left_over)


@pytest.mark.parametrize("name", SOUND)
def test_the_checksum_of_the_lag_is_the_real_one(questdb_data: Path, name: str) -> None:
    record = decoded((questdb_data / name).read_bytes()).record
    assert lag_checksum(record) == record.lag_checksum


@pytest.mark.parametrize("name", SOUND)
def test_an_area_encodes_to_its_real_bytes(questdb_data: Path, name: str) -> None:
    content = (questdb_data / name).read_bytes()
    base = layout.BaseHeader.unpack(content, 0, file=TXN_FILE)
    start = base.b_record_offset if base.version % 2 else base.a_record_offset
    version = version_of(content)
    assert version.encode() == content[start : start + version.size_bytes]


def test_a_new_table_has_the_record_of_a_real_one(questdb_data: Path) -> None:
    created = encode_new_file(first_version(0))
    real = (questdb_data / YOUNG).read_bytes()
    size_bytes = first_version(0).size_bytes
    assert len(created) == len(real)
    assert created[64 : 64 + size_bytes] == real[64 : 64 + size_bytes]
