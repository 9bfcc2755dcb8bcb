"""Footers taken apart and put together again: nothing is lost, and a commit changes what real servers change."""

import random
from collections.abc import Callable
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path

import golden_data
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from damage import each_flipped
from depth import nightly, sampled
from hypothesis import example, given
from hypothesis import strategies as st
from parquet_files import footer_bytes, written
from real_tables import resolved_partitions
from rejections import rejection
from written_tables import PATH, filled, rows

from tornproof.impl.chunk.row_group_encoder import encode_row_group
from tornproof.impl.errors import CorruptError, ProblemError, UnsupportedError
from tornproof.impl.parquet import thrift
from tornproof.impl.parquet.bloom import bitset_of_values
from tornproof.impl.parquet.fields import COLUMN_META_DATA, FILE_META_DATA, KEY_VALUE, SCHEMA_ELEMENT, ids_of
from tornproof.impl.parquet.footer import (
    FooterParts,
    ParquetFooter,
    RowGroupFacts,
    decode_footer,
    empty_footer,
    file_tail,
    read_footer_tail,
    row_group_facts,
    split_footer,
    unused_bytes_of,
)
from tornproof.impl.parquet.records import make, read
from tornproof.impl.parquet.thrift import (
    Field,
    Items,
    Kind,
    Known,
    Padded,
    Struct,
    decode,
    encode,
    struct_list,
    value_of,
    with_fields,
    without,
)
from tornproof.impl.pm.chain import walk
from tornproof.impl.table.questdb_json import QUESTDB_KEY, updated_json
from tornproof.impl.write.writer_options import WriterOptions

FOOTER = ids_of(FILE_META_DATA)
ELEMENT = ids_of(SCHEMA_ELEMENT)
# Converter vectors whose footers are wrong on purpose, and images that lost the bytes of theirs.
BROKEN = {
    "footer-footer-len-0",
    "footer-tiny",
    "footer-footer-len-neg",
    "footer-rows-total-neg",
    "footer-no-version",
}
TRAILING = "footer-trailing-garbage-after-stop"
CHAINS = [
    name
    for name in golden_data.files_named("_pm")
    if name.startswith(("tables/", "crashes/", "after-restart/", "legacy/")) and "rewrite-3-" not in name
]


def parts_of(footer: bytes) -> FooterParts:
    return split_footer(footer, file="data.parquet", offset_bytes=1000)


@dataclass(frozen=True, kw_only=True)
class Generation:
    """A published generation of a real partition: its Thrift footer, and what its `_pm` calls unused."""

    footer: bytes
    parts: FooterParts
    unused_bytes: int


@pytest.fixture(scope="module")
def updates(questdb_data: Path) -> list[tuple[str, Generation, Generation]]:
    """All updates in place that real servers published: the partition, the generation before, the one after."""
    found = []
    for name in CHAINS:
        pm = (questdb_data / name).read_bytes()
        data = (questdb_data / name).with_name("data.parquet").read_bytes()
        positions = [*walk(pm[: int.from_bytes(pm[:8], "little")], file=name)][::-1]
        footers = [footer_bytes(data[: position.token])[0] for position in positions]
        generations = [
            Generation(footer=footer, parts=parts_of(footer), unused_bytes=position.fixed.unused_bytes)
            for footer, position in zip(footers, positions, strict=True)
        ]
        found += [(name, old, new) for old, new in pairwise(generations)]
    return found


@pytest.mark.parametrize("one_of", [pytest.param(6, id="some"), nightly(1, id="all")])
def test_every_real_footer_comes_out_as_it_went_in(questdb_data: Path, one_of: int) -> None:
    names = (
        golden_data.files_named("data.parquet")
        + golden_data.files("vectors/*.parquet")
        + golden_data.files("tables/*/*/expected.parquet")
    )
    names += tuple(name for name in names if name.startswith("tables/"))
    seen = 0
    for name in names[::one_of]:
        content = (questdb_data / name).read_bytes()
        if content[-4:] != b"PAR1" or name.startswith("power-loss/") or Path(name).stem in BROKEN:
            continue
        footer, offset_bytes = footer_bytes(content)
        parts = split_footer(footer, file=name, offset_bytes=offset_bytes)
        length_bytes = decode(footer, file=name)[1]
        assert (length_bytes < len(footer)) is (Path(name).stem == TRAILING)
        assert parts.encode() == footer[:length_bytes], name
        seen += 1
    assert seen > 250 // one_of


@pytest.mark.parametrize("name", sorted(BROKEN))
def test_broken_footer_is_rejected(questdb_data: Path, name: str) -> None:
    content = (questdb_data / "vectors" / f"{name}.parquet").read_bytes()
    length_bytes = int.from_bytes(content[-8:-4], "little", signed=True)
    with pytest.raises(CorruptError):
        parts_of(content[max(4, len(content) - 8 - length_bytes) : -8])


def test_real_updates_add_what_they_drop_to_the_unused_bytes(updates: list[tuple[str, Generation, Generation]]) -> None:
    dropped_count = 0
    for name, old, new in updates:
        kept = set(new.parts.row_groups)
        dropped = [raw for raw in old.parts.row_groups if raw not in kept]
        expected = old.unused_bytes + len(old.footer) + 8 + sum(map(unused_bytes_of, dropped))
        assert new.unused_bytes == expected, name
        dropped_count += len(dropped)
    assert len(updates) > 800
    assert dropped_count > 600


def test_real_updates_are_predicted_byte_for_byte_from_their_row_groups(
    updates: list[tuple[str, Generation, Generation]],
) -> None:
    predicted_count = 0
    for name, old, new in updates:
        json = old.parts.key_value(QUESTDB_KEY)
        assert json is not None
        row_count = value_of(new.parts.fields, FOOTER["num_rows"])
        assert isinstance(row_count, int)
        predicted = old.parts.with_row_groups(new.parts.row_groups, row_count)
        predicted = predicted.with_key_value(QUESTDB_KEY, updated_json(json, unused_bytes=new.unused_bytes))
        assert predicted.same_schema(new.parts)
        # Servers let the ordinals of row groups that move as they are.
        if predicted.row_groups == new.parts.row_groups:
            assert predicted.encode() == new.footer, name
            predicted_count += 1
        else:
            assert predicted.ordinals != new.parts.ordinals
    assert predicted_count > 100


def simple_footer(*ordinals: int | None) -> FooterParts:
    """A footer whose row groups have the row counts 100 and up, and these ordinals."""
    groups = [group(100 + position, ordinal) for position, ordinal in enumerate(ordinals)]
    parts = empty_footer(schema_with("a"), {}, "tests")
    row_groups = tuple(encode(group) for group in groups)
    return FooterParts(fields=parts.fields, row_groups=row_groups, ordinals=ordinals)


def schema_with(name: str) -> tuple[Struct, Struct]:
    root = (Field(ELEMENT["name"], Kind.BINARY, b"root"), Field(ELEMENT["num_children"], Kind.I32, 1))
    leaf = (
        Field(ELEMENT["type"], Kind.I32, 1),
        Field(ELEMENT["repetition_type"], Kind.I32, 0),
        Field(ELEMENT["name"], Kind.BINARY, name.encode()),
    )
    return Struct(root), Struct(leaf)


def chunk(start: int, size: int, bloom: tuple[int, int] | None = None, dictionary: int | None = None) -> Struct:
    meta = [
        Field(1, Kind.I32, 1),
        Field(2, Kind.LIST, Items(Kind.I32, ())),
        Field(3, Kind.LIST, Items(Kind.BINARY, ())),
    ]
    meta += [
        Field(4, Kind.I32, 0),
        Field(5, Kind.I64, 1),
        Field(6, Kind.I64, 1),
        Field(7, Kind.I64, size),
        Field(9, Kind.I64, start),
    ]
    if dictionary is not None:
        meta.append(Field(11, Kind.I64, dictionary))
    if bloom:
        meta += [Field(14, Kind.I64, bloom[0]), Field(15, Kind.I32, bloom[1])]
    return Struct(
        (
            Field(2, Kind.I64, 0),
            Field(3, Kind.STRUCT, Struct(tuple(meta))),
            Field(5, Kind.I32, 6),
            Field(7, Kind.I32, 30),
        )
    )


def group(row_count: int, ordinal: int | None) -> Struct:
    fields = [struct_list(1, [chunk(4, 50)]), Field(2, Kind.I64, 0), Field(3, Kind.I64, row_count)]
    if ordinal is not None:
        fields.append(Field(7, Kind.I16, ordinal))
    return Struct(tuple(fields))


def stated(parts: FooterParts) -> list[tuple[int, int | None]]:
    """Row count and ordinal of every row group, once the footer was written and read."""
    footer = decode_footer(parts.encode(), file="data.parquet", offset_bytes=0)
    assert [group.ordinal for group in footer.row_groups] == list(parts.ordinals)
    return [(group.num_rows, group.ordinal) for group in footer.row_groups]


def test_ordinals_follow_row_groups_that_move() -> None:
    parts = simple_footer(0, 1, None, 3)
    new = encode(group(50, 9))
    moved = parts.with_row_groups([new, *parts.row_groups], 1000)
    assert stated(moved) == [(50, 0), (100, 1), (101, 2), (102, None), (103, 4)]
    assert stated(moved.with_row_groups(moved.row_groups[1:], 1)) == [(100, 0), (101, 1), (102, None), (103, 3)]


def test_row_groups_that_stay_keep_even_a_wrong_ordinal() -> None:
    parts = simple_footer(0, 7, 7)
    replaced = parts.with_row_groups([parts.row_groups[0], parts.row_groups[1], encode(group(50, 7))], 1000)
    assert stated(replaced) == [(100, 0), (101, 7), (50, 2)]
    assert replaced.row_groups[1] == parts.row_groups[1]


@pytest.mark.parametrize("field", [Field(7, Kind.I16, Padded(1, 3)), Field(7, Kind.I32, 5)])
def test_new_row_group_that_needs_no_other_ordinal_keeps_its_bytes(field: Field) -> None:
    new = encode(with_fields(group(50, None), field))
    assert simple_footer(0).with_row_groups([*simple_footer(0).row_groups, new], 1).row_groups[1] == new


def test_ordinal_is_left_out_where_16_bits_do_not_hold_it() -> None:
    count = 0x8000 + 1
    plain, numbered = encode(group(1, None)), encode(group(2, 5))
    parts = simple_footer().with_row_groups([plain] * (count - 2) + [numbered, numbered], count)
    assert parts.ordinals[-2:] == (0x7FFF, None)
    assert parts.row_groups[-1] == encode(group(2, None))


def test_count_of_row_groups_takes_its_shortest_form_again() -> None:
    parts = simple_footer(*[None] * 3)
    placeholder = Field(FOOTER["row_groups"], Kind.LIST, Items(Kind.STRUCT, (), 0, 3))
    wide = FooterParts(
        fields=with_fields(parts.fields, placeholder), row_groups=parts.row_groups, ordinals=parts.ordinals
    )
    assert len(wide.encode()) == len(parts.encode()) + 3
    assert parts_of(wide.encode()).encode() == wide.encode()
    assert wide.with_row_groups(parts.row_groups, 5).encode() != parts.with_row_groups(parts.row_groups, 5).encode()
    assert (
        wide.with_row_groups(parts.row_groups[:2], 5).encode()
        == parts.with_row_groups(parts.row_groups[:2], 5).encode()
    )


@pytest.mark.parametrize("row_count", [0, 77])
def test_row_count_is_stated(row_count: int) -> None:
    parts = simple_footer(0).with_row_groups([], row_count)
    assert decode_footer(parts.encode(), file="data.parquet", offset_bytes=0).num_rows == row_count


def test_key_values_are_replaced_at_their_position() -> None:
    pairs = [("a", b"1"), ("k", b"first"), ("k", b"second"), ("none", None)]
    structs = [
        Struct((Field(1, Kind.BINARY, key.encode()), *([Field(2, Kind.BINARY, value)] if value else [])))
        for key, value in pairs
    ]
    parts = simple_footer()
    fields = with_fields(parts.fields, struct_list(FOOTER["key_value_metadata"], structs))
    parts = parts_of(FooterParts(fields=fields, row_groups=(), ordinals=()).encode())
    assert [parts.key_value(key) for key in ("a", "k", "none", "other")] == ["1", "first", None, None]
    changed = parts.with_key_value("k", "ny ✓").with_key_value("other", "x")
    assert decode_footer(changed.encode(), file="", offset_bytes=0).key_values == (
        ("a", "1"),
        ("k", "ny ✓"),
        ("k", "second"),
        ("none", None),
        ("other", "x"),
    )


def test_key_value_is_added_to_a_footer_without_any() -> None:
    parts = simple_footer()
    bare = parts_of(encode(without(parts.fields, FOOTER["key_value_metadata"])))
    assert bare.key_value("k") is None
    added = bare.with_key_value("k", "v")
    assert added.key_value("k") == "v"
    assert [field.id for field in added.fields.fields] == [1, 2, 3, 4, 5, 6, 7]


@pytest.mark.parametrize(
    "value", [(Kind.SET, Items(Kind.STRUCT, (Struct(()),))), (Kind.LIST, Items(Kind.I32, (4,))), (Kind.I32, 4)]
)
def test_key_values_of_another_wire_type_are_none_as_for_other_readers(value: tuple[Kind, Items | int]) -> None:
    parts = simple_footer()
    field = Field(FOOTER["key_value_metadata"], *value)
    strange = parts_of(encode(with_fields(parts.fields, field)))
    assert strange.key_value("k") is None
    assert strange.with_key_value("k", "v").encode() == parts.with_key_value("k", "v").encode()


def test_schemas_are_the_same_in_spite_of_all_else() -> None:
    parts = simple_footer(0)
    other_name = empty_footer(schema_with("b"), {}, "tests")
    assert parts.same_schema(parts.with_row_groups([], 0).with_key_value("k", "v"))
    assert not parts.same_schema(other_name)


def test_unknown_fields_and_padding_survive_every_change() -> None:
    parts = simple_footer(0)
    strange = Struct(
        (
            Field(1, Kind.I32, Padded(1, 3)),
            *[field for field in parts.fields.fields if field.id in (2, 3)],
            Field(4, Kind.LIST, Items(Kind.STRUCT, (group(9, 3),), 0, 2), 0, 2),
            Field(600, Kind.BINARY, b"extension"),
            Field(8, Kind.STRUCT, Struct((Field(1, Kind.BOOL, True),))),
        )
    )
    footer = encode(strange)
    again = parts_of(footer)
    assert again.encode() == footer
    changed, _ = decode(again.with_row_groups(again.row_groups, 4).with_key_value("k", "v").encode(), file="")
    assert [field.id for field in changed.fields] == [1, 2, 3, 4, 5, 600, 8]
    assert value_of(changed, 1) == Padded(1, 3)
    assert value_of(changed, 600) == b"extension"


@pytest.mark.parametrize(
    ("change", "position"),
    [
        (lambda struct: without(struct, FOOTER["row_groups"]), "row_groups"),
        (lambda struct: without(struct, FOOTER["schema"]), "schema"),
        (lambda struct: without(struct, FOOTER["num_rows"]), "num_rows"),
        (lambda struct: with_fields(struct, Field(FOOTER["num_rows"], Kind.I64, -1)), "num_rows"),
        (
            lambda struct: with_fields(struct, Field(FOOTER["row_groups"], Kind.LIST, Items(Kind.I32, (1,)))),
            "row_groups",
        ),
        (
            lambda struct: with_fields(
                struct, Field(FOOTER["row_groups"], Kind.SET, Items(Kind.STRUCT, (Struct(()),)))
            ),
            "row_groups",
        ),
        (lambda struct: with_fields(struct, Field(FOOTER["row_groups"], Kind.I32, 4)), "row_groups"),
        (lambda struct: Struct((*struct.fields, struct.fields[-1])), "struct"),
        (
            lambda struct: with_fields(struct, struct_list(FOOTER["key_value_metadata"], [Struct(())])),
            "key_value_metadata[0].key",
        ),
    ],
)
def test_footer_that_a_commit_cannot_build_on_is_rejected(change: Callable[[Struct], Struct], position: str) -> None:
    fields = simple_footer().fields
    parts_of(encode(fields))
    problem = rejection(lambda: parts_of(encode(change(fields))))
    assert (problem.file, problem.field) == ("data.parquet", position)
    assert problem.offset_bytes is not None
    assert problem.offset_bytes >= 1000


REAL_TABLE = pa.table({"a": pa.array([1, 2, 3]), "b": ["x", "y", "z"]})
REAL_FOOTER, _ = footer_bytes(written(REAL_TABLE, row_group_size=1, write_page_index=True))


def test_a_list_in_a_schema_element_stays_where_it_is() -> None:
    # It was left out of the next footer: as of row groups, only the other fields of the element were kept.
    tree, _ = decode(REAL_FOOTER, file="")
    (schema,) = (field for field in tree.fields if field.id == FOOTER["schema"])
    assert isinstance(schema.value, Items)
    root, *leaves = (element for element in schema.value.elements if isinstance(element, Struct))
    unknown = Field(99, Kind.LIST, Items(Kind.I32, (7,)))
    extended = [root, *(with_fields(leaf, unknown) for leaf in leaves)]
    footer = encode(with_fields(tree, struct_list(schema.id, extended)))
    assert parts_of(footer).encode() == footer


@given(st.integers(0, len(REAL_FOOTER) - 1), st.integers(0, 255))
@example(25, 25)
def test_damaged_footers_raise_nothing_but_problems(position: int, byte: int) -> None:
    damaged = REAL_FOOTER[:position] + bytes([byte]) + REAL_FOOTER[position + 1 :]
    try:
        parts = parts_of(damaged)
    except ProblemError:
        return
    assert damaged.startswith(parts.encode())
    for row_group in parts.row_groups:
        try:
            assert isinstance(row_group_facts(row_group), RowGroupFacts)
        except ProblemError as error:
            assert error.problem.file == "data.parquet"


@given(st.integers(0, len(REAL_FOOTER) - 1))
def test_cut_footers_are_corrupt(length: int) -> None:
    with pytest.raises(CorruptError):
        parts_of(REAL_FOOTER[:length])


def test_dropping_a_placed_row_group_frees_all_of_its_bytes() -> None:
    stored = pa.table({"a": pa.array(range(50)), "b": [f"{row}" for row in range(50)]})
    for blooms in ((), (0,), (0, 1)):
        bitsets = {index: bitset_of_values(stored.column(index).combine_chunks(), 0.01) for index in blooms}
        placed = encode_row_group(stored, bitsets=bitsets).place(777)
        facts = row_group_facts(placed.thrift)
        assert unused_bytes_of(placed.thrift) == facts.unused_bytes == len(placed.content)
        assert (facts.start_bytes, facts.end_bytes) == (777, placed.chunks[-1].byte_range_end)
        assert (facts.blooms_length_bytes > 0) is (1 in blooms), "one between chunks is dropped with them"


def facts_of(*chunks: Struct) -> RowGroupFacts:
    return row_group_facts(encode(Struct((struct_list(1, chunks), Field(2, Kind.I64, 0), Field(3, Kind.I64, 1)))))


def test_span_of_a_row_group_has_its_gaps_and_dictionaries() -> None:
    facts = facts_of(chunk(150, 50, dictionary=100), chunk(400, 60, dictionary=0))
    assert facts == RowGroupFacts(start_bytes=100, end_bytes=460, indexes_length_bytes=72, blooms_length_bytes=0)
    assert facts.unused_bytes == 432


def test_bloom_filter_between_chunks_is_counted_once() -> None:
    assert facts_of(chunk(100, 50, bloom=(150, 40)), chunk(190, 10, bloom=(200, 48))).blooms_length_bytes == 48
    assert facts_of(chunk(100, 50, bloom=(20, 40)), chunk(190, 10)).blooms_length_bytes == 40


def test_row_group_without_columns_has_no_bytes() -> None:
    assert facts_of().unused_bytes == 0


def test_row_group_with_a_negative_size_is_rejected_by_name() -> None:
    assert rejection(lambda: facts_of(chunk(100, -1))).field == "columns[0].meta_data.total_compressed_size"


def schema_of(table: pa.Table) -> tuple[Struct, ...]:
    schema = value_of(parts_of(footer_bytes(written(table, store_schema=False))[0]).fields, FOOTER["schema"])
    assert isinstance(schema, Items)
    return tuple(element for element in schema.elements if isinstance(element, Struct))


def test_new_footer_lets_pyarrow_show_bounds_of_every_leaf() -> None:
    stored = pa.table({"a": pa.array([1, 3]), "l": pa.array([[1.5], [2.5]]), "b": ["x", "y"]})
    parts = empty_footer(schema_of(stored), {"questdb": "{}", "k": "v"}, "tornproof tests")
    assert parts.row_groups == ()
    placed = encode_row_group(stored).place(4)
    footer = parts.with_row_groups([placed.thrift], 2).encode()
    content = b"PAR1" + placed.content + file_tail(footer)
    assert read_footer_tail(content[-8:], file="", token=len(content)) == (4 + len(placed.content), len(footer))
    metadata = pq.read_metadata(pa.BufferReader(content))
    assert (metadata.created_by, metadata.format_version) == ("tornproof tests", "1.0")
    assert metadata.metadata == {b"questdb": b"{}", b"k": b"v"}
    columns = [metadata.row_group(0).column(position).statistics for position in range(3)]
    assert [(column.min, column.max) for column in columns] == [(1, 3), (1.5, 2.5), ("x", "y")]
    assert pq.read_table(pa.BufferReader(content), page_checksum_verification=True).equals(stored)


def test_new_footer_alone_is_an_empty_file() -> None:
    stored = pa.table({"a": pa.array([1])})
    content = b"PAR1" + file_tail(empty_footer(schema_of(stored), {}, "tests").encode())
    assert pq.read_table(pa.BufferReader(content)).equals(stored.slice(0, 0))


def test_structs_are_made_by_the_names_of_their_members_in_the_order_of_ids() -> None:
    values = {
        "num_values": 7,
        "type": 1,
        "encodings": [0, 8],
        "path_in_schema": ["a", "\u00e4"],
        "codec": 7,
        "total_uncompressed_size": 9,
        "total_compressed_size": 8,
        "data_page_offset": 0,
    }
    pair = make(KEY_VALUE, value=None, key="k")
    made = make(COLUMN_META_DATA, **values, key_value_metadata=[pair])
    assert [field.id for field in made.fields] == [1, 2, 3, 4, 5, 6, 7, 8, 9]
    assert [field.id for field in pair.fields] == [1]
    tree, _ = decode(encode(made), file="made")
    view = read(tree, COLUMN_META_DATA)
    assert {name: view[name] for name in values} == values
    with pytest.raises(KeyError, match="no_member"):
        make(KEY_VALUE, no_member=1)


def test_many_row_groups_are_split_in_memory_for_one_of_them() -> None:
    """A footer of 27,000 column chunks had too many values, so that no writer could go on in its partition."""
    storage = filled(rows(range(400)), options=WriterOptions(row_group_row_count_max=2))
    (found,) = resolved_partitions(PATH, storage)
    fixed = found.metadata.generation.position.fixed
    with found.files.open_data() as data:
        footer = data.pread(fixed.parquet_footer_length, fixed.parquet_footer_offset)
    parts = split_footer(footer, file="data.parquet", offset_bytes=0, node_count_max=1_500)
    assert len(parts.row_groups) == 200
    assert parts.encode() == footer
    with pytest.raises(UnsupportedError, match="no more nodes than the limit"):
        split_footer(footer, file="data.parquet", offset_bytes=0, node_count_max=100)


# What is known of an earlier footer


FILES = golden_data.files("tables/9.4.2/*/table/*/data.parquet")
CASES_OF_A_FILE = 120


def outcome_of(content: bytes, at: int, known: Known | None, node_count_max: int) -> ParquetFooter | str:
    try:
        return decode_footer(content, file="data.parquet", offset_bytes=at, known=known, node_count_max=node_count_max)
    except ProblemError as error:
        return f"{type(error).__name__}: {error}"


def changed(content: bytes, generator: random.Random) -> bytes:
    """One to three edits: a bit flipped, a byte set, bytes left out, bytes put in, an end."""
    edited = bytearray(content)
    for _ in range(generator.choice((1, 1, 1, 2, 3))):
        at = generator.randrange(len(edited))
        match generator.choice(("flip", "flip", "flip", "set", "out", "in", "end")):
            case "flip":
                edited[at] ^= 1 << generator.randrange(8)
            case "set":
                edited[at] = generator.randrange(256)
            case "out":
                del edited[at : at + generator.randrange(1, 9)]
            case "in":
                start = generator.randrange(len(edited))
                edited[at:at] = edited[start : start + generator.randrange(1, 200)]
            case "end":
                del edited[at:]
        if not edited:
            break
    return bytes(edited)


@pytest.mark.parametrize("name", sampled(6, FILES))
def test_known_structs_change_nothing(questdb_data: Path, name: str) -> None:
    content, at = footer_bytes((questdb_data / name).read_bytes())
    generator = random.Random(name)
    known = Known()
    sound = outcome_of(content, at, known, thrift.NODE_COUNT_MAX)
    assert isinstance(sound, ParquetFooter)
    node_count = sum(nodes for _, _, nodes in known.structs.values())
    outcomes = set()
    for _ in range(CASES_OF_A_FILE if len(content) < 20_000 else CASES_OF_A_FILE // 10):
        damaged = changed(content, generator)
        # Sometimes the limit is reached somewhere in what is known.
        node_count_max = generator.choice((thrift.NODE_COUNT_MAX, generator.randrange(2 * node_count)))
        plain = outcome_of(damaged, at, None, node_count_max)
        assert outcome_of(damaged, at, known, node_count_max) == plain
        outcomes.add(type(plain))
    assert str in outcomes, "no case was rejected"
    assert outcome_of(content, at, known, thrift.NODE_COUNT_MAX) == sound


def test_what_is_known_is_taken_and_not_decoded(monkeypatch: pytest.MonkeyPatch, questdb_data: Path) -> None:
    content, at = footer_bytes((questdb_data / "tables/9.4.2/chain/table/2024-01-01.1/data.parquet").read_bytes())
    known = Known()
    first = outcome_of(content, at, known, thrift.NODE_COUNT_MAX)
    decoded: list[int] = []
    decode_struct = thrift._Decoder.struct

    def counted(decoder: thrift._Decoder, position: int, depth: int) -> object:
        decoded.append(position)
        return decode_struct(decoder, position, depth)

    monkeypatch.setattr(thrift._Decoder, "struct", counted)
    again = outcome_of(content, at, known, thrift.NODE_COUNT_MAX)
    assert isinstance(first, ParquetFooter) and isinstance(again, ParquetFooter)
    assert decoded == [0]
    assert [*map(id, again.row_groups)] == [*map(id, first.row_groups)]
    assert known.structs


def test_only_the_first_that_is_whole_is_remembered(questdb_data: Path) -> None:
    content, at = footer_bytes((questdb_data / "tables/9.4.2/chain/table/2024-01-01.1/data.parquet").read_bytes())
    known = Known()
    outcome_of(content, at, known, thrift.NODE_COUNT_MAX)
    before = dict(known.structs)
    for damaged in each_flipped(content, 11):
        outcome_of(damaged, at, known, thrift.NODE_COUNT_MAX)
    assert known.structs == before
