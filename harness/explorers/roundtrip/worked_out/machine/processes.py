"""Errors that go from one process to another, work that is done in order, and work in threads."""

from __future__ import annotations

import functools
import itertools
import pickle
import threading
import time
from collections.abc import Callable, Iterator
from typing import Any

from tornproof.harness.explorers.roundtrip.worked_out.question import Question, ask
from tornproof.impl.errors import (
    BusyError,
    CorruptError,
    FileMissingError,
    FileVanishedError,
    NotATableError,
    RowsRejectedError,
    StorageError,
    UnsupportedError,
)
from tornproof.impl.migrate.rejections import Cause, RejectedCorruptError, RejectionError, error_of
from tornproof.impl.pm.chain import TokenMissingError
from tornproof.impl.read.decoding import SYNCHRONOUS, Decoding, InOrder, by_threads

PIECE_COUNT = 500
"""More than any machine has threads."""
LONG_SECONDS = 0.05
"""Of a piece of work that takes longer than to leave a block."""
WORK_BYTES, WORK_BYTES_MAX = (1, 20 << 10, 12 << 20, 33 << 20), 32 << 20


def errors() -> Iterator[Question]:
    """Yield errors as another process gets them."""
    place = ("_pm", "NUM_ROWS", 8, 1, 2)
    for error, bases in (
        (CorruptError(*place), "ProblemError TornproofError"),
        (UnsupportedError(*place), "ProblemError TornproofError"),
        (RejectedCorruptError(*place), "CorruptError ProblemError TornproofError"),
        (error_of(RejectionError(Cause.JSON, 1, 2), file="_pm"), "CorruptError ProblemError TornproofError"),
        (error_of(RejectionError(Cause.DEPTH, 1, 2), file="_pm"), "UnsupportedError ProblemError TornproofError"),
        (TokenMissingError(*place), "CorruptError ProblemError TornproofError"),
        (StorageError("_txn", "open", "no room"), "TornproofError"),
        (FileMissingError("_txn", "open", "no file"), "StorageError TornproofError"),
        (FileVanishedError("_pm"), "FileMissingError StorageError TornproofError"),
        (FileVanishedError("_pm", "list", "purged"), "FileMissingError StorageError TornproofError"),
        (RowsRejectedError.at("column", 3, 1, 2), "TornproofError"),
        (BusyError("a writer holds it"), "TornproofError"),
        (NotATableError("no table"), "TornproofError"),
    ):
        expected = [type(error).__name__, *bases.split()], str(error), vars(error)
        yield ask("errors", f"{type(error).__name__} in another process", expected, _unpickled, error)


def _unpickled(error: Exception) -> tuple[list[str], str, dict[str, Any]]:
    found = pickle.loads(pickle.dumps(error))
    names = [each.__name__ for each in type(found).__mro__]
    return names[: names.index("Exception")], str(found), vars(found)


def work() -> Iterator[Question]:
    """Yield pieces of work of these sizes, so many of which may be in progress, and not more bytes than are allowed."""
    small, usual, large, too_large = WORK_BYTES
    sequences = [(small,) * 5, (usual,) * 9, (large,) * 6, (too_large,) * 3, (usual, too_large, small, large) * 3]
    sequences += [(small, WORK_BYTES_MAX - small + more) for more in (0, 1)]
    sequences += itertools.product(WORK_BYTES, repeat=3)
    for ahead, sizes in itertools.product((0, 1, 4), sequences):
        yield ask("work", f"work on {sizes}, {ahead} ahead", _work_in_order(ahead, sizes), _work_done, ahead, sizes)


def _work_in_order(ahead: int, sizes: tuple[int, ...]) -> list[list[int]]:
    """Return which results there are after each piece was begun, and at the end."""
    found, waiting = list[list[int]](), list[int]()
    for number in range(len(sizes)):
        waiting.append(number)
        given = list[int]()
        while len(waiting) > ahead or sum(sizes[each] for each in waiting) > WORK_BYTES_MAX:
            given.append(waiting.pop(0))
        found.append(given)
    return [*found, waiting]


def _work_done(ahead: int, sizes: tuple[int, ...]) -> list[list[int]]:
    work = InOrder[int](Decoding(start=SYNCHRONOUS.start, ahead_count=ahead))
    found = []
    for number, size_bytes in enumerate(sizes):
        work.begin(functools.partial(int, number), size_bytes)
        found.append([*work.due()])
    return [*found, [*work.rest()]]


def threads() -> Iterator[Question]:
    """Yield what pieces of work in threads return, while the work of another reader in the same threads ends."""
    numbers = [*range(PIECE_COUNT)]
    yield Question("threads", "work beside other work that ends", _beside_others, numbers)
    yield Question("threads", "work beside a piece that fails", _beside_a_failure, ["ValueError", *numbers[1:]])
    yield Question("threads", "whether work that has begun is done when nobody asks for it any more", _is_done, True)


def _is_done() -> bool:
    begun, done = threading.Event(), threading.Event()

    def work() -> None:
        begun.set()
        time.sleep(LONG_SECONDS)
        done.set()

    with by_threads() as decoding:
        decoding.start(work)
        begun.wait()
    return done.is_set()


def _beside_others() -> list[int]:
    gate = threading.Event()
    with by_threads() as decoding:
        results = [decoding.start(functools.partial(_when_open, gate, number)) for number in range(PIECE_COUNT)]
        with by_threads() as other:
            other.start(gate.wait)
            # From here on threads take what waits, most of which is not begun when the other work ends.
            gate.set()
        return [result() for result in results]


def _when_open(gate: threading.Event, number: int) -> int:
    gate.wait()
    return number


def _beside_a_failure() -> list[int | str]:
    with by_threads() as decoding:
        texts = ["no number", *map(str, range(1, PIECE_COUNT))]
        return [_found(result) for result in [decoding.start(functools.partial(int, text)) for text in texts]]


def _found(result: Callable[[], int]) -> int | str:
    try:
        return result()
    except ValueError as error:
        return type(error).__name__
