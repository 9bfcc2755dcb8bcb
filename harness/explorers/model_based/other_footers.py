"""Forms of a Parquet footer that pyarrow reads but does not write: those of other programs and of its older versions.

The ids are those of parquet.thrift (https://github.com/apache/parquet-format/blob/master/src/main/thrift/parquet.thrift).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from types import MappingProxyType
from typing import Final, TypeAlias

from tornproof.impl.layout.parquet import DATA_FILE, MAGIC
from tornproof.impl.parquet.thrift import (
    Field,
    Items,
    Kind,
    Padded,
    Struct,
    Value,
    decode,
    encode,
    value_of,
    with_fields,
    without,
)

Change: TypeAlias = Callable[[Struct], Struct]

LENGTH_BYTES: Final = 4
SCHEMA, GROUPS, CHUNKS = (2,), (4,), (4, 1)
CHUNK_FACTS: Final = (*CHUNKS, 3)
STATISTICS: Final = (*CHUNK_FACTS, 12)
UNKNOWN_ID, WIDE_BYTES = 200, 3


def with_footer(content: bytes, change: Change) -> bytes:
    """Return a Parquet file with its footer changed."""
    end = len(content) - LENGTH_BYTES - len(MAGIC)
    start = end - int.from_bytes(content[end : end + LENGTH_BYTES], "little")
    before, _ = decode(content[start:end], file=DATA_FILE)
    footer = encode(change(before))
    return content[:start] + footer + len(footer).to_bytes(LENGTH_BYTES, "little") + MAGIC


def with_elements(struct: Struct, field_id: int, change: Callable[[tuple[Struct, ...]], tuple[Struct, ...]]) -> Struct:
    """Return a struct with the elements of one of its lists changed."""
    (field,) = (each for each in struct.fields if each.id == field_id)
    assert isinstance(field.value, Items)
    elements = change(tuple(each for each in field.value.elements if isinstance(each, Struct)))
    return with_fields(struct, field._replace(value=field.value._replace(elements=elements)))


def within(path: tuple[int, ...], change: Change) -> Change:
    """Return a change of the structs that field ids lead to, through lists, too."""
    if not path:
        return change
    deeper = within(path[1:], change)

    def changed(struct: Struct) -> Struct:
        return Struct(
            tuple(
                each._replace(value=_mapped(each.value, deeper)) if each.id == path[0] else each
                for each in struct.fields
            )
        )

    return changed


def with_fields_of(content: bytes, path: tuple[int, ...], *fields: Field) -> bytes:
    """Return a file whose structs at a path of fields in its footer have other fields."""
    return with_footer(content, within(path, lambda struct: with_fields(struct, *fields)))


def _mapped(value: Value, change: Change) -> Value:
    if isinstance(value, Struct):
        return change(value)
    if isinstance(value, Items):
        return value._replace(elements=tuple(_mapped(each, change) for each in value.elements))
    return value


def _everywhere(change: Change) -> Change:
    def changed(struct: Struct) -> Struct:
        return change(Struct(tuple(each._replace(value=_mapped(each.value, changed)) for each in struct.fields)))

    return changed


def _without(*field_ids: int) -> Change:
    return lambda struct: without(struct, *field_ids)


def _renumbered(new_ids: Mapping[int, int]) -> Change:
    """Return a change of fields' ids; those which are not named are left out."""
    return lambda struct: Struct(
        tuple(each._replace(id=new_ids[each.id]) for each in struct.fields if each.id in new_ids)
    )


def _with_zero(field_id: int) -> Change:
    """Return a change that sets a number to 0, also where it was left out."""
    return lambda struct: with_fields(struct, Field(field_id, Kind.I64, 0))


def _without_dictionary_offset(struct: Struct) -> Struct:
    """Let the pages of data begin with the dictionary, as in files of the first writers."""
    dictionary = value_of(struct, 11)
    return struct if dictionary is None else with_fields(without(struct, 11), Field(9, Kind.I64, dictionary))


def _with_long_headers(struct: Struct) -> Struct:
    return Struct(tuple(each._replace(id_width_bytes=1) for each in struct.fields))


def _with_wide_numbers(struct: Struct) -> Struct:
    kinds = {Kind.I32, Kind.I64, Kind.BINARY}
    return Struct(
        tuple(
            each._replace(value=Padded(each.value, WIDE_BYTES))  # type: ignore[arg-type]
            if each.kind in kinds and not isinstance(each.value, Padded)
            else each
            for each in struct.fields
        )
    )


def _with_unknown_fields(struct: Struct) -> Struct:
    inner = Struct((Field(1, Kind.BINARY, b"?"), Field(2, Kind.BOOL, True)))
    unknown = Field(UNKNOWN_ID, Kind.LIST, Items(Kind.STRUCT, (inner, inner)))
    return Struct((*struct.fields, unknown))


def _reversed(struct: Struct) -> Struct:
    return Struct(struct.fields[::-1])


def _all(*changes: Change) -> Change:
    def changed(struct: Struct) -> Struct:
        for each in changes:
            struct = each(struct)
        return struct

    return changed


def _with_no_dictionary_at_0(struct: Struct) -> Struct:
    return struct if value_of(struct, 11) is not None else _with_zero(11)(struct)


def _with_bounds_of_old_writers(struct: Struct) -> Struct:
    return Struct((*_renumbered({5: 1, 6: 2})(struct).fields, *_without(7, 8)(struct).fields))


FOOTERS: Final[Mapping[str, Change]] = MappingProxyType(
    {
        "as pyarrow writes it": lambda struct: struct,
        "only what is required": _all(
            _without(5, 6, 7),
            within(GROUPS, _without(4, 5, 6, 7)),
            within(CHUNKS, _without(4, 5, 6, 7)),
            within(CHUNK_FACTS, _without(8, 10, 12, 13, 14, 15, 16)),
        ),
        "no orders of columns": _without(7),
        "data that begins with its dictionary": within(CHUNK_FACTS, _without_dictionary_offset),
        "0 for no dictionary": within(CHUNK_FACTS, _with_no_dictionary_at_0),
        "chunks at 0": _all(within(CHUNKS, _with_zero(2)), within(GROUPS, _with_zero(5))),
        "logical types alone": within(SCHEMA, _without(6)),
        "long headers of fields": _everywhere(_with_long_headers),
        "wide numbers": _everywhere(_with_wide_numbers),
        # Not in unions, which have one field.
        "unknown fields": _all(
            *(within(path, _with_unknown_fields) for path in ((), SCHEMA, GROUPS, CHUNKS, CHUNK_FACTS, STATISTICS))
        ),
        "fields in reverse order": _everywhere(_reversed),
        "bounds in the fields of old writers": within(STATISTICS, _renumbered({3: 3, 5: 1, 6: 2})),
        "bounds in the fields of old and new writers": within(STATISTICS, _with_bounds_of_old_writers),
        "bounds without counts of nulls": within(STATISTICS, _without(3)),
        "counts of nulls alone": within(STATISTICS, _without(5, 6, 7, 8)),
        "lower bounds alone": within(STATISTICS, _without(5, 7)),
        "upper bounds alone": within(STATISTICS, _without(6, 8)),
    }
)
CHANGES: Final = tuple(FOOTERS.values())
