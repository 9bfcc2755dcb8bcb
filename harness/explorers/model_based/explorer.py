"""The stateful explorer: random programs run on a table and on the model side by side.

`rules.py` says what each rule does, `world.py` what is compared after it.
"""

from __future__ import annotations

import importlib
from collections import Counter
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager, suppress
from dataclasses import dataclass, replace
from types import FunctionType, SimpleNamespace
from typing import Any, NamedTuple, TypeAlias

from msgspec import structs

from tornproof.harness.common import model_controls
from tornproof.harness.common.patch import original_of, wrapped
from tornproof.harness.common.quiet_hypothesis import quiet_hypothesis
from tornproof.harness.common.read_numbers import integer_of
from tornproof.harness.common.remembered_codecs import remembered_decoding, remembered_encoder
from tornproof.harness.common.verdict import Finding, HasTime, OnProgress, Phase, Verdict, always
from tornproof.harness.explorers.model_based.cause import cause_of
from tornproof.harness.explorers.model_based.commit import STAGE_WORDS
from tornproof.harness.explorers.model_based.files import ViolationError
from tornproof.harness.explorers.model_based.fixed_programs import (
    CLOSE,
    COMMITS,
    FAILED_COMMIT,
    FIXED_PROGRAMS,
    KILLED_COMMIT,
    LAST_AND_FIRST,
    NEW_SYMBOLS,
    OPERATED,
    PROTECTED,
    PURGED,
    RECOVERED,
    REPAIRED,
    SECOND_WRITER,
    UNWRITABLE,
)
from tornproof.harness.explorers.model_based.machine import FIRST_STEPS, STEPS_IN_PROGRAM, Search, filled, replay
from tornproof.harness.explorers.model_based.rows import Rows
from tornproof.harness.explorers.model_based.rules import RULES, Step
from tornproof.harness.explorers.model_based.smaller import Failure, Steps
from tornproof.harness.explorers.model_based.start import (
    NothingToExploreError,
    Start,
    StorageKind,
    prepare,
    scratch_directory,
)
from tornproof.harness.explorers.model_based.system_calls import SEAM
from tornproof.harness.explorers.model_based.tables import (
    BY_NAME,
    PATH,
    PLAIN,
    SYMBOLS,
    TABLES,
    changed_image,
    empty_image,
)
from tornproof.harness.explorers.model_based.world import LARGE_TOKEN_BITS, ROWS, orderly
from tornproof.harness.simulator.filesystem.image import DiskImage
from tornproof.harness.systems.plain_rows import Values
from tornproof.harness.systems.protected import PROTECTIONS
from tornproof.impl.errors import BusyError, ProblemError, StorageError
from tornproof.impl.layout.parquet import DATA_FILE
from tornproof.impl.layout.txn import BaseHeader
from tornproof.impl.parquet.footer import FOOTER, FooterParts
from tornproof.impl.parquet.thrift import with_fields
from tornproof.impl.pm.encode import FooterFacts
from tornproof.impl.pm.footer import Generation
from tornproof.impl.storage.interface import Mapping, OpenMode, Storage
from tornproof.impl.storage.operating_system_file import OpenFile
from tornproof.impl.txn.transaction import HEADER_BYTES, TXN_FILE, area_of
from tornproof.impl.write.commit import Action
from tornproof.impl.write.partition_change import RowGroupEncoder
from tornproof.impl.write.table_writer import TableWriter
from tornproof.model.table import Stage

PHASE = "stateful"
CONTROL_STEPS = 800
# Points that every run must reach.
COVERAGE_GOALS = (
    "area placed before",
    "area placed behind",
    *(f"commit killed {words}" for words in STAGE_WORDS.values()),
    # No call fails between the sync of the record and the store of the version.
    *(f"commit failed {words}" for stage, words in STAGE_WORDS.items() if stage is not Stage.RECORDED),
    "directory of a stopped commit removed",
    "first rows of a partition",
    "merge into more row groups",
    "merge of one row group",
    "merge of several row groups",
    "orphan restated",
    "partition adopted",
    "partition dropped and made again",
    "pinned reader of a directory left behind",
    "pinned reader two generations back",
    "purge refused by a pin",
    "purged",
    "purged while it was read",
    "recovery stopped",
    "rewrite asked for",
    "rewrite by ratio",
    "rolled back",
    "row group before or between others",
    "row groups behind others",
    "each value of a column read",
    "files compared without our decoders",
    "rows left out by a condition",
    "several partitions in one commit",
    "table migrated",
    "table recovered",
    "upsert of a committed row",
)

# These are reached by fixed programs only.
FIXED_GOALS = (
    "commit in a recovery",
    "dry run",
    "files of a user",
    "kept files forgotten",
    "migrated to another place",
    "recovery that locks a commit out",
    *(f"refused: {protection.property}" for protection in PROTECTIONS),
    "text of 2^16 bytes",
    *(f"token of {bits + 1} bits" for bits in LARGE_TOKEN_BITS),
)
STEPS_IN_PART = 300
PROGRAMS_IN_PART = 4
SEED_STRIDE = 1009
WRITER = "tornproof.impl.write.table_writer"
"""Keeps the seeds of parts apart from those of other seeds."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Control:
    """A broken function or class that the machine must detect before its verdict counts.

    What `is_below` the storage interface is in no storage in memory.
    """

    name: str
    location: str
    broken: Callable[[Any], Any]
    is_below: bool = False
    program: Steps | None = None
    """What shows it; without one it is a fixed program, or a random one."""
    table: str | None = None
    """The one of our own tables on which it is shown."""

    def planted(self) -> AbstractContextManager[None]:
        """Replace the function at `location` (module:function) by the broken one."""
        return wrapped(self.location, self.broken)


def _forgets_last(grow: Callable[..., Any]) -> Callable[..., Any]:
    return lambda state, row_groups, *more: grow(state, row_groups[:-1] or row_groups, *more)


def _takes_newest(_: Callable[..., Any]) -> Callable[..., Any]:
    chain = importlib.import_module("tornproof.impl.pm.chain")
    return lambda data, token, *, file: chain.Resolved(position=next(chain.walk(data, file=file)), orphan_count=0)


def _restates_nothing(_: Callable[..., Any]) -> Callable[..., Any]:
    return lambda *_, **__: ()


def _keeps_times(next_version: Callable[..., Any]) -> Callable[..., Any]:
    def following(current: Any, **settings: Any) -> Any:
        known = current.record
        settings |= {"min_timestamp": known.min_timestamp, "max_timestamp": known.max_timestamp}
        return next_version(current, **settings)

    return following


def _returns(answer: object) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    return lambda _: lambda *_, **__: answer


def _last_written_first(in_time_order: Callable[..., Any]) -> Callable[..., Any]:
    return lambda rows, name: in_time_order(rows.take(list(range(rows.num_rows))[::-1]), name)


def _skips_last(kept_ordinals: Callable[..., Any]) -> Callable[..., Any]:
    def kept(resolved: Any, handle: Any, pruner: Any, predicate: Any, *more: Any) -> Any:
        found = list(kept_ordinals(resolved, handle, pruner, predicate, *more))
        return found if predicate is None else found[:-1]

    return kept


def _writes_once(file: type[OpenFile]) -> type[OpenFile]:
    class Once(file):  # type: ignore[misc,valid-type]
        def pwrite(self, content: bytes, offset_bytes: int) -> None:
            # As the storage finds it, and not the system's own, which may transfer everything.
            original_of(f"{SEAM}:os").pwrite(self._open_descriptor, content, offset_bytes)

    return Once


def _lets_others_in(take_writer_lock: Callable[..., Any]) -> Callable[..., Any]:
    def taken(storage: Storage, path: str) -> Any:
        try:
            return take_writer_lock(storage, path)
        except BusyError:
            return SimpleNamespace(release=lambda: None)

    return taken


def _never_dies(writer: type[TableWriter]) -> type[TableWriter]:
    class Undying(writer):  # type: ignore[misc,valid-type]
        def write(self, rows: Any) -> None:
            """Take rows as if it was alive."""
            if not self._is_dead:
                super().write(rows)

    return Undying


def _syncs_again(actions: dict[Action, Callable[..., None]]) -> dict[Action, Callable[..., None]]:
    def sync(run: Any) -> None:
        try:
            actions[Action.SYNC_DATA](run)
        except StorageError:
            actions[Action.SYNC_DATA](run)

    return {**actions, Action.SYNC_DATA: sync}


def _acting_later(act: Callable[[Any], None]) -> Callable[[type[TableWriter]], type[TableWriter]]:
    """Return a writer that does something more at the end of its second commit."""

    def broken(writer: type[TableWriter]) -> type[TableWriter]:
        class Acting(writer):  # type: ignore[misc,valid-type]
            def commit(self) -> int:
                version: int = super().commit()
                if self._commit_count == 2:
                    act(self)
                return version

        return Acting

    return broken


def _scribbles(file_and_offset: Callable[[Any], tuple[str, int]]) -> Callable[[type[TableWriter]], type[TableWriter]]:
    """Return a writer that changes a byte which nobody reads but who compares bytes."""

    def scribble(writer: Any) -> None:
        file, offset_bytes = file_and_offset(writer)
        with writer._storage.open_for_writing(f"{writer.table.path}/{file}") as handle:
            handle.pwrite(b"\xa5", offset_bytes)
            handle.fdatasync()

    return _acting_later(scribble)


def _renames_a_copy(writer: Any) -> None:
    """Put a synced copy of `_txn` in its place, and do not sync the name."""
    storage, path = writer._storage, f"{writer.table.path}/{TXN_FILE}"
    with storage.open_for_reading(path) as source, storage.open_for_writing(f"{path}.copy", OpenMode.NEW) as target:
        target.pwrite(source.pread(source.size_bytes(), 0), 0)
        target.fdatasync()
    storage.rename(f"{path}.copy", path)


def _leaves_open(writer: Any) -> None:
    writer._storage.open_for_reading(f"{writer.table.path}/{TXN_FILE}")


def _data_of_last_partition(writer: Any) -> tuple[str, int]:
    return f"{writer.table.directory_of(writer.transaction.partitions[-1])}/{DATA_FILE}", 0


def _record_before(writer: Any) -> tuple[str, int]:
    with writer._storage.open_for_reading(f"{writer.table.path}/{TXN_FILE}") as handle:
        base = BaseHeader.unpack(handle.pread(HEADER_BYTES, 0), 0, file=TXN_FILE)
    return TXN_FILE, area_of(base, base.version - 1).record_offset


def _restates_another_token(facts: type[FooterFacts]) -> SimpleNamespace:
    def of(generation: Generation) -> FooterFacts:
        known = facts.of(generation)
        return structs.replace(known, parquet_footer_offset=known.parquet_footer_offset + 1)

    return SimpleNamespace(of=of)


def _keeps_last_time(next_version: Callable[..., Any]) -> Callable[..., Any]:
    return lambda current, **settings: next_version(
        current, **settings | {"max_timestamp": current.record.max_timestamp}
    )


def _syncs_no_names(storage: type[Storage]) -> type[Storage]:
    class Nameless(storage):  # type: ignore[misc,valid-type]
        def sync_directory(self, path: str) -> None:
            """Leave it to the system."""

    return Nameless


def _copies_zeros(_: Callable[..., Any]) -> Callable[..., Any]:
    def copy(storage: Storage, source_path: str, start_bytes: int, target_path: str) -> None:
        with storage.open_for_reading(source_path) as source:
            size_bytes = source.size_bytes() - start_bytes
        with storage.open_for_writing(target_path, OpenMode.NEW) as target:
            target.pwrite(bytes(size_bytes), 0)

    return copy


def _keeps_everything(kept_files: Callable[..., Any]) -> Callable[..., Any]:
    def kept(*arguments: Any) -> tuple[list[str], list[str]]:
        ours, foreign = kept_files(*arguments)
        return [*ours, *foreign], []

    return kept


def _makes_mistakes(_: Callable[..., Any]) -> Callable[..., Any]:
    def failing(*_: Any, **__: Any) -> Any:
        raise LookupError("a mistake")

    # An error that a line of this module raises is one of the explorer.
    return FunctionType(failing.__code__, {"__name__": WRITER})


def _syncs_nothing(mapped: type[Mapping]) -> type[Mapping]:
    class Unsynced(mapped):  # type: ignore[misc,valid-type]
        def msync(self) -> None:
            """Leave it to the system."""

    return Unsynced


def _syncs_no_symbols(actions: dict[Action, Callable[..., None]]) -> dict[Action, Callable[..., None]]:
    return {**actions, Action.SYNC_SYMBOLS: lambda run: None}


def _indexes_elsewhere(index: type[Any]) -> type[Any]:
    class Elsewhere(index):  # type: ignore[misc]
        def add(self, bucket: int, position: int) -> None:
            super().add(bucket + 1, position)

    return Elsewhere


def _orders_all_but_one(empty: Callable[..., FooterParts]) -> Callable[..., FooterParts]:
    def made(schema: Sequence[Any], *more: Any, **others: Any) -> FooterParts:
        parts, fewer = (empty(each, *more, **others) for each in (schema, schema[:-1]))
        orders = (each for each in fewer.fields.fields if each.id == FOOTER["column_orders"])
        return structs.replace(parts, fields=with_fields(parts.fields, *orders))

    return made


CONTROLS = (
    Control(
        name="a write that is not continued",
        location="tornproof.impl.storage.operating_system:OpenFile",
        broken=_writes_once,
        is_below=True,
    ),
    Control(
        name="a mapping that is not synced",
        location="tornproof.impl.storage.operating_system_file:_MappedFile",
        broken=_syncs_nothing,
        is_below=True,
    ),
    Control(
        name="a writer that forgets a row group",
        location="tornproof.impl.write.partition_change:next_in_place",
        broken=_forgets_last,
    ),
    Control(
        name="a reader of the newest footer", location="tornproof.impl.table.partition:resolve", broken=_takes_newest
    ),
    Control(
        name="a recovery that restates no orphan",
        location="tornproof.impl.write.recovery:_republish",
        broken=_restates_nothing,
        program=KILLED_COMMIT,
    ),
    Control(
        name="a record that keeps its times",
        location="tornproof.impl.write.table_writer:next_version",
        broken=_keeps_times,
    ),
    Control(
        name="rows of one time in the wrong order",
        location="tornproof.impl.write.partition_change:in_time_order",
        broken=_last_written_first,
    ),
    Control(
        name="a filter that skips a row group",
        location="tornproof.impl.read.reader:kept_ordinals",
        broken=_skips_last,
    ),
    Control(
        name="a purge that removes nothing",
        location=f"{WRITER}:purge",
        broken=_returns(()),
        program=PURGED,
    ),
    Control(
        name="a purged file that is no orderly answer",
        location="tornproof.impl.read.reader:FileVanishedError",
        broken=lambda _: LookupError,
        program=PURGED,
    ),
    Control(
        name="a pin that locks nothing",
        location="tornproof.impl.txn.pins:_lock_committed",
        broken=lambda _: lambda storage, file, path, transaction: transaction,
    ),
    Control(
        name="unused bytes that are not counted",
        location="tornproof.impl.write.partition_writer:unused_bytes_of",
        broken=_returns(0),
    ),
    Control(
        name="a change that is not announced",
        location="tornproof.impl.txn.write:_without_last_row_count",
        broken=_returns(()),
    ),
    # What one comparison alone can tell.
    Control(
        name="a second writer that is let in",
        location="tornproof.impl.write.table_writer:take_writer_lock",
        broken=_lets_others_in,
        program=SECOND_WRITER,
    ),
    Control(
        name="a writer that goes on after a commit that failed",
        location=f"{WRITER}:TableWriter",
        broken=_never_dies,
        program=FAILED_COMMIT,
    ),
    Control(
        name="a commit that syncs again after a sync that failed",
        location="tornproof.impl.write.commit:_PARTITION_ACTIONS",
        broken=_syncs_again,
        program=FAILED_COMMIT,
    ),
    Control(
        name="committed bytes that change",
        location=f"{WRITER}:TableWriter",
        broken=_scribbles(_data_of_last_partition),
        program=LAST_AND_FIRST,
    ),
    Control(
        name="a record that overwrites the one before it",
        location=f"{WRITER}:TableWriter",
        broken=_scribbles(_record_before),
        program=LAST_AND_FIRST,
    ),
    Control(
        name="a recovery that restates another token",
        location="tornproof.impl.write.recovery:FooterFacts",
        broken=_restates_another_token,
        program=RECOVERED,
    ),
    Control(
        name="a record that keeps its last time",
        location=f"{WRITER}:next_version",
        broken=_keeps_last_time,
        program=LAST_AND_FIRST,
    ),
    Control(
        name="names that are not synced",
        location="tornproof.harness.explorers.model_based.start:OperatingSystemStorage",
        broken=_syncs_no_names,
        is_below=True,
        program=LAST_AND_FIRST,
    ),
    Control(
        name="a synced name that leads to another file now",
        location=f"{WRITER}:TableWriter",
        broken=_acting_later(_renames_a_copy),
        is_below=True,
        program=LAST_AND_FIRST,
    ),
    Control(
        name="a file that nobody closes",
        location=f"{WRITER}:TableWriter",
        broken=_acting_later(_leaves_open),
        program=(*LAST_AND_FIRST, CLOSE),
    ),
    Control(
        name="a recovery of the table that keeps other bytes",
        location="tornproof.impl.repair.kept:_copy",
        broken=_copies_zeros,
        program=REPAIRED,
        table=PLAIN.name,
    ),
    Control(
        name="symbols that are not synced",
        location="tornproof.impl.write.commit:_DICTIONARY_ACTIONS",
        broken=_syncs_no_symbols,
        is_below=True,
        program=NEW_SYMBOLS,
        table=SYMBOLS.name,
    ),
    Control(
        name="symbols that lookups do not find",
        location="tornproof.impl.write.new_symbols:HashIndex",
        broken=_indexes_elsewhere,
        program=NEW_SYMBOLS,
        table=SYMBOLS.name,
    ),
    Control(
        name="own files of a user that are forgotten",
        location="tornproof.impl.repair.repair:kept_files",
        broken=_keeps_everything,
        program=OPERATED,
        table=SYMBOLS.name,
    ),
    Control(
        name="a writer beside a server",
        location=f"{WRITER}:reject_if_served",
        broken=_returns(None),
        program=PROTECTED,
        table=SYMBOLS.name,
    ),
    Control(
        name="a frozen partition that is written to",
        location=f"{WRITER}:reject_unless_writable",
        broken=_returns(None),
        program=UNWRITABLE,
        table=SYMBOLS.name,
    ),
    Control(
        name="a footer that only others cannot read",
        location="tornproof.impl.write.partition_writer:empty_footer",
        broken=_orders_all_but_one,
        program=LAST_AND_FIRST,
    ),
    Control(
        name="a commit that ends with a mistake",
        location=f"{WRITER}:plan_store",
        broken=_makes_mistakes,
        program=LAST_AND_FIRST,
    ),
)


class Part(NamedTuple):
    """Random programs of so many rules from a table, the given one if it has no name; `number` is their seed."""

    table: str | None
    number: int
    steps: int


class Failed(NamedTuple):
    """The first program of a part that failed, as it was run; `is_start` if its table could not be made."""

    part: Part
    failure: Failure
    is_start: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class PartResult:
    """The result of some programs: counts of rules, points reached, and the first one that failed."""

    programs: int
    counts: Counter[str]
    reached: Counter[str]
    failed: Failed | None

    @property
    def has_finding(self) -> bool:
        """Whether a program failed."""
        return self.failed is not None


FixedPart: TypeAlias = tuple[str | None, tuple[int, ...]]
"""The name of a table, None for the given one, and the numbers of programs on it."""


def programs_on(table: str | None) -> Sequence[Steps]:
    """Return the programs that are given for a table, None for the given one."""
    return COMMITS if table is None else FIXED_PROGRAMS[table]


def fixed_parts() -> list[FixedPart]:
    """Divide the programs that are given, those that find most for their time first.

    These are the usual commits on each table, then what has rules or a table that nothing before it has, most for each
    step, then what has fewest steps.
    """
    divided = [
        (table, tuple(numbers[start : start + PROGRAMS_IN_PART]))
        for table in (None, *FIXED_PROGRAMS)
        for numbers in [range(len(programs_on(table)))]
        for start in numbers[::PROGRAMS_IN_PART]
    ]
    waiting = sorted(divided, key=lambda part: len(_steps_of(part)))
    ordered = [part for part in waiting if programs_on(part[0])[part[1][0]] is COMMITS[0]]
    waiting = [part for part in waiting if part not in ordered]
    seen = {each for part in ordered for each in _kinds_of(part)}
    while waiting:
        best = max(waiting, key=lambda part: len(_kinds_of(part) - seen) / len(_steps_of(part)))
        if seen.issuperset(_kinds_of(best)):
            break
        ordered.append(best)
        waiting.remove(best)
        seen |= _kinds_of(best)
    return ordered + waiting


def _kinds_of(part: FixedPart) -> set[object]:
    return {part[0], *(step["rule"] for step in _steps_of(part))}


def _steps_of(part: FixedPart) -> list[dict[str, Any]]:
    table, numbers = part
    return [step for number in numbers for step in programs_on(table)[number]]


def parts(steps: int, seed: int) -> list[Part]:
    """Divide random programs of so many rules among the given table, which gets every other part, and our own ones."""
    found = []
    for index, start in enumerate(range(0, steps, STEPS_IN_PART)):
        table = TABLES[(seed + index // 2) % len(TABLES)].name if index % 2 else None
        found.append(Part(table, seed * SEED_STRIDE + index, min(STEPS_IN_PART, steps - start)))
    return found


class Stateful:
    """Runs programs on copies of one table, and of small tables of our own."""

    def __init__(self, image: DiskImage | None, path: str, storage_kind: StorageKind = StorageKind.FILES) -> None:
        """Read the table, or make a small new one; raises NothingToExploreError if no rows can be written to it."""
        try:
            self.start = prepare(image, path)
        except ProblemError as error:
            raise NothingToExploreError(str(error)) from error
        if not self.start.intervals:
            raise NothingToExploreError("no partition of the table can be written to")
        self._kind = storage_kind
        self._encode = remembered_encoder()
        self._starts: dict[str | None, Start] = {None: self.start}

    def explore(
        self,
        part: Part,
        scratch: str,
        has_time: HasTime = always,
        on_progress: OnProgress = lambda done, total: None,
    ) -> PartResult:
        """Run random programs."""
        try:
            search = self._search(part.table, scratch, steps=part.steps, has_time=has_time, on_progress=on_progress)
        except ViolationError as violation:
            return _without_start(violation, part)
        with quiet_hypothesis(), remembered_decoding():
            search.run(part.number)
            return _result(search, part)

    def run_fixed(
        self, table: str | None, scratch: str, numbers: Sequence[int] | None = None, *, stops_at_first: bool = False
    ) -> PartResult:
        """Run the programs that are given for a table, all or those with some numbers, each with other options."""
        part = Part(table, 0, 0)
        try:
            search = self._search(table, scratch, steps=0)
        except ViolationError as violation:
            return _without_start(violation, part)
        programs = programs_on(table)
        with remembered_decoding():
            for number in range(len(programs)) if numbers is None else numbers:
                search.run_fixed(programs[number], number)
                if stops_at_first and search.failure is not None:
                    break
            return _result(search, part)

    def finding(self, failed: Failed, scratch: str) -> Finding:
        """Return the finding of the smallest program that fails like one, with its cause."""
        part, failure, is_start = failed
        if is_start:
            return _of_start(part, failure, self._encode)
        with remembered_decoding():
            search = self._search(part.table, scratch, steps=0)
            smallest = search.smallest(failure)
            again = replay(search, smallest.options, smallest.steps)
            more = {"is_seen_again": _is_same(again, smallest), "why": _cause(search, smallest)}
        return unshrunk(failed._replace(failure=smallest), self._kind, **more)

    def detects(self, control: Control, seed: int, scratch: str) -> bool:
        """Return whether a program detects the broken function: a fixed one, else a random one."""
        kind = StorageKind.FILES if control.is_below else self._kind
        with scratch_directory(kind, scratch or None) as folder, quiet_hypothesis(), remembered_decoding():
            try:
                trial = self._search(control.table, folder, kind=kind, steps=CONTROL_STEPS)
            except ViolationError:
                # A table that cannot be made is a finding of the programs on it.
                return True
            return self._fails(trial, control, seed)

    def _fails(self, trial: Search, control: Control, seed: int) -> bool:
        with control.planted():
            if control.program is not None:
                return replay(trial, 0, control.program) is not None
            if any(replay(trial, number % len(self.start.options), program) for number, program in enumerate(COMMITS)):
                return True
            trial.run(seed)
        return trial.failure is not None

    def _search(
        self, table: str | None, scratch: str, *, steps: int, kind: StorageKind | None = None, **more: Any
    ) -> Search:
        if table not in self._starts:
            assert table is not None
            self._starts[table] = start_of(table, self._encode)
        start = self._starts[table]
        return Search(start=start, kind=kind or self._kind, scratch=scratch, encode=self._encode, steps=steps, **more)


def start_of(table: str, encode: RowGroupEncoder) -> Start:
    """Return the start of one of our own tables; raises ViolationError if it cannot be made, KeyError if unknown."""
    with remembered_decoding():
        with orderly("a new table"):
            making = _making(table, encode)
        start = filled(making)
        if not BY_NAME[table].is_changed:
            return replace(start, is_ours=True)
        with orderly("a table that was changed"):
            changed = changed_image(table, start.files, start.metadata, start.transaction.partitions)
            other = prepare(changed, PATH)
        _check_changed(table, start.rows, other.rows.contents)
        return replace(other, is_ours=True)


def _making(table: str, encode: RowGroupEncoder) -> Search:
    start = prepare(empty_image(table), PATH)
    nth = BY_NAME[table].nth_options
    return Search(start=start, kind=StorageKind.MEMORY, scratch="", encode=encode, steps=0, options=nth)


def _check_changed(table: str, before: Rows, after: Sequence[Values]) -> None:
    """Compare rows with those before columns were removed, and added, with nulls or what stands for them."""
    missing = tuple({"BOOLEAN": False, "SHORT": 0}.get(name) for name in BY_NAME[table].added.values())
    kept = [index for index, name in enumerate(before.shape.schema.names) if name not in BY_NAME[table].removed]
    if [*after] != [(*(row[index] for index in kept), *missing) for row in before.contents]:
        raise ViolationError(ROWS, f"after columns were changed the rows are {after}, and were {before.contents}")


def stateful_phase(
    origin: str,
    fixed: Sequence[PartResult],
    random: Sequence[PartResult],
    findings: Sequence[Finding],
    seed: int,
    undetected: Sequence[Control] | None,
) -> Phase:
    """Join the results; `origin` is where the given table is, `undetected` are the controls not detected.

    None of these stands for controls that were not tried.
    """
    results = [*fixed, *random]
    counts = sum((each.counts for each in results), Counter[str]())
    reached = sum((each.reached for each in results), Counter[str]())
    explored = counts.total()
    phase = Phase(
        name=PHASE,
        explored=explored,
        complete=False,
        bound=f"{_bound(random)} of up to {STEPS_IN_PROGRAM}, random from seed {seed}, half of them from {origin}, the "
        f"others from {len(TABLES)} small tables; {_bound(fixed)} that reach each coverage goal",
        verdict=Verdict.INVALID if findings else Verdict.VALID,
        counts={name: counts[name] for name in RULES},
        reached={name: reached[name] for name in sorted(reached)},
        findings=tuple(findings),
    )
    failed = None if undetected is None else [f"{control.name} was not detected" for control in undetected]
    failed = None if failed is None else [*failed, *model_controls.failed_controls()]
    goals = (*COVERAGE_GOALS, *FIXED_GOALS, *(f"rule: {name}" for name in RULES))
    return phase.with_controls(failed).with_coverage_goals(goals).doubted("" if explored else "no rule was executed")


def _bound(results: Sequence[PartResult]) -> str:
    rules, programs = sum(each.counts.total() for each in results), sum(each.programs for each in results)
    return f"{rules} rules in {programs} programs"


def first_failures(results: Sequence[PartResult]) -> list[Failed]:
    """Return the first failure of each property, in the order of the results: one finding is made of each."""
    firsts: dict[str, Failed] = {}
    for failed in (each.failed for each in results):
        if failed is not None:
            firsts.setdefault(failed.failure.violation.broken, failed)
    return [*firsts.values()]


def _without_start(violation: ViolationError, part: Part) -> PartResult:
    """Return the result where a table of our own could not be made as it should be."""
    assert part.table is not None, "the given table is made by somebody else"
    failure = Failure(steps=FIRST_STEPS, options=0, violation=violation)
    failed = Failed(part, failure, is_start=True)
    return PartResult(programs=0, counts=Counter(), reached=Counter(), failed=failed)


def _result(search: Search, part: Part) -> PartResult:
    return PartResult(
        programs=search.program_count,
        counts=search.counts,
        reached=search.reached + Counter({f"rule: {name}": count for name, count in search.counts.items()}),
        failed=None if search.failure is None else Failed(part, search.failure),
    )


def replay_stateful(
    image: DiskImage | None,
    path: str,
    finding: Finding,
    *,
    storage_kind: StorageKind = StorageKind.FILES,
    directory: str | None = None,
) -> Verdict:
    """Return INVALID when the finding's program violates the same property again, VALID when it violates none.

    UNKNOWN when it cannot be run, or violates another one.
    """
    try:
        steps = tuple(dict(each) for each in finding.evidence["steps"])
        options = integer_of(finding.evidence["options"])
        table = finding.evidence.get("table")
        encode = remembered_encoder()
        try:
            start = prepare(image, path) if table is None else start_of(table, encode)
        except ViolationError as error:
            return finding.verdict_of({error.broken})
        with scratch_directory(storage_kind, directory) as scratch, remembered_decoding():
            search = Search(start=start, kind=storage_kind, scratch=scratch, encode=encode, steps=0)
            violation = replay(search, options, steps)
    except (KeyError, IndexError, TypeError, ValueError, NothingToExploreError):
        return Verdict.UNKNOWN
    return finding.verdict_of(set() if violation is None else {violation.broken})


def unshrunk(failed: Failed, kind: StorageKind, **more: Any) -> Finding:
    """Return the finding of a program as it is, with `more` evidence."""
    part, failure, is_start = failed
    steps = () if is_start else failure.steps
    program = ", then ".join(map(_step_in_words, steps)) or "no step at all"
    where = "" if part.table is None else f" on a new table ({part.table})"
    sentence = f"After {program}{where}: {failure.violation.text}."
    if is_start:
        sentence = f"A new table ({part.table}) cannot be made: {failure.violation.text}."
    evidence = {
        "table": part.table,
        "seed": part.number,
        "storage": kind.value,
        "options": failure.options,
        "steps": [dict(each) for each in steps],
        "text": failure.violation.text,
        **more,
    }
    return Finding(property=failure.violation.broken, phase=PHASE, sentence=sentence, evidence=evidence)


def _of_start(part: Part, failure: Failure, encode: RowGroupEncoder) -> Finding:
    more = {}
    with suppress(Exception):
        # Where not even an empty table can be made, nothing can be compared.
        making = _making(str(part.table), encode)
        more["why"] = _cause(making, replace(failure, options=making.options))
    return unshrunk(Failed(part, failure, is_start=True), StorageKind.MEMORY, **more)


def _cause(search: Search, failure: Failure) -> dict[str, Any]:
    bloomless = [number for number, each in enumerate(search.start.options) if each.blooms is None]
    return cause_of(
        failure, lambda options, steps, watch: replay(search, options, steps, watch=watch), bloomless=bloomless
    )


def _is_same(again: Exception | None, failure: Failure) -> bool:
    return again is not None and str(again) == str(failure.violation)


def _step_in_words(step: Step) -> str:
    arguments = ", ".join(f"{key} {value}" for key, value in step.items() if key != "rule")
    return f"{step['rule']} ({arguments})" if arguments else str(step["rule"])
