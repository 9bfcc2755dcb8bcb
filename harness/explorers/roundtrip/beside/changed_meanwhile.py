"""Whether an operation in whose middle another process acts ends as if the one came before the other.

The other tries before each call of the operation that has to do with the same files; before any other it would be as
before the next one. It keeps what it has locked or pinned until the operation has ended, and acts then if not before.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass, replace

from msgspec import structs

from tornproof.harness.common.copies import open_writer_of_copy
from tornproof.harness.common.patch import Controls, not_noticed, original_of, replaced
from tornproof.harness.common.remembered_codecs import remembered_decoding
from tornproof.harness.explorers.roundtrip.beside.meeting_calls import Meeting, can_notice
from tornproof.harness.explorers.roundtrip.beside.operations import (
    ACTS,
    OPERATIONS,
    READABLE,
    REFUSED,
    Act,
    Operation,
    Other,
)
from tornproof.harness.explorers.roundtrip.beside.small_tables import (
    BEFORE,
    DATA,
    OURS,
    PATH,
    PM,
    TIMES,
    State,
    numbers_in,
    small_table,
)
from tornproof.harness.simulator.filesystem.beside import BesideStorage
from tornproof.harness.simulator.filesystem.image import DiskImage
from tornproof.harness.simulator.filesystem.intercept import Call
from tornproof.harness.simulator.filesystem.memory import MemoryStorage
from tornproof.harness.systems.answer import answer_of
from tornproof.impl.errors import BusyError, TornproofError
from tornproof.impl.layout.parquet import DATA_FILE
from tornproof.impl.repair.repair import RepairReport
from tornproof.impl.storage.interface import Storage
from tornproof.impl.table.table import open_table
from tornproof.impl.txn.pins import PINS_FILE, WriterLock
from tornproof.impl.verify.verify import verify_table
from tornproof.impl.write.commit import PartitionWrite

PROPERTY = "an operation in whose middle another process acts ends as if one came before the other"
PINS, MIGRATE = "tornproof.impl.txn.pins", "tornproof.impl.migrate"
REPAIR, WRITER = "tornproof.impl.repair.repair", "tornproof.impl.write.table_writer"
OPERATION = "tornproof.harness.explorers.roundtrip.beside.operations"
NEVER = 1 << 60
ATTEMPTS_MAX = 2
"""How often a reader tries to pin a version, as nothing changes while it does."""


@dataclass(frozen=True, slots=True)
class Beside:
    """An operation, and what another process does."""

    operation: Operation
    act: Act

    @property
    def name(self) -> str:
        """It in words."""
        return f"{self.operation.name} while another process {self.act.name}"

    @property
    def kind(self) -> str:
        """The operation."""
        return self.operation.name


@dataclass(frozen=True, slots=True, kw_only=True)
class Ended:
    """What an operation has said, and the disk afterwards.

    The other has acted before the call number `acted_at`, or afterwards, or not at all. `pinned` are the directories
    that it needs, `lost` is a file of them that is gone, and `is_locked` says whether a lock was left behind.
    """

    said: object
    has_acted: bool
    start: Mapping[str, bytes]
    image: DiskImage
    calls: Sequence[Call]
    calls_of_other: Sequence[Call]
    acted_at: int | None
    lost: str | None
    pinned: frozenset[str]
    is_locked: bool

    @property
    def files(self) -> dict[str, bytes]:
        """All files but the one that is only locked."""
        return {path: content for path, content in self.image.files.items() if not path.endswith(PINS_FILE)}

    def is_like(self, end: Ended) -> bool:
        """Whether it is the same end."""
        return (self.said, self.has_acted, self.files) == (end.said, end.has_acted, end.files)

    def purged(self) -> Ended:
        """Return it without what another reader has kept from being removed meanwhile."""
        disk = MemoryStorage.of(self.image)
        with suppress(TornproofError), open_writer_of_copy(disk, PATH) as writer:
            writer.purge()
        return replace(self, image=disk.image())


def migrations_beside() -> tuple[Beside, ...]:
    """Return each migration with each act that is possible, always in the same order."""
    return tuple(each for each in _all_beside() if each.operation.migrates)


def operations_beside() -> tuple[Beside, ...]:
    """Return each other operation with each act that is possible, always in the same order."""
    return tuple(each for each in _all_beside() if not each.operation.migrates)


def problem_of(case: Beside) -> str | None:
    """Say before which call the other acts, and what comes of it that comes of no order; None if nothing does."""
    with replaced(f"{PINS}:PIN_ATTEMPTS_MAX", ATTEMPTS_MAX), remembered_decoding():
        before, after = _ended(case, first=0), _ended(case, first=NEVER)
        for run in (before, after):
            if (problem := _problem_in_order(case, run)) is not None:
                return f"if it does so {'before' if run is before else 'after'} it, {problem}"
        return None if case.act.is_first else _problem_between(case, before, after)


def failed_controls() -> Iterator[str]:
    """Yield what is not noticed of operations that look too early, keep nobody out, or leave something else."""
    for state in State:
        # Made before all mistakes, because it is kept.
        small_table(state)
    yield from not_noticed(_looks(), problem_of, [each for each in migrations_beside() if not each.act.asks])
    yield from not_noticed(_migrations(), problem_of, _of("a migration that replaces a `_pm`", "pins the version"))
    yield from not_noticed(
        _recoveries(), problem_of, _of("a recovery", "is a writer") + _of("a recovery", "pins the version")
    )
    yield from not_noticed(_purges(), problem_of, _of("a purge", "pinned"))
    yield from not_noticed(_purges_of_replaced(), problem_of, _of("a purge", "which another replaces"))
    yield from not_noticed(_commits(), problem_of, _of("a commit", "pins the version"))
    yield from not_noticed(_reads(), problem_of, _of("reading", "pins the version"))


def _looks() -> Controls:
    """Return mistakes of migrations that trust what they have seen."""
    return (
        ("migrations that do not look again", f"{MIGRATE}.table_migration:check_unchanged", lambda *_: None),
        ("files that look unchanged", f"{MIGRATE}.plain_file:footer_digest", lambda *_, **__: 0),
    )


def _migrations() -> Controls:
    publish = original_of(f"{MIGRATE}.table_migration:publish_file")
    return (
        ("a `_pm` that a reader needs is replaced", f"{PINS}:WriterLock", _Careless, f"{PM} is gone, which it needs"),
        (
            "a `_pm` ends too early",
            f"{MIGRATE}.table_migration:publish_file",
            lambda storage, path, content: publish(storage, path, content[:-1]),
            "the table is not sound: ",
        ),
    )


def _recoveries() -> Controls:
    lock, repair = original_of(f"{REPAIR}:_lock"), original_of(f"{OPERATION}:repair_table")

    def locked_briefly(storage: Storage, path: str, _: ExitStack) -> None:
        with ExitStack() as held:
            lock(storage, path, held)

    def without_pins(storage: Storage, path: str) -> RepairReport:
        report: RepairReport = repair(storage, path)
        storage.unlink(f"{path}/{PINS_FILE}")
        return report

    return (
        ("nobody is locked out", f"{REPAIR}:_lock", lambda *_: None, "the operation is done beside a writer"),
        ("others are locked out only while they are looked for", f"{REPAIR}:_lock", locked_briefly, "is gone, which"),
        ("the file that is locked is removed", f"{OPERATION}:repair_table", without_pins, "nobody else can act"),
    )


def _purges() -> Controls:
    return (
        ("pins are not looked at", f"{PINS}:WriterLock", _Careless, f"{BEFORE}/{DATA_FILE} is gone, which it needs"),
        ("nothing is removed", "tornproof.impl.write.purge:_by_need", lambda *_: iter(()), "is left, which nobody"),
        ("the table is always busy", f"{WRITER}:purge", _busy, "the operation says refused, and it can act"),
        ("the table stays locked", f"{PINS}:WriterLock", _Unreleased, "a lock is left behind"),
    )


def _purges_of_replaced() -> Controls:
    return (("the version replaced last is not looked at", f"{PINS}:WriterLock", _OneShort, "is gone, which it needs"),)


def _commits() -> Controls:
    execute, conform = (original_of(f"{WRITER}:{name}") for name in ("execute", "conform"))

    def otherwise(change: Callable[[PartitionWrite], PartitionWrite]) -> Callable[..., None]:
        return lambda protocol, storage, path, writes, *plans: execute(
            protocol, storage, path, [change(each) for each in writes], *plans
        )

    def earlier(name: str) -> Callable[..., None]:
        return otherwise(lambda write: structs.replace(write, **{name: getattr(write, name) - 8}))

    return (
        ("data begin in those before", f"{WRITER}:execute", earlier("data_offset_bytes"), f"{DATA} is gone, which"),
        ("metadata begin in those before", f"{WRITER}:execute", earlier("pm_offset_bytes"), f"{PM} is gone, which"),
        (
            "data are zeros",
            f"{WRITER}:execute",
            otherwise(lambda write: structs.replace(write, data=bytes(len(write.data)))),
            "the table is not sound: ",
        ),
        ("rows are left out", f"{WRITER}:conform", lambda *of: conform(*of)[:0], "there are other rows than"),
    )


def _reads() -> Controls:
    snapshot = original_of(f"{OPERATION}:snapshot_of")
    return (
        (
            "the first partition is left out",
            f"{OPERATION}:snapshot_of",
            lambda table, version: snapshot(table, structs.replace(version, partitions=version.partitions[1:])),
            "are read",
        ),
    )


def _of(operation: str, act: str) -> list[Beside]:
    return [each for each in _all_beside() if each.operation.name == operation and act in each.act.name]


def _busy(*_: object) -> None:
    raise BusyError("the table is busy")


class _Careless(WriterLock):
    """A lock with which nobody is asked whether he reads."""

    @contextmanager
    def exclude_pins(self, _: range) -> Iterator[bool]:
        yield True


class _OneShort(WriterLock):
    """A lock with which those are not asked who read the last version that is not kept."""

    @contextmanager
    def exclude_pins(self, versions: range) -> Iterator[bool]:
        with super().exclude_pins(versions[:-1]) as nobody_reads:
            yield nobody_reads


class _Unreleased(WriterLock):
    """A lock that is never released."""

    def release(self) -> None:
        pass


@functools.cache
def _all_beside() -> tuple[Beside, ...]:
    return tuple(Beside(operation, act) for operation in OPERATIONS for act in ACTS if operation.of in act.of)


def _ended(case: Beside, *, first: int, may_act: Callable[[Call], bool] = lambda _: True) -> Ended:
    """Run the operation; the other acts as soon as it may, from the call of that number on."""
    start = small_table(case.operation.of)
    disk = MemoryStorage.of(start)
    process = BesideStorage(disk.fork_process())
    other = Other(process)
    with other.held:
        beside = BesideStorage(disk, lambda: _acts(case.act, other), first=first, may_act=may_act)
        said = _said(case.operation, beside)
        has_acted = beside.acted_at is not None or _acts(case.act, other)
        image = disk.image()
    return Ended(
        said=said,
        has_acted=has_acted,
        start=start.files,
        image=image,
        calls=beside.calls,
        calls_of_other=process.calls,
        acted_at=beside.acted_at,
        lost=other.lost(image),
        pinned=frozenset(path.rpartition("/")[0] for path in other.pinned),
        is_locked=disk.is_locked,
    )


def _acts(act: Act, other: Other) -> bool:
    """Let another process act; return whether it may."""
    try:
        act.run(other)
    except BusyError:
        return False
    return True


def _said(operation: Operation, storage: Storage) -> object:
    try:
        return operation.run(storage)
    except TornproofError:
        return REFUSED


def _problem_in_order(case: Beside, end: Ended) -> str | None:
    """Say what is wrong with an operation before or after which the other acts."""
    is_done, goes_first = end.said != REFUSED, end.acted_at is None
    if end.lost is not None:
        return f"{end.lost} is gone, which it needs"
    if end.is_locked:
        return "a lock is left behind"
    if goes_first and not (is_done and end.has_acted):
        return f"the operation says {end.said}, and {'it' if end.has_acted else 'nobody else'} can act"
    if is_done and not goes_first and case.act.stays and case.operation.writes:
        return "the operation is done beside a writer"
    if is_done and case.operation.purges and not goes_first and (left := _unneeded(end)):
        return f"{min(left)} is left, which nobody needs"
    numbers = frozenset(time + OURS for time in TIMES)
    if isinstance(end.said, list) and end.said != sorted(numbers if goes_first else case.act.rows(numbers)):
        return f"the numbers {end.said} are read"
    if not case.act.asks or case.operation.of is State.FILE:
        return None
    if case.operation.of in READABLE or (case.operation.mends and is_done):
        if problems := verify_table(open_table(end.image, PATH)).all_problems:
            return f"the table is not sound: {problems[0]}"
        steps = [case.operation.rows] * is_done + [case.act.rows]
        expected = functools.reduce(lambda before, step: step(before), steps if goes_first else steps[::-1], numbers)
        if numbers_in(answer_of(end.image, PATH)) != sorted(expected):
            return f"there are other rows than {sorted(expected)}"
    return None


def _unneeded(end: Ended) -> set[str]:
    """Return the partitions' directories that neither the last version nor a pinned one has."""
    table = open_table(end.image, PATH)
    named = {table.files_of(partition).path for partition in table.transaction().partitions}
    there = {path for path in end.image.directories if path.startswith(f"{PATH}/") and not path.endswith("prepared")}
    return there - named - end.pinned


def _problem_between(case: Beside, before: Ended, after: Ended) -> str | None:
    """Say before which call the other acts so that the end is that of no order."""
    refused = _ended(replace(case, operation=replace(case.operation, run=lambda _: REFUSED)), first=NEVER)
    may_act = Meeting(before.calls_of_other, asks=case.act.asks)
    run = _ended(case, first=0, may_act=may_act)
    ends = (before, refused, after) if case.act.asks else (before, refused)
    while run.acted_at is not None and (
        case.act.asks or can_notice(run.calls[run.acted_at :], run.start, refused.files)
    ):
        problem = f"{run.lost} is gone, which it needs" if run.lost else _difference(run, ends)
        if problem is not None:
            call = run.calls[run.acted_at]
            return f"if it does so before call {run.acted_at}, {call.kind} of {call.path}, {problem}"
        run = _ended(case, first=run.acted_at + 1, may_act=may_act)
    return None


def _difference(run: Ended, ends: Sequence[Ended]) -> str | None:
    """Say how an end is that of no order."""
    if any(map(run.is_like, ends)) or any(map(run.purged().is_like, [*ends, *(end.purged() for end in ends)])):
        return None
    said = {str(end.said) for end in ends}
    files = sorted(
        path
        for path in set().union(*(end.files for end in (run, *ends)))
        if all(run.files.get(path) != end.files.get(path) for end in ends)
    )
    return f"it says {run.said}, not {' or '.join(sorted(said))}, and {', '.join(files) or 'no file alone'} is another"
