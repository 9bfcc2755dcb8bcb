"""What a load of a word may return while another process stores: one writer's stores, and a reader's view.

A view model (docs/memory.md): every store carries how many stores preceded the writer's last store fence; a load
returns any store to its location that the reader's view does not rule out; a load fence raises the view to the most
that was carried by what was loaded so far. Under total store order every store carries all before it and every load is
a load fence; under sequential consistency a load returns the stores that are the latest at one point in time.

Locations are 4 bytes wide, because words of 4 and 8 bytes overlap. A load of 8 bytes is one access all the same: if it
sees one half of a store of 8 bytes it sees the other, and with a store it sees at least what that store carries.
"""

from __future__ import annotations

import enum
import itertools
from bisect import bisect_right
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple

from tornproof.harness.simulator.filesystem.intercept import Call, CallKind

LOCATION_BYTES = 4
SIZE_OFFSET_BYTES = -8
"""The size of the file is modelled as a word in front of it."""
SIZE_BYTES = 8
_MAPPED = frozenset({CallKind.LOAD, CallKind.STORE, CallKind.READ_MAPPED, CallKind.VIEW, CallKind.END_VIEW})
_NO_SYSTEM_CALLS = _MAPPED | {CallKind.LOAD_FENCE, CallKind.STORE_FENCE, CallKind.CLOCK}


class MemoryModel(enum.StrEnum):
    """What a processor guarantees; each guarantees less than the one before."""

    SEQUENTIAL = "sequential consistency"
    TOTAL_STORE_ORDER = "total store order"
    WEAK = "weak memory"


class NotMappedError(Exception):
    """A file is written by a system call and not through its mapping, about which the model says nothing."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Store:
    """One store of the writer for `commit`; `carried` is the number of stores before its last fence."""

    number: int
    offset_bytes: int
    content: bytes
    carried: int
    commit: int

    @property
    def locations(self) -> range:
        """The locations that it covers."""
        return range(self.offset_bytes, self.offset_bytes + len(self.content), LOCATION_BYTES)


class View(NamedTuple):
    """What a reader has seen: all stores up to number `floor`, and at some locations a later one.

    `pending` is what the next load fence raises `floor` to.
    """

    floor: int = 0
    pending: int = 0
    newest: Mapping[int, int] = {}

    def fenced(self) -> View:
        """Return the view after a load fence."""
        return self._replace(floor=max(self.floor, self.pending))


class Loaded(NamedTuple):
    """One result that a load may have: the bytes, the number of the store at each location, the view after it."""

    offset_bytes: int
    content: bytes
    stores: tuple[int, ...]
    view: View


class StoreHistory:
    """The stores of one writer to one file, numbered from 1 on; 0 is the initial content."""

    def __init__(self, initial: bytes, stores: Sequence[Store]) -> None:
        """Take stores in program order."""
        self.stores = tuple(stores)
        self._initial = len(initial).to_bytes(SIZE_BYTES, "little") + initial
        self._numbers: dict[int, list[int]] = {}
        for store in stores:
            for location in store.locations:
                self._numbers.setdefault(location, [0]).append(store.number)

    @classmethod
    def of(
        cls, initial: bytes, calls: Iterable[tuple[Call, int]], path: str, *, system_calls_are_fences: bool
    ) -> StoreHistory:
        """Take the stores to the file at `path` from all calls of a writer, each with the commit that it is for.

        A new size is stored by a system call, which is ordered with everything around it. Raises NotMappedError.
        """
        stores: list[Store] = []
        fenced = 0
        for call, commit in calls:
            if call.path == path and call.kind in (CallKind.STORE, CallKind.TRUNCATE):
                is_size = call.kind is CallKind.TRUNCATE
                if is_size:
                    fenced = len(stores)
                store = Store(
                    number=len(stores) + 1,
                    offset_bytes=SIZE_OFFSET_BYTES if is_size else call.offset_bytes,
                    content=call.size_bytes.to_bytes(SIZE_BYTES, "little") if is_size else call.content,
                    carried=fenced,
                    commit=commit,
                )
                stores.append(store)
                if is_size:
                    fenced = len(stores)
            elif call.path == path and call.kind is CallKind.PWRITE:
                raise NotMappedError(f"{path} is written with pwrite and not through its mapping")
            if call.kind is CallKind.STORE_FENCE or (system_calls_are_fences and is_system_call(call)):
                fenced = len(stores)
        return cls(initial, stores)

    def latest(self, location: int, number: int) -> int:
        """Return the last store to a location among the first `number` stores."""
        numbers = self._numbers.get(location, _UNTOUCHED)
        return numbers[bisect_right(numbers, number) - 1]

    def loads(self, model: MemoryModel, view: View, offset_bytes: int, size_bytes: int) -> list[Loaded]:
        """Return what a load of an aligned word may return, each value with the oldest stores that give it.

        Older stores rule out less of what comes after, so whatever can follow newer ones can follow these.
        """
        locations = range(offset_bytes, offset_bytes + size_bytes, LOCATION_BYTES)
        if model is MemoryModel.SEQUENTIAL:
            return self._latest_at_each_time(view, locations)
        found: list[Loaded] = []
        for stores in self._choices(model, view, locations):
            content = self._content(locations, stores)
            is_needless = any(
                content == known.content and all(map(int.__le__, known.stores, stores)) for known in found
            )
            if not is_needless:
                found.append(Loaded(offset_bytes, content, stores, self._seen(model, view, locations, stores)))
        return found

    def _latest_at_each_time(self, view: View, locations: range) -> list[Loaded]:
        """Return the results of a load now and after each later store to these locations; `floor` is the time."""
        later = {
            number
            for location in locations
            for number in self._numbers.get(location, _UNTOUCHED)
            if number > view.floor
        }
        found: dict[bytes, Loaded] = {}
        for time in (view.floor, *sorted(later)):
            stores = tuple(self.latest(location, time) for location in locations)
            content = self._content(locations, stores)
            found.setdefault(content, Loaded(locations.start, content, stores, View(floor=time)))
        return list(found.values())

    def _choices(self, model: MemoryModel, view: View, locations: range) -> Iterator[tuple[int, ...]]:
        """Yield a store for each location, oldest first, as one access may see them together."""
        visible = [self._visible(location, max(view.floor, view.newest.get(location, 0))) for location in locations]
        for stores in itertools.product(*visible):
            seen = tuple(zip(locations, stores, strict=True))
            if all(
                other >= self.latest(beside, self._bound(model, number, location, beside))
                for location, number in seen
                for beside, other in seen
            ):
                yield stores

    def _visible(self, location: int, floor: int) -> list[int]:
        numbers = self._numbers.get(location, _UNTOUCHED)
        return numbers[bisect_right(numbers, floor) - 1 :]

    def _bound(self, model: MemoryModel, number: int, location: int, beside: int) -> int:
        """Return up to which store an access that sees store `number` at `location` sees everything at `beside`."""
        if number == 0:
            return 0
        numbers = self._numbers[location]
        until = numbers[1 : bisect_right(numbers, number)]
        common = next((each for each in reversed(until) if beside in self.stores[each - 1].locations), 0)
        return max(common, self._carried(model, self.stores[number - 1]))

    def _carried(self, model: MemoryModel, store: Store) -> int:
        return store.number if model is MemoryModel.TOTAL_STORE_ORDER else store.carried

    def _content(self, locations: range, stores: tuple[int, ...]) -> bytes:
        return b"".join(map(self._word, locations, stores))

    def _word(self, location: int, number: int) -> bytes:
        if number == 0:
            start = location - SIZE_OFFSET_BYTES
            return self._initial[start : start + LOCATION_BYTES].ljust(LOCATION_BYTES, b"\0")
        store = self.stores[number - 1]
        return store.content[location - store.offset_bytes :][:LOCATION_BYTES]

    def _seen(self, model: MemoryModel, view: View, locations: range, stores: tuple[int, ...]) -> View:
        """Return the view after a load: later loads of a location never return an older store."""
        pending = max(view.pending, *(self._carried(model, self.stores[number - 1]) for number in stores if number), 0)
        floor = max(view.floor, pending) if model is MemoryModel.TOTAL_STORE_ORDER else view.floor
        newer = {location: number for location, number in zip(locations, stores, strict=True) if number > floor}
        return View(floor, pending, {**view.newest, **newer} if newer else view.newest)


def is_system_call(call: Call) -> bool:
    """Say whether a call enters the operating system, which orders what precedes it before what follows."""
    return call.kind not in _NO_SYSTEM_CALLS


_UNTOUCHED = [0]
