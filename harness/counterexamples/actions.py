"""What a call means to the protocol: "store token 802 → 1882 of 2024-01-01T00 (_txn)", with values from the layouts."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from typing import NamedTuple

from tornproof.harness.common.system import TARGET_ERRORS, Target
from tornproof.harness.counterexamples.log import Deviation
from tornproof.harness.counterexamples.shrink import StepRecorder
from tornproof.harness.counterexamples.step_names import OPEN, Step, is_commit, kind_of
from tornproof.harness.simulator.filesystem.intercept import BARRIERS, CHANGES, Call, CallKind
from tornproof.harness.simulator.filesystem.kernel import CallRejectedError, Kernel
from tornproof.harness.simulator.filesystem.step_bound import EndlessError
from tornproof.harness.simulator.process.case import TestCase
from tornproof.harness.simulator.process.simulated_process import Node
from tornproof.harness.simulator.process.world import World
from tornproof.impl.errors import TornproofError
from tornproof.impl.layout import pm as pm_layout
from tornproof.impl.layout import txn as txn_layout
from tornproof.impl.layout.parquet import DATA_FILE
from tornproof.impl.layout.record import Layout
from tornproof.impl.layout.txn import ROW_COUNT
from tornproof.impl.pm.footer import locate_footer
from tornproof.impl.table.metadata_file import META_FILE, TableMetadata, decode_metadata_file
from tornproof.impl.table.partition import PM_FILE
from tornproof.impl.table.partition_names import directory_names
from tornproof.impl.txn.transaction import ENTRY_BYTES, RECORD_BYTES, SIZE_BYTES, TXN_FILE, Area, area_of

READS = frozenset({CallKind.PREAD, CallKind.LOAD, CallKind.READ_MAPPED, CallKind.VIEW})
LOOKS = READS | {CallKind.SIZE, CallKind.MAP}
WRITES = frozenset({CallKind.PWRITE, CallKind.STORE})
# Opening counts as a change because it may create the file, which is not what a run is about.
CHANGING = CHANGES - {CallKind.OPEN_FOR_WRITING}
NOTABLE = CHANGING | BARRIERS
CHANGES_SHOWN_MAX = 3
NUMBER_BYTES_MAX = 8
HEX_BYTES_MAX = 8
TEXT_BYTES_MAX = 40
PUBLISHED_SIZE = pm_layout.Header.layout.field("parquet_meta_file_size")
NAMES = {"token": "token", "version": "version", "row_count_and_flags": "row count", "name_txn": "directory number"}
"""Fields that have a shorter name than in the tables; the others are named as QuestDB's documents spell them."""
DECISIVE_NAMES = tuple(NAMES.values())
OVERWRITE = "write"
VERBS = {
    CallKind.MKDIR: "make directory",
    CallKind.RMDIR: "remove directory",
    CallKind.UNLINK: "remove",
    CallKind.FSYNC: "sync",
    CallKind.FDATASYNC: "sync the data of",
    CallKind.SYNC_DIRECTORY: "sync directory",
}


class Value(NamedTuple):
    """A field at [start, end) of a file, and how its bytes are shown; one that a target names may be text."""

    name: str
    start: int
    end: int
    of: str = ""
    is_row_count: bool = False
    is_own: bool = False

    def shown(self, content: bytes) -> str:
        """Return the value that the field has in a file, "nothing" where the file ends before it."""
        raw = content[self.start : self.end]
        if len(raw) < self.end - self.start:
            return "nothing"
        if self.is_own and raw.isascii() and raw.decode("ascii").isprintable():
            return repr(raw[:TEXT_BYTES_MAX].decode("ascii"))
        if len(raw) > NUMBER_BYTES_MAX:
            return raw[:HEX_BYTES_MAX].hex(" ") + (" …" if len(raw) > HEX_BYTES_MAX else "")
        number = int.from_bytes(raw, "little", signed=not self.is_row_count)
        return str(ROW_COUNT.get(number) if self.is_row_count else number)


class Action(NamedTuple):
    """What a call does: a verb, the values that it changes or reads, the file, and else the range that it writes."""

    verb: str
    values: tuple[str, ...] = ()
    file: str = ""
    written: tuple[int, int] | None = None
    note: str = ""

    @property
    def is_overwriting(self) -> bool:
        """Whether it writes bytes that have no name, and not behind the end of the file."""
        return self.verb == OVERWRITE

    @property
    def text(self) -> str:
        """Return it as words."""
        more = len(self.values) - CHANGES_SHOWN_MAX
        # What decides which rows are committed comes first.
        values = sorted(self.values, key=lambda value: not value.startswith(DECISIVE_NAMES))
        values = [*values[:CHANGES_SHOWN_MAX], *([f"{more} more"] if more > 0 else [])]
        if self.written is not None:
            values = [f"bytes {self.written[0]} to {self.written[1]}{self.note}"]
        words = f"{self.verb} {', '.join(values)}" if values else self.verb
        return f"{words} ({self.file})" if self.file else words


class ActionNames:
    """Names the calls of one run on a table, of which the files at its end are known."""

    def __init__(self, target: Target, path: str, end: Mapping[str, bytes]) -> None:
        """Name files relative to the table at `path`."""
        self._target, self._path = target, path
        self._last = end.get(f"{path}/{TXN_FILE}", b"")
        self._metadata: TableMetadata | None = None
        with suppress(TornproofError, KeyError):
            self._metadata = decode_metadata_file(end[f"{path}/{META_FILE}"], file=META_FILE)

    def action(self, call: Call, old: bytes, new: bytes) -> Action:
        """Return what a call has done, from the content of its file before and after it."""
        file = "." if call.path == self._path else call.path.removeprefix(f"{self._path}/")
        if call.kind in WRITES:
            return self._write(file, call, old, new)
        if call.kind in READS:
            return self._read(file, call, new)
        match call.kind:
            case CallKind.MSYNC:
                return _sync_mapping(file, call, new)
            case CallKind.RENAME | CallKind.LINK:
                return Action(f"{call.kind} {file} to {call.target_path.removeprefix(f'{self._path}/')}")
            case CallKind.SIZE:
                return Action(f"see a size of {len(new)} bytes", (), file)
            case CallKind.TRUNCATE:
                return Action(f"cut {len(old)} → {len(new)} bytes", (), file)
            case kind:
                return Action(f"{VERBS.get(kind, kind)} {file}")

    def _write(self, file: str, call: Call, old: bytes, new: bytes) -> Action:
        start, end = call.offset_bytes, call.offset_bytes + len(call.content)
        values = self._values(file, old, new, start, end)
        if values:
            changes = [
                f"{each.name} {each.shown(old)} → {each.shown(new)}{each.of}"
                for each in values
                if each.shown(old) != each.shown(new)
            ]
            is_publishing = file.endswith(f"/{PM_FILE}") and start < PUBLISHED_SIZE.end_bytes
            verb = "publish" if is_publishing else "store"
            return Action(verb, tuple(changes or [f"{values[0].name}{values[0].of} again"]), file)
        footer = self._footer(new, end) if file.endswith(f"/{PM_FILE}") else ""
        return Action("append" if start == len(old) else OVERWRITE, (), file, (start, end), footer)

    def _read(self, file: str, call: Call, content: bytes) -> Action:
        start, end = call.offset_bytes, call.offset_bytes + call.size_bytes
        values = self._values(file, content, content, start, min(end, len(content)))
        if not values:
            return Action("read", (f"bytes {start} to {min(end, len(content))}",), file)
        chosen = [each for each in values if each.name in DECISIVE_NAMES] or values
        return Action("read", tuple(f"{each.name} {each.shown(content)}{each.of}" for each in chosen), file)

    def _values(self, file: str, old: bytes, new: bytes, start: int, end: int) -> list[Value]:
        """Return the fields that lie in [start, end) where all of these bytes have names, else nothing."""
        name = file.rpartition("/")[2]
        if name == PM_FILE:
            known: Iterable[Value] = _record(pm_layout.Header.layout, 0) if end <= PUBLISHED_SIZE.end_bytes else ()
            known = [each._replace(name="_pm size") for each in known][:1]
        elif file == TXN_FILE:
            known = self._transaction(new if len(new) >= len(old) else old)
        elif name == DATA_FILE:
            known = ()
        else:
            known = self._own(file, new)
        return [each for each in known if start < each.end and each.start < end]

    def _own(self, file: str, content: bytes) -> list[Value]:
        """Return the fields that a target names; no mistake of it may lose a finding."""
        with suppress(*TARGET_ERRORS, EndlessError):
            fields = self._target.fields(file, content)
            return [
                Value(each.name, each.offset_bytes, each.offset_bytes + each.size_bytes, is_own=True) for each in fields
            ]
        return []

    def _transaction(self, content: bytes) -> Iterator[Value]:
        """Yield the fields of `_txn`: those of the base header, then of the areas of both versions."""
        base_layout = txn_layout.BaseHeader.layout
        yield from _record(base_layout, 0)
        areas: dict[int, Area] = {}
        # A new record is written before the header says where it is.
        for each in (content, self._last):
            if len(each) >= base_layout.size_bytes:
                base = txn_layout.BaseHeader.unpack(each, 0, file=TXN_FILE)
                known = [area_of(base, version) for version in (base.version, base.version + 1)]
                areas |= {area.record_offset: area for area in known if area.record_offset not in areas}
        for area in areas.values():
            if area.record_offset >= base_layout.size_bytes and min(area.symbols_size, area.partitions_size) >= 0:
                yield from self._area(content, area)

    def _area(self, content: bytes, area: Area) -> Iterator[Value]:
        symbols = area.record_offset + RECORD_BYTES
        yield from _record(txn_layout.TransactionRecord.layout, area.record_offset)
        sizes = symbols + area.symbols_size
        yield Value("symbol counts", symbols, sizes)
        yield from _record(txn_layout.PartitionTableSize.layout, sizes)
        entries = range(sizes + SIZE_BYTES, sizes + SIZE_BYTES + area.partitions_size, ENTRY_BYTES)
        for start in entries[: len(self._last) // ENTRY_BYTES]:
            raw = self._last[start : start + NUMBER_BYTES_MAX]
            yield from _record(txn_layout.PartitionEntry.layout, start, f" of {self._directory(raw)}")

    def _directory(self, raw_timestamp: bytes) -> str:
        """Return the directory of the partition that begins at a time, else its timestamp."""
        timestamp = int.from_bytes(raw_timestamp, "little", signed=True)
        names: tuple[str, ...] = ()
        if self._metadata is not None:
            nanoseconds = self._metadata.counts_nanoseconds
            names = directory_names(timestamp, -1, self._metadata.partition_by, nanoseconds=nanoseconds)
        return names[0] if names else f"partition {timestamp}"

    @staticmethod
    def _footer(content: bytes, end: int) -> str:
        """Say for which length of data.parquet the footer that ends at an offset is, "" if none does."""
        with suppress(TornproofError, EndlessError):
            return f", the footer for token {locate_footer(content, end, file=PM_FILE).token}"
        return ""


def in_order(actions: Iterable[Action]) -> list[str]:
    """Return actions as texts; those that follow each other with one verb and file become one."""
    merged: list[Action] = []
    for action in actions:
        last = merged[-1] if merged else None
        if last is None or (last.verb, last.file) != (action.verb, action.file):
            merged.append(action)
        elif last.written is not None and action.written is not None and last.written[1] == action.written[0]:
            merged[-1] = action._replace(written=(last.written[0], action.written[1]))
        elif action.values:
            merged[-1] = last._replace(values=tuple(dict.fromkeys((*last.values, *action.values))))
        elif action != last:
            merged.append(action)
    return [action.text for action in merged]


def content_of(kernel: Kernel, path: str, missing: bytes = b"") -> bytes:
    """Return the content of a file as processes see it, `missing` where there is none."""
    with suppress(CallRejectedError):
        number = kernel.find(path)
        return kernel.files[number].content if number in kernel.files else missing
    return missing


def _sync_mapping(file: str, call: Call, content: bytes) -> Action:
    start, end = call.offset_bytes, min(call.offset_bytes + call.size_bytes, len(content))
    if file == TXN_FILE and 0 < end <= txn_layout.BaseHeader.layout.size_bytes:
        return Action("sync version and positions of both areas", (), file)
    is_whole = not start and end >= len(content)
    return Action(f"sync {file}" if is_whole or not end else f"sync bytes {start} to {end} of {file}")


def _record(layout: Layout, offset_bytes: int, of: str = "") -> Sequence[Value]:
    return [
        Value(
            NAMES.get(spec.name, spec.format_name),
            offset_bytes + spec.offset_bytes,
            offset_bytes + spec.end_bytes,
            of,
            spec.name == "row_count_and_flags",
        )
        for spec in layout.fields
    ]


class Begin(NamedTuple):
    """The first step of an operation of a writer, and the files before it."""

    step: Step
    files: Mapping[str, bytes]


class Look(NamedTuple):
    """A step that reads a file or asks for its size, what the file holds then, and how many operations have begun."""

    step: Step
    call: Call
    content: bytes
    begun_count: int

    def differs(self, content: bytes) -> bool:
        """Say whether it would see something else if the file held this."""
        if self.call.kind not in READS:
            return len(content) != len(self.content)
        seen = slice(self.call.offset_bytes, self.call.offset_bytes + self.call.size_bytes)
        return content[seen] != self.content[seen]


class ActionRecorder(StepRecorder):
    """Keeps also what each step does, and the files at the beginning of the writer's current operation."""

    def __init__(self, case: TestCase) -> None:
        """Wait for a run of the test case."""
        super().__init__()
        self.case = case
        self._calls: dict[Step, tuple[Call, bytes, bytes]] = {}
        self._actions: dict[Step, Action] = {}
        self.kernel = case.kernel()
        """The files after the last step."""
        self._old, self._operation = b"", ""
        self._at_begin: Mapping[str, bytes] = {}
        self.begins: list[Begin] = []
        self._looks: dict[str, dict[str, list[Look]]] = {}
        self._locking: set[Step] = set()
        self._changed: dict[Deviation, dict[str, bytes]] = {}

    def stepping(self, step: Step, call: Call, kernel: Kernel) -> None:
        """Keep what the file of a call holds before it, and all files where an operation of the writer begins."""
        self._old = content_of(kernel, call.path)
        if kind_of(step.process) == "writer" and step.operation != self._operation:
            self._operation, self._at_begin = step.operation, kernel.image().files
            if step.operation == OPEN or is_commit(step.operation):
                self.begins.append(Begin(step, self._at_begin))

    def stepped(self, step: Step, call: Call, node: Node, world: World) -> None:
        """Keep what it holds afterwards."""
        super().stepped(step, call, node, world)
        self.kernel = world.kernel
        self._calls[step] = call, self._old, content_of(world.kernel, call.path, self._old)
        if call.kind in LOOKS:
            looks = self._looks.setdefault(step.process, {})
            # The path goes to the end of the dictionary.
            looks[call.path] = looks.pop(call.path, [])
            looks[call.path].append(Look(step, call, self._old, len(self.begins)))
        session = world.nodes.index(node)
        if any(lock.session == session for locks in world.kernel.locks.values() for lock in locks):
            self._locking.add(step)

    def deviated(self, deviation: Deviation, kernel: Kernel) -> None:
        """Keep the files that the operation had changed, as they were before it."""
        super().deviated(deviation, kernel)
        before, self._operation = self._at_begin, ""
        now = kernel.image().files
        self._changed[deviation] = {path: before.get(path, b"") for path in now if now[path] != before.get(path, b"")}

    def changed_before(self, deviation: Deviation) -> dict[str, bytes]:
        """Return the files that the writer's operation had changed before a crash, with their contents before it."""
        return self._changed.get(deviation, {})

    def path_of(self, step: Step) -> str:
        """Return the path of a step's call."""
        return self._calls[step][0].path

    def looks(self, process: str) -> dict[str, list[Look]]:
        """Return how a process has looked at each file; that it has looked at last comes last."""
        return self._looks.get(process, {})

    def holds_lock(self, step: Step) -> bool:
        """Say whether a process has a lock after a step of it."""
        return step in self._locking

    def actions(self) -> dict[Step, Action]:
        """Return what each step of the run did, named once it has ended."""
        if len(self._actions) < len(self._calls):
            names = ActionNames(self.case.target, self.case.path, self.kernel.image().files)
            self._actions = {step: names.action(*call) for step, call in self._calls.items()}
        return self._actions
