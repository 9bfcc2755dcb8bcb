"""Executions of single operations, and invariants of every sequence of operations."""

import dataclasses
from collections.abc import Sequence

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tornproof.model.step import Outcome, newest_orphans, step
from tornproof.model.table import (
    Commit,
    Directory,
    Drop,
    Entry,
    Generation,
    Operation,
    Pin,
    Purge,
    Recover,
    Stage,
    State,
    Unpin,
    Version,
    Write,
)


def start(version: int = 0, entries: tuple[tuple[Entry, int], ...] = ()) -> State:
    """Return an open table at a version, with these entries and the ends of their generations."""
    live = Version(number=version, entries=tuple(sorted((entry for entry, _ in entries), key=lambda e: e.directory)))
    fresh = ((each, Generation(end=end, token=each.token, rows=each.rows)) for each, end in entries)
    state = State(version=version, slots=(None, None)).with_slot(version, live)
    return state.with_directories(Directory(name=each.directory, generations=(only,)) for each, only in fresh)


DAY, NIGHT = 1, 2
FIRST_TOKEN, FIRST_END = 100, 1000
TABLE = start(7, ((Entry(directory=(DAY, 3), rows=(1, 2), token=FIRST_TOKEN), FIRST_END),))


def in_place(token: int, end: int, rows: tuple[int, ...], partition: int = DAY) -> Write:
    return Write(partition=partition, rows=rows, token=token, generation_end=end, in_place=True)


def new_directory(partition: int, rows: tuple[int, ...] = (1, 2), token: int = 50, end: int = 500) -> Write:
    return Write(partition=partition, rows=rows, token=token, generation_end=end, in_place=False)


def commit(*changes: Write | Drop, stopped_after: Stage | None = None, crash: bool = False) -> Commit:
    return Commit(changes=changes, stopped_after=stopped_after, crash=crash)


def only(state: State, *operations: Operation) -> State:
    """Apply operations that have one outcome each."""
    for operation in operations:
        (outcome,) = step(state, operation)
        state = outcome.state
    return state


def states(outcomes: Sequence[Outcome]) -> list[State]:
    return [outcome.state for outcome in outcomes]


def rows_read(state: State, version: Version) -> dict[int, tuple[int, ...] | None]:
    """What a reader of a version finds by its tokens; None if it is rejected."""
    found = {entry.directory[0]: state.directory(entry.directory).resolve(entry.token) for entry in version.entries}
    return {partition: None if generation is None else generation.rows for partition, generation in found.items()}


ORPHANED = only(TABLE, commit(in_place(130, 1100, (1, 2, 9)), stopped_after=Stage.PUBLISHED))


def test_a_new_table_reads_as_it_was_given() -> None:
    assert rows_read(TABLE, TABLE.committed) == {DAY: (1, 2)}
    assert (TABLE.version, TABLE.committed.number, TABLE.slots[0]) == (7, 7, None)


def test_a_commit_stores_the_next_version_in_the_other_slot_and_returns_its_number() -> None:
    (outcome,) = step(TABLE, commit(in_place(120, 1100, (1, 2, 3))))
    assert outcome.answer == 8
    assert outcome.state.slots == (outcome.state.committed, TABLE.committed)
    assert rows_read(outcome.state, outcome.state.committed) == {DAY: (1, 2, 3)}


def test_an_update_in_place_keeps_the_directory_and_links_to_the_committed_generation() -> None:
    after = only(TABLE, commit(in_place(120, 1100, (1, 2, 3))))
    (directory,) = after.directories
    assert directory.name == (DAY, 3)
    assert [(each.end, each.prev, each.orphan) for each in directory.generations] == [
        (1000, 0, False),
        (1100, 1000, False),
    ]
    assert rows_read(after, TABLE.committed) == {DAY: (1, 2)}


def test_a_new_directory_is_named_with_the_version_before_its_commit() -> None:
    after = only(TABLE, commit(new_directory(NIGHT)))
    assert [directory.name for directory in after.directories] == [(DAY, 3), (NIGHT, 7)]


def test_entries_of_a_version_stand_by_partition() -> None:
    after = only(TABLE, commit(new_directory(NIGHT), new_directory(DAY)), commit(new_directory(0)))
    assert [entry.directory for entry in after.committed.entries] == [(0, 8), (DAY, 7), (NIGHT, 7)]


def test_a_dropped_partition_leaves_its_directory_to_the_purge() -> None:
    dropped = only(TABLE, commit(Drop(partition=DAY)))
    assert dropped.committed.entries == ()
    (purge,) = step(dropped, Purge())
    assert (purge.answer, purge.state.directories) == (((DAY, 3),), ())


@pytest.mark.parametrize(
    "changes",
    [
        pytest.param((), id="nothing"),
        pytest.param((in_place(FIRST_TOKEN, 1100, ()),), id="token not above the committed one"),
        pytest.param((in_place(120, FIRST_END, ()),), id="end not above the newest one"),
        pytest.param((in_place(120, 1100, (), partition=NIGHT),), id="update of a partition that is not there"),
        pytest.param((Drop(partition=NIGHT),), id="drop of a partition that is not there"),
        pytest.param((new_directory(NIGHT, token=0),), id="new directory without a token"),
        pytest.param((new_directory(NIGHT, end=0),), id="new directory without a generation"),
        pytest.param((Drop(partition=DAY), new_directory(DAY)), id="two changes of one partition"),
    ],
)
def test_a_commit_that_the_state_does_not_allow_has_no_outcome(changes: tuple[Write | Drop, ...]) -> None:
    assert step(TABLE, commit(*changes)) == ()
    assert step(TABLE, commit(*changes, stopped_after=Stage.PUBLISHED)) == ()
    assert step(TABLE, commit(*changes, stopped_after=Stage.PUBLISHED, crash=True)) == ()


def test_a_published_commit_that_fails_leaves_an_orphan_and_the_old_version() -> None:
    assert ORPHANED.committed == TABLE.committed
    assert [each.orphan for each in ORPHANED.directories[0].generations] == [False, True]
    assert rows_read(ORPHANED, ORPHANED.committed) == {DAY: (1, 2)}
    assert newest_orphans(ORPHANED) == {DAY: 1100}


def test_a_retry_with_the_orphans_token_appends_past_it_and_is_found_instead_of_it() -> None:
    retried = only(ORPHANED, commit(in_place(130, 1200, (1, 2, 4))))
    assert [(each.end, each.prev, each.orphan) for each in retried.directories[0].generations] == [
        (1000, 0, False),
        (1100, 1000, True),
        (1200, 1000, False),
    ]
    assert rows_read(retried, retried.committed) == {DAY: (1, 2, 4)}
    assert rows_read(retried, TABLE.committed) == {DAY: (1, 2)}


def test_a_retry_that_ends_where_the_orphan_ends_has_no_outcome() -> None:
    assert step(ORPHANED, commit(in_place(130, 1100, (1, 2, 4)))) == ()


def test_recovery_restates_the_committed_generation_past_an_orphan() -> None:
    recovered = only(ORPHANED, Recover(restated=((DAY, 1200),)))
    newest = recovered.directories[0].generations[-1]
    assert (newest.token, newest.rows, newest.prev, newest.orphan) == (FIRST_TOKEN, (1, 2), 1000, False)
    after = only(recovered, commit(in_place(130, 1300, (1, 2, 4))))
    assert after.directories[0].generations[-1].prev == 1200
    assert rows_read(after, after.committed) == {DAY: (1, 2, 4)}


@pytest.mark.parametrize("restated", [(), ((DAY, 1100),), ((NIGHT, 1200),), ((DAY, 1200), (NIGHT, 1200))])
def test_recovery_restates_exactly_the_newest_orphans_past_their_ends(restated: tuple[tuple[int, int], ...]) -> None:
    assert step(ORPHANED, Recover(restated=restated)) == ()
    assert step(ORPHANED, Recover(restated=restated, crash=True)) == ()


def test_recovery_twice_is_recovery_once() -> None:
    once = only(ORPHANED, commit(new_directory(NIGHT), stopped_after=Stage.PUBLISHED), Recover(restated=((DAY, 1200),)))
    assert [directory.name for directory in once.directories] == [(DAY, 3)]
    assert only(once, Recover()) == once


@pytest.mark.parametrize(
    ("stage", "orphans"),
    [(Stage.STARTED, {False}), (Stage.WRITTEN, {False, True}), (Stage.PUBLISHED, {True}), (Stage.RECORDED, {True})],
)
def test_an_error_before_the_version_store_leaves_the_old_version_and_a_living_writer(
    stage: Stage, orphans: set[bool]
) -> None:
    left = states(step(TABLE, commit(in_place(130, 1100, (9,)), stopped_after=stage)))
    assert {(state.version, state.committed, state.open) for state in left} == {(7, TABLE.committed, True)}
    assert {bool(newest_orphans(state)) for state in left} == orphans


def test_an_error_after_the_version_store_is_no_error_of_the_model() -> None:
    assert step(TABLE, commit(in_place(130, 1100, (9,)), stopped_after=Stage.COMMITTED)) == ()


@pytest.mark.parametrize(
    ("stage", "versions"),
    [
        (Stage.STARTED, {7}),
        (Stage.WRITTEN, {7}),
        (Stage.PUBLISHED, {7}),
        (Stage.RECORDED, {7, 8}),
        (Stage.COMMITTED, {8}),
    ],
)
def test_a_crash_leaves_the_new_version_only_where_its_store_may_have_happened(
    stage: Stage, versions: set[int]
) -> None:
    left = states(step(TABLE, commit(in_place(130, 1100, (9,)), stopped_after=stage, crash=True)))
    assert {state.version for state in left} == versions
    assert not any(state.open for state in left)
    expected = {7: {DAY: (1, 2)}, 8: {DAY: (9,)}}
    assert all(rows_read(state, state.committed) == expected[state.version] for state in left)
    assert all(bool(newest_orphans(state)) == (state.version == 7) for state in left if stage >= Stage.PUBLISHED)


@pytest.mark.parametrize(
    ("stage", "sibling"),
    [(Stage.WRITTEN, 6), (Stage.PUBLISHED, None), (Stage.RECORDED, 8)],
)
def test_the_other_slot_is_old_until_the_record_is_stored_undefined_meanwhile_and_then_new(
    stage: Stage, sibling: int | None
) -> None:
    table = dataclasses.replace(TABLE, slots=(Version(number=6), TABLE.committed))
    left = states(step(table, commit(in_place(130, 1100, (9,)), stopped_after=stage)))
    assert {state.slots[0] and state.slots[0].number for state in left} == {sibling}


def test_headers_of_several_partitions_are_patched_in_any_subset() -> None:
    table = only(TABLE, commit(new_directory(NIGHT)))
    both = in_place(130, 1100, (9,)), in_place(60, 600, (8,), partition=NIGHT)
    left = states(step(table, commit(*both, stopped_after=Stage.WRITTEN)))
    assert sorted(tuple(newest_orphans(state)) for state in left) == [(), (DAY,), (DAY, NIGHT), (NIGHT,)]


@pytest.mark.parametrize("stage", [Stage.STARTED, Stage.WRITTEN])
def test_a_new_directory_may_be_left_over_before_anything_is_published(stage: Stage) -> None:
    left = states(step(TABLE, commit(new_directory(NIGHT), stopped_after=stage)))
    night = Directory(name=(NIGHT, 7))
    assert {state.directories for state in left} == {TABLE.directories, (*TABLE.directories, night)}


def test_a_retry_finds_the_left_over_directory_in_its_way_and_replaces_it() -> None:
    left = only(TABLE, commit(new_directory(NIGHT, rows=(5,)), stopped_after=Stage.PUBLISHED))
    assert left.unnamed == ((NIGHT, 7),)
    retried = only(left, commit(new_directory(NIGHT, rows=(6,))))
    assert rows_read(retried, retried.committed) == {DAY: (1, 2), NIGHT: (6,)}


def test_a_dead_writer_commits_and_purges_nothing_until_recovery() -> None:
    (dead,) = states(step(TABLE, commit(new_directory(DAY), stopped_after=Stage.COMMITTED, crash=True)))
    assert step(dead, commit(in_place(120, 1100, (9,)))) == ()
    assert step(dead, Purge()) == ()
    reopened = only(dead, Recover())
    assert only(reopened, Purge()).directories == reopened.directories[1:]
    assert only(reopened, commit(in_place(120, 1100, (9,)))).version == 9


def test_recovery_returns_which_version_it_adopts() -> None:
    left = states(step(TABLE, commit(in_place(130, 1100, (9,)), stopped_after=Stage.RECORDED, crash=True)))
    ends = {state.version: tuple((key, end + 100) for key, end in newest_orphans(state).items()) for state in left}
    assert {outcome.answer for state in left for outcome in step(state, Recover(restated=ends[state.version]))} == {
        7,
        8,
    }


def test_a_crash_in_recovery_leaves_any_part_of_it_done_and_the_next_one_does_the_rest() -> None:
    left = only(ORPHANED, commit(new_directory(NIGHT), stopped_after=Stage.PUBLISHED))
    half = states(step(left, Recover(restated=((DAY, 1200),), crash=True)))
    assert {(bool(newest_orphans(state)), len(state.directories)) for state in half} == {
        (True, 1),
        (True, 2),
        (False, 1),
        (False, 2),
    }
    assert not any(state.open for state in half)
    for state in half:
        again = only(state, Recover(restated=tuple((key, 1300) for key in newest_orphans(state))))
        assert (again.committed, again.open, len(again.directories)) == (TABLE.committed, True, 1)
        assert rows_read(again, again.committed) == {DAY: (1, 2)}


def test_a_pin_survives_rewrite_and_purge_and_frees_the_directory_when_given_back() -> None:
    (pin,) = step(TABLE, Pin(reader=1))
    assert pin.answer == TABLE.committed
    rewritten = only(pin.state, commit(new_directory(DAY)), commit(in_place(70, 700, (4,))), Purge())
    assert rows_read(rewritten, TABLE.committed) == {DAY: (1, 2)}
    assert rows_read(rewritten, rewritten.committed) == {DAY: (4,)}
    (purge,) = step(only(rewritten, Unpin(reader=1)), Purge())
    assert purge.answer == ((DAY, 3),)
    assert rows_read(purge.state, TABLE.committed) == {DAY: None}


def test_a_pin_outlives_the_writer_and_the_recovery() -> None:
    pinned = only(TABLE, Pin(reader=1), commit(new_directory(DAY)))
    for dead in states(step(pinned, commit(in_place(70, 700, (4,)), stopped_after=Stage.RECORDED, crash=True))):
        ends = tuple((key, end + 1) for key, end in newest_orphans(dead).items())
        recovered = only(dead, Recover(restated=ends), Purge())
        assert recovered.pins == pinned.pins
        assert rows_read(recovered, TABLE.committed) == {DAY: (1, 2)}


def test_a_purge_may_keep_what_nobody_names_only_while_something_is_pinned() -> None:
    replaced = only(TABLE, commit(new_directory(DAY)), commit(new_directory(DAY, token=60)))
    assert replaced.unnamed == ((DAY, 3), (DAY, 7))
    assert step(replaced, Purge(kept=((DAY, 3),))) == ()
    pinned = only(replaced, Pin(reader=1))
    (outcome,) = step(pinned, Purge(kept=((DAY, 3),)))
    assert outcome.answer == ((DAY, 7),) and outcome.state.unnamed == ((DAY, 3),)
    assert step(pinned, Purge(kept=((DAY, 8),))) == ()


def test_a_reader_holds_one_pin_and_pins_stand_by_reader() -> None:
    pinned = only(TABLE, Pin(reader=2), commit(in_place(120, 1100, (9,))), Pin(reader=1))
    assert [(reader, version.number) for reader, version in pinned.pins] == [(1, 8), (2, 7)]
    assert step(pinned, Pin(reader=2)) == ()
    assert only(pinned, Unpin(reader=2)).pins == pinned.pins[:1]
    assert only(pinned, Unpin(reader=3)) == pinned


def test_a_token_that_no_committed_generation_has_is_not_found() -> None:
    assert TABLE.directories[0].resolve(FIRST_TOKEN + 1) is None
    retried = only(ORPHANED, commit(in_place(140, 1200, (4,))))
    assert retried.directories[0].resolve(130) is None


def test_outcomes_come_once_and_in_the_order_of_their_text() -> None:
    changes = in_place(130, 1100, (9,)), new_directory(NIGHT)
    outcomes = step(TABLE, commit(*changes, stopped_after=Stage.WRITTEN, crash=True))
    assert len(outcomes) == 4
    assert list(outcomes) == sorted(set(outcomes), key=repr)


Choice = tuple[int, int, int, int]


def drawn_operation(state: State, choice: Choice, fresh_row: int) -> Operation:
    """Turn four small numbers into an operation that mostly fits the state."""
    kind, which, size, how = choice
    reader = which % 3
    if kind == 0:
        return Pin(reader=reader)
    if kind == 1:
        return Unpin(reader=reader)
    if kind == 2:
        return Purge()
    if kind == 3 or not state.open:
        return Recover(
            restated=tuple((key, end + 1 + size) for key, end in newest_orphans(state).items()), crash=how % 2 == 1
        )
    changes: list[Write | Drop] = []
    for partition in ([1], [2], [1, 2], [3], [2, 3])[which % 5]:
        entry = state.entries.get(partition)
        if entry is not None and how % 3 == 0:
            end = state.directory(entry.directory).generations[-1].end + 1 + size
            rows = (*entry.rows, fresh_row)
            changes.append(in_place(entry.token + 1 + size, end, rows, partition=partition))
        elif entry is not None and how == 4:
            changes.append(Drop(partition=partition))
        else:
            changes.append(new_directory(partition, rows=(fresh_row,)))
    stages = [None, None, *Stage]
    stage = stages[(how + size + kind) % len(stages)]
    return commit(*changes, stopped_after=stage, crash=stage is Stage.COMMITTED or (how % 2 == 1 and stage is not None))


def expected_rows(before: dict[int, tuple[int, ...]], changes: Sequence[Write | Drop]) -> dict[int, tuple[int, ...]]:
    after = {key: rows for key, rows in before.items() if key not in {change.partition for change in changes}}
    return after | {change.partition: change.rows for change in changes if isinstance(change, Write)}


def check_state(state: State, rows_of: dict[int, dict[int, tuple[int, ...]]]) -> None:
    for version in (state.committed, *(version for _, version in state.pins)):
        assert rows_read(state, version) == rows_of[version.number]
        assert all(entry.directory not in state.unnamed for entry in version.entries)
    for directory in state.directories:
        ends = [each.end for each in directory.generations]
        assert ends == sorted(set(ends))
        marks = {each.end: each.orphan for each in directory.generations}
        assert all(each.prev == 0 or not marks[each.prev] for each in directory.generations)
    assert list(state.directories) == sorted(state.directories, key=lambda directory: directory.name)
    assert state.committed.number == state.version


@settings(max_examples=150)
@given(choices=st.lists(st.tuples(*[st.integers(0, 7)] * 4), max_size=25), data=st.data())
def test_every_sequence_of_operations_keeps_what_readers_may_rely_on(
    choices: list[Choice], data: st.DataObject
) -> None:
    state = TABLE
    rows_of: dict[int, dict[int, tuple[int, ...]]] = {7: {DAY: (1, 2)}}
    for index, choice in enumerate(choices):
        operation = drawn_operation(state, choice, fresh_row=10 + index)
        outcomes = step(state, operation)
        assert list(outcomes) == sorted(set(outcomes), key=repr)
        assert outcomes == step(state, operation)
        if not outcomes:
            continue
        before, state = state, data.draw(st.sampled_from(outcomes)).state
        assert {outcome.state.version for outcome in outcomes} <= {before.version, before.version + 1}
        if state.version > before.version:
            assert isinstance(operation, Commit)
            rows_of[state.version] = expected_rows(rows_of[before.version], operation.changes)
        check_state(state, rows_of)
