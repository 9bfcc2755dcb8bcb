"""Changed copies of a Thrift struct; what is not named keeps its order and every choice of its writer.

The encoder puts bytes as they are, except where the field is a binary. So any struct or list of a tree may be replaced
by the bytes that it encodes to: those trees are for encoding, not for reading.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable

from tornproof.impl.parquet.thrift import encode
from tornproof.impl.parquet.tree import Field, Items, Kind, Struct, Value


def value_of(struct: Struct, field_id: int) -> Value | None:
    """Return the value of the first field with this id, or None without one."""
    return next((field.value for field in struct.fields if field.id == field_id), None)


def struct_list(field_id: int, structs: Iterable[Struct | bytes]) -> Field:
    """Return a field that holds a list of structs, each as a tree or as the bytes that it encodes to."""
    return Field(field_id, Kind.LIST, Items(Kind.STRUCT, tuple(structs)))


def with_fields(struct: Struct, *fields: Field) -> Struct:
    """Return the struct with each of `fields` in place of the one with its id, or where its id sorts."""
    new = {field.id: field for field in fields}
    kept = [new.pop(field.id, field) for field in struct.fields]
    for field in new.values():
        place = next((index for index, other in enumerate(kept) if other.id > field.id), len(kept))
        kept.insert(place, field)
    return Struct(tuple(kept), struct.offset_bytes)


def without(struct: Struct, *field_ids: int) -> Struct:
    """Return the struct less the fields with these ids."""
    return Struct(tuple(field for field in struct.fields if field.id not in field_ids), struct.offset_bytes)


def moved(struct: Struct, field_ids: Collection[int], delta_bytes: int) -> Struct:
    """Return the struct with `delta_bytes` added to these integer fields, except where 0 says "none"."""
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
    """Return the struct with inner structs and lists as the bytes that they encode to, which makes encoding fast."""
    return Struct(
        tuple(
            field._replace(value=_encoded_value(field)) if field.kind in (Kind.STRUCT, Kind.LIST) else field
            for field in struct.fields
        ),
        struct.offset_bytes,
    )


def _encoded_value(field: Field) -> bytes:
    # Between the header of a first field, which is one byte, and the stop byte.
    return encode(Struct((Field(1, field.kind, field.value),)))[1:-1]
