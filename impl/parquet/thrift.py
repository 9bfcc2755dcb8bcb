"""Thrift's compact protocol, decoded into a lossless tree and encoded to exactly the bytes that were read.

No schema is involved: unknown fields, their order, long field headers and overlong varints are preserved.
Source: Apache Thrift, "Thrift compact protocol encoding".
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Sequence
from enum import IntEnum
from typing import Any, Final, NamedTuple, NoReturn, TypeAlias

from tornproof.impl.errors import CorruptError, UnsupportedError

Step: TypeAlias = int | str
"""One step of a path into a tree: a field id, a field name, or an index such as `[3]`."""


class Kind(IntEnum):
    """The wire types; a boolean field has one of two of them, and `BOOL` means either in a `Field`."""

    TRUE = 1
    BOOL = 2
    BYTE = 3
    I16 = 4
    I32 = 5
    I64 = 6
    DOUBLE = 7
    BINARY = 8
    LIST = 9
    SET = 10
    MAP = 11
    STRUCT = 12
    UUID = 13


class Padded(NamedTuple):
    """An integer or a binary whose varint has `width_bytes`, more than needed."""

    value: int | bytes
    width_bytes: int


class Field(NamedTuple):
    """One field of a struct; `offset_bytes` is the position of its header in the file.

    `id_width_bytes` is 0 for the short header and the width of the id's varint for the long one.
    """

    id: int
    kind: int
    value: Value
    offset_bytes: int = 0
    id_width_bytes: int = 0


class Struct(NamedTuple):
    """A struct: its fields in file order."""

    fields: tuple[Field, ...]
    offset_bytes: int = 0


class Items(NamedTuple):
    """A list or a set; `count_width_bytes` is 0 where the header's first byte holds the count.

    Booleans are kept as their wire byte, in which writers differ (false is 0 or 2).
    """

    element_kind: int
    elements: tuple[Value, ...]
    offset_bytes: int = 0
    count_width_bytes: int = 0


class Entries(NamedTuple):
    """A map; an empty one has no kinds on the wire, so both are 0."""

    key_kind: int
    value_kind: int
    entries: tuple[tuple[Value, Value], ...]
    offset_bytes: int = 0
    count_width_bytes: int = 1


Value: TypeAlias = bool | int | bytes | Padded | Struct | Items | Entries
"""A byte is 0 to 255; a double and a UUID are their 8 and 16 bytes."""


class BrokenError(Exception):
    """A problem inside a tree; each level adds its step while the error propagates, innermost first."""

    def __init__(
        self,
        expected: object,
        actual: object,
        offset_bytes: int | None = None,
        *,
        step: Step | None = None,
        is_supported: bool = True,
    ) -> None:
        super().__init__(expected, actual)
        self.expected = expected
        self.actual = actual
        self.offset_bytes = offset_bytes
        self.is_supported = is_supported
        self.steps: list[Step] = [] if step is None else [step]

    def report(self, file: str, path_of: Callable[[Sequence[Step]], str]) -> NoReturn:
        """Raise the public error."""
        kind = CorruptError if self.is_supported else UnsupportedError
        raise kind(
            file=file,
            field=path_of(self.steps[::-1]),
            offset_bytes=self.offset_bytes,
            expected=self.expected,
            actual=self.actual,
        )


def path_text(steps: Sequence[Step]) -> str:
    """Return a path such as `4[0].1[2].3`."""
    return ".".join(map(str, steps)).replace(".[", "[") or "struct"


DEPTH_MAX = 64
ROOT_DEPTH = 1
ELEMENT_DEPTH = 3
"""That of structs in the root's lists."""
NODE_COUNT_MAX = 1_000_000
VARINT_LENGTH_MAX_BYTES = 10
FIELD_ID_MAX = 0x7FFF
STOP = 0
LONG_COUNT = 15

# Plain integers, because looking up a member of an enumeration is slow compared with decoding a field.
TRUE: Final = int(Kind.TRUE)
BOOL: Final = int(Kind.BOOL)
BYTE: Final = int(Kind.BYTE)
I16: Final = int(Kind.I16)
I64: Final = int(Kind.I64)
BINARY: Final = int(Kind.BINARY)
LIST: Final = int(Kind.LIST)
SET: Final = int(Kind.SET)
MAP: Final = int(Kind.MAP)
STRUCT: Final = int(Kind.STRUCT)
CONTAINERS: Final = frozenset({LIST, SET, MAP, STRUCT})
FIXED_SIZES_BYTES = {int(Kind.DOUBLE): 8, int(Kind.UUID): 16}


class Known:
    """A cache of structs in lists from the first successful decode, reused for the same bytes at the same position.

    It serves callers that decode one file many times with few changes. `values` has what was read of each struct, by
    identity and then by table, because elsewhere in a damaged tree the same struct may be read by another table.
    `made` has what was made of such values, by their identity.
    """

    __slots__ = ("is_full", "made", "structs", "values")

    def __init__(self) -> None:
        """Start empty."""
        self.is_full = False
        self.structs: dict[tuple[int, int], tuple[bytes, Struct, int]] = {}
        self.values: dict[int, dict[object, dict[str, Any]]] = {}
        self.made: dict[int, tuple[dict[str, Any], Any]] = {}


def decode(
    data: bytes,
    *,
    file: str,
    offset_bytes: int = 0,
    start: int = 0,
    depth_max: int = DEPTH_MAX,
    node_count_max: int = NODE_COUNT_MAX,
    path_of: Callable[[Sequence[Step]], str] = path_text,
    known: Known | None = None,
    shallow_list_id: int | None = None,
) -> tuple[Struct, int]:
    """Return the struct that starts at `data[start]` and the position behind its stop byte.

    Of the elements of the root's list with the id `shallow_list_id` only fields that contain no others are kept, and
    only what is kept of the elements before it counts for an element.
    `offset_bytes` is the position of `data` in `file`; offsets of nodes and errors count from the start of the file.
    Raises CorruptError, naming field path and offset, for bytes that are not a struct or exceed the limits.
    """
    try:
        if shallow_list_id is None:
            decoder = _Decoder(data, offset_bytes, depth_max, node_count_max, known)
        else:
            decoder = _ShallowDecoder(data, offset_bytes, depth_max, node_count_max, Known())
            decoder.shallow_list_id = shallow_list_id
        decoded = decoder.struct(start, ROOT_DEPTH)
    except BrokenError as broken:
        broken.report(file, path_of)
    if known is not None:
        known.is_full = True
    return decoded


class _Decoder:
    __slots__ = ("base", "data", "depth_max", "known", "nodes_left", "root_field_id", "shallow_list_id")

    def __init__(self, data: bytes, base: int, depth_max: int, nodes_left: int, known: Known | None) -> None:
        self.data = data
        self.base = base
        self.depth_max = depth_max
        self.nodes_left = nodes_left
        self.known = known
        self.shallow_list_id = self.root_field_id = 0

    def struct(self, position: int, depth: int) -> tuple[Struct, int]:
        data, base = self.data, self.base
        size, offset_bytes = len(data), base + position
        self.check_depth(depth, position)
        fields: list[Field] = []
        field_id = 0
        try:
            while (header := data[position]) != STOP:
                field_at = base + position
                position += 1
                kind = header & 15
                id_width_bytes = 0
                if header >> 4:
                    field_id += header >> 4
                else:
                    self.check_id(field_id, position)
                    field_id, position, id_width_bytes = self.long_id(position)
                value: Value
                if I16 <= kind <= I64 and (byte := data[position]) < 128:
                    value = (byte >> 1) ^ -(byte & 1)
                    position += 1
                elif kind == BINARY and (byte := data[position]) < 128 and (end := position + 1 + byte) <= size:
                    value = data[position + 1 : end]
                    position = end
                elif kind <= BOOL:
                    if kind == STOP:
                        raise self.unknown(kind, position - 1)
                    value = kind == TRUE
                    kind = BOOL
                else:
                    if depth == ROOT_DEPTH:
                        self.root_field_id = field_id
                    value, position = self.value(kind, position, depth)
                fields.append(Field(field_id, kind, value, field_at, id_width_bytes))
                self.nodes_left -= 1
                if self.nodes_left < 0:
                    raise self.too_many(position)
            self.check_id(field_id, position)
        except (IndexError, BrokenError) as error:
            raise self.broken(error, field_id) from None
        return Struct(tuple(fields), offset_bytes), position + 1

    def known_struct(self, position: int, depth: int) -> tuple[Struct, int]:
        """Decode a struct, or reuse the one with the same bytes at the same position."""
        assert self.known is not None
        location = self.base + position, depth
        seen = self.known.structs.get(location)
        if seen is not None:
            content, struct, node_count = seen
            if node_count <= self.nodes_left and self.data.startswith(content, position):
                self.nodes_left -= node_count
                return struct, position + len(content)
        nodes_left = self.nodes_left
        struct, end = self.struct(position, depth)
        if not self.known.is_full:
            self.known.structs[location] = self.data[position:end], struct, nodes_left - self.nodes_left
            self.known.values[id(struct)] = {}
        return struct, end

    def value(self, kind: int, position: int, depth: int) -> tuple[Value, int]:
        """Decode any value except a boolean field."""
        if I16 <= kind <= I64:
            number, end, padded_bytes = self.varint(position)
            number = (number >> 1) ^ -(number & 1)
            return (Padded(number, padded_bytes) if padded_bytes else number), end
        if kind == BINARY:
            return self.binary(position)
        if kind == STRUCT:
            return self.struct(position, depth + 1)
        if kind in (LIST, SET):
            return self.items(position, depth + 1)
        if kind == MAP:
            return self.entries(position, depth + 1)
        if kind in FIXED_SIZES_BYTES:
            return self.slice(position, FIXED_SIZES_BYTES[kind])
        if TRUE <= kind <= BYTE:
            return self.data[position], position + 1
        raise self.unknown(kind, position - 1)

    def binary(self, position: int) -> tuple[bytes | Padded, int]:
        length, position, padded_bytes = self.varint(position)
        content, position = self.slice(position, length)
        return (Padded(content, padded_bytes) if padded_bytes else content), position

    def slice(self, position: int, length: int) -> tuple[bytes, int]:
        end = position + length
        if end > len(self.data):
            raise self.too_long(f"{length} bytes", position)
        return self.data[position:end], end

    def items(self, position: int, depth: int) -> tuple[Items, int]:
        self.check_depth(depth, position)
        offset_bytes = self.base + position
        count, kind = self.data[position] >> 4, self.data[position] & 15
        position += 1
        width_bytes = 0
        if count == LONG_COUNT:
            count, position, _ = self.varint(position)
            width_bytes = self.base + position - offset_bytes - 1
        self.claim(count, position)
        elements: list[Value] = []
        try:
            decode = None if kind != STRUCT else self.struct if self.known is None else self.known_struct
            while len(elements) < count:
                element, position = decode(position, depth + 1) if decode else self.value(kind, position, depth)
                elements.append(element)
        except (IndexError, BrokenError) as error:
            raise self.broken(error, f"[{len(elements)}]") from None
        return Items(kind, tuple(elements), offset_bytes, width_bytes), position

    def entries(self, position: int, depth: int) -> tuple[Entries, int]:
        self.check_depth(depth, position)
        offset_bytes = self.base + position
        count, position, _ = self.varint(position)
        width_bytes = self.base + position - offset_bytes
        if count == 0:
            return Entries(0, 0, (), offset_bytes, width_bytes), position
        self.claim(count, position)
        kinds = self.data[position]
        position += 1
        entries: list[tuple[Value, Value]] = []
        try:
            for _ in range(count):
                key, position = self.value(kinds >> 4, position, depth)
                value, position = self.value(kinds & 15, position, depth)
                entries.append((key, value))
        except (IndexError, BrokenError) as error:
            raise self.broken(error, f"[{len(entries)}]") from None
        return Entries(kinds >> 4, kinds & 15, tuple(entries), offset_bytes, width_bytes), position

    def varint(self, position: int) -> tuple[int, int, int]:
        """Return the value, the position behind it, and its width if that is more than needed, else 0."""
        data, start = self.data, position
        number = shift = 0
        while (byte := data[position]) >= 128:
            number |= (byte & 127) << shift
            shift += 7
            position += 1
            if position - start == VARINT_LENGTH_MAX_BYTES:
                raise BrokenError(f"at most {VARINT_LENGTH_MAX_BYTES} bytes of varint", "more", self.base + start)
        number |= byte << shift
        if number >> 64:
            raise BrokenError("an integer of at most 64 bits", number, self.base + start)
        return number, position + 1, (position + 1 - start if byte == 0 and shift else 0)

    def long_id(self, position: int) -> tuple[int, int, int]:
        number, end, _ = self.varint(position)
        field_id = (number >> 1) ^ -(number & 1)
        self.check_id(field_id, position)
        return field_id, end, end - position

    def check_id(self, field_id: int, position: int) -> None:
        """Reject an id of more than 16 bits; short headers only add, so it is enough to check the highest."""
        if not ~FIELD_ID_MAX <= field_id <= FIELD_ID_MAX:
            raise BrokenError("a field id of 16 bits", field_id, self.base + position)

    def claim(self, count: int, position: int) -> None:
        """Reject a count of elements before anything is allocated: each takes at least one byte, and one node."""
        if count > len(self.data) - position:
            raise self.too_long(f"{count} elements", position)
        self.nodes_left -= count
        if self.nodes_left < 0:
            raise self.too_many(position)

    def too_many(self, position: int) -> BrokenError:
        return BrokenError("no more nodes than the limit", "more", self.base + position, is_supported=False)

    def check_depth(self, depth: int, position: int) -> None:
        if depth > self.depth_max:
            raise BrokenError(f"at most {self.depth_max} levels", "more", self.base + position)

    def too_long(self, claim: str, position: int) -> BrokenError:
        return BrokenError(f"at most the {len(self.data) - position} bytes that remain", claim, self.base + position)

    def unknown(self, kind: int, position: int) -> BrokenError:
        return BrokenError("a wire type from 1 to 13", kind, self.base + position)

    def broken(self, error: IndexError | BrokenError, step: Step) -> BrokenError:
        if not isinstance(error, BrokenError):
            error = BrokenError("more bytes", "their end", self.base + len(self.data))
        if step:
            error.steps.append(step)
        return error


class _ShallowDecoder(_Decoder):
    """Checks all that it skips, in memory for one element at a time."""

    __slots__ = ()

    def known_struct(self, position: int, depth: int) -> tuple[Struct, int]:
        nodes_left = self.nodes_left
        struct, end = self.struct(position, depth)
        if depth > ELEMENT_DEPTH or self.root_field_id != self.shallow_list_id:
            return struct, end
        kept = tuple(field for field in struct.fields if field.kind not in CONTAINERS)
        self.nodes_left = nodes_left - len(kept)
        return Struct(kept, struct.offset_bytes), end


def encode(tree: Struct) -> bytes:
    """Return the bytes of a struct: for a tree from `decode`, exactly the bytes that it read."""
    out = bytearray()
    _put_struct(out, tree)
    return bytes(out)


def _put_struct(out: bytearray, struct: Struct) -> None:
    previous_id = 0
    for field in struct.fields:
        kind = TRUE if field.value is True else field.kind
        delta = field.id - previous_id
        if field.id_width_bytes == 0 and 1 <= delta <= 15:
            out.append(delta << 4 | kind)
        else:
            out.append(kind)
            put_varint(out, zigzag(field.id), field.id_width_bytes)
        if field.kind != BOOL:
            _put_value(out, field.value, field.kind)
        previous_id = field.id
    out.append(STOP)


def _put_value(out: bytearray, value: Value, kind: int) -> None:
    width_bytes = 0
    if isinstance(value, Padded):
        value, width_bytes = value
    if isinstance(value, Struct):
        _put_struct(out, value)
    elif isinstance(value, Items):
        _put_items(out, value)
    elif isinstance(value, Entries):
        _put_entries(out, value)
    elif isinstance(value, bytes):
        if kind == BINARY:
            put_varint(out, len(value), width_bytes)
        out += value
    elif kind <= BYTE:
        out.append(value)
    else:
        put_varint(out, zigzag(value), width_bytes)


def _put_items(out: bytearray, items: Items) -> None:
    count = len(items.elements)
    if items.count_width_bytes == 0 and count < LONG_COUNT:
        out.append(count << 4 | items.element_kind)
    else:
        out.append(LONG_COUNT << 4 | items.element_kind)
        put_varint(out, count, items.count_width_bytes)
    for element in items.elements:
        _put_value(out, element, items.element_kind)


def _put_entries(out: bytearray, entries: Entries) -> None:
    put_varint(out, len(entries.entries), entries.count_width_bytes)
    if entries.entries:
        out.append(entries.key_kind << 4 | entries.value_kind)
    for key, value in entries.entries:
        _put_value(out, key, entries.key_kind)
        _put_value(out, value, entries.value_kind)


def zigzag(number: int) -> int:
    """Return the unsigned number that stands for a signed one."""
    return number << 1 if number >= 0 else ~(number << 1)


def put_varint(out: bytearray, number: int, width_bytes: int) -> None:
    """Append a varint of at least `width_bytes`."""
    width_bytes -= 1
    while number > 127 or width_bytes > 0:
        out.append(number & 127 | 128)
        number >>= 7
        width_bytes -= 1
    out.append(number)


def unpadded(value: Value) -> Value:
    """Return a value without the padding of its varint."""
    return value.value if isinstance(value, Padded) else value


def without_padding(struct: Struct) -> Struct:
    """Return the struct with each number, also those within it, in as few bytes as it needs."""
    fields = tuple(each._replace(value=_without_padding(each.value)) for each in struct.fields)
    return Struct(fields, struct.offset_bytes)


def _without_padding(value: Value) -> Value:
    if isinstance(value, Struct):
        return without_padding(value)
    if isinstance(value, Items):
        return value._replace(elements=tuple(map(_without_padding, value.elements)))
    return unpadded(value)


def value_of(struct: Struct, field_id: int) -> Value | None:
    """Return the value of the first field with this id, or None."""
    return next((field.value for field in struct.fields if field.id == field_id), None)


def structs_in(struct: Struct, field_id: int) -> tuple[Struct, ...]:
    """Return the structs of a list, none where there is no such list."""
    for each in struct.fields:
        if each.id == field_id and isinstance(each.value, Items) and each.value.element_kind == Kind.STRUCT:
            return each.value.elements  # type: ignore[return-value]
    return ()


def struct_list(field_id: int, structs: Iterable[Struct | bytes]) -> Field:
    """Return a field with a list of structs, each as a tree or encoded."""
    return Field(field_id, Kind.LIST, Items(Kind.STRUCT, tuple(structs)))


def with_fields(struct: Struct, *fields: Field) -> Struct:
    """Return the struct with each of `fields` replacing the one with its id, or inserted in the order of ids."""
    new = {field.id: field for field in fields}
    kept = [new.pop(field.id, field) for field in struct.fields]
    for field in new.values():
        insert_at = next((index for index, other in enumerate(kept) if other.id > field.id), len(kept))
        kept.insert(insert_at, field)
    return Struct(tuple(kept), struct.offset_bytes)


def without(struct: Struct, *field_ids: int) -> Struct:
    """Return the struct without the fields with these ids."""
    return Struct(tuple(field for field in struct.fields if field.id not in field_ids), struct.offset_bytes)


def moved(struct: Struct, field_ids: Collection[int], delta_bytes: int) -> Struct:
    """Return the struct with `delta_bytes` added to these integer fields, except where 0 means "none"."""
    return Struct(
        tuple(
            field._replace(value=field.value + delta_bytes)
            if field.id in field_ids and isinstance(field.value, int) and field.value
            else field
            for field in struct.fields
        ),
        struct.offset_bytes,
    )


def packed(struct: Struct) -> Struct:
    """Return the struct with inner structs and lists already encoded, which makes encoding fast."""
    return Struct(
        tuple(
            field._replace(value=_encoded_value(field)) if field.kind in (Kind.STRUCT, Kind.LIST) else field
            for field in struct.fields
        ),
        struct.offset_bytes,
    )


def _encoded_value(field: Field) -> bytes:
    # Between the one-byte header of a first field and the stop byte.
    return encode(Struct((Field(1, field.kind, field.value),)))[1:-1]
