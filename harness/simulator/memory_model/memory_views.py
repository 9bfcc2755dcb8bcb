"""What a load of a mapped word may return while another process stores: one writer's stores, and a reader's view.

A view model (docs/how-it-works.md): every store carries how many stores preceded the writer's last store fence; a
load returns any store of its location that the reader's view does not rule out; a load fence raises the view to the
most that was carried by what was loaded so far. Under total store order every store carries all before it and every
load is a load fence; under sequential consistency a load returns the latest store of one moment.

Locations are 4 bytes wide, because words of 4 and 8 bytes overlap. A word of 8 is one access all the same: what it
sees at one half of a store of 8 it sees at the other, and what a store carries is not missing beside it.
"""

from __future__ import annotations

import enum
import itertools
from bisect import bisect_right
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple

from tornproof.harness.simulator.filesystem.intercept import Call, CallKind

POSITION_BYTES = 4
SIZE_OFFSET_BYTES = -8
"""The file's size is a word of its own, in front of the file."""
SIZE_BYTES = 8
_MAPPED = frozenset({CallKind.LOAD, CallKind.STORE, CallKind.READ_MAPPED, CallKind.VIEW, CallKind.END_VIEW})
_NO_SYSTEM_CALLS = _MAPPED | {CallKind.LOAD_FENCE, CallKind.STORE_FENCE, CallKind.CLOCK}


class MemoryModel(enum.StrEnum):
    """What a processor promises; each promises less than the one before."""

    SEQUENTIAL = "sequential consistency"
    TOTAL_STORE_ORDER = "total store order"
    WEAK = "weak memory"


class NotMappedError(Exception):
    """A file is changed or read by something that is no word of a mapping: the model says nothing about it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Store:
    """One store of the writer; `carried` is the number of stores before its last fence, `commit` what it is for."""

    number: int
    offset_bytes: int
    content: bytes
    carried: int
    commit: int

    @property
    def positions(self) -> range:
        """The locations that it covers."""
        return range(self.offset_bytes, self.offset_bytes + len(self.content), POSITION_BYTES)


class View(NamedTuple):
    """What a reader has seen: all stores up to `floor`, and of some locations a later one.

    `pending` is what the next load fence raises `floor` to.
    """

    floor: int = 0
    pending: int = 0
    newest: Mapping[int, int] = {}

    def fenced(self) -> View:
        """Return the view behind a load fence."""
        return self._replace(floor=max(self.floor, self.pending))


class Loaded(NamedTuple):
    """One thing that a load may return: the bytes, the number of the store at each location, the view after it."""

    content: bytes
    stores: tuple[int, ...]
    view: View


class StoreHistory:
    """The stores of one writer to one file, numbered from 1 on; 0 is what was there before."""

    def __init__(self, initial: bytes, stores: Sequence[Store]) -> None:
        """Take stores in the order of the program."""
        self.stores = tuple(stores)
        self._initial = len(initial).to_bytes(SIZE_BYTES, "little") + initial
        self._numbers: dict[int, list[int]] = {}
        for store in stores:
            for position in store.positions:
                self._numbers.setdefault(position, [0]).append(store.number)

    @classmethod
    def of(
        cls, initial: bytes, calls: Iterable[tuple[Call, int]], path: str, *, system_calls_are_fences: bool
    ) -> StoreHistory:
        """Take the stores to the file at `path` from all calls of a writer, each with the commit that it is for.

        A new size is stored by the system, which keeps it in order with everything around it. Raises NotMappedError.
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
                raise NotMappedError(f"{path} is written and not stored to")
            if call.kind is CallKind.STORE_FENCE or (system_calls_are_fences and is_system_call(call)):
                fenced = len(stores)
        return cls(initial, stores)

    def latest(self, position: int, number: int) -> int:
        """Return the last store to a location that is not later than a given one."""
        numbers = self._numbers.get(position, _UNTOUCHED)
        return numbers[bisect_right(numbers, number) - 1]

    def loads(self, model: MemoryModel, view: View, offset_bytes: int, size_bytes: int) -> list[Loaded]:
        """Return what a load of an aligned word may return, each value by the oldest stores that give it.

        Older stores rule out less of what comes after, so what can be seen with newer ones can be seen with these.
        """
        positions = range(offset_bytes, offset_bytes + size_bytes, POSITION_BYTES)
        if model is MemoryModel.SEQUENTIAL:
            return self._moments(view, positions)
        found: list[Loaded] = []
        for stores in self._choices(model, view, positions):
            content = self._content(positions, stores)
            is_needless = any(
                content == known.content and all(map(int.__le__, known.stores, stores)) for known in found
            )
            if not is_needless:
                found.append(Loaded(content, stores, self._seen(model, view, positions, stores)))
        return found

    def _moments(self, view: View, positions: range) -> list[Loaded]:
        """Let time pass before the load, for as long as something else is seen then; `floor` is the time."""
        later = {
            number
            for position in positions
            for number in self._numbers.get(position, _UNTOUCHED)
            if number > view.floor
        }
        found: dict[bytes, Loaded] = {}
        for moment in (view.floor, *sorted(later)):
            stores = tuple(self.latest(position, moment) for position in positions)
            content = self._content(positions, stores)
            found.setdefault(content, Loaded(content, stores, View(floor=moment)))
        return list(found.values())

    def _choices(self, model: MemoryModel, view: View, positions: range) -> Iterator[tuple[int, ...]]:
        """Yield a store for each location, oldest first, as one access may see them together."""
        visible = [self._visible(position, max(view.floor, view.newest.get(position, 0))) for position in positions]
        for stores in itertools.product(*visible):
            seen = tuple(zip(positions, stores, strict=True))
            if all(
                other >= self.latest(beside, self._bound(model, number, position, beside))
                for position, number in seen
                for beside, other in seen
            ):
                yield stores

    def _visible(self, position: int, floor: int) -> list[int]:
        numbers = self._numbers.get(position, _UNTOUCHED)
        return numbers[bisect_right(numbers, floor) - 1 :]

    def _bound(self, model: MemoryModel, number: int, position: int, beside: int) -> int:
        """Return up to which store all is seen at `beside` by the access that sees store `number` at `place`."""
        if number == 0:
            return 0
        numbers = self._numbers[position]
        until = numbers[1 : bisect_right(numbers, number)]
        common = next((each for each in reversed(until) if beside in self.stores[each - 1].positions), 0)
        return max(common, self._carried(model, self.stores[number - 1]))

    def _carried(self, model: MemoryModel, store: Store) -> int:
        return store.number if model is MemoryModel.TOTAL_STORE_ORDER else store.carried

    def _content(self, positions: range, stores: tuple[int, ...]) -> bytes:
        return b"".join(map(self._word, positions, stores))

    def _word(self, position: int, number: int) -> bytes:
        if number == 0:
            start = position - SIZE_OFFSET_BYTES
            return self._initial[start : start + POSITION_BYTES].ljust(POSITION_BYTES, b"\0")
        store = self.stores[number - 1]
        return store.content[position - store.offset_bytes :][:POSITION_BYTES]

    def _seen(self, model: MemoryModel, view: View, positions: range, stores: tuple[int, ...]) -> View:
        """Return the view after a load; the same location never goes back for the same reader."""
        pending = max(view.pending, *(self._carried(model, self.stores[number - 1]) for number in stores if number), 0)
        floor = max(view.floor, pending) if model is MemoryModel.TOTAL_STORE_ORDER else view.floor
        newer = {position: number for position, number in zip(positions, stores, strict=True) if number > floor}
        return View(floor, pending, {**view.newest, **newer} if newer else view.newest)


def is_system_call(call: Call) -> bool:
    """Say whether a call enters the operating system, and so orders everything on both sides of it."""
    return call.kind not in _NO_SYSTEM_CALLS


_UNTOUCHED = [0]
