"""Whether pages of packed vectors are read as other writers could make them: vectors of all sizes, any bits.

They are made here by docs/format.md, bit by bit, and share nothing with the code that reads them; our own writer makes
vectors of one size alone. What that one packs must come back.
"""

from __future__ import annotations

import functools
import itertools
import struct
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from msgspec import structs

from tornproof.harness.common.patch import Controls, not_noticed, original_of, replaced
from tornproof.harness.common.whose_error import errors_as_problems
from tornproof.impl.errors import CorruptError
from tornproof.impl.extension.alp import decode_alp, encode_alp
from tornproof.impl.extension.pfor import decode_pfor, encode_pfor
from tornproof.impl.extension.vectors import Vectors, encode_vectors

PROPERTY = "pages of packed vectors have the values that were packed"
EXTENSION = "tornproof.impl.extension"
BLOCK_VALUES = f"{EXTENSION}.vectors:BLOCK_VALUE_COUNT"
LOG_SIZES = range(3, 16)
TYPES = ("<i8", "<i4", "<f8", "<f4")
SPREAD = 0x9E37_79B9_7F4A_7C15
EXCEPTION_EVERY = 7
FULL_VALUES_MIN = 128
FILE, AT_BYTES, HEAD_BYTES = "data.parquet", 6, 7
EXPONENTS_MAX = {"<f8": 18, "<f4": 10}
SMALL_BLOCK_VALUES = 32
"""So many values are decoded at a time where otherwise only large pages are decoded in several steps."""
EXPONENTS = {"<f8": ((14, 14), (18, 0), (2, 0), (0, 0)), "<f4": ((10, 0), (7, 5), (1, 1), (0, 0))}
"""Exponents and factors of vectors."""
FRAMES = {"8": (-(1 << 40), 0, 5, 1 << 50), "4": (-(1 << 20), 0, 3, 1 << 22)}
PACKED_COUNT = 1_024
"""As many values as a vector of ours has."""
POSITION_BYTES, PACKED_HEAD_BYTES = 2, 24
"""What an exception takes besides its value, and a vector or page at most besides its values."""
EXCEPTIONS: dict[str, Sequence[Any]] = {
    "<i8": (-(1 << 63), (1 << 63) - 1, -1),
    "<i4": (-(1 << 31), (1 << 31) - 1, -1),
    "<f8": (float("nan"), -0.0, float("inf"), 1 / 3),
    "<f4": (float("nan"), -0.0, float("-inf"), 0.1),
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Page:
    """A page of vectors of 2^`log_size` values of a NumPy type; the last one is not whole."""

    type: str
    log_size: int

    @property
    def name(self) -> str:
        """It in words."""
        return f"vectors of {1 << self.log_size} values of the type {self.type[1:]}"

    def parts(self) -> list[tuple[int, int]]:
        """Return how many values each vector has, and of how many bits."""
        size, bits = 1 << self.log_size, 8 * int(self.type[2])
        counts = [size] * max(1, FULL_VALUES_MIN // size) + [size // 2 + 1]
        # Integers of more bits have no exact float.
        limit = bits + 1 if self.type[1] == "i" else bits // 2
        return [(count, (number * 5 + self.log_size * 11) % limit) for number, count in enumerate(counts)]

    def made(self) -> tuple[bytes, list[Any]]:
        """Return the page and its values."""
        vectors = [self._vector(number, *part) for number, part in enumerate(self.parts())]
        offsets, at = [], len(vectors) * 4
        for content, _ in vectors:
            offsets.append(at)
            at += len(content)
        values = [value for _, found in vectors for value in found]
        if self.type[1] == "f":
            head = struct.pack("<BBBi", 0, 0, self.log_size, len(values))
        else:
            head = struct.pack("<BBBI", 0, self.log_size, int(self.type[2]), len(values))
        return head + struct.pack(f"<{len(offsets)}I", *offsets) + b"".join(each for each, _ in vectors), values

    def _vector(self, number: int, count: int, width: int) -> tuple[bytes, list[Any]]:
        """Return a vector of numbers of `width` bits, and its values."""
        bits = 8 * int(self.type[2])
        frame = FRAMES[self.type[2]][number % 4]
        numbers = [(row + 1) * SPREAD % (1 << 64) >> (64 - width) if width else 0 for row in range(count)]
        packed = sum(each << row * width for row, each in enumerate(numbers)).to_bytes(-(-count * width // 8), "little")
        # Numbers are added to the frame as the integers of a machine are.
        whole = [(frame + each + (1 << bits - 1)) % (1 << bits) - (1 << bits - 1) for each in numbers]
        positions = range(number % EXCEPTION_EVERY, count, EXCEPTION_EVERY)
        exceptions = [EXCEPTIONS[self.type][row % len(EXCEPTIONS[self.type])] for row in positions]
        frame_code = "q" if bits == 64 else "i"
        if self.type[1] == "f":
            exponent, factor = EXPONENTS[self.type][number % 4]
            values = _decimals(whole, exponent, factor, self.type)
            head = struct.pack(f"<BBH{frame_code}B", exponent, factor, len(positions), frame, width)
        else:
            values = whole
            head = struct.pack(f"<{frame_code}BH", frame, width, len(positions))
        for row, value in zip(positions, exceptions, strict=True):
            values[row] = value
        stored = np.array(exceptions, self.type).tobytes()
        return head + packed + struct.pack(f"<{len(positions)}H", *positions) + stored, values


def _decimals(integers: Sequence[int], exponent: int, factor: int, of: str) -> list[Any]:
    """Return integers times 10^factor, and that times 10^-exponent, each rounded."""
    scaled = np.array(integers, np.int64).astype(of) * np.array(float(f"1e{factor}"), of)
    return list(scaled * np.array(float(f"1e-{exponent}"), of))


@dataclass(frozen=True, slots=True, kw_only=True)
class BrokenPage:
    """A page that contradicts itself: `edits` are bytes at positions of a sound one, `field` is what is wrong then."""

    page: Page
    words: str
    field: str
    edits: tuple[tuple[int, bytes], ...] = ()
    less_bytes: int = 0
    more: bytes = b""
    more_values: int = 0

    @property
    def name(self) -> str:
        """It in words."""
        return f"{self.page.name}, {self.words}"

    def made(self) -> tuple[bytes, int]:
        """Return its bytes, and how many values it should have."""
        content, values = self.page.made()
        changed = bytearray(content)
        for position, new in self.edits:
            changed[position : position + len(new)] = new
        return bytes(changed[: len(changed) - self.less_bytes]) + self.more, len(values) + self.more_values


@functools.cache
def broken_pages() -> tuple[BrokenPage, ...]:
    """Return pages that must be rejected, of each type."""
    pages = (Page(type=of, log_size=log_size) for of in TYPES for log_size in (3, 10))
    return tuple(each for page in pages for each in (*_wrong_heads(page), *_wrong_vectors(page)))


def _wrong_heads(page: Page) -> Iterator[BrokenPage]:
    is_float = page.type[1] == "f"
    modes = (("compression_mode", 0), ("integer_encoding", 1)) if is_float else (("packing_mode", 0),)
    for field, position in modes:
        yield BrokenPage(page=page, words=f"another {field}", field=field, edits=((position, b"\1"),))
    size_at = 2 if is_float else 1
    for log_size in (LOG_SIZES[0] - 1, LOG_SIZES[-1] + 1, 255):
        edits = ((size_at, bytes([log_size])),)
        yield BrokenPage(page=page, words=f"2^{log_size} values a vector", field="log_vector_size", edits=edits)
    if not is_float:
        other = {"8": 4, "4": 8}[page.type[2]]
        yield BrokenPage(
            page=page, words="values of another width", field="value_byte_width", edits=((2, bytes([other])),)
        )
    for more in (-1, 1):
        yield BrokenPage(page=page, words=f"{more} values more", field="num_elements", more_values=more)
    too_many = struct.pack("<i", len(page.made()[1]) + (1 << 20))
    yield BrokenPage(
        page=page, words="a million values more", field="num_elements", edits=((3, too_many),), more_values=1 << 20
    )


def _wrong_vectors(page: Page) -> Iterator[BrokenPage]:
    content, _ = page.made()
    parts, is_float, bits = page.parts(), page.type[1] == "f", 8 * int(page.type[2])
    frame_bytes = bits // 8
    exceptions_at, width_at = (2, 4 + frame_bytes) if is_float else (frame_bytes + 1, frame_bytes)
    offsets = struct.unpack_from(f"<{len(parts)}I", content, HEAD_BYTES)
    for number in sorted({0, 1, len(parts) - 1}):
        count, width = parts[number]
        start = HEAD_BYTES + offsets[number]
        head_bytes = 4 + frame_bytes + 1 if is_float else frame_bytes + 3
        for more in (-1, 1):
            moved = struct.pack("<I", offsets[number] + more)
            edits = ((HEAD_BYTES + 4 * number, moved),)
            # The next one is no longer where it ends either.
            yield BrokenPage(page=page, words=f"vector {number} moved by {more}", field="", edits=edits)
        edits = ((start + width_at, bytes([bits + 1])),)
        yield BrokenPage(page=page, words=f"vector {number} of {bits + 1} bits", field="bit_width", edits=edits)
        (found,) = struct.unpack_from("<H", content, start + exceptions_at)
        edits = ((start + exceptions_at, struct.pack("<H", found + 1)),)
        yield BrokenPage(page=page, words=f"an exception more in vector {number}", field="offsets", edits=edits)
        if found:
            position = start + head_bytes + -(-count * width // 8)
            edits = ((position, struct.pack("<H", count)),)
            words = f"an exception behind vector {number}"
            yield BrokenPage(page=page, words=words, field="exception positions", edits=edits)
        if is_float:
            for exponent, factor in ((EXPONENTS_MAX[page.type] + 1, 0), (1, 2)):
                edits = ((start, bytes([exponent, factor])),)
                words = f"exponent {exponent} and factor {factor} in vector {number}"
                yield BrokenPage(page=page, words=words, field="exponent", edits=edits)
    yield BrokenPage(
        page=page, words="an offset far behind", field="offsets", edits=((HEAD_BYTES, b"\xff\xff\xff\x7f"),)
    )
    yield BrokenPage(page=page, words="a byte less", field="offsets", less_bytes=1)
    yield BrokenPage(page=page, words="a byte more", field="offsets", more=b"\0")


def _codec(of: str) -> tuple[Callable[[Any], bytes], Callable[..., Any]]:
    """Return what packs values of a NumPy type and what reads them, which controls replace."""
    return (encode_alp, decode_alp) if of[1] == "f" else (encode_pfor, decode_pfor)


def _problem_of_broken(page: BrokenPage) -> str | None:
    """Say how a page is taken that must be rejected, or where it is said to be wrong; None if it is rejected."""
    content, count = page.made()
    of = page.page.type
    _, decode = _codec(of)
    try:
        found = decode(memoryview(bytes(AT_BYTES) + content)[AT_BYTES:], count, of, file=FILE, at=AT_BYTES)
    except CorruptError as error:
        problem = error.problem
        is_here = problem.file == FILE and AT_BYTES <= (problem.offset_bytes or 0) <= AT_BYTES + HEAD_BYTES
        is_named = page.field in ("", problem.field.lower())
        return None if is_here and is_named else f"it is rejected, but with {error}"
    return f"it is taken for {len(found)} values"


@functools.cache
def pages() -> tuple[Page, ...]:
    """Return a page of each size of vectors and each type."""
    return tuple(Page(type=of, log_size=log_size) for log_size in LOG_SIZES for of in TYPES)


@dataclass(frozen=True, slots=True, kw_only=True)
class Packed:
    """Values of a NumPy type for our own writer."""

    type: str
    words: str
    values: Sequence[Any]

    @property
    def name(self) -> str:
        """It in words."""
        return f"what we pack of values of the type {self.type[1:]}, {self.words}"


@functools.cache
def packed() -> tuple[Packed, ...]:
    """Return values of all types that take no bits, few, and all that there are."""
    return tuple(Packed(type=of, words=words, values=values) for of in TYPES for words, values in _offered(of).items())


def _offered(of: str) -> dict[str, Sequence[Any]]:
    bits = 8 * int(of[2])
    high = (1 << bits - 1) - 1
    spread = [(row + 1) * SPREAD % (1 << bits) - high - 1 for row in range(PACKED_COUNT)]
    far = itertools.cycle(EXCEPTIONS[of])
    special = [value for row in range(PACKED_COUNT) for value in (row, next(far))]
    offered: dict[str, Sequence[Any]] = {
        "none": (),
        "one": (5,),
        "all alike": [7] * PACKED_COUNT,
        "in order": range(-PACKED_COUNT, PACKED_COUNT, 2),
        "from the least to the greatest": [-high - 1, high, 0, -1] * (PACKED_COUNT // 4),
        "over all that there are": spread,
        "each second one far away": special,
        "few far away": [*range(PACKED_COUNT), *EXCEPTIONS[of]],
    }
    if of[1] == "f":
        # The largest whole numbers that a float holds next to its integers.
        whole = [value >> bits // 2 << bits // 2 for value in spread]
        decimals = [value / 100 for value in range(-PACKED_COUNT, PACKED_COUNT)]
        offered |= {"whole numbers over all that there are": whole, "of two decimals": decimals}
    return offered


def _problem_of_packed(packed: Packed) -> str | None:
    """Say which value does not come back from a page of our own; None if each does."""
    values = np.array(packed.values, packed.type)
    encode, decode = _codec(packed.type)
    page = encode(values)
    found = decode(memoryview(page), len(values), packed.type, file=FILE, at=0)
    wrong = np.flatnonzero(found.view(f"u{packed.type[2]}") != values.view(f"u{packed.type[2]}"))
    if len(wrong):
        return f"value {wrong[0]} comes back as {found[wrong[0]]}, and was {values[wrong[0]]}"
    most = len(values) * (values.itemsize + POSITION_BYTES) + (len(values) // PACKED_COUNT + 2) * PACKED_HEAD_BYTES
    return None if len(page) <= most else f"its page has {len(page)} bytes, and needs {most} if each is an exception"


@functools.cache
def all_pages() -> tuple[Page | BrokenPage | Packed, ...]:
    """Return sound pages, those that must be rejected, and values for pages of our own."""
    return (*pages(), *broken_pages(), *packed())


@errors_as_problems
def problem_of(page: Page | BrokenPage | Packed) -> str | None:
    """Say what is wrong with how a page is read, also in small steps, or rejected or made; None if nothing is."""
    match page:
        case BrokenPage():
            return _problem_of_broken(page)
        case Packed():
            return _problem_of_packed(page)
    return _problem_of_sound(page)


def _problem_of_sound(page: Page) -> str | None:
    content, values = page.made()
    expected = np.array(values, page.type).tobytes()
    _, decode = _codec(page.type)
    for when, block_values in (("", original_of(BLOCK_VALUES)), ("read step by step ", SMALL_BLOCK_VALUES)):
        with replaced(BLOCK_VALUES, block_values):
            found = decode(memoryview(content), len(values), page.type, file="page", at=0)
        if found.tobytes() != expected:
            return f"{when}it has other values"
    return None


def failed_controls() -> Iterator[str]:
    """Yield what is not noticed of readers without exceptions, without negative zeros, and that look at no heads."""
    with replaced(f"{EXTENSION}.pfor:values_of", lambda rows, vectors: rows.reshape(-1)):
        if problem_of(pages()[0]) is None:
            yield f"{pages()[0].name}: values without exceptions were not noticed"
    decode = original_of(f"{__name__}:decode_alp")
    zeros: Controls = (("no zero is negative", f"{__name__}:decode_alp", lambda *of, **to: decode(*of, **to) + 0.0),)
    yield from not_noticed(zeros, problem_of, [page for page in pages() if page.type[1] == "f"])
    controls: Controls = (
        ("heads are not looked at", f"{EXTENSION}.pfor:check_page", lambda *_, **__: None, "it is taken for"),
        ("errors have no place", f"{EXTENSION}.vectors:CorruptError", _without_place, "it is rejected, but"),
    )
    yield from not_noticed(controls, problem_of, broken_pages())
    narrow: Controls = tuple(
        (f"numbers of {of} take a bit less", f"{EXTENSION}.{of}:encode_vectors", _narrowed, "comes back as")
        for of in ("alp", "pfor")
    )
    yield from not_noticed(narrow, problem_of, packed())


def _narrowed(vectors: Vectors) -> bytes:
    return encode_vectors(structs.replace(vectors, numbers=vectors.numbers - vectors.numbers % 2))


def _without_place(file: str, field: str, _: int, *of: Any) -> CorruptError:
    return CorruptError(file, field, None, *of)
