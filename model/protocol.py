"""The protocol of one partition as a state machine: what is cached and what is on disk, step by step, without bytes.

`steps` are all next states, each with what it reports (`trace.py`). A file is a few cells; each gets to the disk as a
whole, at any time until it is synced. A sync may fail, and a power cut keeps any mixture of cells.
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import product
from typing import Any, NamedTuple, TypeAlias

from tornproof.model.trace import Event, Kind

COMMIT = ("begin record", "store record", "sync record", "store version", "sync version", "acknowledge")
UPDATE = ("write data", "sync data", "write body", "sync body", "store header", "sync header", *COMMIT)
PM = ("write body", "store header", "sync body", "sync header")
REWRITE = ("make directory", "write data", "sync data", *PM, "sync name", *COMMIT)
RECOVERY = ("store version again", "sync version", "remove uncommitted", "sync name", "recovered")
PURGE = ("remove unnamed", "sync name")
CHECKS = ("base is committed", "pins are asked", "pin is checked", "record is checked")
"""What a variant of the protocol may leave out, as it may each step."""
WRONG = -1
"""The version of a read that ends with an error, or with rows that no commit left."""
Key: TypeAlias = tuple[str, int]
"""What a cell is of, and the number of its directory or slot."""
Pieces: TypeAlias = tuple[int, ...]
"""The commits that wrote rows, in order; a token is how many there are."""


class Cell(NamedTuple):
    """What processes see, what may be on disk, and whether a sync would write it."""

    value: Any
    disk: frozenset[Any]
    is_dirty: bool = False


class Entry(NamedTuple):
    """A record in `_txn`."""

    version: int
    directory: int
    token: int


class Generation(NamedTuple):
    """A footer of `_pm`: the rows that it describes, and the number of its predecessor, 0 for none."""

    pieces: Pieces
    prev: int


class Writer(NamedTuple):
    """The steps that are left, and what they write."""

    left: tuple[str, ...] = ()
    entry: Entry = Entry(0, 0, 0)
    generation: Generation = Generation((), 0)


class Reader(NamedTuple):
    """The step that is next, and what a read has found so far."""

    next: str = "read version"
    version: int = 0
    entry: Entry | None = None
    generation: Generation | None = None


class State(NamedTuple):
    """`expected` has the rows of each version that was stored; the last four are how much may still happen."""

    cells: dict[Key, Cell]
    expected: tuple[Pieces, ...]
    writer: Writer | None
    readers: tuple[Reader, ...]
    commits: int
    stops: int
    failed_syncs: int
    power_cuts: int

    def at(self, kind: str, number: int = 0) -> Any:
        """Return what processes see in a cell, None if it is not there."""
        cell = self.cells.get((kind, number))
        return None if cell is None else cell.value

    @property
    def entry(self) -> Entry:
        """The committed record."""
        found: Entry = self.at("record", self.at("version") % 2)
        return found

    def identity(self) -> object:
        """Return a value that is equal for equal states."""
        return frozenset(self.cells.items()), self[1:]

    def resolve(self, entry: Entry) -> tuple[int, Generation] | None:
        """Walk the chain from the newest generation to the first one with the token."""
        number, body = self.at("header", entry.directory) or 0, self.at("body", entry.directory) or ()
        while 0 < number <= len(body):
            if len(body[number - 1].pieces) == entry.token:
                return number, body[number - 1]
            number = body[number - 1].prev
        return None

    def write(self, values: dict[Key, Any]) -> State:
        """Return the state with these values cached; until a sync, what was there before may be on disk as well."""
        new = Cell(None, frozenset([None]))
        written = {key: Cell(each, self.cells.get(key, new).disk | {each}, True) for key, each in values.items()}
        return self._replace(cells=self.cells | written)

    def synced(self, kind: str, number: int, *, fails: bool = False) -> State:
        """Sync the cells of a kind; after a failure they count as written, and a later sync does nothing."""
        cells = dict(self.cells)
        for key, cell in self.cells.items():
            if key[0] == kind and cell.is_dirty and (kind == "name" or key[1] == number):
                cells[key] = Cell(cell.value, cell.disk if fails else frozenset([cell.value]))
        return self._replace(cells=_without_lost(cells))


Following: TypeAlias = tuple[State, str, tuple[Event, ...]]
"""A next state, the step to it, and what is reported then."""


def begin(*, readers: int = 1, commits: int = 2, stops: int = 1, failed_syncs: int = 1, power_cuts: int = 1) -> State:
    """Return version 0 with rows in directory 0, all of it durable, and an open writer."""
    values = {("version", 0): 0, ("record", 0): Entry(0, 0, 1), ("record", 1): None, ("name", 0): True}
    values |= {("data", 0): (0,), ("body", 0): (Generation((0,), 0),), ("header", 0): 1}
    cells = {key: Cell(value, frozenset([value])) for key, value in values.items()}
    return State(cells, ((0,),), Writer(), (Reader(),) * readers, commits, stops, failed_syncs, power_cuts)


def steps(state: State, without: frozenset[str] = frozenset(), *, pins: bool = False) -> Iterator[Following]:
    """Yield all next states of a protocol without these steps and checks, whose readers may pin their versions."""
    writer = state.writer
    if writer is None:
        yield state._replace(writer=Writer(RECOVERY)), "a writer opens", ()
    elif writer.left:
        following = state._replace(writer=writer._replace(left=writer.left[1:]))
        step, stopped = writer.left[0], (Event(Kind.STOPPED),)
        yield (following, step, ()) if step in without else _written(following, writer, step, without)
        if step.startswith("sync ") and step != "sync name" and state.failed_syncs:
            failed = following._replace(failed_syncs=state.failed_syncs - 1, writer=None)
            yield failed.synced(*_place(step, writer.entry), fails=True), f"{step} fails", stopped
        if state.stops:
            yield state._replace(stops=state.stops - 1, writer=None), "the writer stops", stopped
    else:
        if state.commits:
            yield _begun(state, UPDATE, without)
            yield _begun(state, REWRITE, without)
        if any(kind == "name" and number != state.entry.directory for kind, number in state.cells):
            yield state._replace(writer=Writer(PURGE)), "purge", ()
    for index, reader in enumerate(state.readers):
        found, events = _read(state, reader, f"reader {index}", without, pins=pins)
        readers = (*state.readers[:index], found, *state.readers[index + 1 :])
        yield state._replace(readers=readers), f"reader {index}: {reader.next}", events
    if state.power_cuts:
        yield from _cut(state)


def _place(step: str, entry: Entry) -> Key:
    kind = step.removeprefix("sync ")
    return kind, {"record": entry.version % 2, "version": 0}.get(kind, entry.directory)


def _begun(state: State, plan: tuple[str, ...], without: frozenset[str]) -> Following:
    version, directory, _ = state.entry
    number, base = state.resolve(state.entry) or (0, Generation((), 0))
    if "base is committed" in without:
        number = state.at("header", directory)
        base = state.at("body", directory)[number - 1]
    pieces = (*base.pieces, state.commits)
    is_new = plan is REWRITE
    entry = Entry(version + 1, version + 1 if is_new else directory, len(pieces))
    writer = Writer(plan, entry, Generation(pieces, 0 if is_new else number))
    return state._replace(writer=writer, commits=state.commits - 1), "commit", (Event(Kind.COMMIT),)


def _written(state: State, writer: Writer, step: str, without: frozenset[str]) -> Following:
    (version, directory, _), slot = writer.entry, ("record", writer.entry.version % 2)
    names = [key for key, cell in state.cells.items() if key[0] == "name" and cell.value]
    match step:
        case "make directory":
            state = state.write({("name", directory): True, ("header", directory): 0, ("body", directory): ()})
        case "write data":
            state = state.write({("data", directory): writer.generation.pieces})
        case "write body":
            published = state.at("body", directory)[: state.at("header", directory)]
            state = state.write({("body", directory): (*published, writer.generation)})
        case "store header":
            state = state.write({("header", directory): state.at("header", directory) + 1})
        case "begin record":
            state = state.write({slot: None})
        case "store record":
            state = state.write({slot: writer.entry})
        case "store version":
            expected = (*state.expected, (*state.expected[-1], writer.generation.pieces[-1]))
            state = state.write({("version", 0): version})._replace(expected=expected)
        case "store version again":
            state = state.write({("version", 0): state.at("version")})
        case "acknowledge":
            return state, step, (Event(Kind.ACKNOWLEDGED),)
        case "recovered":
            return state, step, (Event(Kind.RECOVERED, state.at("version")),)
        case "remove uncommitted":
            state = state.write(dict.fromkeys((key for key in names if key[1] > state.at("version")), False))
        case "remove unnamed":
            pinned = {each.entry.directory for each in state.readers if each.next.startswith("pinned") and each.entry}
            kept = {state.entry.directory} if "pins are asked" in without else {state.entry.directory, *pinned}
            state = state.write(dict.fromkeys((key for key in names if key[1] not in kept), False))
        case _:
            state = state.synced(*_place(step, writer.entry))
    return state, step, ()


def _read(
    state: State, reader: Reader, name: str, without: frozenset[str], *, pins: bool
) -> tuple[Reader, tuple[Event, ...]]:
    """Let a reader take its next step: version, record, version again (and so under a pin), chain, data."""
    version, entry = state.at("version"), reader.entry
    again = Reader("read record", version)
    match reader.next:
        case "read version":
            return again, (Event(Kind.BEGUN, reader=name),)
        case "read record":
            return reader._replace(next="check record", entry=state.at("record", reader.version % 2)), ()
        case "check record":
            is_old = version != reader.version and "record is checked" not in without
            return again if is_old else reader._replace(next="pin" if pins else "resolve"), ()
        case "pin":
            return reader._replace(next="pinned, check version"), ()
        case "pinned, check version":
            is_old = version != reader.version and "pin is checked" not in without
            return again if is_old else reader._replace(next="pinned, resolve"), ()
    rejected = Reader(), (Event(Kind.SEEN, WRONG, name),)
    if entry is not None and not state.at("name", entry.directory):
        # Without a pin, the directory of a version that was replaced may be gone.
        return rejected if version == reader.version or reader.next.startswith("pinned") else (again, ())
    if reader.next.endswith("resolve"):
        found = entry and state.resolve(entry)
        read = reader.next.replace("resolve", "read data")
        return (reader._replace(next=read, generation=found[1]), ()) if found else rejected
    assert entry is not None and reader.generation is not None, "the steps before have found them"
    pieces = (state.at("data", entry.directory) or ())[: entry.token]
    is_right = reader.generation.pieces == pieces and state.expected[entry.version : entry.version + 1] == (pieces,)
    return Reader(), (Event(Kind.SEEN, entry.version if is_right else WRONG, name),)


def _cut(state: State) -> Iterator[Following]:
    """Yield each state that a power cut may leave, with what a reader then sees."""
    for values in product(*(sorted(cell.disk, key=repr) for cell in state.cells.values())):
        cells = {key: Cell(value, frozenset([value])) for key, value in zip(state.cells, values, strict=True)}
        left = state._replace(cells=_without_lost(cells), writer=None, readers=(Reader(),) * len(state.readers))
        reader, seen = Reader(), [Event(Kind.POWER_CUT)]
        while seen[-1].kind is not Kind.SEEN:
            reader, events = _read(left, reader, "", frozenset(), pins=False)
            seen += events
        expected = left.expected[: left.at("version") + 1]
        yield left._replace(expected=expected, power_cuts=state.power_cuts - 1), "the power is cut", tuple(seen)


def _without_lost(cells: dict[Key, Cell]) -> dict[Key, Cell]:
    """Forget directories that cannot come back."""
    lost = {key[1] for key, cell in cells.items() if key[0] == "name" and True not in cell.disk}
    return {key: cell for key, cell in cells.items() if key[0] in ("version", "record") or key[1] not in lost}
