"""The rules of a stateful run about readers, and about the purge, which must keep what they need."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import suppress

import numpy as np

from tornproof.harness.explorers.model_based.conditions import FORMS, OPERATORS, Condition, condition_of
from tornproof.harness.explorers.model_based.files import ViolationError, entry_of, expected_chain, version_of
from tornproof.harness.explorers.model_based.world import ALLOWED, ROWS, World, orderly
from tornproof.impl.errors import FileVanishedError
from tornproof.impl.txn.pins import pin_committed
from tornproof.model.table import DirectoryName, Pin, Purge, Unpin, resolve, step

VALUES_MAX = 8


def pin(world: World, *, reader: int) -> None:
    """Pin the committed version."""
    with orderly("pin_committed"):
        pinned = pin_committed(world.files.storage, world.files.path)
    (outcome,) = step(world.state, Pin(reader=reader))
    world.pins[reader] = pinned
    world.state = outcome.state
    if pinned.version != world.state.committed.number or not pinned.is_held:
        raise ViolationError(ALLOWED, f"version {pinned.version} was pinned, lock held: {pinned.is_held}")
    _check_pins(world, pinned.version)


def read_pinned(world: World, *, reader: int) -> None:
    """Read a pinned version again."""
    version = dict(world.state.pins)[reader]
    world.check_rows(world.pins[reader].transaction, version)
    for entry in version.entries:
        tokens = expected_chain(world.state, entry.directory)
        is_behind = entry.token in tokens and tokens.index(entry.token) >= 2
        world.reached["pinned reader two generations back"] += is_behind
    world.reached["pinned reader of a directory left behind"] += any(
        entry.directory not in {each.directory for each in world.state.committed.entries} for entry in version.entries
    )


def unpin(world: World, *, reader: int) -> None:
    """Release a pin."""
    pinned = world.pins.pop(reader)
    with orderly("releasing a pin"):
        pinned.release()
    (outcome,) = step(world.state, Unpin(reader=reader))
    world.state = outcome.state
    _check_pins(world, pinned.version)


def purge(world: World) -> None:
    """Purge directories that no reader needs; one that an older pin might need may stay."""
    with orderly("purge"):
        names = set(world.open_writer.purge())
    by_name = {world.files.name_of(name): name for name, _ in world.state.directories}
    unneeded = {world.files.name_of(name) for name in world.state.unnamed}
    if not names <= unneeded:
        raise ViolationError(ALLOWED, f"purged were {sorted(names - unneeded)}, which are needed or never existed")
    live = {entry.directory for entry in world.state.committed.entries}
    oldest = min((version.number for _, version in world.state.pins), default=world.state.committed.number)
    for name in (name for name, _ in world.state.directories if name not in live):
        # A dropped partition has no successor to say when it was replaced, so any older pin keeps it.
        needed_below = (
            max(world.ceased[name], world.opened_at) if name in world.was_replaced else world.state.committed.number
        )
        if oldest >= needed_below and world.files.name_of(name) not in names:
            raise ViolationError(ALLOWED, f"{world.files.name_of(name)} was not purged, although no reader needs it")
        world.reached["purge refused by a pin"] += world.files.name_of(name) not in names
    removed = sorted(by_name[name] for name in names)
    world.reached["purged"] += bool(removed)
    kept = tuple(name for name in world.state.unnamed if name not in removed)
    world.accept(step(world.state, Purge(kept=kept)), [], "a purge")
    for name in removed:
        world.files.forget(name)
    _check_vanished(world, removed)


def _check_vanished(world: World, removed: Sequence[DirectoryName]) -> None:
    """Read what was removed as of the version before, as a reader without a pin may: it is not taken for damage."""
    for partition in world.before.partitions:
        if partition.is_parquet and entry_of(partition).directory in removed:
            with orderly("reading what was purged", FileVanishedError), suppress(FileVanishedError):
                world.files.snapshot(world.before).resolve(partition)
                raise ViolationError(ALLOWED, "what was purged can still be read")
            world.reached["purged while it was read"] += 1


def reload(world: World) -> None:
    """Let a reader that is open for the whole program reload."""
    with orderly("reload"):
        found = world.follower.reload()
    if version_of(found.transaction) != version_of(world.files.transaction()):
        raise ViolationError(ROWS, f"a long-lived reader sees version {found.transaction.version}")
    if found.unannounced:
        raise ViolationError(ALLOWED, f"partition {found.unannounced[0].timestamp} changed without being announced")
    before = {entry_of(each) for each in world.followed.partitions} if world.followed else set()
    unchanged = [entry_of(each) for each in found.transaction.partitions if entry_of(each) in before]
    if [entry_of(each) for each in found.unchanged] != unchanged:
        raise ViolationError(ALLOWED, "a long-lived reader is wrong about what it may keep open")
    world.followed = found.transaction


def read_token(world: World, *, nth: int) -> None:
    """Read by a token that was committed at some time, in a directory that still exists."""
    existing = {name for name, _ in world.state.directories}
    known = sorted(key for key in world.committed_partitions if key[0] in existing)
    name, token = known[nth % len(known)]
    generations = world.state.generations(name)
    number = resolve(generations, token)
    if not number:
        raise ViolationError(ALLOWED, f"the model cannot resolve token {token} of {world.files.name_of(name)}")
    partition = world.committed_partitions[name, token]
    with orderly(f"reading token {token} of {world.files.name_of(name)}"):
        found = world.files.read(world.files.transaction(), (partition,))
    if found[partition.timestamp] != generations[number - 1].rows:
        raise ViolationError(ROWS, f"token {token} of {world.files.name_of(name)} no longer has its rows")


def read_committed(world: World) -> None:
    """Read the whole committed version."""
    with orderly("reading _txn"):
        transaction = world.files.transaction()
    world.check_rows(transaction, world.state.committed)


def read_where(world: World, *, nth: int, at: int) -> None:
    """Read the rows for which a condition is true that compares columns with the values of a row."""
    contents, rows = world.rows.contents, _committed_rows(world)
    number, form = divmod(at, FORMS)
    row, symbol = divmod(number, len(OPERATORS))
    condition = condition_of(
        world.rows.shape,
        contents[rows[(row + nth) % len(rows)]],
        contents[rows[(2 * row + nth + 1) % len(rows)]],
        column=nth % len(world.rows.shape.types),
        symbol=tuple(OPERATORS)[symbol],
        form=form,
    )
    _check_condition(world, rows, condition)


def read_each_value(world: World, *, nth: int) -> None:
    """Read the rows with each value that a column has, which filters must not hide in whatever row group it is.

    And those with any other value than a few of them.
    """
    shape, contents, rows = world.rows.shape, world.rows.contents, _committed_rows(world)
    part, column = divmod(nth, len(shape.types))
    firsts = list({contents[row][column]: row for row in reversed(rows)}.values())
    for form, some in ((0, share_of(firsts, part)), (1, firsts[-2:])):
        for row in some:
            _check_condition(world, rows, condition_of(shape, contents[row], (), column=column, symbol="=", form=form))
    world.reached["each value of a column read"] += len(firsts) > 1


def share_of(rows: list[int], part: int) -> list[int]:
    """Return a few of many rows, spread evenly; consecutive parts have them all."""
    step = max(1, len(rows) // VALUES_MAX)
    return rows[part % step :: step]


def _committed_rows(world: World) -> list[int]:
    return [row for entry in world.state.committed.entries if entry.token >= 0 for row in entry.rows]


def _check_condition(world: World, rows: Sequence[int], condition: Condition) -> None:
    contents = world.rows.contents
    expected = tuple(row for row in rows if condition.truth(contents[row]))
    with orderly(f"reading where {condition.text}"):
        found = world.files.read_where(world.files.transaction(), condition.text)
    _check_selected(world, f"where {condition.text}", expected, found)
    world.reached["rows left out by a condition"] += 0 < len(expected) < len(rows)


def read_between(world: World, *, nth: int, at: int) -> None:
    """Read the rows from the time of one row to before that of another one."""
    rows = _committed_rows(world)
    start, end = sorted(world.rows.timestamp(rows[number % len(rows)]) for number in (nth, at))
    expected = tuple(row for row in rows if start <= world.rows.timestamp(row) < end)
    with orderly(f"reading from {start} to {end}"):
        of = "datetime64[ns]" if world.start.metadata.counts_nanoseconds else "datetime64[us]"
        # As users write it.
        texts = [f"{each}{zone}" for each, zone in zip(np.array([start, end]).astype(of), ("", "Z"), strict=True)]
        times = world.files.snapshot(world.files.transaction()).time_range(*texts)
        found = world.files.read_where(world.files.transaction(), None, times)
    _check_selected(world, f"from {start} to {end}", expected, found)


def _check_selected(world: World, which: str, expected: tuple[int, ...], found: tuple[int, ...]) -> None:
    if found != expected:
        contents = world.rows.contents
        wrong = [contents[row] for row in sorted(set(expected) ^ set(found))] or "the same in another order"
        raise ViolationError(ROWS, f"of the rows {which} {len(found)} were read, and {len(expected)} exist: {wrong}")


def _check_pins(world: World, version: int) -> None:
    expected = any(pinned.number == version for _, pinned in world.state.pins)
    with orderly("reading the locks"):
        found = world.files.is_pinned(version)
    if found != expected:
        raise ViolationError(ALLOWED, f"version {version} is locked: {found}, and should be: {expected}")
