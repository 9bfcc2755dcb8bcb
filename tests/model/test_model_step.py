"""Executions of single operations, and invariants of every sequence of operations."""

from collections import defaultdict
from collections.abc import Sequence
from itertools import combinations, permutations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tornproof.model.table import (
    Commit,
    Drop,
    Entry,
    Generation,
    Generations,
    Operation,
    Outcome,
    Pin,
    Purge,
    Recover,
    Stage,
    State,
    Unpin,
    Version,
    Write,
    resolve,
    step,
)

DAY, NIGHT = 1, 2
FIRST_TOKEN = 100
FIRST = Entry(directory=(DAY, 3), rows=(1, 2), token=FIRST_TOKEN)
TABLE = State(
    committed=Version(number=7, entries=(FIRST,)),
    directories=((FIRST.directory, (Generation(token=FIRST_TOKEN, rows=(1, 2)),)),),
)


def in_place(token: int, rows: tuple[int, ...], partition: int = DAY) -> Write:
    return Write(partition=partition, rows=rows, token=token, in_place=True)


def new_directory(partition: int, rows: tuple[int, ...] = (1, 2), token: int = 50) -> Write:
    return Write(partition=partition, rows=rows, token=token, in_place=False)


def orphans(state: State) -> tuple[int, ...]:
    return tuple(entry.directory[0] for entry in state.orphaned)


def names(state: State) -> list[tuple[int, int]]:
    return [name for name, _ in state.directories]


def chain(state: State, name: tuple[int, int] = (DAY, 3)) -> list[tuple[int, int]]:
    """The token and the predecessor of each generation."""
    return [(each.token, each.prev) for each in state.generations(name)]


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
    found = {}
    for entry in version.entries:
        generations = state.generations(entry.directory)
        number = resolve(generations, entry.token)
        found[entry.directory[0]] = generations[number - 1].rows if number else None
    return found


ORPHANED = only(TABLE, commit(in_place(130, (1, 2, 9)), stopped_after=Stage.PUBLISHED))


def test_a_new_table_reads_as_it_was_given() -> None:
    assert rows_read(TABLE, TABLE.committed) == {DAY: (1, 2)}
    assert (TABLE.committed.number, TABLE.other) == (7, None)


def test_a_commit_stores_the_next_version_in_the_other_slot_and_returns_its_number() -> None:
    (outcome,) = step(TABLE, commit(in_place(120, (1, 2, 3))))
    assert outcome.answer == 8
    assert (outcome.state.committed.number, outcome.state.other) == (8, TABLE.committed)
    assert rows_read(outcome.state, outcome.state.committed) == {DAY: (1, 2, 3)}


def test_an_update_in_place_keeps_the_directory_and_links_to_the_committed_generation() -> None:
    after = only(TABLE, commit(in_place(120, (1, 2, 3))))
    assert names(after) == [(DAY, 3)]
    assert chain(after) == [(FIRST_TOKEN, 0), (120, 1)]
    assert rows_read(after, TABLE.committed) == {DAY: (1, 2)}


def test_a_new_directory_is_named_with_the_version_before_its_commit() -> None:
    after = only(TABLE, commit(new_directory(NIGHT)))
    assert names(after) == [(DAY, 3), (NIGHT, 7)]


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
        pytest.param((in_place(FIRST_TOKEN, ()),), id="token not above the committed one"),
        pytest.param((in_place(120, (), partition=NIGHT),), id="update of a partition that is not there"),
        pytest.param((Drop(partition=NIGHT),), id="drop of a partition that is not there"),
        pytest.param((new_directory(NIGHT, token=0),), id="new directory without a token"),
        pytest.param((Drop(partition=DAY), new_directory(DAY)), id="two changes of one partition"),
        pytest.param((new_directory(NIGHT), in_place(FIRST_TOKEN, ())), id="one of two that is not allowed"),
    ],
)
def test_a_commit_that_the_state_does_not_allow_has_no_outcome(changes: tuple[Write | Drop, ...]) -> None:
    assert step(TABLE, commit(*changes)) == ()
    assert step(TABLE, commit(*changes, stopped_after=Stage.PUBLISHED)) == ()
    assert step(TABLE, commit(*changes, stopped_after=Stage.PUBLISHED, crash=True)) == ()


def test_a_published_commit_that_fails_leaves_an_orphan_and_the_old_version() -> None:
    assert ORPHANED.committed == TABLE.committed
    assert chain(ORPHANED) == [(FIRST_TOKEN, 0), (130, 1)]
    assert rows_read(ORPHANED, ORPHANED.committed) == {DAY: (1, 2)}
    assert (orphans(TABLE), orphans(ORPHANED)) == ((), (DAY,))


def test_a_retry_with_the_orphans_token_appends_past_it_and_is_found_instead_of_it() -> None:
    retried = only(ORPHANED, commit(in_place(130, (1, 2, 4))))
    assert chain(retried) == [(FIRST_TOKEN, 0), (130, 1), (130, 1)]
    assert orphans(retried) == ()
    assert rows_read(retried, retried.committed) == {DAY: (1, 2, 4)}
    assert rows_read(retried, TABLE.committed) == {DAY: (1, 2)}


def test_recovery_restates_the_committed_generation_past_an_orphan() -> None:
    recovered = only(ORPHANED, Recover())
    assert recovered.generations((DAY, 3))[-1] == Generation(token=FIRST_TOKEN, rows=(1, 2), prev=1)
    assert orphans(recovered) == ()
    after = only(recovered, commit(in_place(130, (1, 2, 4))))
    assert chain(after)[-1] == (130, 3)
    assert rows_read(after, after.committed) == {DAY: (1, 2, 4)}


def test_recovery_restates_exactly_the_newest_orphans() -> None:
    table = only(TABLE, commit(new_directory(NIGHT)))
    for partition in (DAY, NIGHT):
        orphaned = only(table, commit(in_place(130, (9,), partition=partition), stopped_after=Stage.PUBLISHED))
        assert orphans(orphaned) == (partition,)
        recovered = only(orphaned, Recover())
        added = {name: len(recovered.generations(name)) - len(orphaned.generations(name)) for name in names(table)}
        assert added == {name: name[0] == partition for name in names(table)}


def test_recovery_restates_the_committed_generation_past_an_orphan_with_the_same_rows() -> None:
    orphaned = only(TABLE, commit(in_place(130, FIRST.rows), stopped_after=Stage.PUBLISHED))
    assert orphans(orphaned) == (DAY,)
    assert chain(only(orphaned, Recover())) == [(FIRST_TOKEN, 0), (130, 1), (FIRST_TOKEN, 1)]


def test_recovery_twice_is_recovery_once() -> None:
    once = only(ORPHANED, commit(new_directory(NIGHT), stopped_after=Stage.PUBLISHED), Recover())
    assert names(once) == [(DAY, 3)]
    assert only(once, Recover()) == once


@pytest.mark.parametrize(
    ("stage", "orphaned"),
    [(Stage.STARTED, {False}), (Stage.WRITTEN, {False, True}), (Stage.PUBLISHED, {True}), (Stage.RECORDED, {True})],
)
def test_an_error_before_the_version_store_leaves_the_old_version_and_a_living_writer(
    stage: Stage, orphaned: set[bool]
) -> None:
    left = states(step(TABLE, commit(in_place(130, (9,)), stopped_after=stage)))
    assert {(state.committed.number, state.committed, state.open) for state in left} == {(7, TABLE.committed, True)}
    assert {bool(orphans(state)) for state in left} == orphaned


def test_an_error_after_the_version_store_is_no_error_of_the_model() -> None:
    assert step(TABLE, commit(in_place(130, (9,)), stopped_after=Stage.COMMITTED)) == ()


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
    left = states(step(TABLE, commit(in_place(130, (9,)), stopped_after=stage, crash=True)))
    assert {state.committed.number for state in left} == versions
    assert not any(state.open for state in left)
    expected = {7: {DAY: (1, 2)}, 8: {DAY: (9,)}}
    assert all(rows_read(state, state.committed) == expected[state.committed.number] for state in left)
    assert all(bool(orphans(state)) == (state.committed.number == 7) for state in left if stage >= Stage.PUBLISHED)


@pytest.mark.parametrize(
    ("stage", "sibling"),
    [(Stage.WRITTEN, 6), (Stage.PUBLISHED, None), (Stage.RECORDED, 8)],
)
def test_the_other_slot_is_old_until_the_record_is_stored_undefined_meanwhile_and_then_new(
    stage: Stage, sibling: int | None
) -> None:
    table = TABLE._replace(other=Version(number=6))
    left = states(step(table, commit(in_place(130, (9,)), stopped_after=stage)))
    assert {state.other and state.other.number for state in left} == {sibling}


def test_headers_of_several_partitions_are_patched_in_any_subset() -> None:
    table = only(TABLE, commit(new_directory(NIGHT)))
    both = in_place(130, (9,)), in_place(60, (8,), partition=NIGHT)
    left = states(step(table, commit(*both, stopped_after=Stage.WRITTEN)))
    assert sorted(orphans(state) for state in left) == [(), (DAY,), (DAY, NIGHT), (NIGHT,)]


@pytest.mark.parametrize("stage", [Stage.STARTED, Stage.WRITTEN])
def test_a_new_directory_may_be_left_over_before_anything_is_published(stage: Stage) -> None:
    left = states(step(TABLE, commit(new_directory(NIGHT), stopped_after=stage)))
    night: tuple[tuple[int, int], Generations] = ((NIGHT, 7), ())
    assert {state.directories for state in left} == {TABLE.directories, (*TABLE.directories, night)}


def test_a_retry_finds_the_left_over_directory_in_its_way_and_replaces_it() -> None:
    left = only(TABLE, commit(new_directory(NIGHT, rows=(5,)), stopped_after=Stage.PUBLISHED))
    assert left.unnamed == ((NIGHT, 7),)
    retried = only(left, commit(new_directory(NIGHT, rows=(6,))))
    assert rows_read(retried, retried.committed) == {DAY: (1, 2), NIGHT: (6,)}


def test_a_dead_writer_commits_and_purges_nothing_until_recovery() -> None:
    (dead,) = states(step(TABLE, commit(new_directory(DAY), stopped_after=Stage.COMMITTED, crash=True)))
    assert step(dead, commit(in_place(120, (9,)))) == ()
    assert step(dead, Purge()) == ()
    reopened = only(dead, Recover())
    assert only(reopened, Purge()).directories == reopened.directories[1:]
    assert only(reopened, commit(in_place(120, (9,)))).committed.number == 9


def test_recovery_returns_which_version_it_adopts() -> None:
    left = states(step(TABLE, commit(in_place(130, (9,)), stopped_after=Stage.RECORDED, crash=True)))
    assert {outcome.answer for state in left for outcome in step(state, Recover())} == {7, 8}


def test_a_crash_in_recovery_leaves_any_part_of_it_done_and_the_next_one_does_the_rest() -> None:
    left = only(ORPHANED, commit(new_directory(NIGHT), stopped_after=Stage.PUBLISHED))
    half = states(step(left, Recover(crash=True)))
    assert {(bool(orphans(state)), len(state.directories)) for state in half} == {
        (True, 1),
        (True, 2),
        (False, 1),
        (False, 2),
    }
    assert not any(state.open for state in half)
    for state in half:
        again = only(state, Recover())
        assert (again.committed, again.open, len(again.directories)) == (TABLE.committed, True, 1)
        assert rows_read(again, again.committed) == {DAY: (1, 2)}


def test_a_pin_survives_rewrite_and_purge_and_frees_the_directory_when_given_back() -> None:
    (pin,) = step(TABLE, Pin(reader=1))
    assert pin.answer == TABLE.committed
    rewritten = only(pin.state, commit(new_directory(DAY)), commit(in_place(70, (4,))), Purge())
    assert rows_read(rewritten, TABLE.committed) == {DAY: (1, 2)}
    assert rows_read(rewritten, rewritten.committed) == {DAY: (4,)}
    (purge,) = step(only(rewritten, Unpin(reader=1)), Purge())
    assert purge.answer == ((DAY, 3),)
    assert rows_read(purge.state, TABLE.committed) == {DAY: None}


@pytest.mark.parametrize("readers", [*permutations(range(3))])
def test_each_pinned_version_keeps_its_directories_whoever_pinned_first(readers: tuple[int, ...]) -> None:
    """Only the last reader kept its own: a purge that removed those of the others was right."""
    pinned, needed = TABLE, {}
    for reader in readers:
        needed[reader] = pinned.entries[DAY].directory
        pinned = only(pinned, Pin(reader=reader), commit(new_directory(DAY, rows=(reader,))))
    for left in [some for count in range(4) for some in combinations(readers, count)]:
        before = only(pinned, *(Unpin(reader=reader) for reader in readers if reader not in left))
        unneeded = tuple(needed[reader] for reader in readers if reader not in left)
        (purge,) = step(before, Purge())
        assert before.unnamed == purge.answer == unneeded
        assert {name for name, _ in purge.state.directories} == {*needed.values(), (DAY, 9)} - {*unneeded}
        assert bool(step(before, Purge(kept=unneeded))) is bool(left or not unneeded)


def test_a_pin_outlives_the_writer_and_the_recovery() -> None:
    pinned = only(TABLE, Pin(reader=1), commit(new_directory(DAY)))
    for dead in states(step(pinned, commit(in_place(70, (4,)), stopped_after=Stage.RECORDED, crash=True))):
        recovered = only(dead, Recover(), Purge())
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
    pinned = only(TABLE, Pin(reader=2), commit(in_place(120, (9,))), Pin(reader=1))
    assert [(reader, version.number) for reader, version in pinned.pins] == [(1, 8), (2, 7)]
    assert step(pinned, Pin(reader=2)) == ()
    assert only(pinned, Unpin(reader=2)).pins == pinned.pins[:1]
    assert only(pinned, Unpin(reader=3)) == pinned


def test_a_token_that_no_committed_generation_has_is_not_found() -> None:
    assert resolve(TABLE.generations((DAY, 3)), FIRST_TOKEN + 1) == 0
    retried = only(ORPHANED, commit(in_place(140, (4,))))
    assert resolve(retried.generations((DAY, 3)), 130) == 0


def test_outcomes_come_once_and_in_the_order_of_their_text() -> None:
    changes = in_place(130, (9,)), new_directory(NIGHT)
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
        return Recover(crash=how % 2 == 1)
    changes: list[Write | Drop] = []
    for partition in ([1], [2], [1, 2], [3], [2, 3])[which % 5]:
        entry = state.entries.get(partition)
        if entry is not None and how % 3 == 0:
            rows = (*entry.rows, fresh_row) if size % 2 else entry.rows
            changes.append(in_place(entry.token + 1 + size, rows, partition=partition))
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


Committed = dict[tuple[int, int], set[tuple[int, tuple[int, ...]]]]
"""The token and rows of all entries of each directory in committed versions."""


def check_state(state: State, rows_of: dict[int, dict[int, tuple[int, ...]]], committed: Committed) -> None:
    for version in (state.committed, *(version for _, version in state.pins)):
        assert rows_read(state, version) == rows_of[version.number]
        assert all(entry.directory not in state.unnamed for entry in version.entries)
    for name, generations in state.directories:
        assert all(each.prev <= number for number, each in enumerate(generations))
        # No chain leads through what was published and not committed.
        passed = {
            (generations[each.prev - 1].token, generations[each.prev - 1].rows) for each in generations if each.prev
        }
        assert passed <= committed[name]
    assert names(state) == sorted(names(state))


def check_recovery(before: State, after: State) -> None:
    """Whatever was left before: behind a committed generation there is none afterwards, and no other is restated."""
    for entry in before.committed.entries:
        old, new = before.generations(entry.directory), after.generations(entry.directory)
        assert (new[-1].token, new[-1].rows) == (entry.token, entry.rows)
        assert (len(new) == len(old)) is (old[-1].token == entry.token)


@settings(max_examples=150)
@given(choices=st.lists(st.tuples(*[st.integers(0, 7)] * 4), max_size=25), data=st.data())
def test_every_sequence_of_operations_keeps_what_readers_may_rely_on(
    choices: list[Choice], data: st.DataObject
) -> None:
    state = TABLE
    rows_of: dict[int, dict[int, tuple[int, ...]]] = {7: {DAY: (1, 2)}}
    committed: Committed = defaultdict(set, {FIRST.directory: {(FIRST_TOKEN, (1, 2))}})
    for index, choice in enumerate(choices):
        operation = drawn_operation(state, choice, fresh_row=10 + index)
        outcomes = step(state, operation)
        assert list(outcomes) == sorted(set(outcomes), key=repr)
        assert outcomes == step(state, operation)
        if not outcomes:
            continue
        before, state = state, data.draw(st.sampled_from(outcomes)).state
        assert {outcome.state.committed.number for outcome in outcomes} <= {
            before.committed.number,
            before.committed.number + 1,
        }
        if operation == Recover():
            check_recovery(before, state)
        if state.committed.number > before.committed.number:
            assert isinstance(operation, Commit)
            rows_of[state.committed.number] = expected_rows(rows_of[before.committed.number], operation.changes)
        for entry in state.committed.entries:
            committed[entry.directory].add((entry.token, entry.rows))
        check_state(state, rows_of, committed)
