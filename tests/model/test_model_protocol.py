"""The protocol's state machine, searched breadth first: ours keeps every promise, and no part of it can be left out.

What is asked of each state is `trace.py`: a reader sees committed versions alone, newer ones later, and every
acknowledged one; an acknowledged commit survives each crash; and a purge removes nothing that is pinned.
"""

from collections.abc import Sequence

import pytest
from depth import nightly, sampled
from model_search import Searched, search

from tornproof.impl.write.commit import HARDENED, Action, RecoveryAction
from tornproof.model.protocol import (
    CHECKS,
    COMMIT,
    PURGE,
    READ,
    RECOVERY,
    REWRITE,
    UPDATE,
    WRONG,
    Cell,
    State,
    begin,
    steps,
)
from tornproof.model.table import Generation
from tornproof.model.trace import Event, Kind

CRASHES = {"readers": 0}
READER = {"readers": 1, "failed_syncs": 0, "power_cuts": 0}
PINNED = {**READER, "stops": 0}

STEPS_OF_UPDATE = {
    Action.APPEND_DATA: ("write data",),
    Action.SYNC_DATA: ("sync data",),
    Action.APPEND_PM: ("write body",),
    Action.SYNC_PM: ("sync body",),
    Action.PATCH_HEADER: ("store header",),
    Action.SYNC_HEADER: ("sync header",),
    Action.STORE_RECORD: ("begin record", "store record"),
    Action.SYNC_RECORD: ("sync record",),
    Action.FENCE_BEFORE_VERSION: (),
    Action.STORE_VERSION: ("store version",),
    Action.SYNC_VERSION: ("sync version",),
    Action.FENCE_AFTER_VERSION: (),
}
"""The machine has no caches of processors, so it has no fences."""
STEPS_OF_REWRITE = {
    **STEPS_OF_UPDATE,
    Action.MAKE_DIRECTORY: ("make directory",),
    Action.APPEND_PM: ("write body", "store header"),
    Action.SYNC_PM: ("sync body", "sync header"),
    Action.SYNC_DIRECTORY: (),
    Action.SYNC_TABLE_DIRECTORY: ("sync name",),
}
"""A new `_pm` is written whole, and the names of a directory and its files are one cell."""
STEPS_OF_RECOVERY = {
    RecoveryAction.REMOVE_UNCOMMITTED: ("remove uncommitted", "sync name"),
    RecoveryAction.REPUBLISH_PARTITIONS: (),
    RecoveryAction.STORE_VERSION_AGAIN: ("store version again", "sync version"),
    RecoveryAction.TAKE_COLUMN_VERSION_BACK: (),
}
"""The body of a `_pm` is one cell, which the next commit writes again as a whole, so there is nothing to republish."""
LEFT_OUT = (
    ("sync data", CRASHES, "commit -1"),
    ("sync body", CRASHES, "commit -1"),
    ("sync header", CRASHES, "commit -1"),
    ("sync name", CRASHES, "commit -1"),
    ("sync record", CRASHES, "commit -1"),
    ("sync version", CRASHES, "commit 0: expected commit 1"),
    ("store version again", CRASHES, "commit 0: expected commit 1"),
    ("store header", CRASHES, "commit -1"),
    ("base is committed", CRASHES, "commit -1"),
    ("record is checked", READER, "commit -1"),
    ("pins are asked", PINNED, "commit -1"),
    ("pin is checked", PINNED, "commit -1"),
)


def explored(bounds: dict[str, int], *without: str, pins: bool = False) -> Searched:
    return search(begin(**bounds), frozenset(without), pins=pins)


@pytest.mark.parametrize(
    ("bounds", "pins", "state_count"),
    [
        pytest.param(CRASHES, False, 17_669, id="crashes of two commits"),
        pytest.param(READER, False, 16_577, id="a reader beside two commits, one of which stops"),
        pytest.param(PINNED, True, 3_199, id="a pinned reader beside two commits"),
        nightly({"readers": 1}, False, 169_027, id="a reader beside two commits, and crashes"),
        nightly({"readers": 1}, True, 232_917, id="a pinned reader beside two commits, and crashes"),
        nightly({"readers": 2}, False, 2_283_517, id="two readers beside two commits, and crashes"),
    ],
)
def test_ours_keeps_every_promise_in_every_state(bounds: dict[str, int], pins: bool, state_count: int) -> None:
    found = explored(bounds, pins=pins)
    assert (found.is_done, found.reason) == (True, "") and found.state_count == state_count


@pytest.mark.parametrize(("left_out", "bounds", "reason"), sampled(5, LEFT_OUT))
def test_without_any_one_barrier_or_check_the_search_finds_a_way_to_break_a_promise(
    left_out: str, bounds: dict[str, int], reason: str
) -> None:
    found = explored(bounds, left_out, pins=bounds is PINNED)
    assert reason in found.reason
    assert found.way[-1] == ("the power is cut" if bounds is CRASHES else found.way[-1])
    if left_out in UPDATE:
        # The shortest way is one commit, up to the step that is not safe, and a power cut.
        assert found.way[0] == "commit" and len(found.way) <= len(UPDATE) + 2


ABANDONED = ("commit", *UPDATE[: -len(COMMIT)], "the writer stops", "a writer opens", *RECOVERY)
"""A commit whose rows are in the files and were never committed."""
READING = tuple(f"reader 0: {step}" for step in ("begin", *READ))


def taken(state: State, labels: Sequence[str], *without: str) -> tuple[State, tuple[Event, ...]]:
    """Return the state after some steps by their labels, and what the last one reports."""
    events: tuple[Event, ...] = ()
    for wanted in labels:
        following = steps(state, frozenset(without))
        state, events = next((after, said) for after, label, said in following if label == wanted)
    return state, events


def test_a_header_that_names_more_generations_than_are_there_publishes_none() -> None:
    state = begin()
    torn = state._replace(cells=state.cells | {("header", 0): Cell(2, frozenset([2]))})
    assert (len(state.published(0)), torn.published(0)) == (1, ())


def test_the_first_generation_of_a_new_directory_has_none_before_it() -> None:
    writers = [after.writer for after, label, _ in steps(begin()) if label == "commit"]
    assert [(each.entry.directory, each.generation.prev) for each in writers if each] == [(0, 1), (1, 0)]


@pytest.mark.parametrize(("without", "seen"), [((), 1), (("base is committed",), WRONG)])
def test_a_commit_on_rows_that_were_never_committed_is_not_what_is_expected(
    without: tuple[str, ...], seen: int
) -> None:
    """What a writer had written was expected of it, so one that did not check its base was right."""
    state, events = taken(begin(), (*ABANDONED, "commit", *UPDATE, *READING), *without)
    assert state.expected == ((0,), (0, 1))
    assert events == (Event(Kind.SEEN, seen, "reader 0"),)


@pytest.mark.parametrize(("rows", "seen"), [((0, 2), 1), ((2,), WRONG), ((0, 2, 2), WRONG), ((2, 0), WRONG)])
def test_a_commit_that_loses_repeats_or_moves_rows_is_not_what_is_expected(rows: tuple[int, ...], seen: int) -> None:
    state, _ = taken(begin(), ("commit",))
    assert state.writer is not None
    entry = state.writer.entry._replace(token=len(rows))
    state = state._replace(writer=state.writer._replace(entry=entry, generation=Generation(len(rows), rows, 1)))
    state, events = taken(state, (*UPDATE, *READING))
    assert events == (Event(Kind.SEEN, seen, "reader 0"),)


def test_every_barrier_and_check_is_left_out_once() -> None:
    steps = {*UPDATE, *REWRITE, *RECOVERY, *PURGE}
    barriers = {step for step in steps if step.startswith("sync ")}
    assert barriers | set(CHECKS) <= {left_out for left_out, *_ in LEFT_OUT}


def test_the_steps_are_those_of_the_implementation_in_its_order() -> None:
    update, rewrite = ((*actions, *HARDENED.publish) for actions in (HARDENED.update, HARDENED.rewrite))
    assert (*(step for action in update for step in STEPS_OF_UPDATE[action]), "acknowledge") == UPDATE
    assert (*(step for action in rewrite for step in STEPS_OF_REWRITE[action]), "acknowledge") == REWRITE
    assert (*(step for action in HARDENED.recovery for step in STEPS_OF_RECOVERY[action]), "recovered") == RECOVERY
