"""A byte layout as a class whose annotations are the table of fields; no offset is ever written by hand.

The offsets, a `struct` format for single records, a NumPy dtype for arrays of them, the annotated hex of `inspect`
and the tables of `docs/format.md` are derived from that one declaration.
"""

from __future__ import annotations

import struct
from collections.abc import Callable, Iterator
from typing import (
    Annotated,
    Any,
    ClassVar,
    Self,
    TypeAlias,
    TypeVar,
    cast,
    dataclass_transform,
    get_args,
    get_origin,
)

import msgspec
import numpy as np

from tornproof.impl.errors import CorruptError, Problem, UnsupportedError

Buffer: TypeAlias = bytes | bytearray | memoryview


class Wire(msgspec.Struct, frozen=True):
    """How one value is stored in the file: its name in the tables, `struct` code, NumPy code, size."""

    name: str
    struct_code: str
    numpy_code: str
    size_bytes: int


def _integer(name: str, struct_code: str) -> Wire:
    size_bytes = struct.calcsize("<" + struct_code)
    return Wire(name, struct_code, f"<{name[0]}{size_bytes}", size_bytes)


def gap(size_bytes: int) -> Wire:
    """Return the wire form of unused bytes, which are kept as they are."""
    return Wire("bytes", f"{size_bytes}s", f"V{size_bytes}", size_bytes)


U8 = Annotated[int, _integer("u8", "B")]
U16 = Annotated[int, _integer("u16", "H")]
U32 = Annotated[int, _integer("u32", "I")]
I32 = Annotated[int, _integer("i32", "i")]
U64 = Annotated[int, _integer("u64", "Q")]
I64 = Annotated[int, _integer("i64", "q")]


class FieldSpec(msgspec.Struct, frozen=True):
    """One row of a layout table; `offset_bytes` counts from the start of the record."""

    name: str
    wire: Wire
    offset_bytes: int
    meaning: str

    @property
    def end_bytes(self) -> int:
        """The offset of the first byte after the field."""
        return self.offset_bytes + self.wire.size_bytes

    @property
    def format_name(self) -> str:
        """The name as QuestDB's documents spell it."""
        return self.name.upper()


class Layout(msgspec.Struct, frozen=True):
    """Everything that is derived from the fields of one record."""

    title: str
    source: str
    fields: tuple[FieldSpec, ...]
    size_bytes: int
    packer: struct.Struct
    dtype: np.dtype[np.void]
    names: tuple[str, ...]

    def field(self, name: str) -> FieldSpec:
        """Return the field of that name; raises KeyError for an unknown name."""
        for spec in self.fields:
            if spec.name == name:
                return spec
        raise KeyError(name)

    def offset_of(self, name: str) -> int:
        """Return the offset of a field from the start of the record, in bytes."""
        return self.field(name).offset_bytes

    def annotate(self, data: Buffer, offset_bytes: int) -> Iterator[tuple[int, str, str, str]]:
        """Yield (offset in the file, hex bytes, field name, value) for one record, which must lie inside `data`."""
        assert 0 <= offset_bytes <= len(data) - self.size_bytes, (self.title, offset_bytes)
        values = self.packer.unpack_from(data, offset_bytes)
        for spec, value in zip(self.fields, values, strict=True):
            start = offset_bytes + spec.offset_bytes
            raw = bytes(data[start : start + spec.wire.size_bytes])
            yield start, raw.hex(" "), spec.format_name, raw.hex() if isinstance(value, bytes) else str(value)


class RecordPosition(msgspec.Struct, frozen=True):
    """Where a record is, or should be; errors about its fields are made from it.

    `of` is appended to field names where a file has many such records: " of column 3".
    """

    layout: Layout
    file: str
    offset_bytes: int
    of: str = ""

    def problem(self, name: str, expected: object, actual: object) -> Problem:
        """Return what is wrong with the field of that name."""
        field = self.layout.field(name)
        offset_bytes = self.offset_bytes + field.offset_bytes
        return Problem(self.file, field.format_name + self.of, offset_bytes, str(expected), str(actual))

    def corrupt(self, name: str, expected: object, actual: object) -> CorruptError:
        """Return the error for bytes that contradict the format, or each other."""
        return CorruptError.of(self.problem(name, expected, actual))

    def unsupported(self, name: str, expected: object, actual: object) -> UnsupportedError:
        """Return the error for a feature that this reader does not have, or that needs more memory than it allows."""
        return UnsupportedError.of(self.problem(name, expected, actual))


class Record:
    """Base of all layout classes; the decorator `layout_of` sets `layout`."""

    __slots__ = ()
    layout: ClassVar[Layout]

    @classmethod
    def unpack(cls, data: Buffer, offset_bytes: int, *, file: str) -> Self:
        """Decode the record at `offset_bytes`; raises CorruptError if it does not fit into `data`."""
        layout = cls.layout
        if offset_bytes < 0 or offset_bytes + layout.size_bytes > len(data):
            expected = f"{layout.size_bytes} bytes inside the first {len(data)}"
            actual = f"a record that ends at byte {offset_bytes + layout.size_bytes}"
            raise CorruptError(file, layout.title, offset_bytes, expected, actual)
        return cls(*layout.packer.unpack_from(data, offset_bytes))

    @classmethod
    def at(cls, file: str, offset_bytes: int, of: str = "") -> RecordPosition:
        """Return the position of such a record in a file, for errors about its fields.

        Checks that run for every column or read create it only for an error (`functools.partial`).
        """
        return RecordPosition(cls.layout, file, offset_bytes, of)

    def changed(self, **values: Any) -> Self:
        """Return the record with other values in the fields of these names."""
        return type(self)(**{name: getattr(self, name) for name in self.layout.names} | values)

    def pack(self) -> bytes:
        """Encode the record; raises struct.error for a value that does not fit its field."""
        return self.layout.packer.pack(*(getattr(self, name) for name in self.layout.names))


RecordType = TypeVar("RecordType", bound=Record)


class _Meaning(msgspec.Struct, frozen=True):
    text: str


def meaning(text: str) -> Any:
    """Describe a field for the tables; it has no default value."""
    return _Meaning(text)


@dataclass_transform(frozen_default=True, kw_only_default=True, field_specifiers=(meaning,))
def layout_of(*, title: str, size_bytes: int, source: str) -> Callable[[type[RecordType]], type[RecordType]]:
    """Turn an annotated class into a frozen record with a `layout`; the table is checked on import.

    The module must not postpone its annotations, because evaluating them later takes longer.
    """

    def decorate(declared: type[RecordType]) -> type[RecordType]:
        specs: list[FieldSpec] = []
        for name, hint in declared.__annotations__.items():
            described = declared.__dict__.get(name)
            assert isinstance(described, _Meaning), f"{title}: {name} has no meaning"
            delattr(declared, name)
            end_bytes = specs[-1].end_bytes if specs else 0
            specs.append(FieldSpec(name, _wire_of(hint), end_bytes, described.text))
        derived = derive_layout(title, source, tuple(specs))
        assert derived.size_bytes == size_bytes, f"{title}: fields add up to {derived.size_bytes}, not {size_bytes}"
        record: Any = msgspec.defstruct(
            declared.__name__,
            [*declared.__annotations__.items()],
            bases=(*declared.__bases__, msgspec.Struct),
            module=declared.__module__,
            namespace={"__doc__": declared.__doc__, "layout": derived},
            # Not by keyword alone, as for type checkers, because `unpack` creates millions by position.
            frozen=True,
        )
        return cast(type[RecordType], record)

    return decorate


def _wire_of(hint: Any) -> Wire:
    assert get_origin(hint) is Annotated, hint
    wire = get_args(hint)[1]
    assert isinstance(wire, Wire), wire
    return wire


def derive_layout(title: str, source: str, specs: tuple[FieldSpec, ...]) -> Layout:
    """Derive a layout from its fields, whose names must be unique and which must leave no gaps."""
    names = tuple(spec.name for spec in specs)
    assert len(set(names)) == len(names), f"{title}: a name occurs twice"
    packer = struct.Struct("<" + "".join(spec.wire.struct_code for spec in specs))
    dtype = np.dtype(
        {
            "names": list(names),
            "formats": [spec.wire.numpy_code for spec in specs],
            "offsets": [spec.offset_bytes for spec in specs],
            "itemsize": packer.size,
        }
    )
    ends = [0, *(spec.end_bytes for spec in specs)]
    assert all(spec.offset_bytes == end for spec, end in zip(specs, ends, strict=False)), f"{title}: gap or overlap"
    assert ends[-1] == packer.size, f"{title}: the struct format pads"
    return Layout(title, source, specs, packer.size, packer, dtype, names)
