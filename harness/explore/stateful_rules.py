"""The rules of a stateful run: what each does to the world, from plain arguments, so that a program is data.

A step is a rule's name and its arguments. `RULES` also says when a rule can be taken.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, TypeAlias

import pyarrow as pa

from harness.disk.faulty import Fault
from harness.disk.locks import Killed
from harness.explore.stateful_commit import FAULT_KINDS, commit, commit_fails, commit_killed
from harness.explore.stateful_files import Violation, entry_of, expected_chain, version_of
from harness.explore.stateful_rows import Point
from harness.explore.stateful_start import TIMES_IN_PLACE
from harness.explore.stateful_world import ALLOWED, ORDERLY, ROWS, Staged, World
from impl.errors import BusyError, StorageError
from impl.pins import pin_committed
from impl.storage import Refusal
from impl.table_writer import WriterDeadError, open_writer
from model.step import Outcome, newest_orphans, step
from model.table import Pin, Recover, Unpin

Step: TypeAlias = dict[str, Any]
KEY_COUNT = 3
READER_COUNT = 3
RECOVERY_STEPS = 16  # about as many as there are


def append(world: World, *, place: int, count: int) -> None:
    """Write rows behind all others of an interval."""
    where = world.start.places[place % len(world.start.places)]
    entries = world.state.committed.entries
    known = [world.rows.timestamp(identity) for entry in entries for identity in entry.rows]
    known += map(world.rows.timestamp, world.staged.rows)
    last = max((time for time in known if where.start <= time < where.end), default=where.start - 1)
    _write(world, [Point(min(last + 1 + nth, where.end - 1), nth % KEY_COUNT) for nth in range(count)])


def insert(world: World, *, rows: Sequence[int]) -> None:
    """Write rows at any times of any intervals, in any order; each is a number for interval, time and key."""
    places = world.start.places
    points = []
    for number in rows:
        time, key = divmod(number, KEY_COUNT)
        place = places[time // TIMES_IN_PLACE % len(places)]
        points.append(Point(place.times[time % len(place.times)], key))
    _write(world, points)


def upsert(world: World, *, rows: Sequence[int]) -> None:
    """Write rows with the keys of committed ones."""
    targets = _repeatable(world)
    chosen = [targets[number % len(targets)] for number in rows]
    _write(world, [Point(key[0], key[1:]) for key in map(world.rows.key, chosen)])
    world.reached["upsert of a committed row"] += 1


def drop(world: World, *, nth: int) -> None:
    """Stage that a partition goes."""
    key = _pick(_parquet(world), nth)
    with world.orderly("drop_partition"):
        _writer(world).drop_partition(key)
    world.staged.dropped.add(key)


def rewrite(world: World, *, nth: int) -> None:
    """Stage that a partition is written anew."""
    key = _pick(_parquet(world), nth)
    with world.orderly("rewrite_partition"):
        _writer(world).rewrite_partition(key)
    world.staged.rewritten.add(key)


def roll_back(world: World) -> None:
    """Forget what is staged."""
    with world.orderly("rollback"):
        _writer(world).rollback()
    world.reached["rolled back"] += bool(world.staged)
    world.staged = Staged()


def close(world: World) -> None:
    """Close the writer, alive or dead."""
    with world.orderly("close"):
        _writer(world).close()
    world.process.end()
    world.writer, world.is_dead = None, False
    world.staged = Staged()
    world.state = type(world.state)(
        version=world.state.version,
        slots=world.state.slots,
        directories=world.state.directories,
        pins=world.state.pins,
        open=False,
    )


def reopen(world: World) -> None:
    """Open a writer, which recovers."""
    _open(world, None)


def reopen_killed(world: World, *, at: int) -> None:
    """Open a writer in a process that dies in the recovery."""
    _open(world, Fault.kill(at % RECOVERY_STEPS))


def reopen_fails(world: World, *, at: int) -> None:
    """Open a writer while a call of the recovery fails."""
    _open(world, Fault(at=at % RECOVERY_STEPS, reason=Refusal.INPUT_OUTPUT))


def open_second(world: World) -> None:
    """Try to open a second writer beside one that is open, dead or alive."""
    with world.orderly("opening a second writer"):
        try:
            open_writer(world.files.storage, world.files.path).close()
        except BusyError:
            return
    raise Violation(ALLOWED, "a second writer was let in")


def use_dead(world: World) -> None:
    """Use a writer whose commit failed."""
    writer = _writer(world)
    calls: Sequence[Callable[[], object]] = (writer.commit, writer.purge, lambda: writer.write(_no_rows(world)))
    for call in calls:
        with world.orderly("using a dead writer"):
            try:
                call()
            except WriterDeadError:
                continue
            raise Violation(ALLOWED, "a writer whose commit failed goes on")


def pin(world: World, *, reader: int) -> None:
    """Pin the committed version."""
    with world.orderly("pin_committed"):
        pinned = pin_committed(world.files.storage, world.files.path)
    (outcome,) = step(world.state, Pin(reader=reader))
    world.pins[reader] = pinned
    world.state = outcome.state
    if pinned.version != world.state.version or not pinned.is_held:
        raise Violation(ALLOWED, f"pinned is version {pinned.version}, held: {pinned.is_held}")
    _check_pins(world, pinned.version)


def read_pinned(world: World, *, reader: int) -> None:
    """Read a pinned version again."""
    version = dict(world.state.pins)[reader]
    world.check_rows(world.pins[reader].transaction, version)
    for entry in version.entries:
        tokens = [token for _, token in expected_chain(world.state, entry.directory)]
        is_behind = entry.token in tokens and tokens.index(entry.token) >= 2
        world.reached["pinned reader two generations back"] += is_behind
    world.reached["pinned reader of a directory left behind"] += any(
        entry.directory not in {each.directory for each in world.state.committed.entries} for entry in version.entries
    )


def unpin(world: World, *, reader: int) -> None:
    """Give a pin back."""
    pinned = world.pins.pop(reader)
    with world.orderly("releasing a pin"):
        pinned.release()
    (outcome,) = step(world.state, Unpin(reader=reader))
    world.state = outcome.state
    _check_pins(world, pinned.version)


def purge(world: World) -> None:
    """Remove the directories that nobody needs; one that a pin below its end might need may stay."""
    with world.orderly("purge"):
        names = set(_writer(world).purge())
    by_name = {world.files.name_of(each.name): each.name for each in world.state.directories}
    unneeded = {world.files.name_of(name) for name in world.state.unnamed}
    if not names <= unneeded:
        raise Violation(ALLOWED, f"purged were {sorted(names - unneeded)}, which are needed or never were")
    live = {entry.directory for entry in world.state.committed.entries}
    oldest = min((version.number for _, version in world.state.pins), default=world.state.version)
    for name in (each.name for each in world.state.directories if each.name not in live):
        # A dropped partition has no successor to say when it ceased, so any older pin keeps it.
        needed_below = world.ceased[name] if name in world.was_replaced else world.state.version
        if oldest >= needed_below and world.files.name_of(name) not in names:
            raise Violation(ALLOWED, f"{world.files.name_of(name)} was not purged, and nobody needs it")
        world.reached["purge refused by a pin"] += world.files.name_of(name) not in names
    gone = sorted(by_name[name] for name in names)
    world.reached["purged"] += bool(gone)
    world.accept([Outcome(state=world.state.with_directories(gone=gone))], [], "a purge")
    for name in gone:
        world.files.forget(name)


def reload(world: World) -> None:
    """Let a reader that lives as long as the program look again."""
    with world.orderly("reload"):
        found = world.follower.reload()
    if version_of(found.transaction) != version_of(world.files.transaction()):
        raise Violation(ROWS, f"a long-lived reader sees version {found.transaction.version}")
    if found.unannounced:
        raise Violation(ALLOWED, f"partition {found.unannounced[0].timestamp} changed without being announced")
    before = {entry_of(each) for each in world.followed.partitions} if world.followed else set()
    unchanged = [entry_of(each) for each in found.transaction.partitions if entry_of(each) in before]
    if [entry_of(each) for each in found.unchanged] != unchanged:
        raise Violation(ALLOWED, "a long-lived reader is wrong about what it may keep open")
    world.followed = found.transaction


def read_token(world: World, *, nth: int) -> None:
    """Read by a token that was committed some time, in a directory that is still there."""
    there = {each.name for each in world.state.directories}
    known = sorted(key for key in world.committed_partitions if key[0] in there)
    name, token = known[nth % len(known)]
    generation = world.state.directory(name).resolve(token)
    if generation is None:
        raise Violation(ALLOWED, f"the model cannot resolve token {token} of {world.files.name_of(name)}")
    partition = world.committed_partitions[name, token]
    with world.orderly(f"reading token {token} of {world.files.name_of(name)}"):
        found = world.files.read(world.files.transaction(), (partition,))
    if found[partition.timestamp] != generation.rows:
        raise Violation(ROWS, f"token {token} of {world.files.name_of(name)} no longer has its rows")


def read_committed(world: World) -> None:
    """Read the whole committed version."""
    with world.orderly("reading _txn"):
        transaction = world.files.transaction()
    world.check_rows(transaction, world.state.committed)


def _write(world: World, points: Sequence[Point]) -> None:
    rows, identities = world.rows.make(points)
    with world.orderly("write"):
        _writer(world).write(rows)
    world.staged.rows += identities


def _open(world: World, fault: Fault | None) -> None:
    world.process = type(world.process)(world.files.storage)
    world.process.arm(*([fault] if fault else []))
    is_crash = False
    try:
        world.writer = open_writer(world.process, world.files.path, options=world.options, encode=world.encode)
    except (StorageError, Killed) as error:
        if not world.process.fired:
            raise Violation(ORDERLY, f"open_writer: {type(error).__name__}: {error}") from error
        is_crash = True
        world.process.end()
        world.reached["recovery stopped"] += 1
    except Exception as error:
        raise Violation(ORDERLY, f"open_writer: {type(error).__name__}: {error}") from error
    world.process.arm()
    orphans = newest_orphans(world.state)
    names = {key: world.state.entries[key].directory for key in orphans}
    with world.orderly("looking at what a recovery has written"):
        ends = {key: world.files.chain(name).end_bytes for key, name in names.items()}
    restated = tuple((key, ends[key] if ends[key] > end else end + 1) for key, end in sorted(orphans.items()))
    unborn = [name for name in world.state.unnamed if name[1] >= world.state.version]
    outcomes = step(world.state, Recover(restated=restated, crash=is_crash))
    world.accept(outcomes, names.values(), "a recovery")
    if not is_crash:
        world.reached["orphan restated"] += bool(orphans)
        world.reached["directory of a stopped commit removed"] += bool(unborn)


def _check_pins(world: World, version: int) -> None:
    expected = any(pinned.number == version for _, pinned in world.state.pins)
    with world.orderly("looking at the locks"):
        found = world.files.is_pinned(version)
    if found != expected:
        raise Violation(ALLOWED, f"version {version} is locked: {found}, and should be: {expected}")


def _writer(world: World):  # type: ignore[no-untyped-def]
    assert world.writer is not None
    return world.writer


def _no_rows(world: World) -> pa.Table:
    return world.rows.shape.schema.empty_table()


def _pick(items: Sequence[int], nth: int) -> int:
    return items[nth % len(items)]


def _parquet(world: World) -> list[int]:
    """Return the committed partitions that a writer may change."""
    starts = world.start.places
    return sorted(
        key
        for key, entry in world.state.entries.items()
        if entry.token >= 0 and any(place.start <= key < place.end for place in starts)
    )


def _repeatable(world: World) -> list[int]:
    entries = world.state.entries
    return [identity for key in _parquet(world) for identity in entries[key].rows]


@dataclass(frozen=True, slots=True)
class Rule:
    """A rule, when it can be taken, how often it is among the others, what to do when it cannot, and its arguments."""

    run: Callable[..., None]
    is_possible: Callable[[World], bool]
    weight: int
    instead: tuple[str, ...] = ()
    arguments: tuple[str, ...] = ()


def _is_open(world: World) -> bool:
    return world.writer is not None and not world.is_dead


def _is_closed(world: World) -> bool:
    return world.writer is None


def _is_dead(world: World) -> bool:
    return world.is_dead


def _has_writer(world: World) -> bool:
    return world.writer is not None


def _has_staged(world: World) -> bool:
    return _is_open(world) and bool(world.staged)


def _has_nothing(world: World) -> bool:
    return _is_open(world) and not world.staged


def _can_change(world: World) -> bool:
    return _is_open(world) and bool(_parquet(world))


def _can_upsert(world: World) -> bool:
    return world.rows.shape.can_repeat_keys and _can_change(world)


def _has_room(world: World) -> bool:
    return len(world.pins) < READER_COUNT


def _has_pins(world: World) -> bool:
    return bool(world.pins)


def _has_tokens(world: World) -> bool:
    return bool(world.committed_partitions)


def _always(world: World) -> bool:
    return True


FAULT_ARGUMENTS = ("kind", "at", "written_bytes")
_ALIVE = ("reopen", "close")
_STAGED = ("insert", *_ALIVE)
_COMMITTED = ("commit", *_STAGED)
# Simple ones first: a program shrinks towards them.
RULES: Mapping[str, Rule] = {
    "commit": Rule(commit, _has_staged, 12, _STAGED),
    "insert": Rule(insert, _is_open, 12, _ALIVE, ("rows",)),
    "append": Rule(append, _is_open, 6, _ALIVE, ("place", "count")),
    "upsert": Rule(upsert, _can_upsert, 5, _COMMITTED, ("rows",)),
    "commit nothing": Rule(commit, _has_nothing, 1, _COMMITTED),
    "rewrite": Rule(rewrite, _can_change, 3, _COMMITTED, ("nth",)),
    "drop": Rule(drop, _can_change, 3, _COMMITTED, ("nth",)),
    "roll back": Rule(roll_back, _has_staged, 1, _STAGED),
    "pin": Rule(pin, _has_room, 4, ("read pinned",), ("reader",)),
    "read pinned": Rule(read_pinned, _has_pins, 5, ("pin",), ("reader",)),
    "unpin": Rule(unpin, _has_pins, 6, ("pin",), ("reader",)),
    "purge": Rule(purge, _is_open, 6, _ALIVE),
    "reload": Rule(reload, _always, 4),
    "read token": Rule(read_token, _has_tokens, 3, _COMMITTED, ("nth",)),
    "read committed": Rule(read_committed, _always, 2),
    "commit that fails": Rule(commit_fails, _has_staged, 5, _STAGED, FAULT_ARGUMENTS),
    "commit that is killed": Rule(commit_killed, _has_staged, 5, _STAGED, FAULT_ARGUMENTS),
    "use a dead writer": Rule(use_dead, _is_dead, 3, ("commit that fails", *_STAGED)),
    "open a second writer": Rule(open_second, _has_writer, 1, _ALIVE),
    "close": Rule(close, _has_writer, 2, _ALIVE),
    "reopen": Rule(reopen, _is_closed, 2, _COMMITTED),
    "reopen that is killed": Rule(reopen_killed, _is_closed, 7, ("commit that is killed", *_STAGED), ("at",)),
    "reopen that fails": Rule(reopen_fails, _is_closed, 4, ("commit that fails", *_STAGED), ("at",)),
}
RAFFLE = tuple(name for name, rule in RULES.items() for _ in range(rule.weight))


def possible(world: World, number: int) -> str:
    """Return the rule that a number draws, or where it cannot be taken one that must come before it."""
    name = RAFFLE[number]
    return next(each for each in (name, *RULES[name].instead) if RULES[each].is_possible(world))


def take(world: World, taken: Step) -> None:
    """Take one step of a program; raises Violation."""
    arguments = {key: value for key, value in taken.items() if key != "rule"}
    if "reader" in arguments:
        arguments["reader"] = _reader(world, taken["rule"], arguments["reader"])
    RULES[taken["rule"]].run(world, **arguments)


def _reader(world: World, rule: str, nth: int) -> int:
    """Return one of the readers that the rule can be taken for."""
    fitting = [reader for reader in range(READER_COUNT) if (reader in world.pins) != (rule == "pin")]
    return fitting[nth % len(fitting)]


__all__ = ["FAULT_KINDS", "RAFFLE", "RULES", "Rule", "Step", "possible", "take"]
