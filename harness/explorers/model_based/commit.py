"""The rules of a stateful run that commit, without a fault, with a failing call or killed, and their checks."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from tornproof.harness.explorers.model_based.dictionaries import check_dictionaries
from tornproof.harness.explorers.model_based.files import ViolationError
from tornproof.harness.explorers.model_based.world import ALLOWED, ORDERLY, Facts, Staged, World, orderly
from tornproof.harness.simulator.filesystem.faulty import Fault
from tornproof.harness.simulator.filesystem.intercept import Call, CallKind
from tornproof.harness.simulator.filesystem.memory import Killed
from tornproof.harness.systems.table_specification import interval_of, ticks_of
from tornproof.impl.errors import RowsRejectedError, StorageError
from tornproof.impl.layout import pm as layout
from tornproof.impl.layout.parquet import DATA_FILE
from tornproof.impl.storage.interface import StorageReason
from tornproof.impl.txn.transaction import TXN_FILE, Transaction
from tornproof.model.rows import partition_of
from tornproof.model.table import Commit, DirectoryName, Drop, Entry, Outcome, Stage, State, Write, step

Changes = Mapping[int, tuple[int, ...] | None]
# The calls of a commit at which a fault can be injected, and about how many of each kind there are.
FAULT_KINDS = {
    "open": (CallKind.OPEN_FOR_WRITING, 5),
    "write": (CallKind.PWRITE, 5),
    "sync data": (CallKind.FDATASYNC, 5),
    "make directory": (CallKind.MKDIR, 2),
    "sync directory": (CallKind.SYNC_DIRECTORY, 3),
    "store": (CallKind.STORE, 64),
    "sync mapping": (CallKind.MSYNC, 4),
    "sync file": (CallKind.FSYNC, 1),
    "rename": (CallKind.RENAME, 2),
}
STAGE_WORDS = {
    Stage.STARTED: "before a header was stored",
    Stage.WRITTEN: "after a header was stored",
    Stage.PUBLISHED: "in the record",
    Stage.RECORDED: "before the version store",
    Stage.COMMITTED: "after the version store",
}


def fault_of(kind: str, at: int, *, kills: bool, written_bytes: int = 0) -> Fault:
    """Return the fault that a step names; only a write can be done in part."""
    written_bytes = written_bytes if kind == "write" else 0
    reason = None if kills else StorageReason.NO_SPACE if written_bytes else StorageReason.INPUT_OUTPUT
    among, count = FAULT_KINDS[kind]
    return Fault(at=at % count, reason=reason, among=frozenset({among}), written_bytes=written_bytes)


def commit(world: World) -> None:
    """Commit what is staged, if anything."""
    _commit(world, None)


def commit_fails(world: World, *, call: str, at: int, written_bytes: int) -> None:
    """Commit while a call fails; a store through a mapping cannot."""
    _commit(world, fault_of(call, at, kills=False, written_bytes=written_bytes))


def commit_killed(world: World, *, kind: str, at: int, written_bytes: int) -> None:
    """Commit in a process that dies at a call."""
    _commit(world, fault_of(kind, at, kills=True, written_bytes=written_bytes))


def expected_changes(world: World) -> dict[int, tuple[int, ...] | None]:
    """Return the rows that each changed partition must have after a commit, None for one that is gone."""
    staged = world.staged
    remaining = {key: entry.rows for key, entry in world.state.entries.items() if key not in staged.dropped}
    incoming: dict[int, list[int]] = {key: [] for key in sorted(staged.rewritten - staged.dropped)}
    for identity in staged.rows:
        incoming.setdefault(_partition_of(world, world.rows.timestamp(identity), remaining), []).append(identity)
    changes: dict[int, tuple[int, ...] | None] = {
        key: world.rows.merged(remaining.get(key, ()), new) for key, new in incoming.items()
    }
    return {**dict.fromkeys(sorted(staged.dropped - changes.keys())), **changes}


def _partition_of(world: World, timestamp: int, starts: Mapping[int, object]) -> int:
    metadata = world.start.metadata
    return partition_of(timestamp, starts, interval_of(metadata), ticks_of(metadata))


def _is_rejected(world: World, changes: Changes) -> bool:
    """Whether a prepared partition would get more rows, or one that is not in Parquet become the first or last one."""
    before = world.state.entries
    if world.staged.adopted:
        starts = [_partition_of(world, world.rows.timestamp(identity), before) for identity in world.staged.rows]
        if any(starts.count(start) > count for start, count in world.staged.adopted.items()):
            return True
    after = sorted((before.keys() | changes.keys()) - {key for key, rows in changes.items() if rows is None})
    if not after:
        return False
    known = sorted(before)
    ends = [(after[0], known[:1]), (after[-1], known[-1:])]
    return any(key not in changes and [key] != was and before[key].token < 0 for key, was in ends)


def _commit(world: World, fault: Fault | None) -> None:
    world.committing(world)
    changes = expected_changes(world)
    is_rejected = _is_rejected(world, changes)
    world.process.arm(*([fault] if fault else []))
    try:
        with orderly("commit", StorageError, RowsRejectedError):
            version = world.open_writer.commit()
    except (StorageError, Killed) as error:
        calls, has_fired = world.process.calls, bool(world.process.fired)
        world.process.arm()
        if fault is None or not has_fired:
            raise ViolationError(ORDERLY, f"commit: {type(error).__name__}: {error}") from error
        _stopped(world, changes, calls, _stage(calls, fault), is_killed=isinstance(error, Killed))
    except RowsRejectedError as error:
        world.process.arm()
        if not is_rejected and not world.may_reject:
            raise ViolationError(ORDERLY, f"commit: {error}") from error
        world.reached["commit refused"] += 1
        world.accept([_unchanged(world.state)], [], "a rejected commit")
    else:
        calls, has_fired = world.process.calls, bool(world.process.fired)
        world.process.arm()
        if has_fired:
            raise ViolationError(ALLOWED, "a commit was acknowledged although one of its calls had failed")
        if is_rejected:
            raise ViolationError(ORDERLY, "commit: it should have been rejected")
        _done(world, changes, calls, version)


def _done(world: World, changes: Changes, calls: Sequence[Call], version: int) -> None:
    before, counts = world.state, world.transaction.symbol_counts
    outcomes: tuple[Outcome, ...] = (_unchanged(before),)
    if changes:
        outcomes = step(before, Commit(changes=_operations(world, changes, calls, is_committed=True)))
    directories = _changed_directories(world, changes, is_committed=True)
    outcome = world.accept(outcomes, directories, "a commit" if changes else "a commit of nothing")
    if version != outcome.answer:
        raise ViolationError(ALLOWED, f"commit returned {version}, and should have returned {outcome.answer}")
    if changes:
        _check_committed(world, before, changes, directories)
        check_dictionaries(world, counts, is_acknowledged=True)
        world.check_durable(changes)
        world.reached["several partitions in one commit"] += len(changes) > 1
    world.staged = Staged()


def _unchanged(state: State) -> Outcome:
    return Outcome(state=state, answer=state.committed.number)


def _stopped(world: World, changes: Changes, calls: Sequence[Call], stage: Stage, *, is_killed: bool) -> None:
    with orderly("reading the version after a stopped commit"):
        is_committed = world.files.transaction().version == world.state.committed.number + 1
    if is_committed != (stage is Stage.COMMITTED):
        raise ViolationError(
            ALLOWED, f"a commit was stopped when it was {stage.name}, and is_committed is {is_committed}"
        )
    if is_killed:
        world.process.end()
        world.writer = None
    else:
        world.is_dead = True
    operations = _operations(world, changes, calls, is_committed=is_committed)
    # An error after the record is synced leaves what a crash may leave: nobody knows whether the version is stored.
    operation = Commit(changes=operations, stopped_after=stage, crash=is_killed or stage >= Stage.RECORDED)
    before, counts = world.state, world.transaction.symbol_counts
    directories = _changed_directories(world, changes, is_committed=is_committed)
    world.accept(step(before, operation), directories, "a stopped commit")
    world.reached[f"commit {'killed' if is_killed else 'failed'} {STAGE_WORDS[stage]}"] += 1
    if is_committed:
        _check_committed(world, before, changes, directories)
        check_dictionaries(world, counts, is_acknowledged=False)
    else:
        world.check_rows(world.transaction, world.state.committed, changes)
    world.staged = Staged()


def _stage(calls: Sequence[Call], fault: Fault) -> Stage:
    """Return what a commit had finished by the calls before the one that did not happen."""
    stopped = [number for number, call in enumerate(calls) if call.kind in fault.among][fault.at]
    on_txn = [call.kind for call in calls[:stopped] if call.path.endswith(f"/{TXN_FILE}")]
    if CallKind.MSYNC in on_txn:
        is_stored = CallKind.STORE in on_txn[on_txn.index(CallKind.MSYNC) :]
        return Stage.COMMITTED if is_stored else Stage.RECORDED
    if CallKind.OPEN_FOR_WRITING in on_txn:
        return Stage.PUBLISHED
    is_patched = any(call.kind is CallKind.STORE for call in calls[:stopped])
    return Stage.WRITTEN if is_patched else Stage.STARTED


def _operations(
    world: World, changes: Changes, calls: Sequence[Call], *, is_committed: bool
) -> tuple[Write | Drop, ...]:
    with orderly("reading what a commit has written"):
        transaction = world.files.transaction()
        there = world.files.directories()
        return tuple(
            Drop(partition=key)
            if rows is None
            else _write(world, transaction if is_committed else None, calls, there, key, rows)
            for key, rows in changes.items()
        )


def _write(
    world: World,
    committed: Transaction | None,
    calls: Sequence[Call],
    there: set[str],
    key: int,
    rows: tuple[int, ...],
) -> Write:
    """Return a change, whose token is not what the files say, but where the calls have written data.parquet to."""
    old = None if key in world.staged.dropped else world.state.entries.get(key)
    name = (key, world.state.committed.number)
    if committed is not None:
        found = next((each for each in committed.partitions if each.timestamp == key), None)
        if found is None:
            raise ViolationError(ALLOWED, f"after a commit partition {key} is missing")
        name = (key, found.name_txn)
    elif old is not None and world.files.name_of(name) not in there:
        name = old.directory
    in_place = old is not None and name == old.directory
    # Of a stopped commit nothing may have been written; then any token will do.
    least = old.token + 1 if old is not None and in_place else 1
    return Write(partition=key, rows=rows, token=_written_end(world, calls, name) or least, in_place=in_place)


def _written_end(world: World, calls: Sequence[Call], name: DirectoryName) -> int:
    """Return the end of what was written last into a data.parquet, or of what was prepared; 0 for nothing."""
    path = f"{world.files.path}/{world.files.name_of(name)}/{DATA_FILE}"
    ends = [
        call.offset_bytes + len(call.content) for call in calls if (call.kind, call.path) == (CallKind.PWRITE, path)
    ]
    is_prepared = name[0] in world.staged.adopted
    return max(ends, default=world.files.data_size_bytes(name) if is_prepared else 0)


def _changed_directories(world: World, changes: Changes, *, is_committed: bool) -> list[DirectoryName]:
    entries = world.state.entries
    directories = [entries[key].directory for key in changes if key in entries and entries[key].token >= 0]
    if is_committed:
        made = {(key, world.state.committed.number) for key, rows in changes.items() if rows is not None}
        there = world.files.directories()
        directories += [name for name in sorted(made) if world.files.name_of(name) in there]
    return directories


def _check_committed(world: World, before: State, changes: Changes, directories: Sequence[DirectoryName]) -> None:
    """Compare a committed version, its metadata and rows, with the oracle, and note what later rules need."""
    transaction = world.transaction
    with orderly("reading _txn after a commit"):
        is_before = world.files.is_area_before(transaction.version)
    world.reached["area placed before" if is_before else "area placed behind"] += 1
    if world.reads_commits:
        world.check_rows(transaction, world.state.committed, changes)
    world.check_times(transaction)
    known = dict(world.facts)
    with orderly("reading the footers of a commit"):
        world.remember(transaction, directories)
    after = world.state.entries
    for key in changes:
        old, new = before.entries.get(key), after.get(key)
        if new is not None and key not in world.staged.adopted:
            replaced = None if key in world.staged.dropped else old
            if not world.is_limited:
                _check_header(world, replaced, new, known[replaced.directory] if replaced else None)
        if old is None:
            world.reached["first rows of a partition"] += 1
            continue
        world.reached["partition dropped and made again"] += key in world.staged.dropped and new is not None
        if new is None or new.directory != old.directory:
            world.ceased[old.directory] = transaction.version
            world.was_replaced |= {old.directory} if new else set()
        is_staged_whole = key in world.staged.dropped or key in world.staged.adopted
        if new is not None and not is_staged_whole and not world.is_limited:
            _check_growth(world, key, old, new, known[old.directory])


def _check_header(world: World, old: Entry | None, new: Entry, before: Facts | None) -> None:
    """Check which columns have filters, and that all texts are ASCII where the header says so."""
    facts, blooms = world.facts[new.directory], world.options.blooms
    columns = facts.header.columns
    expected = before.filtered if before is not None else frozenset()
    if blooms is not None and (old is None or old.directory != new.directory):
        expected = frozenset(column.id for column in columns if column.name in blooms.columns)
    if facts.filtered != expected:
        found, wanted = (
            sorted(column.name for column in columns if column.id in ids) for ids in (facts.filtered, expected)
        )
        raise ViolationError(ALLOWED, f"partition {new.directory[0]} has filters of {found}, and should of {wanted}")
    names = world.rows.shape.schema.names
    for column in (each for each in columns if layout.IS_ASCII.get(each.flags) and each.name in names):
        texts = (world.rows.contents[row][names.index(column.name)] for row in new.rows)
        if not all(text is None or (isinstance(text, str) and text.isascii()) for text in texts):
            raise ViolationError(
                ALLOWED, f"partition {new.directory[0]} says that {column.name} is ASCII, and not all is"
            )


def _note_growth(world: World, old: Sequence[int], new: Sequence[int], why_rewritten: str) -> None:
    """Note which way of growing a partition was taken, by the row groups before and after."""
    if why_rewritten:
        world.reached[f"rewrite {why_rewritten}"] += 1
        return
    is_kept = [block in old for block in new]
    kept_end = len(new) - is_kept[::-1].index(True) if any(is_kept) else 0
    dropped_count = len(set(old) - set(new))
    world.reached["row groups behind others"] += not is_kept[-1]
    world.reached["row group before or between others"] += dropped_count == 0 and not all(is_kept[:kept_end])
    world.reached["merge of one row group"] += dropped_count == 1
    world.reached["merge of several row groups"] += dropped_count > 1
    world.reached["merge into more row groups"] += 0 < dropped_count < is_kept.count(False)


def _check_growth(world: World, key: int, old: Entry, new: Entry, facts: Facts) -> None:
    """Check the choice between growing and rewriting, and the number of unused bytes."""
    options = world.options
    is_over = facts.unused_bytes > min(options.rewrite_unused_ratio * facts.token, options.rewrite_unused_bytes)
    is_asked = key in world.staged.rewritten
    is_own = old.directory[1] >= world.start.transaction.version and old.directory not in world.of_others
    in_place = new.directory == old.directory
    # A file of another writer may have columns in a form that ours does not append to: it is rewritten instead.
    if in_place if is_over or is_asked else is_own and not in_place:
        way = "grew in place" if in_place else "was rewritten"
        unused = f"{facts.unused_bytes} of {facts.token} bytes were unused"
        raise ViolationError(ALLOWED, f"partition {key} {way}, and should not have: {unused}")
    after = world.facts[new.directory]
    dropped = set(facts.blocks) - set(after.blocks) if in_place else set()
    least = facts.unused_bytes + facts.footer_bytes if in_place else 0
    _note_growth(world, facts.blocks, after.blocks, "asked for" if is_asked else "by ratio" if is_over else "")
    if after.unused_bytes < least + bool(dropped) or (not dropped and after.unused_bytes != least):
        counted = f"{after.unused_bytes} bytes unused, {least} before {len(dropped)} row groups were dropped"
        raise ViolationError(ALLOWED, f"partition {key}: {counted}")
