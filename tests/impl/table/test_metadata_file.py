"""`_meta` of real tables has the columns that their server listed; a damaged one is rejected with a message."""

import json
import struct
from pathlib import Path

import golden_data
import pytest
from damage import each_flipped, flipped
from rejections import rejection
from table_builder import zeroed

from tornproof.impl.errors import CorruptError, FileMissingError, Problem, UnsupportedError
from tornproof.impl.layout import meta as layout
from tornproof.impl.storage.operating_system import OperatingSystemStorage
from tornproof.impl.table import metadata_file
from tornproof.impl.table.metadata_file import (
    COLUMN_COUNT_LIMIT,
    FORMAT_VERSION,
    META_LIMIT_BYTES,
    PartitionBy,
    TableColumn,
    TableMetadata,
    decode_metadata_file,
    encode_metadata_file,
    read_metadata_file,
)
from tornproof.impl.types.questdb import NANOSECOND, TypeTag, tag_of

FILES = golden_data.files_named("_meta")
TABLES = tuple(name for name in golden_data.TABLES if f"{name}/table/_meta" in FILES)
ODD_COLUMNS = "tables/9.4.2/oddcols/table/_meta"
HEADER = layout.MetaHeader.layout
COLUMN = layout.MetaColumn.layout
LIVE = zeroed(layout.MetaColumn, type=TypeTag.LONG)
DROPPED = LIVE.changed(type=-TypeTag.LONG)
TIMESTAMP = LIVE.changed(type=TypeTag.TIMESTAMP)


def meta_file(
    *columns: tuple[str, layout.MetaColumn], partition_by: int | None = None, timestamp_index: int = -1
) -> bytes:
    if partition_by is None:
        partition_by = PartitionBy.NONE if timestamp_index < 0 else PartitionBy.DAY
    header = zeroed(
        layout.MetaHeader,
        column_count=len(columns),
        partition_by=partition_by,
        timestamp_index=timestamp_index,
        format_version=FORMAT_VERSION,
        table_id=1,
        wal_enabled=1,
    )
    names = [name.encode("utf-16-le", "surrogatepass") for name, _ in columns]
    parts = [header.pack(), *(record.pack() for _, record in columns)]
    return b"".join([*parts, *(layout.NameLength(code_unit_count=len(name) // 2).pack() + name for name in names)])


def decode(content: bytes) -> TableMetadata:
    return decode_metadata_file(content, file="_meta")


def names_and_ids(metadata: TableMetadata) -> list[tuple[str, int]]:
    return [(column.name, column.id) for column in metadata.columns]


def rejected(content: bytes) -> Problem:
    problem = rejection(lambda: decode(content))
    assert problem.file == "_meta"
    return problem


@pytest.mark.parametrize("table", TABLES)
def test_real_tables_have_the_columns_that_their_server_listed(questdb_data: Path, table: str) -> None:
    metadata = decode((questdb_data / table / "table" / "_meta").read_bytes())
    expected = json.loads((questdb_data / table / "expected.json").read_text())["columns"]
    assert [column.name for column in metadata.columns] == [column["name"] for column in expected]
    for column, listed in zip(metadata.columns, expected, strict=True):
        tag = tag_of(column.type)
        assert tag is not None
        if listed["type"] in TypeTag.__members__:
            assert tag.name == listed["type"]


@pytest.mark.parametrize("name", FILES)
def test_real_files_name_a_live_designated_timestamp_and_intervals_that_fit_the_directories(
    questdb_data: Path, name: str
) -> None:
    metadata = decode((questdb_data / name).read_bytes())
    (timestamp,) = (column for column in metadata.columns if column.id == metadata.timestamp_id)
    assert tag_of(timestamp.type) is TypeTag.TIMESTAMP
    assert metadata.counts_nanoseconds == ("nanosecond" in name)
    directories = [
        path.name for path in (questdb_data / name).parent.iterdir() if path.is_dir() and path.name[0] == "2"
    ]
    assert directories
    assert {"T" in directory for directory in directories} == {metadata.partition_by is PartitionBy.HOUR}


def test_dropped_columns_are_left_out_and_renamed_ones_keep_their_writer_index(questdb_data: Path) -> None:
    metadata = decode((questdb_data / ODD_COLUMNS).read_bytes())
    assert names_and_ids(metadata) == [("a1", 0), ("b", 1), ("ts", 2), ("s", 4), ("d", 5), ("e", 6)]
    assert metadata.timestamp_id == 2
    assert [tag_of(column.type) for column in metadata.columns] == [
        TypeTag.LONG,
        TypeTag.VARCHAR,
        TypeTag.TIMESTAMP,
        TypeTag.SYMBOL,
        TypeTag.DOUBLE,
        TypeTag.INT,
    ]


def test_a_column_that_replaces_another_has_its_position() -> None:
    replacing_first = LIVE.changed(replacing_index=1)
    metadata = decode(meta_file(("a", DROPPED), ("b", LIVE), ("a", replacing_first)))
    assert names_and_ids(metadata) == [("a", 2), ("b", 1)]


def test_a_column_that_was_replaced_twice_keeps_its_position() -> None:
    twice = meta_file(
        ("a", DROPPED),
        ("b", LIVE),
        ("a", DROPPED.changed(replacing_index=1)),
        ("c", LIVE),
        ("a", LIVE.changed(replacing_index=3)),
    )
    assert names_and_ids(decode(twice)) == [("a", 4), ("b", 1), ("c", 3)]


def test_a_column_knows_the_ids_of_all_columns_that_it_replaced_the_newest_first() -> None:
    """Older partitions have it under one of them; it passed for a new column, whose values are null there."""
    third, fourth = DROPPED.changed(replacing_index=1), LIVE.changed(replacing_index=3)
    metadata = decode(meta_file(("a", DROPPED), ("b", LIVE), ("a", third), ("a", fourth)))
    assert [(column.name, column.ids, column.file_id) for column in metadata.columns] == [
        ("a", (3, 2, 0), 0),
        ("b", (1,), 1),
    ]
    assert {key: column.name for key, column in metadata.columns_by_id.items()} == {3: "a", 2: "a", 0: "a", 1: "b"}
    assert decode(encode_metadata_file(metadata, table_id=1)).columns == metadata.columns


def test_servers_such_as_9_3_4_name_the_first_column_that_was_replaced() -> None:
    twice = LIVE.changed(replacing_index=1)
    metadata = decode(meta_file(("a", DROPPED), ("b", LIVE), ("a", DROPPED.changed(replacing_index=1)), ("a", twice)))
    assert [(column.name, column.ids) for column in metadata.columns] == [("a", (3, 0)), ("b", (1,))]


@pytest.mark.parametrize("last", [LIVE, DROPPED])
@pytest.mark.parametrize("replacing_index", [1, 4, 5, 9, -1, -(2**31), 2**31 - 1])
def test_a_column_replaces_only_one_that_was_dropped_before_it(replacing_index: int, last: layout.MetaColumn) -> None:
    """An impossible index passed for none: older rows were read as nulls, and the next commit lost their values."""
    replacing = last.changed(replacing_index=replacing_index)
    problem = rejected(meta_file(("a", LIVE), ("b", DROPPED), ("c", LIVE), ("b", replacing), ("d", DROPPED)))
    assert problem.field == "REPLACING_INDEX of column 3"
    assert problem.expected == "0, or 1 + the index of a column dropped before it"


def test_two_columns_cannot_replace_the_same_one() -> None:
    replacing = LIVE.changed(replacing_index=1)
    problem = rejected(meta_file(("a", DROPPED), ("a", replacing), ("b", replacing)))
    assert problem.field == "REPLACING_INDEX of column 2"
    assert problem.offset_bytes == HEADER.size_bytes + 2 * COLUMN.size_bytes + COLUMN.offset_of("replacing_index")
    assert "'a'" in problem.expected


@pytest.mark.parametrize("tag", [*TypeTag, 40, 127])
def test_a_flipped_sign_of_a_type_neither_hides_a_column_nor_revives_a_dropped_one(tag: int) -> None:
    """A hidden column was left out of the partitions that the next commit rewrote, and verify said nothing."""
    at = HEADER.size_bytes + COLUMN.size_bytes + COLUMN.offset_of("type")
    for of in (LIVE.changed(type=tag), DROPPED.changed(type=-tag)):
        content = meta_file(("a", LIVE), ("b", of))
        assert len(decode(content).columns) == 1 + (of.type > 0)
        problem = rejected(flipped(content, 8 * at + 31))
        assert (problem.field, problem.offset_bytes) == ("TYPE of column 1", at)


@pytest.mark.parametrize("column_type", [0, 128, 256, -128, -256, -(2**31)])
def test_a_type_whose_tag_no_release_has_is_rejected(column_type: int) -> None:
    problem = rejected(meta_file(("a", LIVE.changed(type=column_type))))
    assert (problem.field, problem.actual) == ("TYPE of column 0", str(column_type))


@pytest.mark.parametrize("timestamp_index", [-1, 1])
def test_a_timestamp_index_is_none_or_a_timestamp(timestamp_index: int) -> None:
    content = meta_file(("a", LIVE), ("ts", TIMESTAMP), timestamp_index=timestamp_index)
    assert decode(content).timestamp_id == timestamp_index


@pytest.mark.parametrize("timestamp_index", [-2, 0, 2, 3, 2**31 - 1])
def test_a_timestamp_index_of_anything_else_is_rejected(timestamp_index: int) -> None:
    columns = (("a", LIVE), ("ts", TIMESTAMP), ("old", TIMESTAMP.changed(type=-TypeTag.TIMESTAMP)))
    problem = rejected(meta_file(*columns, timestamp_index=timestamp_index))
    assert (problem.field, problem.offset_bytes) == ("TIMESTAMP_INDEX", HEADER.offset_of("timestamp_index"))


def test_only_the_designated_timestamp_determines_whether_nanoseconds_are_counted() -> None:
    nanoseconds = TIMESTAMP.changed(type=NANOSECOND.put(TypeTag.TIMESTAMP, 1))
    columns = (("a", TIMESTAMP), ("b", nanoseconds))
    assert not decode(meta_file(*columns, timestamp_index=0)).counts_nanoseconds
    assert decode(meta_file(*columns, timestamp_index=1)).counts_nanoseconds
    assert not decode(meta_file(*columns)).counts_nanoseconds


@pytest.mark.parametrize("partition_by", [-1, 7, 2**31 - 1])
def test_an_unknown_interval_is_rejected(partition_by: int) -> None:
    assert rejected(meta_file(("a", LIVE), partition_by=partition_by)).field == "PARTITION_BY"


def test_a_view_is_said_to_be_one() -> None:
    with pytest.raises(UnsupportedError, match="6, that of a view"):
        decode(meta_file(("a", LIVE), partition_by=6))


@pytest.mark.parametrize("partition_by", list(PartitionBy))
def test_every_interval_decodes(partition_by: PartitionBy) -> None:
    content = meta_file(("a", TIMESTAMP), partition_by=partition_by, timestamp_index=0)
    assert decode(content).partition_by is partition_by


def test_only_a_table_without_intervals_may_have_no_designated_timestamp() -> None:
    """Such a table was called sound, and could not be read by time or written to."""
    for partition_by in PartitionBy:
        content = meta_file(("a", TIMESTAMP), partition_by=partition_by)
        if partition_by is PartitionBy.NONE:
            assert decode(content).timestamp_id == -1
        else:
            assert rejected(content).field == "TIMESTAMP_INDEX"


@pytest.mark.parametrize("column_count", [-(2**31), -1, 0, 3, 2**31 - 1])
def test_a_hostile_column_count_is_rejected_before_anything_is_read(column_count: int) -> None:
    content = column_count.to_bytes(4, "little", signed=True) + meta_file(("a", LIVE), ("b", LIVE))[4:]
    assert rejected(content).field == "COLUMN_COUNT"


@pytest.mark.parametrize("code_unit_count", [-(2**31), -1, 0, 2, 2**31 - 1])
def test_a_hostile_name_length_is_rejected(code_unit_count: int) -> None:
    content = meta_file(("a", LIVE))
    position = HEADER.size_bytes + COLUMN.size_bytes
    hostile = content[:position] + code_unit_count.to_bytes(4, "little", signed=True) + content[position + 4 :]
    problem = rejected(hostile)
    assert (problem.field, problem.offset_bytes) == ("CODE_UNIT_COUNT of column 0", position)


def test_names_are_utf_16_and_half_a_character_is_rejected() -> None:
    assert decode(meta_file(("größe 🌡", LIVE))).columns[0] == TableColumn(id=0, name="größe 🌡", type=TypeTag.LONG)
    problem = rejected(meta_file(("a\ud83c", LIVE)))
    assert (problem.field, problem.offset_bytes) == ("name of column 0", HEADER.size_bytes + COLUMN.size_bytes + 6)


def test_every_prefix_of_a_real_file_is_rejected_or_decodes_the_same(questdb_data: Path) -> None:
    content = (questdb_data / ODD_COLUMNS).read_bytes()
    whole = decode(content)
    needed = 0
    for size_bytes in range(len(content)):
        try:
            assert decode(content[:size_bytes]) == whole
        except CorruptError:
            needed = size_bytes + 1
    assert needed > HEADER.size_bytes + 7 * COLUMN.size_bytes


def test_every_flipped_bit_of_a_real_file_decodes_or_is_rejected(questdb_data: Path) -> None:
    content = (questdb_data / ODD_COLUMNS).read_bytes()
    rejected_count = 0
    for damaged in each_flipped(content):
        try:
            assert decode(damaged).columns
        except (CorruptError, UnsupportedError):
            rejected_count += 1
    assert 0 < rejected_count < 8 * len(content)


def test_a_file_is_read_whole_and_one_that_is_too_large_is_not_read_at_all(tmp_path: Path) -> None:
    storage, path = OperatingSystemStorage(), tmp_path / "_meta"
    with pytest.raises(FileMissingError):
        read_metadata_file(storage, str(path))
    path.write_bytes(meta_file(("a", LIVE)))
    with path.open("r+b") as file:
        file.truncate(META_LIMIT_BYTES)
    assert names_and_ids(read_metadata_file(storage, str(path))) == [("a", 0)]
    read_bytes = storage.counters().read_bytes
    with path.open("r+b") as file:
        file.truncate(META_LIMIT_BYTES + 1)
    with pytest.raises(UnsupportedError):
        read_metadata_file(storage, str(path))
    assert storage.counters().read_bytes == read_bytes


def test_two_live_columns_of_one_name_are_rejected_and_a_dropped_one_may_have_it() -> None:
    assert names_and_ids(decode(meta_file(("a", LIVE), ("b", LIVE)))) == [("a", 0), ("b", 1)]
    assert names_and_ids(decode(meta_file(("a", DROPPED), ("a", LIVE)))) == [("a", 1)]
    for name in ("a", "A"):
        problem = rejected(meta_file((name, LIVE), ("b", LIVE), ("a", LIVE)))
        assert (problem.field, problem.expected, problem.actual) == ("name of column 2", "a name of its own", "'a'")


@pytest.mark.parametrize("version", [0, FORMAT_VERSION - 1, FORMAT_VERSION + 1, FORMAT_VERSION ^ 1 << 30])
def test_a_file_of_another_format_is_unsupported(version: int) -> None:
    """It was read as one of the known format, which no server does."""
    content = bytearray(meta_file(("a", LIVE)))
    struct.pack_into("<i", content, HEADER.offset_of("format_version"), version)
    problem = rejection(lambda: decode(bytes(content)), UnsupportedError)
    assert (problem.field, problem.expected, problem.actual) == ("FORMAT_VERSION", "426", str(version))


@pytest.mark.parametrize("sign", [1, -1])
def test_only_a_symbol_has_an_index_also_if_it_was_dropped(sign: int) -> None:
    """An index of another column was ignored, although no server opens such a table."""
    symbol = LIVE.changed(type=sign * TypeTag.SYMBOL, flags=layout.INDEXED.put(0, 1), index_block_capacity=2)
    assert len(decode(meta_file(("a", LIVE), ("s", symbol))).columns) == 1 + (sign > 0)
    problem = rejected(meta_file(("a", LIVE), ("s", symbol.changed(type=sign * TypeTag.LONG))))
    assert (problem.field, problem.actual) == ("FLAGS of column 1", "INDEXED")
    for capacity in (1, 0, -1):
        problem = rejected(meta_file(("a", LIVE), ("s", symbol.changed(index_block_capacity=capacity))))
        assert (problem.field, problem.actual) == ("INDEX_BLOCK_CAPACITY of column 1", str(capacity))
    assert decode(meta_file(("s", symbol.changed(flags=0, index_block_capacity=0)), ("a", LIVE))).columns


def test_more_columns_than_the_limit_are_unsupported(monkeypatch: pytest.MonkeyPatch) -> None:
    content = meta_file(("a", LIVE), ("b", LIVE))
    assert COLUMN_COUNT_LIMIT == 100_000
    monkeypatch.setattr("tornproof.impl.table.metadata_file.COLUMN_COUNT_LIMIT", 2)
    assert names_and_ids(decode(content)) == [("a", 0), ("b", 1)]
    monkeypatch.setattr("tornproof.impl.table.metadata_file.COLUMN_COUNT_LIMIT", 1)
    problem = rejection(lambda: decode(content), UnsupportedError)
    assert (problem.field, problem.actual) == ("COLUMN_COUNT", "2")


def test_deduplication_keys_are_read(questdb_data: Path) -> None:
    metadata = decode((questdb_data / "tables/9.4.2/dedup/table/_meta").read_bytes())
    assert [(column.name, column.is_dedup_key) for column in metadata.columns] == [
        ("ts", True),
        ("k", True),
        ("v", False),
    ]
    assert not any(column.is_dedup_key for column in decode((questdb_data / ODD_COLUMNS).read_bytes()).columns)


def flags_bit(index: int) -> int:
    """The number of the bit in a file that makes its column of this index a key."""
    offset_bytes = HEADER.size_bytes + index * COLUMN.size_bytes + COLUMN.offset_of("flags")
    return 8 * offset_bytes + layout.DEDUP_KEY.offset_bits


def test_a_flipped_bit_that_leaves_keys_without_the_designated_timestamp_is_rejected(questdb_data: Path) -> None:
    # A table with such keys was accepted, and the next commit replaced rows of other times.
    contents = {name: (questdb_data / name).read_bytes() for name in FILES}
    with_keys = {name for name in FILES if any(column.is_dedup_key for column in decode(contents[name]).columns)}
    assert "tables/9.4.2/dedup/table/_meta" in with_keys
    expected = "no deduplication key, because the designated timestamp is none"
    for name, content in contents.items():
        metadata = decode(content)
        for column in metadata.columns:
            is_rejected = (column.id == metadata.timestamp_id) == (name in with_keys)
            changed = flipped(content, flags_bit(column.id))
            if not is_rejected:
                assert decode(changed).columns != metadata.columns
                continue
            key = next(other.id for other in metadata.columns if other.is_dedup_key != (other is column))
            problem = rejected(changed)
            assert (problem.field, problem.expected) == (f"FLAGS of column {key}", expected)


def can_be_new(content: bytes) -> bool:
    """Whether a table has no indexes and never changed its structure; ours is of 9.4.2's format."""
    header, metadata = layout.MetaHeader.unpack(content, 0, file="_meta"), decode(content)
    has_indexes = any(column.is_indexed for column in metadata.columns)
    return (
        not has_indexes and header.metadata_version == 0 and layout.MINOR_FORMAT_VERSION.get(header.minor_format) == 1
    )


def test_new_file_is_what_a_server_wrote_but_for_the_write_ahead_log(questdb_data: Path) -> None:
    compared = set()
    for name in FILES:
        content = (questdb_data / name).read_bytes()
        if not can_be_new(content):
            continue
        header = layout.MetaHeader.unpack(content, 0, file="_meta")
        position = HEADER.offset_of("wal_enabled")
        without_log = content[:position] + b"\0" + content[position + 1 :]
        assert encode_metadata_file(decode(content), table_id=header.table_id) == without_log
        compared.add((name.split("/")[-3], header.wal_enabled))
    assert {("fastpath", 0), ("wide", 1), ("dedup", 1), ("many", 1), ("types", 1)} <= compared


def test_checksum_of_real_files_counts_columns_and_changes(questdb_data: Path) -> None:
    for name in FILES:
        header = layout.MetaHeader.unpack((questdb_data / name).read_bytes(), 0, file="_meta")
        checksum = 37 * header.column_count + 13 * header.metadata_version
        assert checksum < 1 << 16
        assert layout.MINOR_FORMAT_CHECKSUM.get(header.minor_format) == checksum


def test_a_flipped_bit_of_the_number_of_columns_is_reported(questdb_data: Path) -> None:
    """With fewer columns the next records passed for names: the others were gone, and the next rewrite lost them."""
    for name in FILES:
        content = (questdb_data / name).read_bytes()
        for bit in range(HEADER.offset_of("column_count") * 8, 32):
            assert rejected(flipped(content, bit)).field in ("COLUMN_COUNT", "MINOR_FORMAT")


def test_a_table_that_was_altered_and_then_converted_to_one_with_a_log_is_sound(questdb_data: Path) -> None:
    """SET TYPE WAL set its version back to 0 and left the checksum, by which it was damage until the next ALTER."""
    content = bytearray((questdb_data / ODD_COLUMNS).read_bytes())
    columns = decode(bytes(content)).columns
    struct.pack_into("<q", content, HEADER.offset_of("metadata_version"), 0)
    assert decode(bytes(content)).columns == columns
    for bit in range(32):
        assert rejected(flipped(bytes(content), bit)).field in ("COLUMN_COUNT", "MINOR_FORMAT")
    struct.pack_into("<q", content, HEADER.offset_of("metadata_version"), 1)
    assert rejected(bytes(content)).field == "MINOR_FORMAT"


@pytest.mark.parametrize(
    ("column_count", "version_count", "bit_count"), [(1, 101, 17), (26, 101, 17), (300, 101, 17), (332, 4096, 9)]
)
def test_no_earlier_version_excuses_a_flipped_bit_of_the_number_of_columns(
    column_count: int, version_count: int, bit_count: int
) -> None:
    others = {column_count ^ 1 << bit for bit in range(bit_count)} - {0}
    excused = {checksum for other in others for checksum in metadata_file._checksums(other, 0)}
    right = {metadata_file._checksum(column_count, version) for version in range(version_count)}
    assert not right & excused


@pytest.mark.parametrize(
    ("first", "second", "is_same"),
    [
        ("Größe", "gRÖSSE", False),
        ("GRÖẞE", "größe", True),
        ("İ", "i", True),
        ("İ", "i\u0307", False),
        ("ΟΔΟΣ", "οδοσ", True),
        ("ΟΔΟΣ", "οδος", False),
        ("\U00010400", "\U00010428", False),
    ],
)
def test_names_are_equal_if_all_of_their_units_are_in_lower_case(first: str, second: str, is_same: bool) -> None:
    """As a whole, some words are others in lower case: a sound table was rejected, or a damaged one was not."""
    content = meta_file((first, LIVE), (second, LIVE))
    if is_same:
        assert rejected(content).field == "name of column 1"
    else:
        assert names_and_ids(decode(content)) == [(first, 0), (second, 1)]


def test_a_file_of_an_old_release_has_no_checksum() -> None:
    content = bytearray(meta_file(("a", TIMESTAMP), ("b", LIVE), timestamp_index=0))
    assert len(decode(bytes(content)).columns) == 2
    content[HEADER.offset_of("minor_format") + 2] = 1
    problem = rejected(bytes(content))
    assert (problem.field, problem.actual) == ("MINOR_FORMAT", "0")


@pytest.mark.parametrize(
    ("column_count", "version", "checksum"),
    [
        (1, 0, 37),
        (1_771, 0, 65_527),
        (1_772, 0, 29),
        (2, 5_035, 65_529),
        (27, 4_967, 35),
        (2, 60_490, 64_199),
        (2, 1 << 32, 87),
        (2, 1 << 32 | 1, 74),
    ],
)
def test_the_checksum_is_folded_into_sixteen_bits(column_count: int, version: int, checksum: int) -> None:
    """That of a table of many columns was cut, so that servers would have taken it for one of an old release."""
    columns = [(f"{number}", LIVE) for number in range(column_count)]
    content = bytearray(meta_file(*columns))
    struct.pack_into("<q", content, HEADER.offset_of("metadata_version"), version)
    struct.pack_into("<2H", content, HEADER.offset_of("minor_format"), checksum, 1)
    assert len(decode(bytes(content)).columns) == column_count


@pytest.mark.parametrize("count", [1, 300, 3_000])
def test_new_file_decodes_to_what_it_was_made_of(count: int) -> None:
    columns = [TableColumn(id=0, name="größe 🌡", type=TypeTag.TIMESTAMP, is_dedup_key=True)]
    columns += [TableColumn(id=index, name=f"c{index}", type=TypeTag.LONG) for index in range(1, count)]
    metadata = TableMetadata(columns=tuple(columns), partition_by=PartitionBy.WEEK, timestamp_id=0)
    content = encode_metadata_file(metadata, table_id=3)
    assert decode(content) == metadata
    assert len(content) % 4096 == 0
