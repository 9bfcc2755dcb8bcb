"""Small writers and readers whose outcomes are known under each memory model: controls of what a load may return."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import NamedTuple

from tornproof.harness.simulator.filesystem.intercept import Call, CallKind
from tornproof.harness.simulator.memory_model.memory_views import MemoryModel, StoreHistory, View

PATH, WORD_BYTES = "file", 8
X, Y = 0, 8
"""Where two words are."""
FENCE, LOAD_FENCE = Call(kind=CallKind.STORE_FENCE, path=""), -1
SC, TSO, WEAK = MemoryModel
ORDERED = frozenset({(0, 0), (0, 1), (1, 1)})
BACKWARD = frozenset({(1, 0)})


class Litmus(NamedTuple):
    """Stores and fences of a writer, the words that a reader loads one after the other, and what it may find."""

    title: str
    calls: Sequence[Call]
    loads: Sequence[int]
    found: dict[MemoryModel, frozenset[tuple[int, ...]]]


def _store(offset_bytes: int, value: int) -> Call:
    content = value.to_bytes(WORD_BYTES, "little")
    return Call(kind=CallKind.STORE, path=PATH, offset_bytes=offset_bytes, size_bytes=len(content), content=content)


def _same(found: frozenset[tuple[int, ...]]) -> dict[MemoryModel, frozenset[tuple[int, ...]]]:
    return dict.fromkeys(MemoryModel, found)


CASES = (
    Litmus(
        "a word that is stored four times may be loaded at any time",
        tuple(_store(X, value) for value in range(1, 5)),
        (X,),
        _same(frozenset((value,) for value in range(5))),
    ),
    Litmus(
        "what a word holds never goes back",
        tuple(_store(X, value) for value in range(1, 4)),
        (X, X),
        _same(frozenset((one, other) for other in range(4) for one in range(other + 1))),
    ),
    Litmus("a message behind both fences", (_store(X, 1), FENCE, _store(Y, 1)), (Y, LOAD_FENCE, X), _same(ORDERED)),
    Litmus(
        "a message without a store fence",
        (_store(X, 1), _store(Y, 1)),
        (Y, LOAD_FENCE, X),
        {SC: ORDERED, TSO: ORDERED, WEAK: ORDERED | BACKWARD},
    ),
    Litmus(
        "a message without a load fence",
        (_store(X, 1), FENCE, _store(Y, 1)),
        (Y, X),
        {SC: ORDERED, TSO: ORDERED, WEAK: ORDERED | BACKWARD},
    ),
)


def failed_controls() -> Iterator[str]:
    """Let each reader load beside its writer under each model, and describe where it finds something else."""
    for case in CASES:
        calls = ((call, 1) for call in case.calls)
        history = StoreHistory.of(bytes(Y + WORD_BYTES), calls, PATH, system_calls_are_fences=False)
        for model in MemoryModel:
            if {*_found(history, model, case.loads, View())} != case.found[model]:
                yield f"under {model} a reader does not find what it may find: {case.title}"


def _found(history: StoreHistory, model: MemoryModel, loads: Sequence[int], view: View) -> Iterator[tuple[int, ...]]:
    if not loads:
        yield ()
        return
    first, *rest = loads
    if first == LOAD_FENCE:
        yield from _found(history, model, rest, view.fenced())
        return
    for loaded in history.loads(model, view, first, WORD_BYTES):
        for others in _found(history, model, rest, loaded.view):
            yield int.from_bytes(loaded.content, "little"), *others
