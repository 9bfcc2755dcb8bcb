"""Whether a Thrift footer that says what `_pm` says agrees with it, and one that says anything else does not.

What the two say is [parquet.thrift](https://github.com/apache/parquet-format/blob/master/src/main/thrift/parquet.thrift)
and docs/format.md; each of their fields is changed on either side, also those that nobody compares.
"""

from __future__ import annotations

import functools
import itertools
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, TypeAlias, cast

from msgspec.structs import replace

from tornproof.harness.common.patch import Controls, not_noticed
from tornproof.harness.explorers.roundtrip.metadata.usual_records import chunk_of, column_of, header_of
from tornproof.impl.parquet.fields import Codec, Repetition
from tornproof.impl.parquet.footer import ColumnChunk, ParquetFooter, RowGroup, Statistics
from tornproof.impl.parquet.schema import SchemaElement, SchemaLeaf
from tornproof.impl.parquet.thrift import Field, Kind, Struct
from tornproof.impl.pm.block import Block, Chunk, Statistic
from tornproof.impl.pm.chain import Metadata
from tornproof.impl.pm.footer import Generation
from tornproof.impl.pm.footer_comparison import compare_footer
from tornproof.impl.types.physical import PhysicalType

PROPERTY = "a footer agrees with _pm if it says the same, and only then"
FILE = "compared.parquet"
FOOTER_BYTES, LEAF_BYTES, GROUP_BYTES, CHUNK_BYTES = 9000, 100, 1000, 10
"""Where the footer, its leaves, its row groups and, in these, their chunks are said to begin."""
DESIGNATED, TEXTS, HASHES, LISTS = range(4)
PHYSICAL_TYPES = (2, 6, 7, 5)
HASH_BYTES = 16
GROUP_ROWS = (40, 7)
DECIMAL, TIMESTAMP = 5, 8
UNIT_IDS = {"MILLIS": 1, "MICROS": 2, "NANOS": 3}
"""Members of Parquet's LogicalType, and of its TimeUnit."""
COMPRESSED_BYTES = 90
LOW, HIGH = b"\1" * 8, b"\2" * 8
NO_STATISTICS = Statistics(**dict.fromkeys(Statistics.__struct_fields__))
MASKS = {0: 1, 2: 2, 3: 0, 4: 0, 5: 4, 6: 8, 7: 16, 8: 2, 9: 32}
"""The bit in `_pm` of each encoding of Parquet; those of levels have none."""
ENCODINGS_WITHOUT_BIT = (1, 10, 11)

Pair: TypeAlias = tuple[ParquetFooter, Metadata]
Changes: TypeAlias = dict[str, Any]
Contradiction: TypeAlias = tuple[str, int, str, str]
"""The field, its offset, and the values that are expected and found."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ComparedFooter:
    """A footer, what `_pm` says, and where they contradict each other."""

    name: str
    kind: str
    footer: ParquetFooter
    metadata: Metadata
    contradictions: tuple[Contradiction, ...] = ()


@functools.cache
def compared_footers() -> tuple[ComparedFooter, ...]:
    """Return all pairs, always in the same order."""
    return (
        *_same(),
        *_other_numbers(),
        *_other_leaves(),
        *_other_chunks(),
        *_other_encodings(),
        *_other_bounds(),
        *_annotations(),
    )


def problem_of(case: ComparedFooter) -> str | None:
    """Say what is wrong with the comparison; None if nothing is."""
    found = tuple(
        (each.field, each.offset_bytes, each.expected.removesuffix(", as in _pm"), each.actual)
        for each in compare_footer(case.footer, case.metadata, file=FILE)
    )
    return None if found == case.contradictions else f"{found} contradict each other, and should {case.contradictions}"


def failed_controls() -> Iterator[str]:
    """Yield what is not noticed of comparisons that leave something out."""
    module = "tornproof.impl.pm.footer_comparison"
    controls: Controls = tuple(
        (f"{name} are not compared", f"{module}:_compare_{name}", lambda *_: iter(()))
        for name in ("leaf", "annotation", "row_group", "chunk", "statistics")
    )
    return not_noticed(controls, problem_of, compared_footers())


def _case(name: str, pair: Pair, *contradictions: Contradiction) -> ComparedFooter:
    footer, metadata = pair
    kind = contradictions[0][0] if contradictions else "the same"
    return ComparedFooter(name=name, kind=kind, footer=footer, metadata=metadata, contradictions=contradictions)


def _wrong(field: str, offset_bytes: int, expected: object, actual: object) -> Contradiction:
    return field, offset_bytes, str(expected), str(actual)


def _base() -> Pair:
    names = ("at", "text", "hash", "list")
    leaves = tuple(_leaf(index, name) for index, name in enumerate(names))
    columns = (
        column_of(
            0,
            PHYSICAL_TYPES[index],
            name=name,
            id=index + 1,
            fixed_byte_len=HASH_BYTES if index == HASHES else 0,
            max_rep_level=1 if index == LISTS else 0,
            max_def_level=(0, 1, 1, 3)[index],
        )
        for index, name in enumerate(names)
    )
    groups = tuple(_group(number, rows) for number, rows in enumerate(GROUP_ROWS))
    blocks = tuple(
        Block(offset_bytes=0, end_bytes=0, num_rows=rows, chunks=tuple(_stated(each) for each in group.chunks))
        for group, rows in zip(groups, GROUP_ROWS, strict=True)
    )
    footer = ParquetFooter(
        tree=Struct(()),
        offset_bytes=FOOTER_BYTES,
        length_bytes=500,
        version=1,
        num_rows=sum(GROUP_ROWS),
        created_by=None,
        key_values=(),
        leaves=leaves,
        row_groups=groups,
    )
    header = header_of(columns, designated_timestamp=DESIGNATED)
    # What the footer of `_pm` says of itself is nothing that Parquet says.
    return footer, Metadata(header=header, generation=cast(Generation, None), blocks=blocks)


def _leaf(index: int, name: str) -> SchemaLeaf:
    element = SchemaElement(
        name="element" if index == LISTS else name,
        offset_bytes=LEAF_BYTES * index,
        physical_type=PhysicalType(PHYSICAL_TYPES[index]),
        type_length=HASH_BYTES if index == HASHES else None,
        repetition=Repetition.REQUIRED if index == DESIGNATED else Repetition.OPTIONAL,
        child_count=0,
        converted_type=None,
        scale=None,
        precision=None,
        field_id=index + 1,
        logical_type=None,
    )
    return SchemaLeaf(
        element=element,
        top=replace(element, name=name),
        path=(name,),
        physical_type=PhysicalType(PHYSICAL_TYPES[index]),
        repetition=Repetition.REQUIRED if index == DESIGNATED else Repetition.OPTIONAL,
        max_rep=1 if index == LISTS else 0,
        max_def=(0, 1, 1, 3)[index],
    )


def _group(number: int, rows: int) -> RowGroup:
    return RowGroup(
        offset_bytes=GROUP_BYTES * (number + 1),
        num_rows=rows,
        total_byte_size=0,
        ordinal=None,
        sorting_columns=(),
        chunks=tuple(_chunk(number, index, rows) for index in range(len(PHYSICAL_TYPES))),
    )


def _chunk(number: int, index: int, rows: int) -> ColumnChunk:
    start = 4 + COMPRESSED_BYTES * (len(PHYSICAL_TYPES) * number + index)
    has_dictionary = index == TEXTS
    statistics = replace(NO_STATISTICS, null_count=number, min_value=LOW, max_value=HIGH)
    fields: Changes = dict.fromkeys(ColumnChunk.__struct_fields__)
    return ColumnChunk(
        **{
            **fields,
            "offset_bytes": _chunk_bytes(number, index),
            "path_in_schema": (),
            "physical_type": PHYSICAL_TYPES[index],
            "codec": Codec(number),
            "encodings": (0, 3, 8) if has_dictionary else (0, 3),
            "num_values": rows,
            "total_compressed_size": COMPRESSED_BYTES,
            "total_uncompressed_size": COMPRESSED_BYTES,
            "data_page_offset": start + 30 if has_dictionary else start,
            "dictionary_page_offset": start if has_dictionary else None,
            "statistics": None if index == LISTS else statistics,
        }
    )


def _stated(chunk: ColumnChunk) -> Chunk:
    low, high = (Statistic(LOW, True), Statistic(HIGH, False)) if chunk.statistics else (None, None)
    return chunk_of(
        chunk.num_values,
        low,
        high,
        codec=chunk.codec,
        encodings=3 if chunk.dictionary_page_offset else 1,
        byte_range_start=chunk.dictionary_page_offset or chunk.data_page_offset,
        total_compressed=COMPRESSED_BYTES,
        null_count=chunk.statistics.null_count if chunk.statistics else None,
    )


def _with_footer(pair: Pair, **changes: Any) -> Pair:
    footer, metadata = pair
    return replace(footer, **changes), metadata


def _exchanged(structs: tuple[Any, ...], index: int, **changes: Any) -> tuple[Any, ...]:
    """Return structs of which one has other fields."""
    return tuple(replace(each, **changes) if number == index else each for number, each in enumerate(structs))


def _with_leaf(pair: Pair, index: int, element: Changes | None = None, top: Changes | None = None, **more: Any) -> Pair:
    leaf = pair[0].leaves[index]
    parts: Changes = {"element": replace(leaf.element, **element or {}), "top": replace(leaf.top, **top or {})}
    return _with_footer(pair, leaves=_exchanged(pair[0].leaves, index, **parts, **more))


def _with_column(pair: Pair, index: int, **changes: Any) -> Pair:
    footer, metadata = pair
    header = replace(metadata.header, columns=_exchanged(metadata.header.columns, index, **changes))
    return footer, replace(metadata, header=header)


def _with_group(pair: Pair, number: int, **changes: Any) -> Pair:
    return _with_footer(pair, row_groups=_exchanged(pair[0].row_groups, number, **changes))


def _with_block(pair: Pair, number: int, **changes: Any) -> Pair:
    footer, metadata = pair
    return footer, replace(metadata, blocks=_exchanged(metadata.blocks, number, **changes))


def _with_chunk(pair: Pair, number: int, index: int, **changes: Any) -> Pair:
    return _with_group(pair, number, chunks=_exchanged(pair[0].row_groups[number].chunks, index, **changes))


def _with_stated(pair: Pair, number: int, index: int, **changes: Any) -> Pair:
    return _with_block(pair, number, chunks=_exchanged(pair[1].blocks[number].chunks, index, **changes))


def _chunk_bytes(number: int, index: int) -> int:
    """Return where a chunk of a row group is said to begin in the footer."""
    return GROUP_BYTES * (number + 1) + CHUNK_BYTES * index


def _places() -> Iterator[tuple[int, int, str, int]]:
    """Yield each row group and column, the path of its chunk, and where that begins."""
    for number, index in itertools.product(range(len(GROUP_ROWS)), range(len(PHYSICAL_TYPES))):
        yield number, index, f"row_groups[{number}].columns[{index}]", _chunk_bytes(number, index)


def _same() -> Iterator[ComparedFooter]:
    base = _base()
    yield _case("the same", base)
    yield _case("no field ids", _with_leaf(base, TEXTS, top={"field_id": None}))
    yield _case("a length where there is none", _with_leaf(base, TEXTS, element={"type_length": 5}))
    yield _case("another name of an element in a list", _with_leaf(base, LISTS, element={"name": "item"}))
    of_footer: Changes = {"version": 2, "created_by": "someone", "key_values": (("key", None),), "length_bytes": 1}
    for field, value in of_footer.items():
        yield _case(f"{field} {value}", _with_footer(base, **{field: value}))
    for number, index, path, _ in _places():
        of_chunk: Changes = {
            **{"path_in_schema": ("other",), "total_uncompressed_size": 1, "file_path": "other"},
            **{"bloom_filter_offset": 7, "bloom_filter_length": 7, "column_index_offset": 7, "column_index_length": 7},
            **{"offset_index_offset": 7, "offset_index_length": 7},
        }
        for field, value in of_chunk.items():
            yield _case(f"{path}.{field} {value}", _with_chunk(base, number, index, **{field: value}))
        yield _case(f"{path} has distinct values", _with_stated(base, number, index, distinct_count=3))


def _other_numbers() -> Iterator[ComparedFooter]:
    base = _base()
    footer, rows = base[0], sum(GROUP_ROWS)
    for more in (-1, 1):
        pair = _with_footer(base, num_rows=rows + more)
        yield _case(f"{more} rows more", pair, _wrong("num_rows", FOOTER_BYTES, rows, rows + more))
        for number, count in enumerate(GROUP_ROWS):
            field, at = f"row_groups[{number}].num_rows", GROUP_BYTES * (number + 1)
            changed = _with_group(base, number, num_rows=count + more)
            yield _case(f"{more} rows more in row group {number}", changed, _wrong(field, at, count, count + more))
            yield _case(
                f"{more} rows more in block {number}",
                _with_block(base, number, num_rows=count + more),
                _wrong("num_rows", FOOTER_BYTES, rows + more, rows),
                _wrong(field, at, count + more, count),
            )
    for others in (footer.row_groups[:1], (*footer.row_groups, footer.row_groups[0]), ()):
        wrong = _wrong("row_groups", FOOTER_BYTES, 2, len(others))
        yield _case(f"{len(others)} row groups", _with_footer(base, row_groups=others), wrong)
    for leaves in (footer.leaves[:3], (*footer.leaves, footer.leaves[0]), ()):
        wrong = _wrong("schema", FOOTER_BYTES, "4 columns", len(leaves))
        yield _case(f"{len(leaves)} leaves", _with_footer(base, leaves=leaves, num_rows=1), wrong)


def _other_leaves() -> Iterator[ComparedFooter]:
    base = _base()
    for index, leaf in enumerate(base[0].leaves):
        path, at = f"schema leaf {index}", LEAF_BYTES * index
        name, other = repr(leaf.top.name), repr("other")
        yield _case(
            f"{path} other", _with_leaf(base, index, top={"name": "other"}), _wrong(f"{path} name", at, name, other)
        )
        yield _case(
            f"{path} other in _pm", _with_column(base, index, name="other"), _wrong(f"{path} name", at, other, name)
        )
        was, now = leaf.physical_type, PhysicalType.INT32
        wrong = _wrong(f"{path} type", at, was.name, now.name)
        yield _case(f"{path} {now.name}", _with_leaf(base, index, physical_type=now), wrong)
        for word, field, stated, was_level in (
            ("maximum repetition level", "max_rep", "max_rep_level", leaf.max_rep),
            ("maximum definition level", "max_def", "max_def_level", leaf.max_def),
        ):
            level = was_level + 1
            wrong = _wrong(f"{path} {word}", at, was_level, level)
            changed: Changes = {field: level}
            yield _case(f"{path} {word} {level}", _with_leaf(base, index, **changed), wrong)
            pair = _with_column(base, index, **{stated: level})
            yield _case(f"{path} {word} {level} in _pm", pair, _wrong(f"{path} {word}", at, level, was_level))
        for field_id in (0, -1, 9):
            wrong = _wrong(f"{path} field_id", at, index + 1, field_id)
            yield _case(f"{path} field_id {field_id}", _with_leaf(base, index, top={"field_id": field_id}), wrong)
        wrong = _wrong(f"{path} repetition_type", at, "not repeated", "REPEATED")
        yield _case(
            f"{path} repeated",
            _with_leaf(base, index, repetition=Repetition.REPEATED),
            *([] if leaf.max_rep else [wrong]),
        )
    path, at = f"schema leaf {HASHES} type_length", LEAF_BYTES * HASHES
    for length in (None, HASH_BYTES - 1, HASH_BYTES + 1):
        pair = _with_leaf(base, HASHES, element={"type_length": length})
        yield _case(f"{path} {length}", pair, _wrong(path, at, HASH_BYTES, length))
    pair = _with_column(base, HASHES, fixed_byte_len=8)
    yield _case(f"{path} of 8 in _pm", pair, _wrong(path, at, 8, HASH_BYTES))


def _other_chunks() -> Iterator[ComparedFooter]:
    base = _base()
    for number, index, path, at in _places():
        chunk, stated = base[0].row_groups[number].chunks[index], base[1].blocks[number].chunks[index]
        was, start = PhysicalType(PHYSICAL_TYPES[index]).name, stated.byte_range_start
        for physical in (0, 9):
            pair = _with_chunk(base, number, index, physical_type=physical)
            yield _case(f"{path}.type {physical}", pair, _wrong(f"{path}.type", at, was, physical))
        for field, more in (("total_compressed", 1), ("total_compressed", -1), ("num_values", 1), ("num_values", -1)):
            key = "total_compressed_size" if field == "total_compressed" else field
            value = getattr(chunk, key)
            wrong = _wrong(f"{path}.{key}", at, value, value + more)
            yield _case(f"{path}.{key} {more} more", _with_chunk(base, number, index, **{key: value + more}), wrong)
            pair = _with_stated(base, number, index, **{field: value + more})
            yield _case(f"{path}.{field} {more} more in _pm", pair, _wrong(wrong[0], at, value + more, value))
        codec = Codec(number + 5)
        wrong = _wrong(f"{path}.codec", at, Codec(number).name, codec.name)
        yield _case(f"{path}.codec {codec.name}", _with_chunk(base, number, index, codec=codec), wrong)
        first = "dictionary_page_offset" if chunk.dictionary_page_offset else "data_page_offset"
        for more in (-1, 1):
            wrong = _wrong(f"{path}.first page offset", at, start, start + more)
            pair = _with_chunk(base, number, index, **{first: start + more})
            yield _case(f"{path} begins {more} later", pair, wrong)
    yield from _data_pages()


def _data_pages() -> Iterator[ComparedFooter]:
    """Yield chunks whose data pages are at the edges of the chunk, outside of it, and nowhere, as it has none."""
    base = _base()
    for number, index, path, at in _places():
        if index != TEXTS:
            continue
        stated = base[1].blocks[number].chunks[TEXTS]
        start, last = stated.byte_range_start, stated.byte_range_start + COMPRESSED_BYTES - 1
        for offset in (start, last):
            yield _case(f"{path} has data at {offset}", _with_chunk(base, number, TEXTS, data_page_offset=offset))
        for offset in (start - 1, last + 1, 0):
            pair = _with_chunk(base, number, TEXTS, data_page_offset=offset)
            wrong = _wrong(f"{path}.data_page_offset", at, f"{start} to {last}", offset)
            yield _case(f"{path} has data at {offset}", pair, wrong)
            for key, field in (("total_compressed_size", "total_compressed"), ("num_values", "num_values")):
                empty = _with_stated(_with_chunk(pair, number, TEXTS, **{key: 0}), number, TEXTS, **{field: 0})
                yield _case(f"{path} has data at {offset}, and {key} 0", empty)
        # An offset of zero is that of no dictionary.
        pair = _with_chunk(base, number, TEXTS, dictionary_page_offset=0)
        wrong = _wrong(f"{path}.first page offset", at, start, start + 30)
        yield _case(f"{path} has a dictionary at 0", pair, wrong)


def _other_encodings() -> Iterator[ComparedFooter]:
    base = _base()
    for number, index, path, at in _places():
        for encoding, mask in MASKS.items():
            pair = _with_chunk(base, number, index, encodings=(encoding,))
            wrong = _wrong(f"{path}.encodings", at, "0x03" if index == TEXTS else "0x01", f"0x{mask:02x}")
            is_same = mask == (3 if index == TEXTS else 1)
            yield _case(f"{path} in encoding {encoding}", pair, *([] if is_same else [wrong]))
            both = _with_stated(
                _with_chunk(base, number, index, encodings=(0, encoding)), number, index, encodings=1 | mask
            )
            yield _case(f"{path} in encodings 0 and {encoding}", both)
        for encoding in ENCODINGS_WITHOUT_BIT:
            wrong = _wrong(f"{path}.encodings", at, "0x03" if index == TEXTS else "0x01", "unknown")
            yield _case(f"{path} in {encoding}", _with_chunk(base, number, index, encodings=(0, encoding)), wrong)


def _other_bounds() -> Iterator[ComparedFooter]:
    base = _base()
    for number, index, path, at in _places():
        chunk = base[0].row_groups[number].chunks[index]
        statistics = chunk.statistics or NO_STATISTICS
        for field, value in (
            ("distinct_count", 5),
            ("is_min_value_exact", True),
            ("is_max_value_exact", True),
            ("deprecated_min", HIGH),
            ("deprecated_max", LOW),
        ):
            pair = _with_chunk(base, number, index, statistics=replace(statistics, **{field: value}))
            yield _case(f"{path}.{field} {value!r}", pair)
        for count in [each for each in (0, 3, None) if each != statistics.null_count]:
            pair = _with_chunk(base, number, index, statistics=replace(statistics, null_count=count))
            wrong = _wrong(f"{path}.null_count", at, statistics.null_count, count)
            yield _case(f"{path}.null_count {count}", pair, wrong)
        for low in (None, b"", LOW, HIGH):
            for high in (None, b"", LOW, HIGH):
                yield _bounded((number, index, path, at), (low, high))


def _bounded(place: tuple[int, int, str, int], bounds: tuple[bytes | None, bytes | None]) -> ComparedFooter:
    base = _base()
    number, index, path, at = place
    known: tuple[bytes | None, ...] = (None, None) if index == LISTS else (LOW, HIGH)
    statistics = base[0].row_groups[number].chunks[index].statistics
    low, high = bounds
    changed = replace(statistics or NO_STATISTICS, min_value=low, max_value=high)
    wrong = [
        (f"{path}.{field}", at, stated.hex() if stated else "none", value.hex() if value else "none")
        for field, stated, value in zip(("min_value", "max_value"), known, bounds, strict=True)
        if (value or b"") != (stated or b"")
    ]
    # Those of the designated timestamp are taken from its pages where one is missing.
    is_said = index != DESIGNATED or (low and high)
    pair = _with_chunk(base, number, index, statistics=changed)
    return _case(f"{path} from {low!r} to {high!r}", pair, *(wrong if is_said else []))


def _annotations() -> Iterator[ComparedFooter]:
    """Yield columns of types with units and scales, whose leaves may be annotated with others, or with none."""
    base, path = _base(), f"schema leaf {DESIGNATED}"
    units = {**{7: "MILLIS", 8: "MICROS", 8 | 1 << 18: "NANOS"}, 6: None}
    trees = {name: _union(TIMESTAMP, Field(2, Kind.STRUCT, _union(id_))) for name, id_ in UNIT_IDS.items()}
    for (of, right), (unit, tree) in itertools.product(units.items(), [*trees.items(), (None, None)]):
        pair = _with_leaf(_with_column(base, DESIGNATED, type=of), DESIGNATED, element={"logical_type": tree})
        is_wrong = right is not None and unit is not None and unit != right
        wrong = [_wrong(f"{path} unit", LEAF_BYTES * DESIGNATED, right, unit)] if is_wrong else []
        yield _case(f"a column of the type {of} in {unit}", pair, *wrong)
    for scale, stated in itertools.product((0, 2, 5), (0, 2, 5, None)):
        digits = Field(2, Kind.I32, 9)
        tree = None if stated is None else _union(DECIMAL, Field(1, Kind.I32, stated), digits)
        pair = _with_column(base, DESIGNATED, type=30 | 9 << 8 | scale << 18)
        is_wrong = stated is not None and stated != scale
        wrong = [_wrong(f"{path} scale", LEAF_BYTES * DESIGNATED, scale, stated)] if is_wrong else []
        yield _case(
            f"decimals of the scale {scale} with that of {stated}",
            _with_leaf(pair, DESIGNATED, element={"logical_type": tree}),
            *wrong,
        )


def _union(member: int, *fields: Field) -> Struct:
    """Return a union, whose member is a struct with these fields; that of a time says whether it is UTC, too."""
    utc = (Field(1, Kind.BOOL, True),) if member == TIMESTAMP else ()
    return Struct((Field(member, Kind.STRUCT, Struct((*utc, *fields))),))
