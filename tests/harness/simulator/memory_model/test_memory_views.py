"""The view model on the well-known litmus tests of memory models."""

from collections.abc import Callable, Iterable, Sequence
from typing import Any

import pytest

from tornproof.harness.simulator.filesystem.intercept import Call, CallKind
from tornproof.harness.simulator.memory_model import litmus
from tornproof.harness.simulator.memory_model.memory_views import (
    SIZE_BYTES,
    SIZE_OFFSET_BYTES,
    Loaded,
    MemoryModel,
    NotMappedError,
    StoreHistory,
    View,
)

SC, TSO, WEAK = MemoryModel
X, Y = 0, 8
FENCE = Call(kind=CallKind.STORE_FENCE, path="")
MSYNC = Call(kind=CallKind.MSYNC, path="file")
LOAD_FENCE = "load fence"
START = View()


def store(offset_bytes: int, value: int, size_bytes: int = 8, path: str = "file") -> Call:
    content = value.to_bytes(size_bytes, "little")
    return Call(kind=CallKind.STORE, path=path, offset_bytes=offset_bytes, size_bytes=size_bytes, content=content)


def history(*calls: Call, initial: bytes = bytes(16), fences: bool = False) -> StoreHistory:
    return StoreHistory.of(initial, ((call, 1) for call in calls), "file", system_calls_are_fences=fences)


def outcomes(stores: StoreHistory, model: MemoryModel, body: Sequence[Any], view: View = START) -> set[Any]:
    """All sequences of values that a reader's loads of (offset, size) can give."""
    if not body:
        return {()}
    first, *rest = body
    if first == LOAD_FENCE:
        return outcomes(stores, model, rest, view.fenced())
    found = set()
    for loaded in stores.loads(model, view, *first):
        value = int.from_bytes(loaded.content, "little")
        found |= {(value, *after) for after in outcomes(stores, model, rest, loaded.view)}
    return found


MESSAGE = [(Y, 8), LOAD_FENCE, (X, 8)]
ORDERED = {(0, 0), (0, 1), (1, 1)}


@pytest.mark.parametrize("model", MemoryModel)
def test_a_message_behind_both_fences_arrives_whole(model: MemoryModel) -> None:
    assert outcomes(history(store(X, 1), FENCE, store(Y, 1)), model, MESSAGE) == ORDERED


@pytest.mark.parametrize(("model", "expected"), [(SC, ORDERED), (TSO, ORDERED), (WEAK, ORDERED | {(1, 0)})])
def test_without_the_store_fence_only_weak_memory_shows_the_flag_before_the_message(
    model: MemoryModel, expected: set[tuple[int, ...]]
) -> None:
    assert outcomes(history(store(X, 1), store(Y, 1)), model, MESSAGE) == expected


@pytest.mark.parametrize(("model", "expected"), [(SC, ORDERED), (TSO, ORDERED), (WEAK, ORDERED | {(1, 0)})])
def test_without_the_load_fence_only_weak_memory_shows_the_flag_before_the_message(
    model: MemoryModel, expected: set[tuple[int, ...]]
) -> None:
    assert outcomes(history(store(X, 1), FENCE, store(Y, 1)), model, [(Y, 8), (X, 8)]) == expected


def test_a_fence_orders_only_what_stands_before_it() -> None:
    late = history(FENCE, store(X, 1), store(Y, 1), FENCE)
    assert (1, 0) in outcomes(late, WEAK, MESSAGE)


@pytest.mark.parametrize(("fences", "is_possible"), [(True, False), (False, True)])
def test_a_system_call_is_a_fence_where_that_is_asked_for(fences: bool, is_possible: bool) -> None:
    stores = history(store(X, 1), MSYNC, store(Y, 1), fences=fences)
    assert ((1, 0) in outcomes(stores, WEAK, MESSAGE)) == is_possible


@pytest.mark.parametrize("model", MemoryModel)
def test_one_location_never_goes_back(model: MemoryModel) -> None:
    stores = history(store(X, 1), store(X, 2))
    found = outcomes(stores, model, [(X, 8), (X, 8)])
    assert found == {(0, 0), (0, 1), (0, 2), (1, 1), (1, 2), (2, 2)}


def test_total_store_order_lets_no_load_go_behind_what_another_saw() -> None:
    stores = history(store(X, 1), store(Y, 1), store(X, 2))
    body = [(X, 8), (Y, 8), (X, 8)]
    assert outcomes(stores, TSO, body) == outcomes(stores, SC, body)
    assert outcomes(stores, WEAK, body) - outcomes(stores, TSO, body) == {(0, 1, 0), (2, 0, 2)}


def test_a_wide_store_is_seen_whole_by_a_wide_load_and_in_halves_by_narrow_ones() -> None:
    stores = history(store(X, 1 << 32 | 1))
    assert outcomes(stores, WEAK, [(X, 8)]) == {(0,), (1 << 32 | 1,)}
    assert outcomes(stores, WEAK, [(X, 4), (X + 4, 4)]) == {(0, 0), (0, 1), (1, 0), (1, 1)}
    assert outcomes(stores, TSO, [(X, 4), (X + 4, 4)]) == {(0, 0), (0, 1), (1, 1)}


@pytest.mark.parametrize(
    ("model", "fence", "expected"),
    [
        (SC, (), {0, 1, 1 << 32 | 1}),
        (TSO, (), {0, 1, 1 << 32 | 1}),
        (WEAK, (), {0, 1, 1 << 32, 1 << 32 | 1}),
        (WEAK, (FENCE,), {0, 1, 1 << 32 | 1}),
    ],
)
def test_a_wide_load_of_two_narrow_stores_sees_them_in_their_order(
    model: MemoryModel, fence: tuple[Call, ...], expected: set[int]
) -> None:
    stores = history(store(X, 1, 4), *fence, store(X + 4, 1, 4))
    assert {value for (value,) in outcomes(stores, model, [(X, 8)])} == expected


def test_a_narrow_store_over_a_wide_one_takes_its_half_alone() -> None:
    stores = history(store(X, 1 << 32 | 1), store(X, 2, 4))
    assert {value for (value,) in outcomes(stores, WEAK, [(X, 8)])} == {0, 1 << 32 | 1, 1 << 32 | 2}


def test_a_store_of_an_equal_value_is_no_other_answer_and_rules_nothing_out() -> None:
    stores = history(store(Y, 1), FENCE, store(X, 0))
    assert outcomes(stores, WEAK, [(X, 8), LOAD_FENCE, (Y, 8)]) == {(0, 0), (0, 1)}


@pytest.mark.parametrize("model", MemoryModel)
def test_a_new_size_is_a_word_that_stays_in_order(model: MemoryModel) -> None:
    truncate = Call(kind=CallKind.TRUNCATE, path="file", size_bytes=32)
    stores = history(store(X, 1), truncate, store(16, 7))
    body = [(16, 8), LOAD_FENCE, (SIZE_OFFSET_BYTES, SIZE_BYTES), LOAD_FENCE, (X, 8)]
    found = outcomes(stores, model, body)
    assert {(word, size) for word, size, _ in found} == {(0, 16), (0, 32), (7, 32)}
    assert {before for _, size, before in found if size == 32} == {1}


def test_other_files_are_others() -> None:
    assert history(store(X, 1, path="other")).stores == ()


def test_a_file_that_is_written_is_beyond_the_model() -> None:
    with pytest.raises(NotMappedError):
        history(Call(kind=CallKind.PWRITE, path="file", content=b"x", size_bytes=1))


def keep_order_without_store_fences(monkeypatch: pytest.MonkeyPatch) -> None:
    of = StoreHistory.of

    def fenced(initial: bytes, calls: Iterable[tuple[Call, int]], *arguments: Any, **options: Any) -> StoreHistory:
        return of(initial, (each for call in calls for each in (call, (FENCE, 1))), *arguments, **options)

    monkeypatch.setattr(StoreHistory, "of", fenced)


def keep_order_without_load_fences(monkeypatch: pytest.MonkeyPatch) -> None:
    loads = StoreHistory.loads

    def fenced(self: StoreHistory, model: MemoryModel, view: View, *of: int) -> list[Loaded]:
        return loads(self, model, view.fenced(), *of)

    monkeypatch.setattr(StoreHistory, "loads", fenced)


@pytest.mark.parametrize(
    ("blind", "missed"),
    [(keep_order_without_store_fences, "a store fence"), (keep_order_without_load_fences, "a load fence")],
)
def test_a_simulator_that_has_no_use_for_one_fence_fails_the_control_of_that_one(
    blind: Callable[[pytest.MonkeyPatch], None], missed: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert not [*litmus.failed_controls()]
    blind(monkeypatch)
    (said,) = litmus.failed_controls()
    assert said.startswith("under weak ") and said.endswith(f": a message without {missed}")
