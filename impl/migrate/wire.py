"""Thrift's compact protocol as the converter reads it: values in a row, each paid from a budget (docs/migration.md)."""

from __future__ import annotations

from typing import Final

from tornproof.impl.migrate.refusals import Cause, RefusalError
from tornproof.impl.parquet.thrift import Kind

STOP: Final = 0
TRUE: Final = int(Kind.TRUE)
BOOL: Final = int(Kind.BOOL)
BYTE: Final = int(Kind.BYTE)
I16: Final = int(Kind.I16)
I64: Final = int(Kind.I64)
DOUBLE: Final = int(Kind.DOUBLE)
BINARY: Final = int(Kind.BINARY)
LIST: Final = int(Kind.LIST)
SET: Final = int(Kind.SET)
MAP: Final = int(Kind.MAP)
STRUCT: Final = int(Kind.STRUCT)
UUID: Final = int(Kind.UUID)

KIND_BITS = {I16: 16, int(Kind.I32): 32, I64: 64}
LONG_COUNT = 15
FIELD_ID_MAX = 0x7FFF
SKIP_DEPTH_MAX = 64
STRUCT_COST, ITEM_COST = 2, 8
UNLIMITED = 1 << 62


class WireReader:
    """Reads `data`, which begins at byte `base` of the file, from its start; raises RefusalError and IndexError."""

    __slots__ = ("as_questdb", "base", "budget", "data", "pending", "position")

    def __init__(self, data: bytes, base: int, *, budget: int, as_questdb: bool) -> None:
        self.data = data
        self.base = base
        self.budget = budget
        self.as_questdb = as_questdb
        self.position = 0
        # The value of a boolean field whose header has been read, even if what followed was read as something else.
        self.pending: bool | None = None

    def field_id(self, header: int, kind: int, previous: int) -> int:
        """Return the id of the field whose header has been read, and keep its value if it is a boolean."""
        if kind <= BOOL:
            self.pending = kind == TRUE
        elif kind > STRUCT:
            self.check_kind(kind)
        if header > 15:
            if previous + (header >> 4) > FIELD_ID_MAX:
                raise self.refusal(Cause.DEPTH, f"an id of at most {FIELD_ID_MAX}", previous + (header >> 4))
            return previous + (header >> 4)
        return self.integer(16)

    def list_header(self) -> tuple[int, int]:
        """Return count and wire type of a list's or set's elements."""
        header = self.byte()
        kind = header & 15
        self.check_kind(kind)
        if kind == BOOL and self.as_questdb:
            raise self.refusal(Cause.BAD_DATA, "the other wire type for booleans", kind)
        count = header >> 4
        if count == LONG_COUNT:
            count = self.varint(5) & 0xFFFFFFFF
        self.spend(count * ITEM_COST)
        return count, kind

    def binary(self) -> bytes:
        """Return the bytes of a binary field; where they end too early, what is read next is refused."""
        length = self.varint(5) & 0xFFFFFFFF
        self.spend(length)
        start = self.position
        content = self.data[start : start + length]
        self.position = start + len(content)
        if len(content) < length and not self.as_questdb:
            raise self.refusal(Cause.TRUNCATED, f"{length} bytes", len(content))
        return content

    def text(self) -> str:
        """Return a binary field as text."""
        content = self.binary()
        try:
            return content.decode()
        except UnicodeDecodeError as error:
            actual = f"byte {content[error.start]:#04x} at {error.start} of {len(content)}"
            raise self.refusal(Cause.BAD_DATA, "UTF-8", actual) from None

    def boolean(self) -> bool:
        """Return the boolean whose header has been read, else one that takes a byte."""
        if self.pending is not None:
            value, self.pending = self.pending, None
            return value
        byte = self.byte()
        if byte not in (TRUE, BOOL) and (self.as_questdb or byte):
            raise self.refusal(Cause.BAD_DATA, "a boolean", byte)
        return byte == TRUE

    def byte(self) -> int:
        """Return the next byte."""
        byte = self.data[self.position]
        self.position += 1
        return byte

    def integer(self, bits: int) -> int:
        """Return a signed integer; what has more bits than it should loses the upper ones, as in the converter."""
        number = self.varint((bits + 7) // 7) & 0xFFFFFFFFFFFFFFFF
        number = (number >> 1) ^ -(number & 1)
        half = 1 << bits - 1
        return (number + half) % (2 * half) - half

    def varint(self, length_max_bytes: int) -> int:
        """Return an unsigned integer of at most so many bytes."""
        number = 0
        for index in range(length_max_bytes):
            byte = self.byte()
            number |= (byte & 127) << 7 * index
            if byte < 128:
                return number
        # Only what follows them is too much.
        self.byte()
        raise self.refusal(Cause.VARINT, f"an integer of at most {length_max_bytes} bytes", "more")

    def skip(self, kind: int, depth_left: int) -> None:
        """Read past a value of a wire type; only so many levels of it."""
        if depth_left == 0:
            raise self.refusal(Cause.DEPTH, f"at most {SKIP_DEPTH_MAX} levels", "more")
        if kind in KIND_BITS:
            self.integer(KIND_BITS[kind])
        elif kind == BINARY:
            self.text() if self.as_questdb else self.binary()
        elif kind == STRUCT:
            self.skip_struct(depth_left - 1)
        elif kind in (LIST, SET):
            count, inner = self.list_header()
            for _ in range(count):
                self.skip(inner, depth_left - 1)
        elif kind == MAP:
            self.skip_map(depth_left - 1)
        elif kind in (DOUBLE, UUID):
            self.position += 8 if kind == DOUBLE else 16
            self.data[self.position - 1]
        elif kind == BYTE:
            self.byte()
        elif kind == STOP:
            raise self.refusal(Cause.FIELD_MISSING, "a wire type of elements", kind)
        else:
            self.boolean()

    def skip_struct(self, depth_left: int) -> None:
        """Read past a struct of which nothing is known."""
        self.spend(STRUCT_COST)
        field_id = 0
        while (header := self.byte()) & 15 != STOP:
            field_id = self.field_id(header, header & 15, field_id)
            self.skip(header & 15, depth_left)

    def skip_map(self, depth_left: int) -> None:
        """Read past a map."""
        count = self.varint(5) & 0xFFFFFFFF
        if count == 0:
            return
        kinds = self.byte()
        for kind in (kinds >> 4, kinds & 15):
            self.check_kind(kind)
            if kind == BOOL and self.as_questdb:
                raise self.refusal(Cause.BAD_DATA, "the other wire type for booleans", kind)
        self.spend(count * ITEM_COST)
        for _ in range(count):
            self.skip(kinds >> 4, depth_left)
            self.skip(kinds & 15, depth_left)

    def check_kind(self, kind: int) -> None:
        """Refuse wire types that are not known; the converter does not know the newest."""
        if kind > STRUCT and (self.as_questdb or kind > UUID):
            raise self.refusal(Cause.BAD_DATA, "a known wire type", kind)

    def spend(self, cost: int) -> None:
        """Count what is to be allocated."""
        self.budget -= cost
        if self.budget < 0:
            raise self.refusal(Cause.BUDGET, "a footer that needs no more memory than twice its length", "more")

    def refusal(self, cause: Cause, expected: object, actual: object) -> RefusalError:
        """Return the error of what ends here."""
        return RefusalError(cause, expected, actual, self.base + min(self.position, len(self.data)))
