"""A version is stored beside the committed one, word by word, and counts only from the version's own store on."""

import functools
import itertools
from collections.abc import Sequence
from pathlib import Path, PurePosixPath
from typing import Any

import golden_data
import hypothesis
import pytest
from damage import patched
from hypothesis import strategies as st
from msgspec.structs import replace
from rejections import rejection
from txn_files import applied, decoded

from tornproof.impl.errors import UnsupportedError
from tornproof.impl.layout import txn as layout
from tornproof.impl.txn.announced_version import STEP_BITS, announced_after
from tornproof.impl.txn.transaction import I64_MAX, RECORD_LIMIT_BYTES, TXN_FILE, Transaction, area_of
from tornproof.impl.txn.write import (
    FILE_STEP_BYTES,
    NextVersion,
    PartitionState,
    WordStore,
    encode_new_file,
    first_version,
    lag_checksum,
    next_version,
    plan_store,
    words_of,
)

PARQUET = layout.PARQUET_GENERATED.mask | layout.PARQUET_FORMAT.mask
GAP = layout.TransactionRecord.layout.field("left_over")
DAY = 86_400_000_000


def state(
    day: int, *, row_count: int = 1, token: int = 4096, name_txn: int = 0, flags: int = PARQUET
) -> PartitionState:
    return PartitionState(timestamp=day * DAY, row_count=row_count, flags=flags, name_txn=name_txn, token=token)


def following(
    current: Transaction,
    partitions: Sequence[PartitionState],
    symbol_counts: tuple[layout.SymbolCount, ...] | None = None,
    seq_txn: int | None = None,
) -> NextVersion:
    return next_version(
        current,
        partitions=partitions,
        min_timestamp=-5,
        max_timestamp=9 * DAY,
        symbol_counts=symbol_counts,
        seq_txn=seq_txn,
    )


def committed(content: bytes, partitions: Sequence[PartitionState], *, area_is_durable: bool = False) -> bytes:
    plan = plan_store(content, following(decoded(content), partitions), area_is_durable=area_is_durable)
    return applied(content.ljust(plan.file_size_bytes, b"\0"), (*plan.record_stores, plan.version_store))


def says(content: bytes, version: NextVersion) -> bool:
    """Whether the file's committed version is that one."""
    read = decoded(content)
    entries = tuple(PartitionState.of(partition).entry() for partition in read.partitions)
    return (read.record, read.symbol_counts, entries) == (version.record, version.symbol_counts, version.entries)


EMPTY = encode_new_file(first_version(0))
# After four versions of one size both areas were used, so that the next one is stored over an old one.
FOURTH = functools.reduce(committed, ([state(0, row_count=row_count)] for row_count in (1, 2, 3, 4)), EMPTY)
PARTITIONS = st.lists(
    st.builds(
        state,
        st.integers(-3, 9),
        row_count=st.integers(0, layout.ROW_COUNT.mask),
        token=st.one_of(st.just(-1), st.integers(0, 1 << 55)),
        name_txn=st.integers(-1, 0),
        flags=st.sampled_from((0, PARQUET, layout.READ_ONLY.mask, layout.SQUASH_COUNT.mask)),
    ),
    max_size=9,
    unique_by=lambda partition: partition.timestamp,
).map(lambda found: sorted(found, key=lambda partition: partition.timestamp))
COUNTS = st.integers(0, (1 << 31) - 1)
SYMBOLS = st.lists(st.builds(layout.SymbolCount, count=COUNTS, transient_count=COUNTS), max_size=4).map(tuple)
STEPS = st.lists(st.tuples(PARTITIONS, SYMBOLS, st.booleans()), min_size=1, max_size=6)


@hypothesis.given(STEPS)
@hypothesis.settings(max_examples=60)
def test_every_prefix_of_the_stores_leaves_the_old_version_and_the_last_store_makes_the_new(
    steps: list[tuple[list[PartitionState], tuple[layout.SymbolCount, ...], bool]],
) -> None:
    content = EMPTY
    for partitions, symbol_counts, area_is_durable in steps:
        before = decoded(content)
        base = layout.BaseHeader.unpack(content, 0, file=TXN_FILE)
        live = area_of(base, before.version)
        version = following(before, partitions, symbol_counts)
        plan = plan_store(content, version, area_is_durable=area_is_durable)
        assert plan.file_size_bytes >= len(content) and plan.file_size_bytes % FILE_STEP_BYTES == 0
        grown = content.ljust(plan.file_size_bytes, b"\0")
        for store in plan.record_stores:
            grown = applied(grown, (store,))
            assert decoded(grown) == before
        live_end = live.record_offset + live.size_bytes
        assert grown[live.record_offset : live_end] == content[live.record_offset : live_end]
        content = applied(grown, (plan.version_store,))
        assert says(content, version)


@pytest.mark.parametrize("token", [(1 << 31) - 1, 1 << 31, (1 << 32) - 1, 1 << 32, (1 << 35) + 7, -1])
def test_a_token_keeps_all_of_its_64_bits(token: int) -> None:
    assert decoded(committed(EMPTY, [state(0, token=token)])).partitions[0].token == token


def test_the_file_grows_by_whole_steps_and_never_shrinks() -> None:
    many = [state(day) for day in range(200)]
    grown = committed(committed(EMPTY, many), many)
    assert len(EMPTY) == FILE_STEP_BYTES and len(grown) == 4 * FILE_STEP_BYTES
    assert plan_store(grown, following(decoded(grown), [])).file_size_bytes == len(grown)
    assert len(decoded(committed(grown, many)).partitions) == len(many)


def test_the_free_area_goes_before_the_live_one_exactly_when_it_fits_there() -> None:
    def position(content: bytes) -> int:
        return decoded(content).partitions[0].entry_offset_bytes - 136

    second = committed(EMPTY, [state(0)])
    assert position(second) == 200
    third = committed(second, [state(0), state(1)])
    assert position(third) == 200 + 168
    exactly = [state(day) for day in range(5)]
    assert 64 + following(decoded(third), exactly).size_bytes == 200 + 168 - 8
    assert position(committed(third, exactly)) == 64
    assert position(committed(third, [*exactly, state(5)])) == 200 + 168 + 200


def test_in_an_area_that_is_durable_and_used_again_only_words_that_change_are_stored() -> None:
    version = following(decoded(FOURTH), [state(0, row_count=5, token=5000)])
    everything, changes = (plan_store(FOURTH, version, area_is_durable=flag) for flag in (False, True))
    assert set(changes.record_stores) < set(everything.record_stores)
    assert len(everything.record_stores) == 27 and len(changes.record_stores) == 6
    assert applied(FOURTH, changes.record_stores) == applied(FOURTH, everything.record_stores)


def test_words_that_a_dead_writer_left_are_stored_again_even_where_they_are_equal() -> None:
    version = following(decoded(FOURTH), [state(0, row_count=5)])
    plan = plan_store(FOURTH, version)
    torn = applied(FOURTH, plan.record_stores[:-5])
    assert plan_store(torn, version) == plan
    whole = applied(FOURTH, plan.record_stores)
    assert plan_store(whole, version, area_is_durable=True) == plan


def test_an_area_of_another_position_or_size_is_stored_completely() -> None:
    content = committed(committed(EMPTY, [state(0)]), [state(0)])
    version = following(decoded(content), [state(0), state(1)])
    assert plan_store(content, version, area_is_durable=True) == plan_store(content, version)


@pytest.mark.parametrize("slot_word_offset_bytes", [32, 36, 40])
def test_an_area_that_its_slot_does_not_name_is_stored_whole(slot_word_offset_bytes: int) -> None:
    elsewhere = patched(FOURTH, slot_word_offset_bytes, 1 << 10, 4)
    version = following(decoded(FOURTH), [state(0, row_count=5)])
    assert plan_store(elsewhere, version, area_is_durable=True) == plan_store(FOURTH, version)


def test_the_record_comes_first_then_its_number_then_the_slot_and_the_version_for_itself() -> None:
    plan = plan_store(EMPTY, following(decoded(EMPTY), [state(0)]))
    *body, txn, position, symbols_size, partitions_size = plan.record_stores
    assert {store.offset_bytes for store in body} == {
        *range(208, 288, 8),
        *range(288, 316, 4),
        328,
        332,
        *range(336, 368, 8),
    }
    assert txn == WordStore(offset_bytes=200, size_bytes=8, value=1)
    assert [store.offset_bytes for store in (position, symbols_size, partitions_size)] == [32, 36, 40]
    assert [store.value for store in (position, symbols_size, partitions_size)] == [200, 0, 32]
    assert plan.version_store == WordStore(offset_bytes=0, size_bytes=8, value=1)


def test_the_mark_of_a_remote_partition_is_no_part_of_its_token_and_stays_until_a_commit_changes_it() -> None:
    content = committed(EMPTY, [state(0, token=100), state(1)])
    position = decoded(content).partitions[0].token_offset_bytes
    marked = patched(content, position, 100 - (1 << 63), 8)
    remote, local = decoded(marked).partitions
    assert (remote.token, remote.is_remote, local.is_remote) == (100, True, False)
    kept = decoded(committed(marked, [PartitionState.of(remote), state(1, row_count=2)]))
    assert kept.partitions[0].is_remote and kept.partitions[0].token == 100
    assert not decoded(committed(marked, [state(0, token=200), state(1)])).partitions[0].is_remote
    for mark in (1 << 62, (1 << 56) - (1 << 63), -(1 << 62)):
        other = decoded(patched(content, position, 100 + mark, 8)).partitions[0]
        assert not other.is_remote and other.token not in range(1 << 56)


@pytest.mark.parametrize("area_is_durable", [False, True])
def test_a_checksum_that_a_killed_server_left_is_no_checksum_of_our_record(area_is_durable: bool) -> None:
    """Later servers found it beside a stamp of the same version, and would have called the record torn."""
    gap = 200 + GAP.offset_bytes
    content = committed(EMPTY[:gap] + b"left" + bytes(4) + b"over" + EMPTY[GAP.end_bytes + 200 :], [state(0)])
    assert decoded(content).record.left_over == bytes(12)
    later = committed(committed(content, [state(0)]), [state(0)])
    live = layout.BaseHeader.unpack(later, 0, file=TXN_FILE).a_record_offset + GAP.offset_bytes
    again = committed(later[:live] + b"left" + later[live + 4 :], [state(0)], area_is_durable=area_is_durable)
    assert decoded(again).record.left_over == bytes(12)


def test_a_gap_of_zeros_is_not_stored() -> None:
    gap = range(200 + GAP.offset_bytes, 200 + GAP.end_bytes)
    plan = plan_store(EMPTY, following(decoded(EMPTY), [state(0)]))
    assert not any(store.offset_bytes in gap for store in plan.record_stores)


def test_rows_of_the_last_partition_are_transient_and_those_of_the_others_fixed() -> None:
    version = following(decoded(EMPTY), [state(0, row_count=3), state(1, row_count=4), state(2, row_count=5)])
    assert (version.record.fixed_row_count, version.record.transient_row_count) == (7, 5)
    assert (version.record.min_timestamp, version.record.max_timestamp) == (-5, 9 * DAY)
    assert layout.ROW_COUNT.get(version.entries[-1].row_count_and_flags) == 5


BEFORE = (state(0), state(1))


@pytest.mark.parametrize(
    ("after", "grows"),
    [
        (BEFORE, False),
        ((state(0), state(1, row_count=7)), False),
        ((state(0, row_count=7), state(1)), True),
        ((state(0, token=7), state(1)), True),
        ((state(0), state(1, token=7)), True),
        ((state(0, name_txn=7), state(1)), True),
        ((state(0, flags=0), state(1)), True),
        ((state(0), state(1), state(2)), True),
        ((state(0),), True),
        ((), True),
    ],
)
def test_the_partition_table_version_grows_unless_only_the_last_row_count_changes(
    after: tuple[PartitionState, ...], grows: bool
) -> None:
    current = decoded(committed(EMPTY, BEFORE))
    assert following(current, after).record.partition_table_version == current.record.partition_table_version + grows


def test_an_announced_version_is_told_from_those_of_other_commits() -> None:
    current = decoded(committed(EMPTY, BEFORE))
    states = [PartitionState.of(partition) for partition in current.partitions]
    said = announced_after(current, b"batch 1")
    number = said.partition_table_version
    assert number is not None and number - current.record.partition_table_version >= 1 << STEP_BITS
    assert said != announced_after(current, b"batch 2")
    times: dict[str, Any] = {
        "min_timestamp": current.record.min_timestamp,
        "max_timestamp": current.record.max_timestamp,
    }
    own = next_version(current, partitions=states, **times, partition_table_version=number)
    others = next_version(current, partitions=states, **times)
    found = [replace(current, version=each.record.txn, record=each.record) for each in (own, others)]
    assert [said.is_committed(each) for each in (current, *found)] == [False, True, False]
    later = replace(found[0], version=said.version + 1)
    assert said.is_committed(later) is None
    assert replace(said, partition_table_version=None).is_committed(found[0]) is None


def test_a_version_has_no_rows_in_the_lag() -> None:
    """They were kept, and a server looked for them behind the rows of a later partition, and suspended the table."""
    current = decoded(EMPTY)
    record = current.record.changed(
        lag_txn_count=2, lag_row_count=9, lag_min_timestamp=3, lag_max_timestamp=4, seq_txn=10
    )
    found = following(replace(current, record=record), [state(0)]).record
    said = found.lag_txn_count, found.lag_row_count, found.lag_min_timestamp, found.lag_max_timestamp
    assert said == (0, 0, I64_MAX, -I64_MAX - 1)
    assert (found.seq_txn, found.lag_checksum) == (10, lag_checksum(found))


def test_a_version_keeps_what_is_not_given() -> None:
    symbol_counts = (layout.SymbolCount(count=3, transient_count=4),)
    facts = {"structure_version": 5, "data_version": 6, "column_version": 7, "truncate_version": 8}
    current = decoded(EMPTY)
    record = current.record.changed(**facts, seq_txn=10, symbol_column_count=1)
    kept = following(replace(current, record=record, symbol_counts=symbol_counts), [state(0)])
    assert {name: getattr(kept.record, name) for name in facts} == facts
    assert (kept.record.seq_txn, kept.symbol_counts) == (10, symbol_counts)
    assert following(current, [state(0)], seq_txn=11).record.seq_txn == 11
    assert following(current, [state(0)], symbol_counts).record.symbol_column_count == 1


def rejected_field(content: bytes, version: NextVersion) -> str:
    return rejection(lambda: plan_store(content, version)).field


def test_a_file_that_holds_another_version_is_rejected() -> None:
    version = following(decoded(EMPTY), [state(0)])
    assert rejected_field(committed(EMPTY, []), version) == "VERSION"
    assert rejected_field(b"", version) == layout.BaseHeader.layout.title


def test_a_live_area_that_cannot_be_is_rejected() -> None:
    version = following(decoded(EMPTY), [state(0)])
    assert rejected_field(patched(EMPTY, 8, 63, 4), version) == "A_RECORD_OFFSET"
    assert rejected_field(patched(EMPTY, 16, -32, 4), version) == "A_PARTITIONS_SIZE"


def test_a_free_slot_of_any_content_is_no_obstacle() -> None:
    for offset_bytes in (32, 36, 40):
        for value in (-1, 7, (1 << 31) - 1):
            content = committed(patched(EMPTY, offset_bytes, value, 4), [state(0)], area_is_durable=True)
            assert decoded(content).version == 1


def test_numbers_that_have_no_successor_are_rejected_or_wrap_as_those_of_the_server() -> None:
    current = decoded(EMPTY)
    with pytest.raises(UnsupportedError, match="VERSION"):
        following(replace(current, version=I64_MAX), [])
    record = current.record.changed(partition_table_version=I64_MAX)
    assert following(replace(current, record=record), [state(0)]).record.partition_table_version == -I64_MAX - 1


def test_a_version_that_no_reader_would_accept_is_rejected() -> None:
    current = decoded(EMPTY)
    day_count = (RECORD_LIMIT_BYTES - following(current, []).size_bytes) // 32
    days = [state(day) for day in range(day_count + 1)]
    assert following(current, days[:-1]).size_bytes <= RECORD_LIMIT_BYTES
    with pytest.raises(UnsupportedError, match="record"):
        following(current, days)
    with pytest.raises(UnsupportedError, match="ROW_COUNT"):
        following(current, [state(0, row_count=layout.ROW_COUNT.mask + 1)])


def test_a_new_file_holds_version_0_without_rows() -> None:
    version = first_version(3)
    content = encode_new_file(version)
    assert len(content) == FILE_STEP_BYTES and says(content, version)
    assert decoded(content).symbol_counts == (layout.SymbolCount(count=0, transient_count=0),) * 3
    base = layout.BaseHeader.unpack(content, 0, file=TXN_FILE)
    assert (base.a_record_offset, base.a_symbols_size, base.a_partitions_size, base.b_record_offset) == (64, 24, 0, 0)


@pytest.mark.parametrize(("content", "offset_bytes", "size_bytes"), [(b"1234", 2, 4), (b"123", 0, 4), (b"12", 0, 2)])
def test_words_that_no_machine_stores_in_one_access_are_a_bug(
    content: bytes, offset_bytes: int, size_bytes: int
) -> None:
    with pytest.raises(AssertionError):
        list(words_of(content, offset_bytes, size_bytes))


# Commits of real servers


SERVER_STEPS = tuple(
    (older, newer)
    for older, newer in itertools.pairwise(golden_data.HISTORY_STEPS)
    if PurePosixPath(older).parent == PurePosixPath(newer).parent
)
SOUND = tuple(name for name in golden_data.files_named(TXN_FILE) if "txn-version-new-record-area-old" not in name)
# Its area A still holds the record of the table's creation.
YOUNG = "tables/9.4.2/rewrite/history/00/_txn"


def version_of(content: bytes) -> NextVersion:
    """The committed version with its entries as they are stored."""
    read = decoded(content)
    entries = tuple(
        layout.PartitionEntry.unpack(content, partition.entry_offset_bytes, file=TXN_FILE)
        for partition in read.partitions
    )
    return NextVersion(record=read.record, symbol_counts=read.symbol_counts, entries=entries)


def test_all_commits_of_the_histories_are_compared() -> None:
    assert len(SERVER_STEPS) == 63 and len(SOUND) == 139


@pytest.mark.parametrize("area_is_durable", [False, True])
@pytest.mark.parametrize(("older", "newer"), SERVER_STEPS)
def test_the_planned_stores_change_one_real_file_into_the_next(
    questdb_data: Path, older: str, newer: str, area_is_durable: bool
) -> None:
    before, after = ((questdb_data / name / TXN_FILE).read_bytes() for name in (older, newer))
    plan = plan_store(before, version_of(after), area_is_durable=area_is_durable)
    assert plan.file_size_bytes == len(before)
    assert applied(before, (*plan.record_stores, plan.version_store)) == after


@pytest.mark.parametrize(("older", "newer"), SERVER_STEPS)
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
