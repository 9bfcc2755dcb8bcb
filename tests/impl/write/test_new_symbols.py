"""New symbols: in the dictionary, in its hash index and in the version's counts, wherever a writer is killed."""

from collections.abc import Sequence
from pathlib import Path

import pyarrow as pa
import pytest
from depth import nightly
from hypothesis import given, settings
from hypothesis import strategies as st
from real_tables import CHAIN, in_memory, verified
from written_tables import DAY, PATH, change_type, new_table, table_on

from tornproof.harness.common.made_rows import NULL_EVERY, rows_for
from tornproof.harness.simulator.filesystem.faulty import Fault, FaultyStorage
from tornproof.harness.simulator.filesystem.intercept import STEPS, CallKind
from tornproof.harness.simulator.filesystem.memory import Killed, MemoryStorage
from tornproof.impl import limits
from tornproof.impl.errors import CorruptError, FileMissingError, RowsRejectedError
from tornproof.impl.layout.symbol import SymbolOffsetsHeader
from tornproof.impl.storage.interface import Storage
from tornproof.impl.table.create import NewColumn
from tornproof.impl.table.symbol_index import SymbolIndex, read_symbol_index
from tornproof.impl.table.symbols import read_symbols, read_table_symbols
from tornproof.impl.table.table import open_table
from tornproof.impl.types.questdb import TypeTag
from tornproof.impl.write.table_writer import TableWriter, open_writer

COLUMN = "s"
# Of one hash; of one in a small index; with two UTF-16 units; of no character.
WORDS = ("Aa", "BB", "C#", "red", "green", "blue", "größe", "🌡", "", "'", "a" * 70)
KILLS_MAX = 200


def writer_of(storage: Storage, path: str) -> TableWriter:
    return open_writer(storage, path, allow_parquet_last=True)


def write(writer: TableWriter, symbols: Sequence[str | None]) -> None:
    last = writer.transaction.partitions[0].timestamp if writer.transaction.partitions else DAY
    writer.write(pa.table({"ts": [last] * len(symbols), COLUMN: pa.array(symbols, pa.string())}))


def commit(storage: Storage, path: str, symbols: Sequence[str | None]) -> None:
    with writer_of(storage, path) as writer:
        write(writer, symbols)
        writer.commit()


def symbol_table(capacity: int = 256) -> MemoryStorage:
    return new_table(NewColumn(name=COLUMN, type=TypeTag.SYMBOL, symbol_capacity=capacity))[0]


def dictionary(storage: MemoryStorage, path: str = PATH) -> tuple[str, ...]:
    table = open_table(storage, path)
    return read_table_symbols(table, table.transaction())[COLUMN].symbols


def index_of(storage: MemoryStorage) -> SymbolIndex:
    return read_symbol_index(storage, f"{PATH}/s.k", f"{PATH}/s.v", directory="")


def demand_sound(storage: MemoryStorage, path: str = PATH) -> None:
    assert verified(path, storage).all_problems == ()


def in_order(symbols: Sequence[str | None]) -> tuple[str, ...]:
    return tuple(dict.fromkeys(symbol for symbol in symbols if symbol is not None))


def after_kill(
    storage: MemoryStorage, path: str, symbols: Sequence[str], step_count: int, written_bytes: int = 0
) -> tuple[MemoryStorage, bool]:
    """Return the disk after a commit that was killed, without the locks of the dead, and whether it was killed."""
    memory = MemoryStorage.of(storage.image())
    faulty = FaultyStorage(memory)
    writer = writer_of(faulty, path)
    write(writer, symbols)
    faulty.arm(Fault.kill(step_count, written_bytes))
    try:
        writer.commit()
    except Killed:
        return MemoryStorage.of(memory.image()), True
    return MemoryStorage.of(memory.image()), False


def changed(storage: FaultyStorage) -> list[tuple[CallKind, str]]:
    """Return the changes of files since it was armed."""
    return [(call.kind, call.path.rpartition("/")[2]) for call in storage.calls if call.kind in STEPS]


def test_new_symbols_have_the_next_keys_in_the_order_of_rows(questdb_data: Path) -> None:
    path, storage = in_memory(questdb_data / CHAIN)
    before, version = dictionary(storage, path), open_table(storage, path).transaction()
    commit(storage, path, ["new", before[0], "newer", None, "new"])
    assert dictionary(storage, path) == (*before, "new", "newer")
    counts = open_table(storage, path).transaction().symbol_counts
    assert [(each.count, each.transient_count) for each in counts] == [(len(before) + 2,) * 2]
    assert table_on(storage, path)[COLUMN].to_pylist().count("new") == 2
    demand_sound(storage, path)
    # A reader of the older version sees no more than that.
    assert read_symbols(storage, path, COLUMN, count=version.symbol_counts[0].count).symbols == before


def test_one_writer_goes_on_with_the_symbols_that_it_added() -> None:
    storage = symbol_table(2)
    with writer_of(storage, PATH) as writer:
        for number in range(7):
            write(writer, [WORDS[number], WORDS[number // 2]])
            writer.commit()
        write(writer, ["discarded"])
        writer.rollback()
        write(writer, [WORDS[0], "last"])
        writer.commit()
    assert dictionary(storage) == (*WORDS[:7], "last")
    demand_sound(storage)


def test_known_symbols_leave_the_dictionary_alone(questdb_data: Path) -> None:
    path, memory = in_memory(questdb_data / CHAIN)
    storage = FaultyStorage(memory)
    writer = writer_of(storage, path)
    write(writer, list(dictionary(memory, path)))
    storage.arm()
    writer.commit()
    writer.close()
    assert not [name for _, name in changed(storage) if name.startswith(f"{COLUMN}.")]


@pytest.mark.parametrize("example_count", [6, nightly(300)])
def test_dictionaries_are_sound_after_any_commits_and_kills(example_count: int) -> None:
    symbols = st.lists(st.sampled_from(WORDS), min_size=1, max_size=4)
    steps = st.none() | st.tuples(st.integers(0, 40), st.sampled_from([0, 1, 8, 33]))

    @settings(max_examples=example_count)
    @given(st.sampled_from([2, 4, 8, 256]), st.lists(st.tuples(symbols, steps), min_size=1, max_size=6))
    def check(capacity: int, commits: list[tuple[list[str], tuple[int, int] | None]]) -> None:
        storage, rows = symbol_table(capacity), []
        for new, kill in commits:
            version = open_table(storage, PATH).transaction().version
            if kill is None:
                commit(storage, PATH, new)
            else:
                storage, _ = after_kill(storage, PATH, new, *kill)
            demand_sound(storage)
            if open_table(storage, PATH).transaction().version > version:
                rows += new
            assert dictionary(storage) == in_order(rows)
        assert sorted(table_on(storage)[COLUMN].to_pylist() if rows else []) == sorted(rows)

    check()


@pytest.mark.parametrize("later_kills", [(11,), nightly((3, 7, 11, 15, 19))])
def test_a_commit_killed_at_any_step_is_there_as_a_whole_or_not_and_harms_no_later_one(
    later_kills: tuple[int, ...],
) -> None:
    start = symbol_table(2)
    commit(start, PATH, WORDS[:3])
    ended = set()
    for step_count in range(KILLS_MAX):
        storage, was_killed = after_kill(start, PATH, WORDS[3:6], step_count)
        demand_sound(storage)
        found = dictionary(storage)
        assert found in (WORDS[:3], WORDS[:6])
        ended.add(found)
        # The index may lead to symbols that were not committed, in blocks that the next commit also adds to.
        for later in later_kills:
            again, _ = after_kill(storage, PATH, (WORDS[7], *WORDS[4:7]), later)
            demand_sound(again)
            commit(again, PATH, WORDS[::-1])
            assert set(dictionary(again)) == set(WORDS)
            demand_sound(again)
        if not was_killed:
            break
    assert ended == {WORDS[:3], WORDS[:6]}


def test_the_chains_of_a_killed_commit_are_cut_before_another_one_adds_to_them() -> None:
    # All have one hash, and a block has room for two: each of the others begins the second block of the chain.
    one_hash = ("AaAa", "BBBB", "AaBB", "BBAa")
    start = symbol_table(2)
    commit(start, PATH, one_hash[:2])
    named = False
    for first in range(KILLS_MAX):
        storage, _ = after_kill(start, PATH, one_hash[2:3], first)
        if len(index_of(storage).words) > 4:
            named = True
            break
    assert named and dictionary(storage) == one_hash[:2]
    for second in range(KILLS_MAX):
        again, was_killed = after_kill(storage, PATH, one_hash[3:], second)
        demand_sound(again)
        if not was_killed:
            break
    assert dictionary(again) == (*one_hash[:2], one_hash[3])
    # The index is written twice, and whoever has seen it in between must notice.
    assert index_of(again).sequence == index_of(storage).sequence + 2


def test_an_index_that_a_power_cut_left_under_both_names_is_not_written_to() -> None:
    start = symbol_table(2)
    commit(start, PATH, WORDS[:3])
    start.link(f"{PATH}/s.k", f"{PATH}/s.k.new")
    for step_count in range(KILLS_MAX):
        storage, was_killed = after_kill(start, PATH, WORDS[3:6], step_count)
        demand_sound(storage)
        if not was_killed:
            break
    assert dictionary(storage) == WORDS[:6]


def test_the_index_is_replaced_whole_and_after_what_it_leads_to_is_on_disk() -> None:
    storage = FaultyStorage(symbol_table())
    writer = writer_of(storage, PATH)
    write(writer, ["a", "b"])
    storage.arm()
    writer.commit()
    writer.close()
    names = changed(storage)
    named = names.index((CallKind.RENAME, "s.k.new"))
    for name in ("s.c", "s.o", "s.v", "s.k.new"):
        assert (CallKind.FDATASYNC, name) in names[:named], name
    assert not [kind for kind, name in names if name == "s.k"]
    first_of_partition = next(place for place, (_, name) in enumerate(names) if name == "data.parquet")
    assert named < first_of_partition


@pytest.mark.parametrize("limit", ["SYMBOL_COUNT_LIMIT", "SYMBOL_CHARACTERS_LIMIT_BYTES"])
def test_more_symbols_than_readers_accept_are_rejected_before_anything_is_written(
    monkeypatch: pytest.MonkeyPatch, limit: str
) -> None:
    storage = symbol_table()
    commit(storage, PATH, ["a", "b"])
    allowed = 3 if limit == "SYMBOL_COUNT_LIMIT" else 3 * 6
    monkeypatch.setattr(limits, limit, allowed)
    commit(storage, PATH, ["c"])
    before = storage.image().files
    with writer_of(storage, PATH) as writer:
        write(writer, ["d"])
        with pytest.raises(RowsRejectedError, match=rf"column 's': expected at most {allowed} .* in its dictionary"):
            writer.commit()
        writer.rollback()
    assert storage.image().files == before


@pytest.mark.parametrize("kind", "okv")
def test_a_dictionary_that_cannot_be_extended_rejects_the_commit(kind: str) -> None:
    storage = symbol_table()
    commit(storage, PATH, ["a"])
    image = storage.image()
    for damaged in (image.without_file(f"{PATH}/s.{kind}"), image.with_file(f"{PATH}/s.{kind}", b"")):
        memory = MemoryStorage.of(damaged)
        with writer_of(memory, PATH) as writer:
            write(writer, ["b"])
            with pytest.raises((CorruptError, FileMissingError), match=rf"s\.{kind}|s\.k: VALUE_MEM_SIZE"):
                writer.commit()
            writer.rollback()
        assert open_table(memory, PATH).transaction().version == 1


@pytest.mark.parametrize(("of", "others"), [("VARCHAR", 0), ("SYMBOL", 2)], ids=["more counts", "fewer counts"])
def test_a_version_that_counts_other_symbol_columns_has_no_writer(of: str, others: int) -> None:
    """A writer opened, and its commit ended in an error of Python if the version counted more of them than `_meta`."""
    storage = symbol_table()
    change_type(storage, COLUMN if of == "VARCHAR" else "n", of)
    with pytest.raises(CorruptError, match=f"SYMBOL_COLUMN_COUNT: expected {others}, .* found 1$"):
        writer_of(storage, PATH)


# The first null


ROWS = 2 * NULL_EVERY


def says_null(storage: MemoryStorage, path: str) -> bool:
    content = storage.image().files[f"{path}/{COLUMN}.o"]
    return bool(SymbolOffsetsHeader.unpack(content, 0, file=COLUMN).has_null)


def write_nulls(writer: TableWriter, *, with_null: bool) -> None:
    start = next(each.timestamp for each in writer.transaction.partitions if each.is_parquet)
    rows = rows_for(writer.table, range(start, start + ROWS), seed=0)
    assert rows[COLUMN].null_count
    writer.write(rows if with_null else rows.filter(rows[COLUMN].is_valid()))


def calls_on_dictionary(storage: FaultyStorage) -> list[CallKind]:
    kinds = (CallKind.PWRITE, CallKind.FDATASYNC)
    return [call.kind for call in storage.calls if call.path.endswith(f"/{COLUMN}.o") and call.kind in kinds]


@pytest.mark.parametrize("with_null", [True, False])
def test_the_dictionary_says_that_there_are_nulls_if_a_commit_brings_the_first(
    questdb_data: Path, with_null: bool
) -> None:
    path, storage = in_memory(questdb_data / CHAIN)
    assert not says_null(storage, path)
    with open_writer(storage, path) as writer:
        write_nulls(writer, with_null=with_null)
        writer.commit()
    assert says_null(storage, path) == with_null


def test_it_is_written_once_and_synced_once_by_each_writer(questdb_data: Path) -> None:
    path, memory = in_memory(questdb_data / CHAIN)
    storage = FaultyStorage(memory)
    seen = []
    for _ in range(2):
        with open_writer(storage, path) as writer:
            for _ in range(2):
                storage.arm()
                write_nulls(writer, with_null=True)
                writer.commit()
                seen.append(calls_on_dictionary(storage))
    # The note may be that of a killed writer, which had not synced it.
    assert seen == [[CallKind.PWRITE, CallKind.FDATASYNC], [], [CallKind.FDATASYNC], []]


def test_no_version_has_nulls_that_the_dictionary_does_not_tell_of_wherever_the_commit_is_killed(
    questdb_data: Path,
) -> None:
    committed = set()
    for step_count in range(100):
        path, memory = in_memory(questdb_data / CHAIN)
        before = open_table(memory, path).transaction().version
        storage = FaultyStorage(memory)
        writer = open_writer(storage, path)
        write_nulls(writer, with_null=True)
        storage.arm(Fault.kill(step_count))
        try:
            writer.commit()
        except Killed:
            is_killed = True
        else:
            is_killed = False
            writer.close()
        is_committed = open_table(memory, path).transaction().version > before
        assert says_null(memory, path) or not is_committed, f"killed after {step_count} steps"
        committed.add(is_committed)
        if not is_killed:
            break
    assert committed == {False, True}
