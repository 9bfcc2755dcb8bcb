"""Reading Thrift structs as QuestDB's converter does, which is not what a careful reader does (docs/migration.md).

It believes its own tables: a known field is read as what it should be, whatever wire type it has. The lenient way
(docs/migration.md) looks at wire types, takes unknown members of unions for no annotation, and has no budget.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final, NoReturn

from tornproof.impl.migrate.refusals import Cause, RefusalError
from tornproof.impl.migrate.shapes import FOOTER, Code, Element, FileMetaData, Shape, Union
from tornproof.impl.migrate.wire import BOOL, KIND_BITS, SKIP_DEPTH_MAX, STOP, STRUCT_COST, TRUE, UNLIMITED, WireReader

INTEGER: Final = int(Code.INTEGER)
ITEM_COUNT_MAX = 1_000_000
"""Of elements in one list: records are tens of times as large as the bytes that they are read from."""


class _Unknown:
    """A union whose only member is not known."""


UNKNOWN: Final = _Unknown()


def read_footer(footer: bytes, *, offset_bytes: int, as_questdb: bool) -> FileMetaData:
    """Return what a footer says that stands at `offset_bytes`; `footer` has the 8 bytes behind it too.

    Raises RefusalError.
    """
    budget = 2 * len(footer) + 1024 if as_questdb else UNLIMITED
    reader = StructReader(footer, offset_bytes, budget=budget, as_questdb=as_questdb)
    value: FileMetaData = reader.read(FOOTER)
    return value


class StructReader(WireReader):
    """Reads one struct from the start of `data`; `position` is behind it then."""

    __slots__ = ()

    def read(self, shape: Shape) -> Any:
        """Return the record of a struct; raises RefusalError."""
        try:
            return self.struct(shape)
        except IndexError:
            raise self.refusal(Cause.TRUNCATED, "more bytes", "their end") from None

    def struct(self, shape: Shape) -> Any:
        """Return the struct's record, or UNKNOWN where a required union is."""
        self.spend(STRUCT_COST)
        data, places, as_questdb = self.data, shape.places, self.as_questdb
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
            place = places.get(field_id)
            if place is None or not (as_questdb or self.fits(kind, place.element)):
                self.skip(kind, SKIP_DEPTH_MAX)
                continue
            element = place.element
            if element.code == INTEGER and (byte := data[self.position]) < 128:
                value: Any = (byte >> 1) ^ -(byte & 1)
                self.position += 1
            else:
                value = self.named(element, place.name)
            if value is UNKNOWN:
                is_unknown |= bool(place.required_bit)
                value = None
            missing &= ~place.required_bit
            if place.slot >= 0:
                values[place.slot] = value
        if missing:
            names = [place.name for place in places.values() if place.required_bit & missing]
            raise RefusalError(Cause.FIELD_MISSING, "a required field", "none", self.base + start, step=names[0])
        return UNKNOWN if is_unknown else shape.record._make(values)

    def union(self, shape: Shape) -> Union | _Unknown:
        """Return the one member of a union, or UNKNOWN; exactly one must be there."""
        self.spend(STRUCT_COST)
        start = self.position
        found: Union | _Unknown | None = None
        count = field_id = 0
        while (header := self.byte()) & 15 != STOP:
            kind = header & 15
            field_id = self.field_id(header, kind, field_id)
            place = shape.places.get(field_id)
            count += 1
            if place is not None and (self.as_questdb or self.fits(kind, place.element)):
                value = self.named(place.element, place.name)
                found = UNKNOWN if value is UNKNOWN else Union(place.name, value)
                continue
            self.skip(kind, SKIP_DEPTH_MAX)
            found = found or UNKNOWN
        if count != 1 or (found is UNKNOWN and self.as_questdb):
            expected = f"exactly one known member of {shape.name}"
            raise RefusalError(Cause.BAD_DATA, expected, f"{count} members", self.base + start)
        assert found is not None
        return found

    def fits(self, kind: int, element: Element) -> bool:
        """Whether a field's wire type is what the table says; of a list that of its elements too."""
        if kind != element.kind:
            return kind == TRUE and element.kind == BOOL
        if element.element is None:
            return True
        header = self.data[self.position]
        inner, wanted = header & 15, element.element.kind
        # All integers are varints alike, and public files have any kind of them in a list.
        return header >> 4 == 0 or inner == wanted or (inner in KIND_BITS and wanted in KIND_BITS)

    def named(self, element: Element, name: str) -> Any:
        """Return a value; a refusal inside of it gets the name."""
        try:
            return READERS[element.code](self, element)
        except RefusalError as refusal:
            raise refusal.at(name) from None
        except IndexError:
            raise self.refusal(Cause.TRUNCATED, "more bytes", "their end").at(name) from None

    def items(self, element: Element) -> tuple[Any, ...]:
        """Return the elements of a list."""
        inner = element.element
        assert inner is not None
        count, _ = self.list_header()
        if count > ITEM_COUNT_MAX:
            raise self.refusal(Cause.BUDGET, f"at most {ITEM_COUNT_MAX} elements", count)
        read = READERS[inner.code]
        values: list[Any] = []
        try:
            for _ in range(count):
                values.append(read(self, inner))  # noqa: PERF401 (its length names the broken element)
        except RefusalError as refusal:
            raise refusal.at(f"[{len(values)}]") from None
        return tuple(values)


def _no_shape(_: StructReader, element: Element) -> NoReturn:
    raise AssertionError(element)


READERS: tuple[Callable[[StructReader, Element], Any], ...] = (
    lambda reader, element: reader.integer(element.bits),
    lambda reader, _: reader.boolean(),
    lambda reader, _: reader.byte(),
    lambda reader, _: reader.binary(),
    lambda reader, _: reader.text(),
    lambda reader, element: reader.struct(element.shape) if element.shape else _no_shape(reader, element),
    lambda reader, element: reader.union(element.shape) if element.shape else _no_shape(reader, element),
    StructReader.items,
)
"""By the numbers of `Code`."""
