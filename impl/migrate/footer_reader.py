"""Thrift structs as QuestDB's converter reads them, which is less strict than the format (docs/migration.md).

The converter reads a known field by its declared type, whatever its wire type says, and charges allocations to a
budget. The lenient mode checks wire types, ignores unknown members of unions, and has no budget.

`parquet/thrift.py` cannot replace it: its tree has no bytes to read against their wire type, and its limit is below
the footers of more than some 30,000 chunks that are converted.
"""

from __future__ import annotations

from typing import Any, Final

from tornproof.impl.migrate.rejections import Cause, RejectionError
from tornproof.impl.migrate.shapes import NO_MEMBERS, FileMetaData, Shape, Union, shape_of
from tornproof.impl.parquet.fields import FILE_META_DATA
from tornproof.impl.parquet.records import Form, Table
from tornproof.impl.parquet.thrift import (
    BINARY,
    BOOL,
    BYTE,
    FIELD_ID_MAX,
    FIXED_SIZES_BYTES,
    LIST,
    LONG_COUNT,
    MAP,
    SET,
    STOP,
    STRUCT,
    TRUE,
    Kind,
)

KIND_BITS: Final[dict[int, int]] = {Kind.I16: 16, Kind.I32: 32, Kind.I64: 64}
SKIP_DEPTH_MAX = 64
STRUCT_COST, ITEM_COST = 2, 8
UNLIMITED = 1 << 62
ITEM_COUNT_MAX = 1_000_000
"""Limit of elements in one list: records are tens of times as large as their bytes."""


class _Unknown:
    """A union whose only member is unknown."""


UNKNOWN: Final = _Unknown()


def read_footer(footer: bytes, *, offset_bytes: int, as_questdb: bool) -> FileMetaData:
    """Return the content of the footer at `offset_bytes`; `footer` includes the 8 bytes behind it.

    Raises RejectionError.
    """
    budget = 2 * len(footer) + 1024 if as_questdb else UNLIMITED
    reader = StructReader(footer, offset_bytes, budget=budget, as_questdb=as_questdb)
    value: FileMetaData = reader.read(FILE_META_DATA)
    return value


class StructReader:
    """Reads one struct from the start of `data`, which is at byte `base` of the file; `position` is then behind it.

    The methods below `read` raise RejectionError, and IndexError where the bytes end.
    """

    __slots__ = ("as_questdb", "base", "budget", "data", "pending", "position")

    def __init__(self, data: bytes, base: int, *, budget: int = UNLIMITED, as_questdb: bool) -> None:
        self.data = data
        self.base = base
        self.budget = budget
        self.as_questdb = as_questdb
        self.position = 0
        # The value of the last boolean field header, even if the field was then read as something else.
        self.pending: bool | None = None

    def read(self, table: Table) -> Any:
        """Return the record of a struct; raises RejectionError."""
        try:
            return self.struct(shape_of(table))
        except IndexError:
            raise self.rejection(Cause.TRUNCATED, "more bytes", "their end") from None

    def struct(self, shape: Shape, depth_left: int = SKIP_DEPTH_MAX) -> Any:
        """Return the struct's record, or UNKNOWN if a required union is unknown."""
        self.spend(STRUCT_COST)
        data, members, as_questdb = self.data, shape.members, self.as_questdb
        start = self.position
        values: list[Any] = [None] * shape.width
        missing = shape.required
        is_unknown = False
        field_id = 0
        while True:
            header = data[self.position]
            self.position += 1
            kind = header & 15
            if kind == STOP:
                break
            field_id = self.field_id(header, kind, field_id)
            member = members.get(field_id)
            if member is None or not (as_questdb or self.fits(kind, member.form)):
                self.skip(kind, depth_left)
                continue
            if member.is_integer and (byte := data[self.position]) < 128:
                value: Any = (byte >> 1) ^ -(byte & 1)
                self.position += 1
            else:
                value = self.named(member.form, member.name)
            if value is UNKNOWN:
                is_unknown |= bool(member.required_bit)
                value = None
            missing &= ~member.required_bit
            if member.slot >= 0:
                values[member.slot] = value
        if missing:
            names = [member.name for member in members.values() if member.required_bit & missing]
            raise RejectionError(Cause.FIELD_MISSING, "a required field", "none", self.base + start, step=names[0])
        return UNKNOWN if is_unknown else shape.record._make(values)

    def union(self, shape: Shape) -> Union | _Unknown:
        """Return the only member of a union, or UNKNOWN; there must be exactly one."""
        self.spend(STRUCT_COST)
        start = self.position
        found: Union | _Unknown | None = None
        count = field_id = 0
        while (header := self.byte()) & 15 != STOP:
            kind = header & 15
            field_id = self.field_id(header, kind, field_id)
            member = shape.members.get(field_id)
            count += 1
            if member is not None and (self.as_questdb or self.fits(kind, member.form)):
                value = self.named(member.form, member.name)
                found = UNKNOWN if value is UNKNOWN else Union(member.name, value)
                continue
            self.skip(kind, SKIP_DEPTH_MAX)
            found = found or UNKNOWN
        if count != 1 or (found is UNKNOWN and self.as_questdb):
            expected = f"exactly one known member of {shape.name}"
            raise RejectionError(Cause.BAD_DATA, expected, f"{count} members", self.base + start)
        assert found is not None
        return found

    def field_id(self, header: int, kind: int, previous: int) -> int:
        """Return the id of the field whose header was read, and keep its value if it is a boolean."""
        if kind <= BOOL:
            self.pending = kind == TRUE
        elif kind > STRUCT:
            self.check_kind(kind)
        if header > 15:
            if previous + (header >> 4) > FIELD_ID_MAX:
                raise self.rejection(Cause.DEPTH, f"an id of at most {FIELD_ID_MAX}", previous + (header >> 4))
            return previous + (header >> 4)
        return self.integer(16)

    def fits(self, kind: int, form: Form) -> bool:
        """Whether the wire types of a field, and of a list's elements, are those in the table."""
        if kind != form.kind:
            return kind == TRUE and form.kind == BOOL
        if form.element is None:
            return True
        header = self.data[self.position]
        inner, wanted = header & 15, form.element.kind
        # All integers are varints, and public files mix their kinds in lists.
        return header >> 4 == 0 or inner == wanted or (inner in KIND_BITS and wanted in KIND_BITS)

    def named(self, form: Form, name: str) -> Any:
        """Return a value; a rejection inside it gets the name."""
        try:
            return self.value(form)
        except RejectionError as rejection:
            raise rejection.at(name) from None
        except IndexError:
            raise self.rejection(Cause.TRUNCATED, "more bytes", "their end").at(name) from None

    def value(self, form: Form) -> Any:
        """Return the next value, which has the type `form`."""
        kind = form.kind
        if kind in KIND_BITS:
            return self.integer(KIND_BITS[kind])
        if kind == STRUCT:
            shape = shape_of(form.table)
            return self.union(shape) if shape.is_union else self.struct(shape)
        if kind == BINARY:
            return self.text() if form.is_text else self.binary()
        if kind == LIST:
            assert form.element is not None
            return self.items(form.element)
        return self.boolean() if kind == BOOL else self.byte()

    def items(self, form: Form) -> tuple[Any, ...]:
        """Return the elements of a list."""
        count, _ = self.list_header()
        if count > ITEM_COUNT_MAX:
            raise self.rejection(Cause.BUDGET, f"at most {ITEM_COUNT_MAX} elements", count)
        values: list[Any] = []
        try:
            for _ in range(count):
                values.append(self.value(form))  # noqa: PERF401 (its length names the broken element)
        except RejectionError as rejection:
            raise rejection.at(f"[{len(values)}]") from None
        return tuple(values)

    def list_header(self) -> tuple[int, int]:
        """Return the number and the wire type of a list's or set's elements."""
        header = self.byte()
        kind = header & 15
        self.check_element_kind(kind)
        count = header >> 4
        if count == LONG_COUNT:
            count = self.count()
        self.spend(count * ITEM_COST)
        return count, kind

    def binary(self) -> bytes:
        """Return the bytes of a binary field; if they end too early, reading on is rejected."""
        length = self.count()
        self.spend(length)
        start = self.position
        content = self.data[start : start + length]
        self.position = start + len(content)
        if len(content) < length and not self.as_questdb:
            raise self.rejection(Cause.TRUNCATED, f"{length} bytes", len(content))
        return content

    def text(self) -> str:
        """Return a binary field as text."""
        content = self.binary()
        try:
            return content.decode()
        except UnicodeDecodeError as error:
            actual = f"byte {content[error.start]:#04x} at {error.start} of {len(content)}"
            raise self.rejection(Cause.BAD_DATA, "UTF-8", actual) from None

    def boolean(self) -> bool:
        """Return the boolean whose header was read, or else one stored as a byte."""
        if self.pending is not None:
            value, self.pending = self.pending, None
            return value
        byte = self.byte()
        if byte not in (TRUE, BOOL) and (self.as_questdb or byte):
            raise self.rejection(Cause.BAD_DATA, "a boolean", byte)
        return byte == TRUE

    def byte(self) -> int:
        """Return the next byte."""
        byte = self.data[self.position]
        self.position += 1
        return byte

    def integer(self, bits: int) -> int:
        """Return a signed integer; excess upper bits are dropped, as in the converter."""
        number = self.varint((bits + 7) // 7) & 0xFFFFFFFFFFFFFFFF
        number = (number >> 1) ^ -(number & 1)
        half = 1 << bits - 1
        return (number + half) % (2 * half) - half

    def count(self) -> int:
        """Return a number of elements or bytes."""
        return self.varint(5) & 0xFFFFFFFF

    def varint(self, length_max_bytes: int) -> int:
        """Return an unsigned integer of at most `length_max_bytes`."""
        number = 0
        for index in range(length_max_bytes):
            byte = self.byte()
            number |= (byte & 127) << 7 * index
            if byte < 128:
                return number
        # Upper bits of the last byte are dropped; only another byte is too much.
        self.byte()
        raise self.rejection(Cause.VARINT, f"an integer of at most {length_max_bytes} bytes", "more")

    def skip(self, kind: int, depth_left: int) -> None:
        """Skip a value of a wire type, of at most `depth_left` levels."""
        if depth_left == 0:
            raise self.rejection(Cause.DEPTH, f"at most {SKIP_DEPTH_MAX} levels", "more")
        if kind in KIND_BITS:
            self.integer(KIND_BITS[kind])
        elif kind == BINARY:
            self.text() if self.as_questdb else self.binary()
        elif kind == STRUCT:
            self.struct(NO_MEMBERS, depth_left - 1)
        elif kind in (LIST, SET):
            count, inner = self.list_header()
            for _ in range(count):
                self.skip(inner, depth_left - 1)
        elif kind == MAP:
            self.skip_map(depth_left - 1)
        elif kind in FIXED_SIZES_BYTES:
            self.position += FIXED_SIZES_BYTES[kind]
            self.data[self.position - 1]
        elif kind == BYTE:
            self.byte()
        elif kind == STOP:
            raise self.rejection(Cause.FIELD_MISSING, "a wire type of elements", kind)
        else:
            self.boolean()

    def skip_map(self, depth_left: int) -> None:
        """Skip a map."""
        count = self.count()
        if count == 0:
            return
        kinds = self.byte()
        self.check_element_kind(kinds >> 4)
        self.check_element_kind(kinds & 15)
        self.spend(count * ITEM_COST)
        for _ in range(count):
            self.skip(kinds >> 4, depth_left)
            self.skip(kinds & 15, depth_left)

    def check_kind(self, kind: int) -> None:
        """Reject unknown wire types; the converter does not know the newest."""
        if kind > STRUCT and (self.as_questdb or kind > Kind.UUID):
            raise self.rejection(Cause.BAD_DATA, "a known wire type", kind)

    def check_element_kind(self, kind: int) -> None:
        """Reject unknown wire types of elements, and the one of two for booleans that the converter does not accept."""
        self.check_kind(kind)
        if kind == BOOL and self.as_questdb:
            raise self.rejection(Cause.BAD_DATA, "the other wire type for booleans", kind)

    def spend(self, cost: int) -> None:
        """Charge an allocation to the budget."""
        self.budget -= cost
        if self.budget < 0:
            raise self.rejection(Cause.BUDGET, "a footer that needs no more memory than twice its length", "more")

    def rejection(self, cause: Cause, expected: object, actual: object) -> RejectionError:
        """Return the error for the current position."""
        return RejectionError(cause, expected, actual, self.base + min(self.position, len(self.data)))
