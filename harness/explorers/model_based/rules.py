"""The rules of a stateful run. Their arguments are plain data, so that a program can be stored and replayed.

A step is a rule's name and its arguments. `RULES` also says when a rule is possible.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeAlias

import pyarrow as pa

from tornproof.harness.explorers.model_based.commit import commit, commit_fails, commit_killed
from tornproof.harness.explorers.model_based.files import ViolationError
from tornproof.harness.explorers.model_based.operators import announce, forget, migrate_elsewhere, put_own_files
from tornproof.harness.explorers.model_based.other_writers import can_be_written, write_otherwise
from tornproof.harness.explorers.model_based.readers import (
    pin,
    purge,
    read_between,
    read_committed,
    read_each_value,
    read_pinned,
    read_token,
    read_where,
    reload,
    unpin,
)
from tornproof.harness.explorers.model_based.recovery_beside import recover_beside_a_writer
from tornproof.harness.explorers.model_based.refusals import write_protected
from tornproof.harness.explorers.model_based.rows import Making, Point
from tornproof.harness.explorers.model_based.sessions import (
    close,
    migrate,
    migrate_fails,
    migrate_killed,
    open_second,
    reopen,
    reopen_fails,
    reopen_killed,
    repair,
    repair_fails,
    repair_killed,
    stretch,
    use_dead,
)
from tornproof.harness.explorers.model_based.start import TIMES_IN_INTERVAL, Interval
from tornproof.harness.explorers.model_based.surroundings import (
    encode,
    limit,
    move,
    read_by_threads,
    resize,
    verify,
    work_as_usual,
    work_in_pieces,
)
from tornproof.harness.explorers.model_based.unwritable import write_unwritable
from tornproof.harness.explorers.model_based.world import ALLOWED, Staged, World, orderly
from tornproof.impl.errors import CorruptError, RowsRejectedError
from tornproof.impl.layout.parquet import DATA_FILE, MAGIC
from tornproof.impl.storage.operating_system import OperatingSystemStorage
from tornproof.impl.table.partition import PM_FILE
from tornproof.impl.table.partition_names import interval_end
from tornproof.impl.table.symbols import read_table_symbols
from tornproof.impl.types.questdb import TypeTag
from tornproof.impl.write.adoption import PreparedPartition
from tornproof.impl.write.incoming_rows import conform, in_time_order, portions, without_duplicates
from tornproof.impl.write.partition_build import PartitionBuild
from tornproof.impl.write.prepared_partition import prepare_partition

Step: TypeAlias = dict[str, Any]
KEY_COUNT = 3
READER_COUNT = 3
ROWS_IN_PREPARED_GROUP = 2


def append(world: World, *, place: int, count: int) -> None:
    """Write rows after all others of an interval."""
    interval = world.start.intervals[place % len(world.start.intervals)]
    entries = world.state.committed.entries
    known = [world.rows.timestamp(identity) for entry in entries for identity in entry.rows]
    known += map(world.rows.timestamp, world.staged.rows)
    last = max((time for time in known if interval.start <= time < interval.end), default=interval.start - 1)
    _write(world, [Point(min(last + 1 + nth, interval.end - 1), nth % KEY_COUNT) for nth in range(count)])


def insert(world: World, *, rows: Sequence[int]) -> None:
    """Write rows at any times of any intervals, in any order; a number stands for interval, time and key of each."""
    intervals = world.start.intervals
    points = []
    for number in rows:
        time, key = divmod(number, KEY_COUNT)
        interval = intervals[time // TIMES_IN_INTERVAL % len(intervals)]
        points.append(Point(interval.times[time % len(interval.times)], key))
    _write(world, points)


def insert_alike(world: World, *, rows: Sequence[int], making: str) -> None:
    """Write rows whose values have something in common, which only fixed programs do."""
    with world.rows.alike(Making(making)):
        insert(world, rows=rows)


def spread(world: World, *, count: int) -> None:
    """Write a row into each of so many partitions after all others, which only fixed programs do: it takes long."""
    metadata = world.start.metadata
    points: list[Point] = []
    end: int | None = max(interval.end for interval in world.start.intervals)
    while len(points) < count and end is not None:
        points.append(Point(end, len(points) % KEY_COUNT))
        end = interval_end(end, metadata.partition_by, nanoseconds=metadata.counts_nanoseconds)
    _write(world, points)


def grow(world: World, *, count: int) -> None:
    """Commit rows behind all others so many times, which only fixed programs do; they are read at the end."""
    world.reads_commits = False
    for _ in range(count):
        append(world, place=0, count=1)
        commit(world)
    world.reads_commits = True
    world.check_everything()


def write_long_texts(world: World, *, sizes_bytes: Sequence[int]) -> None:
    """Write rows whose texts have so many bytes, which only fixed programs do: their statistics take as many."""
    interval = world.start.intervals[0]
    for size_bytes in sizes_bytes:
        with world.rows.alike(text_size_bytes=size_bytes):
            _write(world, [Point(interval.start, size_bytes % KEY_COUNT)])
        world.reached["text of 2^16 bytes"] += size_bytes == 1 << 16


def upsert(world: World, *, rows: Sequence[int]) -> None:
    """Write rows with the keys of committed ones."""
    targets = _repeatable(world)
    chosen = [targets[number % len(targets)] for number in rows]
    _write(world, [Point(key[0], key[1:]) for key in map(world.rows.key, chosen)])
    world.reached["upsert of a committed row"] += 1


def drop(world: World, *, nth: int) -> None:
    """Stage the drop of a partition."""
    key = _pick(_parquet(world), nth)
    with orderly("drop_partition"):
        world.open_writer.drop_partition(key)
    world.staged.dropped.add(key)


def rewrite(world: World, *, nth: int) -> None:
    """Stage the rewrite of a partition."""
    key = _pick(_parquet(world), nth)
    with orderly("rewrite_partition"):
        world.open_writer.rewrite_partition(key)
    world.staged.rewritten.add(key)


def adopt(world: World, *, place: int, count: int) -> None:
    """Prepare a partition beside the table, and stage it."""
    free = _free(world)
    _adopt(world, free[place % len(free)], count)


def adopt_instead(world: World, *, nth: int, count: int) -> None:
    """Stage the drop of a partition, and one that was prepared with symbols of the table in its place."""
    key = _pick(_parquet(world), nth)
    drop(world, nth=nth)
    _adopt(world, _interval_of(world, key), count)


def _adopt(world: World, interval: Interval, count: int) -> None:
    rows, identities = _known_rows(world, interval, max(1, count))
    path = f"{world.files.path}/prepared.{len(world.rows.contents)}"
    with orderly("preparing a partition"):
        symbols = read_table_symbols(world.files.table(), world.transaction)
        with PartitionBuild(
            world.process, path, world.start.metadata, world.options, table_name="table", symbols=symbols
        ) as build:
            for start in range(0, len(rows), ROWS_IN_PREPARED_GROUP):
                build.append(build.encoded(rows.slice(start, ROWS_IN_PREPARED_GROUP)))
            prepared = build.finish(interval.start)
    _check_prepared(world, path)
    _reject_unfinished(world, prepared, f"{path}/{DATA_FILE}")
    with orderly("adopting a partition"):
        world.open_writer.adopt(prepared)
    world.staged.rows += identities
    world.staged.adopted[interval.start] = len(identities)
    world.reached["partition adopted"] += 1


def _interval_of(world: World, key: int) -> Interval:
    """Return the interval that a partition is of."""
    return next(each for each in world.start.intervals if each.start <= key < each.end)


def _known_rows(world: World, interval: Interval, count: int) -> tuple[pa.Table, tuple[int, ...]]:
    """Return new rows with symbols of the table alone, because whoever prepares a partition adds none."""
    with world.rows.alike(Making.KNOWN_SYMBOLS):
        return world.rows.make([Point(time, nth % KEY_COUNT) for nth, time in enumerate(interval.times[:count])])


def adopt_merged(world: World, *, nth: int, count: int, grows: bool) -> None:
    """Prepare a partition with new rows merged into those that it has; it may grow before the commit, and is rejected.

    As the tasks of a batch write do, each for one partition.
    """
    key = _pick(_parquet(world), nth)
    interval = _interval_of(world, key)
    rows, identities = _known_rows(world, interval, count)
    path = f"{world.files.path}/prepared.{len(world.rows.contents)}"
    with orderly("preparing a merged partition"):
        snapshot = world.files.snapshot(world.transaction)
        name, metadata = world.rows.shape.schema.names[world.rows.shape.timestamp], world.start.metadata
        fitting = conform(rows, world.rows.shape.schema, name)
        fitting = without_duplicates(fitting, metadata.keys) if metadata.keys else fitting
        (portion,) = portions(in_time_order(fitting, name), name, metadata, world.transaction.partitions)
        symbols = read_table_symbols(world.files.table(), world.transaction)
        prepared = prepare_partition(world.process, snapshot, portion, path, world.options, symbols)
    _check_prepared(world, path)
    if grows:
        known = world.rows.key(world.state.entries[key].rows[0])
        # In a table with keys there are then as many rows as before.
        _write(world, [Point(known[0], known[1:]) if world.rows.shape.has_keys else Point(interval.times[-1], 0)])
        commit(world)
        _reject(
            world,
            "a partition that has grown since rows were merged with it",
            lambda: world.open_writer.adopt(prepared),
            because="has changed since",
        )
        return
    with orderly("adopting a merged partition"):
        world.open_writer.adopt(prepared)
    world.staged.rows += identities
    world.staged.adopted[key] = len(identities)
    world.reached["merged partition adopted"] += 1


def insert_impossible(world: World) -> None:
    """Let commits be rejected because of a row that no partition can have, and of values that no column can."""
    rows, _ = world.rows.make([Point(-1, 0)])
    _reject(world, "a row from before 1970", lambda: world.open_writer.write(rows), because="a row at")
    rows, _ = world.rows.make([Point(world.start.intervals[0].start, 0)])
    for index, of in enumerate(rows.schema.types):
        wrong = {pa.float32(): pa.array([1e300]), pa.int8(): pa.array([300])}.get(of)
        if pa.types.is_list(of) and pa.types.is_list(of.value_type) and not pa.types.is_list(of.value_type.value_type):
            # As many elements as there would be in lists of one length.
            wrong = pa.array([[[1.0, 2.0], [3.0], [4.0, 5.0, 6.0]]], of)
        if index == world.rows.shape.timestamp:
            wrong = pa.nulls(1, of)
        if wrong is not None:
            name = rows.schema.names[index]
            write = functools.partial(world.open_writer.write, rows.set_column(index, name, wrong))
            _reject(world, f"{wrong[0]} as {of}", write, because=repr(name))


def _check_prepared(world: World, path: str) -> None:
    """Check that files are durable of which a commit will only sync the names."""
    world.check_synced({Path(path, name): None for name in (DATA_FILE, PM_FILE)})


def _reject(world: World, what: str, stage: Callable[[], None], *, because: str) -> None:
    """Let the writer reject what is staged now, or the commit of it, in these words; nothing may have changed then."""
    with orderly(what, RowsRejectedError):
        try:
            stage()
            world.open_writer.commit()
        except RowsRejectedError as error:
            if because not in str(error):
                raise ViolationError(ALLOWED, f"{what} was rejected for something else: {error}") from error
            world.open_writer.rollback()
        else:
            raise ViolationError(ALLOWED, f"{what} was committed")
    world.check_everything()
    world.reached["impossible commit rejected"] += 1


def _reject_unfinished(world: World, prepared: PreparedPartition, data_path: str) -> None:
    """Let the writer reject a prepared partition while the end of its data is not what the footer says."""
    with world.process.open_for_writing(data_path) as handle:
        start = handle.size_bytes() - len(MAGIC)
        handle.pwrite(bytes(len(MAGIC)), start)
        with orderly("adopting what is not finished", CorruptError):
            try:
                world.open_writer.adopt(prepared)
            except CorruptError:
                handle.pwrite(MAGIC, start)
                handle.fdatasync()
                return
    raise ViolationError(ALLOWED, f"a prepared partition was adopted whose {DATA_FILE} has no end")


def roll_back(world: World) -> None:
    """Roll back what is staged."""
    with orderly("rollback"):
        world.open_writer.rollback()
    world.reached["rolled back"] += bool(world.staged)
    world.staged = Staged()


def _write(world: World, points: Sequence[Point]) -> None:
    rows, identities = world.rows.make(points)
    with orderly("write"):
        world.open_writer.write(rows)
    world.staged.rows += identities


def _pick(items: Sequence[int], nth: int) -> int:
    return items[nth % len(items)]


def _parquet(world: World) -> list[int]:
    """Return the committed partitions that a writer may change."""
    intervals = world.start.intervals
    return sorted(
        key
        for key, entry in world.state.entries.items()
        if entry.token >= 0 and any(interval.start <= key < interval.end for interval in intervals)
    )


def _free(world: World) -> list[Interval]:
    """Return the intervals without a partition."""
    keys = world.state.entries
    return [each for each in world.start.intervals if not any(each.start <= key < each.end for key in keys)]


def _repeatable(world: World) -> list[int]:
    entries = world.state.entries
    return [identity for key in _parquet(world) for identity in entries[key].rows]


@dataclass(frozen=True, slots=True)
class Rule:
    """A rule: when it is possible, its weight, the rules to take `instead` when it is not, and its arguments."""

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


def _has_nothing_staged(world: World) -> bool:
    return _is_open(world) and not world.staged


def _can_change(world: World) -> bool:
    return _is_open(world) and bool(_parquet(world))


def _can_upsert(world: World) -> bool:
    return world.rows.shape.has_keys and _can_change(world)


def _can_adopt(world: World) -> bool:
    """Whether a partition can be prepared of which random programs know all symbols."""
    return _has_nothing_staged(world) and not _has_symbols(world) and bool(_free(world))


def _has_symbols(world: World) -> bool:
    shape = world.rows.shape
    return any(shape.tag_of(index) is TypeTag.SYMBOL for index in range(len(shape.types)))


def _can_merge(world: World) -> bool:
    return _has_nothing_staged(world) and bool(_parquet(world))


def _can_repair(world: World) -> bool:
    is_alone = _is_closed(world) and not world.pins
    entries = world.state.committed.entries
    return is_alone and bool(entries) and all(each.token >= 0 for each in entries)


def _can_stretch(world: World) -> bool:
    """Whether there are files that can have holes."""
    return _can_repair(world) and isinstance(world.files.storage, OperatingSystemStorage)


def _can_migrate(world: World) -> bool:
    """Whether a migration finds all that `_pm` said in other files, as after this writer alone."""
    return world.start.is_ours and _can_repair(world)


def _can_write_otherwise(world: World) -> bool:
    return _can_migrate(world) and can_be_written(world)


def _can_pin(world: World) -> bool:
    return len(world.pins) < READER_COUNT


def _has_pins(world: World) -> bool:
    return bool(world.pins)


def _has_tokens(world: World) -> bool:
    return bool(world.committed_partitions)


def _has_rows(world: World) -> bool:
    return any(entry.token >= 0 and entry.rows for entry in world.state.committed.entries)


def _always(world: World) -> bool:
    return True


_OPENED = ("reopen", "close")
_STAGED = ("insert", *_OPENED)
_COMMITTED = ("commit", *_STAGED)
_CLOSED = ("reopen", "close", *_COMMITTED)
# Simple ones first: a program shrinks towards them.
RULES: Mapping[str, Rule] = {
    "commit": Rule(commit, _has_staged, 8, _STAGED),
    "insert": Rule(insert, _is_open, 7, _OPENED, ("rows",)),
    "append": Rule(append, _is_open, 4, _OPENED, ("place", "count")),
    "insert alike": Rule(insert_alike, _is_open, 0, _OPENED, ("rows", "making")),
    "spread": Rule(spread, _is_open, 0, _OPENED, ("count",)),
    "grow": Rule(grow, _has_nothing_staged, 0, _COMMITTED, ("count",)),
    "stretch": Rule(stretch, _can_stretch, 0, ("close", *_COMMITTED), ("token_bytes",)),
    "encode": Rule(encode, _is_closed, 0, ("close",), ("form",)),
    "resize": Rule(resize, _is_closed, 0, ("close",), ("group_bytes", "unused_bytes")),
    "verify": Rule(verify, _always, 0),
    "limit": Rule(limit, _has_rows, 0, _COMMITTED, ("of",)),
    "move": Rule(move, _can_stretch, 0, ("close", *_COMMITTED), ("nth",)),
    "write long texts": Rule(write_long_texts, _is_open, 0, _OPENED, ("sizes_bytes",)),
    "upsert": Rule(upsert, _can_upsert, 5, _COMMITTED, ("rows",)),
    "commit nothing": Rule(commit, _has_nothing_staged, 2, _COMMITTED),
    "rewrite": Rule(rewrite, _can_change, 3, _COMMITTED, ("nth",)),
    "drop": Rule(drop, _can_change, 3, _COMMITTED, ("nth",)),
    "adopt": Rule(adopt, _can_adopt, 2, _COMMITTED, ("place", "count")),
    "adopt merged": Rule(adopt_merged, _can_merge, 0, _COMMITTED, ("nth", "count", "grows")),
    "adopt instead": Rule(adopt_instead, _can_merge, 0, _COMMITTED, ("nth", "count")),
    "insert impossible": Rule(insert_impossible, _has_nothing_staged, 0, _COMMITTED),
    "work in pieces": Rule(work_in_pieces, _always, 0),
    "read by threads": Rule(read_by_threads, _always, 0),
    "work as usual": Rule(work_as_usual, _always, 0),
    "roll back": Rule(roll_back, _has_staged, 1, _STAGED),
    "pin": Rule(pin, _can_pin, 3, ("read pinned",), ("reader",)),
    "read pinned": Rule(read_pinned, _has_pins, 4, ("pin",), ("reader",)),
    "unpin": Rule(unpin, _has_pins, 4, ("pin",), ("reader",)),
    "purge": Rule(purge, _is_open, 4, _OPENED),
    "reload": Rule(reload, _always, 3),
    "read token": Rule(read_token, _has_tokens, 3, _COMMITTED, ("nth",)),
    "read committed": Rule(read_committed, _always, 2),
    "read where": Rule(read_where, _has_rows, 3, _COMMITTED, ("nth", "at")),
    "read each value": Rule(read_each_value, _has_rows, 1, _COMMITTED, ("nth",)),
    "read between": Rule(read_between, _has_rows, 2, _COMMITTED, ("nth", "at")),
    "commit that fails": Rule(commit_fails, _has_staged, 5, _STAGED, ("call", "at", "written_bytes")),
    "commit that is killed": Rule(commit_killed, _has_staged, 5, _STAGED, ("kind", "at", "written_bytes")),
    "use a dead writer": Rule(use_dead, _is_dead, 4, ("commit that fails", *_STAGED)),
    "open a second writer": Rule(open_second, _has_writer, 1, _OPENED),
    "close": Rule(close, _has_writer, 2, _OPENED),
    "reopen": Rule(reopen, _is_closed, 2, _COMMITTED),
    "repair": Rule(repair, _can_repair, 2, _CLOSED, ("nth", "count")),
    "migrate": Rule(migrate, _can_migrate, 1, ("repair", *_CLOSED)),
    "repair that is killed": Rule(repair_killed, _can_repair, 1, ("repair", *_CLOSED), ("nth", "count", "at")),
    "repair that fails": Rule(repair_fails, _can_repair, 1, ("repair", *_CLOSED), ("nth", "count", "at")),
    "migrate that is killed": Rule(migrate_killed, _can_migrate, 1, ("migrate", "repair", *_CLOSED), ("at",)),
    "migrate that fails": Rule(migrate_fails, _can_migrate, 1, ("migrate", "repair", *_CLOSED), ("at",)),
    "pages of another writer": Rule(
        write_otherwise, _can_write_otherwise, 1, ("migrate", *_CLOSED), ("nth", "form", "footer")
    ),
    "put own files": Rule(put_own_files, _has_rows, 0, _COMMITTED),
    "forget": Rule(forget, _can_repair, 0, ("repair", *_CLOSED)),
    "announce": Rule(announce, _can_migrate, 0, _CLOSED),
    "recover beside a writer": Rule(recover_beside_a_writer, _can_migrate, 0, _CLOSED),
    "migrate elsewhere": Rule(migrate_elsewhere, _can_migrate, 0, _CLOSED),
    "write to unwritable partitions": Rule(write_unwritable, _has_rows, 0, _COMMITTED),
    "write to a protected table": Rule(write_protected, _can_repair, 0, _CLOSED),
    "reopen that is killed": Rule(reopen_killed, _is_closed, 5, ("commit that is killed", *_STAGED), ("at",)),
    "reopen that fails": Rule(reopen_fails, _is_closed, 4, ("commit that fails", *_STAGED), ("at",)),
}
WEIGHTED_RULES = tuple(name for name, rule in RULES.items() for _ in range(rule.weight))
FAVOURED_RULES = tuple(sorted(set(WEIGHTED_RULES)))
"""Those of random programs."""
OPTIONAL_RULES = tuple(name for name in FAVOURED_RULES if name not in _COMMITTED)


def possible(world: World, name: str, left_out: Collection[str] = ()) -> str:
    """Return a rule, or where it is not possible or left out one that comes before it, or that every program has."""
    names = [each for each in (name, *RULES[name].instead) if each not in left_out]
    return next(each for each in (*names, *_COMMITTED) if RULES[each].is_possible(world))


def take(world: World, taken: Step) -> None:
    """Execute one step of a program; raises ViolationError."""
    arguments = {key: value for key, value in taken.items() if key != "rule"}
    if "reader" in arguments:
        arguments["reader"] = _reader(world, taken["rule"], arguments["reader"])
    RULES[taken["rule"]].run(world, **arguments)


def _reader(world: World, rule: str, nth: int) -> int:
    """Return one of the readers for which the rule is possible."""
    fitting = [reader for reader in range(READER_COUNT) if (reader in world.pins) != (rule == "pin")]
    return fitting[nth % len(fitting)]
