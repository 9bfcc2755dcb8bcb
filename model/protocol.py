"""The protocol of one partition as a state machine: what is cached and what is on disk, step by step, without bytes.

`steps` are all next states, each with what it reports (`trace.py`). A file is a few cells; each gets to the disk as a
whole, at any time until it is synced. A sync may fail, and a power cut keeps any mixture of cells.
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import product
from typing import Any, NamedTuple, TypeAlias

from tornproof.model.table import Generation, Generations, resolve
from tornproof.model.trace import Event, Kind

COMMIT = ("begin record", "store record", "sync record", "store version", "sync version", "acknowledge")
UPDATE = ("write data", "sync data", "write body", "sync body", "store header", "sync header", *COMMIT)
WHOLE = ("write data", "sync data", "write body", "store header", "sync body", "sync header")
REWRITE = ("make directory", *WHOLE, "sync name", *COMMIT)
RECOVERY = ("remove uncommitted", "sync name", "store version again", "sync version", "recovered")
PURGE = ("remove unnamed", "sync name")
READ = ("read record", "record is checked", "resolve", "read data")
PINNED_READ = ("read record", "record is checked", "pin", "pin is checked", "resolve", "read data")
CHECKS = ("base is committed", "pins are asked", "pin is checked", "record is checked")
"""What a variant of the protocol may leave out, as it may each step."""
WRONG = -1
"""The version of a read that ends with an error, or with rows that no commit left."""
Key: TypeAlias = tuple[str, int]
"""What a cell is of, and the number of its directory or slot."""
Rows: TypeAlias = tuple[int, ...]
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


class Writer(NamedTuple):
    """The steps that are left, and what they write."""

    left: tuple[str, ...] = ()
    entry: Entry = Entry(0, 0, 0)
    generation: Generation = Generation(0, ())


class Reader(NamedTuple):
    """The steps that are left of a read, none before it begins, and what it has found so far."""

    left: tuple[str, ...] = ()
    version: int = 0
    entry: Entry | None = None
    rows: Rows = ()
    is_pinned: bool = False


class State(NamedTuple):
    """`expected` has the rows of each version that was stored; the last four are how much may still happen."""

    cells: dict[Key, Cell]
    expected: tuple[Rows, ...]
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
    def names(self) -> list[Key]:
        """The names of directories that processes see."""
        return [key for key, cell in self.cells.items() if key[0] == "name" and cell.value]

    @property
    def entry(self) -> Entry:
        """The committed record."""
        found: Entry = self.at("record", self.at("version") % 2)
        return found

    def identity(self) -> object:
        """Return a value that is equal for equal states."""
        return frozenset(self.cells.items()), self[1:]

    def published(self, directory: int) -> Generations:
        """Return the generations up to the one that the header names, none if it is not there."""
        header, body = self.at("header", directory) or 0, self.at("body", directory) or ()
        return body[:header] if header <= len(body) else ()

    def write(self, values: dict[Key, Any]) -> State:
        """Return the state with these values cached; until a sync, what was there before may be on disk as well."""
        new = Cell(None, frozenset([None]))
        written = {key: Cell(each, self.cells.get(key, new).disk | {each}, True) for key, each in values.items()}
        return self._replace(cells=self.cells | written)

    def synced(self, kind: str, entry: Entry, *, fails: bool = False) -> State:
        """Sync the cells of a kind; after a failure they count as written, and a later sync does nothing."""
        cells, number = dict(self.cells), {"record": entry.version % 2, "version": 0}.get(kind, entry.directory)
        for key, cell in self.cells.items():
            if key[0] == kind and cell.is_dirty and (kind == "name" or key[1] == number):
                cells[key] = Cell(cell.value, cell.disk if fails else frozenset([cell.value]))
        return self._replace(cells=_without_lost(cells))


Following: TypeAlias = tuple[State, str, tuple[Event, ...]]
"""A next state, the step to it, and what is reported then."""


def begin(*, readers: int = 1, commits: int = 2, stops: int = 1, failed_syncs: int = 1, power_cuts: int = 1) -> State:
    """Return version 0 with rows in directory 0, all of it durable, and an open writer."""
    values = {("version", 0): 0, ("record", 0): Entry(0, 0, 1), ("record", 1): None, ("name", 0): True}
    values |= {("data", 0): (0,), ("body", 0): (Generation(1, (0,)),), ("header", 0): 1}
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
            yield failed.synced(step.removeprefix("sync "), writer.entry, fails=True), f"{step} fails", stopped
        if state.stops:
            yield state._replace(stops=state.stops - 1, writer=None), "the writer stops", stopped
    else:
        if state.commits:
            yield _begun(state, UPDATE, without)
            yield _begun(state, REWRITE, without)
        if any(kind == "name" and number != state.entry.directory for kind, number in state.cells):
            yield state._replace(writer=Writer(PURGE)), "purge", ()
    for index, reader in enumerate(state.readers):
        found, events = _read(state, reader, f"reader {index}", PINNED_READ if pins else READ, without)
        readers = (*state.readers[:index], found, *state.readers[index + 1 :])
        yield state._replace(readers=readers), f"reader {index}: {(*reader.left, 'begin')[0]}", events
    if state.power_cuts:
        yield from _cut(state)


def _begun(state: State, plan: tuple[str, ...], without: frozenset[str]) -> Following:
    version, directory, token = state.entry
    published = state.published(directory)
    base = len(published) if "base is committed" in without else resolve(published, token)
    rows = (*(published[base - 1].rows if base else ()), state.commits)
    if plan is REWRITE:
        directory, base = version + 1, 0
    writer = Writer(plan, Entry(version + 1, directory, len(rows)), Generation(len(rows), rows, base))
    return state._replace(writer=writer, commits=state.commits - 1), "commit", (Event(Kind.COMMIT),)


def _written(state: State, writer: Writer, step: str, without: frozenset[str]) -> Following:
    (version, directory, _), generation = writer.entry, writer.generation
    values: dict[Key, Any] = {}
    match step:
        case "make directory":
            values = {("name", directory): True, ("header", directory): 0, ("body", directory): ()}
        case "write data":
            values = {("data", directory): generation.rows}
        case "write body":
            values = {("body", directory): (*state.published(directory), generation)}
        case "store header":
            values = {("header", directory): state.at("header", directory) + 1}
        case "begin record":
            values = {("record", version % 2): None}
        case "store record":
            values = {("record", version % 2): writer.entry}
        case "store version":
            values = {("version", 0): version}
            state = state._replace(expected=(*state.expected, (*state.expected[-1], generation.rows[-1])))
        case "store version again":
            values = {("version", 0): state.at("version")}
        case "remove uncommitted":
            values = {key: False for key in state.names if key[1] > state.at("version")}
        case "remove unnamed":
            pinned = [each.entry for each in state.readers if each.is_pinned and "pins are asked" not in without]
            kept = {entry.directory for entry in (state.entry, *pinned) if entry}
            values = {key: False for key in state.names if key[1] not in kept}
        case "acknowledge":
            return state, step, (Event(Kind.ACKNOWLEDGED),)
        case "recovered":
            return state, step, (Event(Kind.RECOVERED, state.at("version")),)
        case _:
            state = state.synced(step.removeprefix("sync "), writer.entry)
    return state.write(values), step, ()


def _read(
    state: State, reader: Reader, name: str, plan: tuple[str, ...], without: frozenset[str] = frozenset()
) -> tuple[Reader, tuple[Event, ...]]:
    """Let a reader take its next step: version, record, version again (and so under a pin), chain, data."""
    version, entry = state.at("version"), reader.entry
    again = Reader(plan, version)
    if not reader.left:
        return again, (Event(Kind.BEGUN, reader=name),)
    step, following = reader.left[0], reader._replace(left=reader.left[1:])
    if step in without:
        return following, ()
    rejected = Reader(), (Event(Kind.SEEN, WRONG, name),)
    match step:
        case "read record":
            return following._replace(entry=state.at("record", reader.version % 2)), ()
        case "record is checked" | "pin is checked":
            return (following if version == reader.version else again), ()
        case "pin":
            return following._replace(is_pinned=True), ()
        case _ if entry is None:
            return rejected
        case _ if not state.at("name", entry.directory):
            # Without a pin, the directory of a version that was replaced may be gone.
            return rejected if version == reader.version or reader.is_pinned else (again, ())
        case "resolve":
            published = state.published(entry.directory)
            number = resolve(published, entry.token)
            return (following._replace(rows=published[number - 1].rows), ()) if number else rejected
    rows = (state.at("data", entry.directory) or ())[: entry.token]
    is_right = reader.rows == rows and state.expected[entry.version : entry.version + 1] == (rows,)
    return Reader(), (Event(Kind.SEEN, entry.version if is_right else WRONG, name),)


def _cut(state: State) -> Iterator[Following]:
    """Yield each state that a power cut may leave, with what a reader then sees."""
    for values in product(*(sorted(cell.disk, key=repr) for cell in state.cells.values())):
        cells = {key: Cell(value, frozenset([value])) for key, value in zip(state.cells, values, strict=True)}
        left = state._replace(cells=_without_lost(cells), writer=None, readers=(Reader(),) * len(state.readers))
        reader, seen = Reader(), [Event(Kind.POWER_CUT)]
        while seen[-1].kind is not Kind.SEEN:
            reader, events = _read(left, reader, "", READ)
            seen += events
        expected = left.expected[: left.at("version") + 1]
        yield left._replace(expected=expected, power_cuts=state.power_cuts - 1), "the power is cut", tuple(seen)


def _without_lost(cells: dict[Key, Cell]) -> dict[Key, Cell]:
    """Forget directories that cannot come back."""
    lost = {key[1] for key, cell in cells.items() if key[0] == "name" and True not in cell.disk}
    return {key: cell for key, cell in cells.items() if key[0] in ("version", "record") or key[1] not in lost}
