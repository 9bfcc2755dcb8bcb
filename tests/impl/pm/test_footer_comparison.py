from collections.abc import Callable
from pathlib import Path, PurePosixPath

import golden_data
import pytest
from depth import sampled
from msgspec.structs import replace
from real_tables import parquet_partitions, snapshot_of

from tornproof.impl.layout.pm import ENCODINGS
from tornproof.impl.parquet.fields import Codec
from tornproof.impl.parquet.footer import decode_footer
from tornproof.impl.parquet.thrift import Field, Items, Kind, Struct, Value, decode, encode
from tornproof.impl.pm.chain import Metadata, decode_metadata, walk
from tornproof.impl.pm.footer_comparison import compare_footer, encodings_mask
from tornproof.impl.read.reader import Snapshot
from tornproof.impl.types.physical import PhysicalType

# Steps into the Thrift footer: ids of fields, and indices in lists as one-element lists.
Path_ = tuple[int | list[int], ...]
Change = Callable[[Value | None], Value | None]

SCHEMA, NUM_ROWS, ROW_GROUPS = 2, 3, 4
V, SYMBOL, TIMESTAMP = 1, 2, 0
STATISTICS = 12
CHAIN = "tables/9.4.3/chain"
CONVERTED = golden_data.files("tables/*/*/regenerated/*") + golden_data.files("legacy/*/*/migrated/*")


def element(column: int, field: int) -> Path_:
    return (SCHEMA, [column + 1], field)


def chunk(column: int, *fields: int, row_group: int = 0) -> Path_:
    """A path in the ColumnMetaData of a column chunk."""
    return (ROW_GROUPS, [row_group], 1, [column], 3, *fields)


def to(value: Value) -> Change:
    return lambda _: value


def more(old: Value | None) -> Value:
    assert isinstance(old, int)
    return old + 1


def other(old: Value | None) -> Value:
    """Other bytes of the same length."""
    assert isinstance(old, bytes)
    assert old
    return bytes([old[0] ^ 1]) + old[1:]


def absent(_: Value | None) -> None:
    return None


def less_one(old: Value | None) -> Value:
    assert isinstance(old, Items)
    return old._replace(elements=old.elements[:-1])


def changed(node: Value | None, path: Path_, change: Change) -> Value | None:
    """Return a tree with the value at `path` changed, added where it is absent, or removed."""
    if not path:
        return change(node)
    step, *rest = path
    if isinstance(step, list):
        assert isinstance(node, Items)
        (position,) = step
        value = changed(node.elements[position], tuple(rest), change)
        assert value is not None
        return node._replace(elements=(*node.elements[:position], value, *node.elements[position + 1 :]))
    assert isinstance(node, Struct)
    old = next((field for field in node.fields if field.id == step), None)
    value = changed(old.value if old else None, tuple(rest), change)
    fields = [field for field in node.fields if field.id != step]
    if value is not None:
        kind = old.kind if old else Kind.BINARY if isinstance(value, bytes) else Kind.I64
        fields.append(Field(step, kind, value))
    return node._replace(fields=tuple(sorted(fields, key=lambda field: field.id)))


def metadata_and_footer(folder: Path) -> tuple[Metadata, bytes]:
    """The first parquet partition's committed generation, and its Thrift footer."""
    snapshot = snapshot_of(folder / "table")
    return generation_and_footer(snapshot)


def generation_and_footer(snapshot: Snapshot, position: int = 0) -> tuple[Metadata, bytes]:
    resolved = snapshot.resolve(parquet_partitions(snapshot)[position])
    fixed = resolved.metadata.generation.position.fixed
    with resolved.files.open_data() as handle:
        return resolved.metadata, handle.pread(fixed.parquet_footer_length, fixed.parquet_footer_offset)


def compared(metadata: Metadata, footer_bytes: bytes) -> list[str]:
    footer = decode_footer(footer_bytes, file="data.parquet", offset_bytes=0)
    problems = list(compare_footer(footer, metadata, file="data.parquet"))
    assert all(problem.file == "data.parquet" and "as in _pm" in problem.expected for problem in problems)
    return [problem.field for problem in problems]


def compared_with(folder: Path, path: Path_, change: Change) -> list[str]:
    metadata, footer_bytes = metadata_and_footer(folder)
    assert compared(metadata, footer_bytes) == []
    tree = changed(decode(footer_bytes, file="data.parquet")[0], path, change)
    assert isinstance(tree, Struct)
    assert encode(tree) != footer_bytes
    return compared(metadata, encode(tree))


@pytest.mark.parametrize(
    "name", sampled(16, [f"{name}/table" for name in golden_data.TABLES] + list(golden_data.HISTORY_STEPS))
)
def test_footers_of_real_partitions_agree_with_their_pm(name: str, questdb_data: Path) -> None:
    snapshot = snapshot_of(questdb_data / name)
    for position in range(len(parquet_partitions(snapshot))):
        assert compared(*generation_and_footer(snapshot, position)) == []


@pytest.mark.parametrize("name", CONVERTED)
def test_footers_agree_with_the_pm_that_the_converter_makes_of_them(name: str, questdb_data: Path) -> None:
    pm = (questdb_data / name).read_bytes()
    metadata = decode_metadata(pm, next(walk(pm, file="_pm")), file="_pm")
    fixed = metadata.generation.position.fixed
    data = questdb_data / PurePosixPath(name).parents[1] / "table" / PurePosixPath(name).stem / "data.parquet"
    start = fixed.parquet_footer_offset
    assert compared(metadata, data.read_bytes()[start : start + fixed.parquet_footer_length]) == []


@pytest.mark.parametrize(
    ("path", "change", "found"),
    [
        (element(V, 4), to(b"w"), ["schema leaf 1 name"]),
        (element(V, 1), to(PhysicalType.INT32), ["schema leaf 1 type"]),
        (element(V, 3), to(0), ["schema leaf 1 maximum definition level"]),
        (element(V, 3), to(2), ["schema leaf 1 maximum repetition level", "schema leaf 1 repetition_type"]),
        (element(V, 9), more, ["schema leaf 1 field_id"]),
        ((NUM_ROWS,), more, ["num_rows"]),
        ((ROW_GROUPS,), less_one, ["row_groups"]),
        ((ROW_GROUPS, [3], 3), more, ["row_groups[3].num_rows"]),
        (chunk(V, 1), to(PhysicalType.DOUBLE), ["type"]),
        (chunk(V, 2), to(Items(Kind.I32, (6,))), ["encodings"]),
        (chunk(V, 2), to(Items(Kind.I32, (0, 3, 99))), ["encodings"]),
        (chunk(V, 4), to(Codec.GZIP), ["codec"]),
        (chunk(V, 5), more, ["num_values"]),
        (chunk(V, 7), more, ["total_compressed_size"]),
        (chunk(V, 9), more, ["first page offset"]),
        (chunk(V, 9), to(0), ["first page offset"]),
        (chunk(V, 11), to(5), ["first page offset"]),
        (chunk(SYMBOL, 11), more, ["first page offset"]),
        (chunk(SYMBOL, 9), to(4), ["data_page_offset"]),
        (chunk(SYMBOL, 9), to(1 << 40), ["data_page_offset"]),
        (chunk(V, STATISTICS, 3), more, ["null_count"]),
        (chunk(V, STATISTICS, 3), absent, ["null_count"]),
        (chunk(V, STATISTICS, 5), other, ["max_value"]),
        (chunk(V, STATISTICS, 5), absent, ["max_value"]),
        (chunk(V, STATISTICS, 6), other, ["min_value"]),
        (chunk(V, STATISTICS, 6), to(b""), ["min_value"]),
        (chunk(V, STATISTICS), absent, ["null_count", "min_value", "max_value"]),
        (chunk(TIMESTAMP, STATISTICS, 6), other, ["min_value"]),
        (chunk(TIMESTAMP, STATISTICS), absent, ["null_count"]),
    ],
)
def test_changed_field_of_the_footer_is_named(
    path: Path_, change: Change, found: list[str], questdb_data: Path
) -> None:
    prefix = f"row_groups[0].columns[{path[3][0]}]." if len(path) > 3 and isinstance(path[3], list) else ""
    assert compared_with(questdb_data / CHAIN, path, change) == [prefix + field for field in found]


@pytest.mark.parametrize(
    ("path", "change"),
    [
        ((ROW_GROUPS, [0], 1, [V], 2), more),  # file_offset is stale in rewritten files
        ((ROW_GROUPS, [0], 2), more),
        (chunk(V, 3), to(Items(Kind.BINARY, (b"old name",)))),  # stays when a column is renamed
        (chunk(V, 6), more),
        (chunk(V, STATISTICS, 1), to(b"deprecated")),
        (chunk(V, STATISTICS, 2), to(b"deprecated")),
        (chunk(TIMESTAMP, STATISTICS, 5), absent),  # the converter then takes both bounds from the pages
        (chunk(TIMESTAMP, STATISTICS, 6), absent),
        (element(V, 9), absent),
        ((5,), absent),
        ((6,), to(b"another writer")),
    ],
)
def test_field_that_no_reader_of_pm_uses_may_differ(path: Path_, change: Change, questdb_data: Path) -> None:
    assert compared_with(questdb_data / CHAIN, path, change) == []


@pytest.mark.parametrize(
    ("json_id", "field_id_is_other", "found"),
    [
        (0, False, []),
        (1, False, ["questdb schema[1].id"]),
        (None, True, ["schema leaf 1 field_id"]),
        (0, True, ["schema leaf 1 field_id"]),
    ],
)
def test_the_id_that_is_not_that_of_pm_is_named_and_a_server_goes_by_the_json(
    json_id: int | None, field_id_is_other: bool, found: list[str], questdb_data: Path
) -> None:
    """An id in the JSON was compared with nothing, although servers know a column by it and not by Parquet's."""
    metadata, footer_bytes = metadata_and_footer(questdb_data / CHAIN)
    if field_id_is_other:
        tree = changed(decode(footer_bytes, file="data.parquet")[0], element(V, 9), more)
        assert isinstance(tree, Struct)
        footer_bytes = encode(tree)
    footer = decode_footer(footer_bytes, file="data.parquet", offset_bytes=0)
    of_v = None if json_id is None else metadata.header.columns[V].id + json_id
    problems = compare_footer(footer, metadata, json_ids=(None, of_v), file="data.parquet")
    assert [problem.field for problem in problems] == found


def test_empty_statistic_of_the_footer_counts_as_absent(questdb_data: Path) -> None:
    metadata, footer_bytes = metadata_and_footer(questdb_data / CHAIN)
    block, *others = metadata.blocks
    chunks = list(block.chunks)
    chunks[V] = replace(chunks[V], minimum=None)
    without_minimum = replace(metadata, blocks=(replace(block, chunks=tuple(chunks)), *others))
    empty = changed(decode(footer_bytes, file="data.parquet")[0], chunk(V, STATISTICS, 6), to(b""))
    assert isinstance(empty, Struct)
    assert compared(without_minimum, encode(empty)) == []
    assert compared(without_minimum, footer_bytes) == ["row_groups[0].columns[1].min_value"]


def test_length_of_fixed_values_must_be_that_of_the_column(questdb_data: Path) -> None:
    folder = questdb_data / "tables/9.4.2/types"
    metadata, _ = metadata_and_footer(folder)
    uuid = [column.name for column in metadata.header.columns].index("u")
    assert compared_with(folder, element(uuid, 2), to(17)) == [f"schema leaf {uuid} type_length"]


def test_schema_of_another_width_is_one_problem(questdb_data: Path) -> None:
    narrow, _ = metadata_and_footer(questdb_data / "tables/9.4.2/rewrite")
    _, footer_bytes = metadata_and_footer(questdb_data / CHAIN)
    assert compared(narrow, footer_bytes) == ["schema"]


def test_swapped_columns_are_found(questdb_data: Path) -> None:
    def swapped(old: Value | None) -> Value:
        assert isinstance(old, Items)
        first, second, *rest = old.elements
        return old._replace(elements=(second, first, *rest))

    found = compared_with(questdb_data / CHAIN, (ROW_GROUPS, [0], 1), swapped)
    assert {"row_groups[0].columns[0].first page offset", "row_groups[0].columns[1].first page offset"} <= set(found)


def test_codecs_and_physical_types_have_one_name_in_both_files() -> None:
    codecs = ["UNCOMPRESSED", "SNAPPY", "GZIP", "LZO", "BROTLI", "LZ4", "ZSTD", "LZ4_RAW"]
    kinds = ["BOOLEAN", "INT32", "INT64", "INT96", "FLOAT", "DOUBLE", "BYTE_ARRAY", "FIXED_LEN_BYTE_ARRAY"]
    assert {codec.name: codec.value for codec in Codec} == dict(zip(codecs, range(8), strict=True))
    assert {kind.name: kind.value for kind in PhysicalType} == dict(zip(kinds, range(8), strict=True))


@pytest.mark.parametrize(
    ("encodings", "mask"),
    [
        ((), 0),
        ((0,), 1),
        ((2,), 2),
        ((8,), 2),
        ((0, 2, 8), 3),
        ((5,), 4),
        ((6,), 8),
        ((7,), 16),
        ((9,), 32),
        ((3, 4), 0),
    ],
)
def test_encodings_have_the_bits_of_the_format(encodings: tuple[int, ...], mask: int) -> None:
    assert encodings_mask(encodings) == mask
    assert mask & ~ENCODINGS.known_mask == 0


@pytest.mark.parametrize("encoding", [1, 10, 99, -1])
def test_unknown_encoding_has_no_bit(encoding: int) -> None:
    assert encodings_mask((0, encoding)) is None
