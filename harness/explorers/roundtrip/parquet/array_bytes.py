"""Whether arrays are stored as QuestDB stores them, and what is stored is read as the arrays that it says.

The bytes are made here by docs/format.md: a length of 4 bytes for each dimension, zeros up to 8 bytes, and the doubles.
"""

from __future__ import annotations

import functools
import itertools
import struct
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial
from typing import Any

import pyarrow as pa

from tornproof.harness.common.patch import Controls, not_noticed, original_of, replaced
from tornproof.impl.errors import CorruptError, RowsRejectedError, UnsupportedError
from tornproof.impl.types.arrow import list_type
from tornproof.impl.types.raw_arrays import lists_of, raw_of

PROPERTY = "arrays are stored as their lengths and elements, and what is stored is read as such arrays"
FILE, FIELD, OFFSET_BYTES, COLUMN = "data.parquet", "arrays", 4711, "values"
ARRAYS = "tornproof.impl.types.raw_arrays"
LIMIT, COUNTS = f"{ARRAYS}:LIST_COUNT_MAX", f"{ARRAYS}:_list_counts"
BYTE_LIMIT = f"{ARRAYS}:BINARY_MAX_BYTES"
SMALL_LIMIT = 9
DIMENSIONS_MAX = 32


@dataclass(frozen=True, slots=True, kw_only=True)
class Arrays:
    """Arrays of a number of dimensions, as lists and as they are stored; with an error only one of both is given."""

    kind: str
    name: str
    dimensions: int
    lists: tuple[Any, ...] = ()
    stored: tuple[bytes | None, ...] = ()
    error: type[Exception] | None = None
    words: str = ""
    list_limit: int | None = None
    byte_limit: int | None = None


@functools.cache
def array_bytes() -> tuple[Arrays, ...]:
    """Return all arrays, always in the same order."""
    return (*_sound(), *_limits(), *_corrupt(), *_ragged())


def problem_of(case: Arrays) -> str | None:
    """Say what is wrong with how arrays are stored or read, alone and between others; None if nothing is."""
    limit = original_of(LIMIT) if case.list_limit is None else case.list_limit
    byte_limit = original_of(BYTE_LIMIT) if case.byte_limit is None else case.byte_limit
    with replaced(LIMIT, limit), replaced(BYTE_LIMIT, byte_limit):
        return _problem(case) if case.error is None else _problem_of_error(case, case.error)


def _problem(case: Arrays) -> str | None:
    nothing = (None,) * 2
    for before, behind in itertools.product((0, 1), repeat=2):
        lists = (*nothing * before, *case.lists, *nothing * behind)
        stored = pa.array((*nothing * before, *case.stored, *nothing * behind), pa.binary())
        made = raw_of(pa.array(lists, list_type(case.dimensions)), case.dimensions, column=COLUMN)
        if not made.equals(stored):
            return f"they are stored as {made.to_pylist()}, and should be as {stored.to_pylist()}"
        # A part of an array has other offsets.
        for part in range(len(stored) + 1):
            found = _read(stored[part:], case.dimensions)
            if found.type != list_type(case.dimensions) or found.to_pylist() != list(lists[part:]):
                return (
                    f"from the one at {part} on they are read as {found.to_pylist()}, and should be as {lists[part:]}"
                )
    return None


def failed_controls() -> Iterator[str]:
    """Yield what is not noticed of arrays whose lengths are not looked at, or stored without filling."""
    nest, read = (original_of(f"{ARRAYS}:{name}") for name in ("_nest", "_lengths_and_elements"))
    controls: Controls = (
        ("there is nothing between lengths and elements", f"{ARRAYS}:_header_bytes", lambda dimensions: dimensions * 4),
        ("lengths are backwards", f"{ARRAYS}:_lengths_and_elements", partial(_backwards, read), "they are stored as"),
        ("elements are backwards", f"{ARRAYS}:_nest", lambda found, *of: nest(found[::-1], *of), "they are read as"),
        ("errors have no place", f"{ARRAYS}:CorruptError", _without_place, "it is rejected with"),
    )
    # The number of elements is the same.
    others = partial(_counts_of_others, original_of(COUNTS))
    counts: Controls = (("lengths are those of other dimensions", COUNTS, others, "it is taken for"),)
    yield from not_noticed(controls, problem_of, array_bytes())
    yield from not_noticed(counts, problem_of, tuple(_limits()))


def _backwards(read: Callable[..., Any], *of: Any) -> Any:
    lengths, elements = read(*of)
    return lengths[:, ::-1], elements


def _without_place(**of: Any) -> CorruptError:
    return CorruptError(**of | {"offset_bytes": None})


def _counts_of_others(counts_of: Callable[[Any], Any], lengths: Any) -> Any:
    return counts_of(lengths[:, ::-1])


def _read(stored: pa.Array, dimensions: int) -> pa.Array:
    return lists_of(stored, dimensions, file=FILE, field=FIELD, offset_bytes=OFFSET_BYTES)


def _problem_of_error(case: Arrays, wanted: type[Exception]) -> str | None:
    try:
        if case.stored:
            found = _read(pa.array(case.stored, pa.binary()), case.dimensions)
        else:
            found = raw_of(pa.array(case.lists, list_type(case.dimensions)), case.dimensions, column=COLUMN)
    except wanted as error:
        place = f"{FILE}: {FIELD} at byte {OFFSET_BYTES}" if case.stored else f"column {COLUMN!r}"
        return None if place in str(error) and case.words in str(error) else f"it is rejected with {error}"
    return f"it is taken for {found.slice(0, 3).to_pylist()}"


def stored_of(shape: tuple[int, ...], elements: list[float]) -> bytes:
    """Return an array of a shape as it is stored."""
    lengths = struct.pack(f"<{len(shape)}I", *shape)
    return lengths + bytes(-len(lengths) % 8) + struct.pack(f"<{len(elements)}d", *elements)


def _nested(shape: tuple[int, ...], elements: Iterator[float]) -> Any:
    if not shape:
        return next(elements)
    return [_nested(shape[1:], elements) for _ in range(shape[0])]


def _both(shape: tuple[int, ...], first: int) -> tuple[Any, bytes]:
    count = functools.reduce(lambda product, length: product * length, shape, 1)
    elements = [(first + number) / 4 for number in range(count)]
    return _nested(shape, iter(elements)), stored_of(shape, elements)


def _sound() -> Iterator[Arrays]:
    for dimensions in (1, 2, 3, 4, 5, DIMENSIONS_MAX):
        lengths = (0, 1, 2, 3) if dimensions < 4 else (1, 2) if dimensions < DIMENSIONS_MAX else (1,)
        shapes = list(itertools.product(lengths, repeat=dimensions))
        arrays = [_both(shape, number) for number, shape in enumerate(shapes)]
        # What is below a list of none is not in the lists.
        kept = [(shape, each) for shape, each in zip(shapes, arrays, strict=True) if _is_told(shape)]
        for shape, (lists, stored) in kept:
            yield _sound_case(dimensions, f"one of {shape}", (lists,), (stored,))
        many = [each for _, each in kept]
        yield _sound_case(dimensions, "all shapes", tuple(one for one, _ in many), tuple(one for _, one in many))
        spread = [pair for each in many for pair in (each, (None, None))]
        yield _sound_case(dimensions, "with nulls", tuple(one for one, _ in spread), tuple(one for _, one in spread))
        yield _sound_case(dimensions, "nulls", (None,) * 3, (None,) * 3)
        yield _sound_case(dimensions, "nothing", (), ())


def _sound_case(dimensions: int, name: str, lists: tuple[Any, ...], stored: tuple[bytes | None, ...]) -> Arrays:
    words = f"{dimensions} dimensions, {name}"
    return Arrays(kind="sound", name=words, dimensions=dimensions, lists=lists, stored=stored)


def _is_told(shape: tuple[int, ...]) -> bool:
    """Return whether lists say the lengths of all dimensions: there is nothing behind one of none."""
    return 0 not in shape or not any(shape[shape.index(0) :])


def _corrupt() -> Iterator[Arrays]:
    one, two = stored_of((2,), [1.0, 2.0]), stored_of((2, 1), [1.0, 2.0])
    for dimensions, name, stored, words in (
        (1, "no bytes", (b"",), "arrays of at least 8 bytes, found one of 0"),
        (1, "seven bytes behind others", (one, None, one[:7]), "arrays of at least 8 bytes, found one of 7"),
        (3, "a length too few", (one[:8] + one,), "16 bytes for an array of 2 x 0 x 2, found 32"),
        (1, "bytes between", (one, one[:4] + b"\0\1\0\0" + one[8:]), "zeros between an array's lengths"),
        (
            3,
            "bytes at the end of what is between",
            (stored_of((1, 1, 1), [1.0])[:15] + b"\1" + bytes(8),),
            "zeros between",
        ),
        (1, "an element too few", (one, one[:-8]), "24 bytes for an array of 2, found 16"),
        (1, "an element too many", (one + bytes(8), one), "24 bytes for an array of 2, found 32"),
        (1, "half an element more", (one + bytes(4), one), "24 bytes for an array of 2, found 28"),
        (2, "another length", (two, b"\3" + two[1:]), "32 bytes for an array of 3 x 1, found 24"),
        (2, "most elements", (struct.pack("<2I", (1 << 32) - 1, (1 << 32) - 1),), "bytes for an array of"),
        (2, "none in many", (struct.pack("<2I", (1 << 22) + 1, 0),), "lists inside of arrays"),
    ):
        error = UnsupportedError if name == "none in many" else CorruptError
        yield Arrays(kind="corrupt", name=name, dimensions=dimensions, stored=stored, error=error, words=words)


def _limits() -> Iterator[Arrays]:
    for count in (SMALL_LIMIT - 1, SMALL_LIMIT):
        words = f"at most {SMALL_LIMIT} lists inside of arrays, found {count + 1}"
        yield Arrays(
            kind="limits",
            name=f"{count + 1} lists where {SMALL_LIMIT} may be",
            dimensions=2,
            lists=([[]] * count, [[]]),
            stored=(struct.pack("<2I", count, 0), struct.pack("<2I", 1, 0)),
            error=UnsupportedError if count == SMALL_LIMIT else None,
            words=words,
            list_limit=SMALL_LIMIT,
        )
    for shape in ((SMALL_LIMIT + 1, 0, 0), (3, 4, 0), (1, SMALL_LIMIT, 0)):
        yield Arrays(
            kind="limits",
            name=f"lists of {shape} where {SMALL_LIMIT} may be",
            dimensions=3,
            stored=(stored_of(shape, []),),
            error=UnsupportedError,
            words=f"at most {SMALL_LIMIT} lists inside of arrays",
            list_limit=SMALL_LIMIT,
        )
    lists = ([1.0, 2.0], None, [3.0])
    stored = (stored_of((2,), [1.0, 2.0]), None, stored_of((1,), [3.0]))
    size_bytes = sum(len(each) for each in stored if each)
    for limit in (size_bytes - 1, size_bytes):
        is_enough = limit == size_bytes
        yield Arrays(
            kind="limits",
            name=f"{size_bytes} bytes where {limit} may be",
            dimensions=1,
            lists=lists,
            stored=stored if is_enough else (),
            error=None if is_enough else RowsRejectedError,
            words=f"at most {limit} bytes of arrays, found {size_bytes}",
            byte_limit=limit,
        )


def _ragged() -> Iterator[Arrays]:
    for dimensions, name, lists, words in (
        (2, "lists of 1 and 2", (None, [[1.0], [2.0, 3.0]]), "row 1: expected lists of 1 everywhere in dimension 2"),
        (2, "lists of 2 and 1", ([[1.0]], [[1.0, 2.0], [3.0]]), "row 1: expected lists of 2 everywhere in dimension 2"),
        (3, "inner lists", ([[[1.0]], [[1.0, 2.0]]],), "row 0: expected lists of 1 everywhere in dimension 3"),
        (
            3,
            "a list of none",
            ([[[1.0]], []],),
            "row 0: expected lists of 1 everywhere in dimension 2 of the array, found one of 0",
        ),
        (
            2,
            "a list that is none",
            (None, [[1.0]], [[1.0], None]),
            "row 2: expected no null inside of an array, found a null",
        ),
    ):
        yield Arrays(kind="ragged", name=name, dimensions=dimensions, lists=lists, error=RowsRejectedError, words=words)
