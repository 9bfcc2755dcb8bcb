"""A writer's options take effect in its files, in new ones and in row groups that an update adds."""

import math
import re
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any

import duckdb
import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from independent_readers import READERS, normalised
from real_tables import in_memory, resolved_partitions, verified
from type_values import TYPES
from written_tables import DAY, DIRECTORY, PATH, new_table, rows, table_on, writer_on

from tornproof.harness.common.made_rows import rows_for
from tornproof.harness.simulator.filesystem.memory import MemoryStorage
from tornproof.impl.chunk.chunk import pages_of
from tornproof.impl.chunk.row_group_encoder import ColumnOptions, EncodeOptions, Encoding
from tornproof.impl.errors import OptionsRejectedError, TornproofError
from tornproof.impl.layout import pm as layout
from tornproof.impl.layout.parquet import FooterForm
from tornproof.impl.parquet.encode_options import ENCODABLE
from tornproof.impl.parquet.fields import Codec, PageType
from tornproof.impl.parquet.footer import SortingColumn
from tornproof.impl.pm.block import Chunk
from tornproof.impl.table.create import NewColumn
from tornproof.impl.table.partition import read_chunk
from tornproof.impl.table.partition_schema import physical_form
from tornproof.impl.types.questdb import TypeTag
from tornproof.impl.write.table_writer import open_writer
from tornproof.impl.write.writer_options import BloomOptions, WriterOptions

ROW_COUNT = 3_000
BATCHES = (range(ROW_COUNT), range(ROW_COUNT, 2 * ROW_COUNT))


@pytest.mark.parametrize("kind", [np.int16, np.int64, np.float32])
def test_numbers_of_numpy_become_numbers_of_python(kind: Callable[[int], Any]) -> None:
    blooms = BloomOptions(columns={"v": kind(1)})
    assert type(blooms.columns["v"]) is (float if kind is np.float32 else int)
    if kind is not np.float32:
        options = WriterOptions(row_group_size_bytes_max=kind(20_000), encoding=EncodeOptions(level=kind(3)))
        assert [type(options.row_group_size_bytes_max), type(options.encoding.level)] == [int, int]


class Written:
    """A table that two commits made in place under some options, seen by other readers and by `_pm`."""

    def __init__(self, tmp_path: Path, storage: MemoryStorage) -> None:
        self.rows = table_on(storage)
        self.path = tmp_path / "data.parquet"
        self.path.write_bytes(storage.image().files[f"{DIRECTORY}/data.parquet"])
        (self.resolved,) = resolved_partitions(PATH, storage)
        self.metadata = pq.read_metadata(self.path)

    def chunks(self, name: str) -> list[Any]:
        """Return what pyarrow knows of a column's chunks."""
        position = self.metadata.schema.to_arrow_schema().get_field_index(name)
        return [self.metadata.row_group(group).column(position) for group in range(self.metadata.num_row_groups)]

    def own(self, name: str) -> list[Chunk]:
        """Return their description in `_pm`."""
        position = [column.name for column in self.resolved.metadata.header.columns].index(name)
        return [block.chunks[position] for block in self.resolved.metadata.blocks]

    def page_row_counts(self, name: str) -> list[int]:
        """Return how many values each data page has."""
        counts = []
        with self.resolved.files.open_data() as handle:
            for chunk in self.own(name):
                pages = pages_of(read_chunk(handle, chunk, file="data"), chunk, file="data")
                counts += [page.value_count for page in pages if page.kind is not PageType.DICTIONARY]
        return counts


def write(tmp_path: Path, encoding: EncodeOptions | None = None, **sizes: Any) -> Written:
    """Return a table written with these options, after all readers saw the same rows."""
    settings: dict[str, Any] = {"rewrite_unused_ratio": 1.0, **sizes}
    options = WriterOptions(**settings, encoding=encoding or EncodeOptions())
    storage, _ = new_table()
    with writer_on(storage, options) as writer:
        for number, times in enumerate(BATCHES):
            writer.write(rows(times, 10_000 * number))
            writer.commit()
    written = Written(tmp_path, storage)
    assert written.metadata.num_row_groups >= 2, "one of them comes from an update in place"
    theirs, ours = normalised(pq.read_table(written.path), written.rows)
    assert theirs.equals(ours)
    fetched = duckdb.execute("SELECT v, n FROM read_parquet(?)", [str(written.path)]).fetchall()
    assert fetched == list(zip(ours["v"].to_pylist(), ours["n"].to_pylist(), strict=True))
    return written


def columns(**own: ColumnOptions) -> EncodeOptions:
    return EncodeOptions(columns=own)


@pytest.mark.parametrize("codec", [codec for codec in Codec if codec not in (Codec.LZO, Codec.LZ4)])
def test_codec_of_all_and_of_one_column(codec: Codec, tmp_path: Path) -> None:
    other = Codec.ZSTD if codec is not Codec.ZSTD else Codec.GZIP
    written = write(tmp_path, EncodeOptions(codec=codec, columns={"n": ColumnOptions(codec=other)}))
    names = {Codec.LZ4_RAW: "LZ4"}
    for name, wanted in (("ts", codec), ("v", codec), ("n", other)):
        assert {chunk.compression for chunk in written.chunks(name)} == {names.get(wanted, wanted.name)}
        assert {chunk.codec for chunk in written.own(name)} == {wanted}


def test_level_of_all_and_of_one_column(tmp_path: Path) -> None:
    def sizes(encoding: EncodeOptions) -> tuple[int, int]:
        written = write(tmp_path, encoding)
        of_n, of_v = (sum(chunk.total_compressed for chunk in written.own(name)) for name in ("n", "v"))
        return of_n, of_v

    least = sizes(EncodeOptions(codec=Codec.GZIP, level=1))
    most = sizes(EncodeOptions(codec=Codec.GZIP, level=9))
    one = sizes(EncodeOptions(codec=Codec.GZIP, level=1, columns={"n": ColumnOptions(level=9)}))
    own = sizes(EncodeOptions(columns={"n": ColumnOptions(codec=Codec.GZIP, level=9)}))
    assert most[0] < least[0] and most[1] < least[1]
    assert one == (most[0], least[1])
    assert own[0] == most[0]


ALL_TYPES = {name.replace(" ", "_"): kind for name, (kind, _, _) in TYPES.items() if name != "symbol"}
POSSIBLE = [
    (name, encoding)
    for name, kind in ALL_TYPES.items()
    for encoding in Encoding
    if (form := physical_form(int(kind))) is not None and form[0] in ENCODABLE[encoding]
]


@pytest.mark.parametrize("encoding", Encoding)
def test_every_type_that_can_have_an_encoding_gets_it_and_reads_back(encoding: Encoding, tmp_path: Path) -> None:
    asked = {name: ColumnOptions(encoding=encoding) for name, possible in POSSIBLE if possible is encoding}
    storage, table = new_table(*(NewColumn(name=name, type=int(kind)) for name, kind in ALL_TYPES.items()))
    options = WriterOptions(
        rewrite_unused_ratio=1.0, encoding=EncodeOptions(columns=asked), allow_unreadable_by_servers=True
    )
    expected = []
    with open_writer(storage, PATH, options=options, allow_parquet_last=True) as writer:
        for number in range(2):
            expected.append(rows_for(table, [DAY + 100 * number + time for time in range(50)], seed=100 * number))
            writer.write(expected[-1])
            writer.commit()
    written = Written(tmp_path, storage)
    assert written.rows.equals(pa.concat_tables(expected))
    stored_as = {Encoding.DICTIONARY: "RLE_DICTIONARY"}.get(encoding, encoding.name)
    for name in ALL_TYPES:
        encodings = {chunk.encodings for chunk in written.chunks(name)}
        if name in asked:
            assert all(stored_as in each for each in encodings), name
        elif encoding is not Encoding.PLAIN:
            assert all(stored_as not in each for each in encodings), name
    assert asked


def test_pages_end_before_so_many_bytes_or_rows(tmp_path: Path) -> None:
    def most(encoding: EncodeOptions) -> int:
        return max(write(tmp_path, encoding).page_row_counts("v"))

    assert most(EncodeOptions()) == ROW_COUNT
    assert most(EncodeOptions(page_row_count_max=100)) == 100
    assert most(EncodeOptions(page_size_bytes=8 * 1024)) < ROW_COUNT


@pytest.mark.parametrize("row_count", [None, 100])
def test_pages_of_nulls_alone_are_read_by_all_readers(row_count: int | None, tmp_path: Path) -> None:
    """By default pyarrow ends pages after 20,000 rows, and left keys in those of nulls that server 9.3.4 refuses."""
    by_dictionary = dict.fromkeys(("v", "n"), ColumnOptions(encoding=Encoding.DICTIONARY))
    encoding = EncodeOptions(page_row_count_max=row_count, columns=by_dictionary)
    storage, _ = new_table(NewColumn(name="s", type=TypeTag.SYMBOL))
    count = 41_000 if row_count is None else 500
    texts, numbers = ["a", "b", *[None] * count], [5, 6, *[None] * count]
    batch = pa.table({"ts": range(DAY, DAY + count + 2), "v": numbers, "n": texts, "s": texts})
    with writer_on(storage, WriterOptions(encoding=encoding)) as writer:
        writer.write(batch)
        writer.commit()
    assert table_on(storage)["s"].to_pylist() == texts
    for read in READERS.values():
        found = read(storage.image().files[f"{DIRECTORY}/data.parquet"], tmp_path)
        assert [found[name].to_pylist() for name in ("v", "n", "s")] == [numbers, texts, texts]


def test_row_groups_end_before_so_many_rows_or_bytes(tmp_path: Path) -> None:
    def counts(**sizes: Any) -> list[int]:
        return [block.num_rows for block in write(tmp_path, **sizes).resolved.metadata.blocks]

    assert counts() == [ROW_COUNT, ROW_COUNT]
    assert max(counts(row_group_row_count_max=700)) == 700
    by_bytes = counts(row_group_size_bytes_max=20_000)
    # Two integers, an offset of a text and its 5 letters or more.
    assert 20_000 // 30 < max(by_bytes) < 20_000 // 24 and sum(by_bytes) == sum(counts())
    assert counts(row_group_size_bytes_max=20_000, row_group_row_count_max=100)[0] == 100


def test_a_row_that_is_larger_than_a_row_group_has_one_of_its_own() -> None:
    storage, _ = new_table()
    texts = ["a", "b" * 1000, "c", "d"]
    batch = rows(range(4))
    with writer_on(storage, WriterOptions(row_group_size_bytes_max=100)) as writer:
        writer.write(batch.set_column(2, "n", pa.array(texts)))
        writer.commit()
    assert table_on(storage)["n"].to_pylist() == texts
    (resolved,) = resolved_partitions(PATH, storage)
    assert [block.num_rows for block in resolved.metadata.blocks] == [1, 1, 2]


@pytest.mark.parametrize(
    ("encoding", "with_bounds"),
    [
        (EncodeOptions(), {"ts", "v", "n"}),
        (EncodeOptions(statistics=False), {"ts"}),
        (columns(v=ColumnOptions(statistics=False)), {"ts", "n"}),
        (EncodeOptions(statistics=False, columns={"n": ColumnOptions(statistics=True)}), {"ts", "n"}),
    ],
)
def test_statistics_of_all_and_of_one_column(encoding: EncodeOptions, with_bounds: set[str], tmp_path: Path) -> None:
    written = write(tmp_path, encoding)
    for name in ("ts", "v", "n"):
        for theirs, ours in zip(written.chunks(name), written.own(name), strict=True):
            assert theirs.statistics.has_min_max is (name in with_bounds)
            assert (ours.minimum is not None) is (ours.maximum is not None) is (name in with_bounds)
            assert theirs.statistics.null_count == ours.null_count == 0
            assert theirs.has_column_index is (name in with_bounds)


def test_page_index_and_checksums_are_there_or_not(tmp_path: Path) -> None:
    def crcs(written: Written) -> set[bool]:
        with written.resolved.files.open_data() as handle:
            return {
                page.crc is not None
                for chunk in written.own("n")
                for page in pages_of(read_chunk(handle, chunk, file="data"), chunk, file="data")
            }

    with_both, without = write(tmp_path), write(tmp_path, EncodeOptions(page_index=False, page_checksums=False))
    assert all(chunk.has_offset_index and chunk.has_column_index for chunk in with_both.chunks("v"))
    assert not any(chunk.has_offset_index or chunk.has_column_index for chunk in without.chunks("v"))
    assert (crcs(with_both), crcs(without)) == ({True}, {False})


def test_row_groups_say_that_the_designated_timestamp_sorts_them(tmp_path: Path) -> None:
    written = write(tmp_path)
    for group in range(written.metadata.num_row_groups):
        assert written.metadata.row_group(group).sorting_columns == (pq.SortingColumn(0),)
    header = written.resolved.metadata.header
    assert layout.SORTING_IS_DTS_ASC.get(header.feature_flags) and header.sorting == (0,)


def test_options_hold_for_rows_that_merge_and_for_what_is_written_anew(tmp_path: Path) -> None:
    storage, _ = new_table()
    options = WriterOptions(rewrite_unused_ratio=1.0, encoding=columns(n=ColumnOptions(codec=Codec.SNAPPY)))
    with writer_on(storage, options) as writer:
        writer.write(rows(range(10)))
        writer.commit()
        writer.write(rows([5], 100))
        writer.commit()
        assert {chunk.compression for chunk in Written(tmp_path, storage).chunks("n")} == {"SNAPPY"}
        writer.rewrite_partition(DAY)
        writer.commit()
    (resolved,) = resolved_partitions(PATH, storage)
    assert resolved.files.name != DIRECTORY.rpartition("/")[2]
    assert [chunk.codec for chunk in resolved.metadata.blocks[0].chunks] == [7, 7, Codec.SNAPPY]


def test_symbols_of_a_real_table_keep_their_dictionary_under_any_codec(questdb_data: Path) -> None:
    path, storage = in_memory(questdb_data / "tables/9.4.2/bloom/table")
    encoding = EncodeOptions(codec=Codec.ZSTD, level=7, columns={"s": ColumnOptions(codec=Codec.GZIP, level=2)})
    with open_writer(
        storage, path, options=WriterOptions(rewrite_unused_ratio=1.0, encoding=encoding), allow_parquet_last=True
    ) as writer:
        start = next(each.timestamp for each in writer.transaction.partitions if each.is_parquet)
        writer.write(rows_for(writer.table, [start, start + 1], seed=3))
        writer.commit()
    assert verified(path, storage).sound
    (resolved,) = resolved_partitions(path, storage)
    codecs = [[chunk.codec for chunk in block.chunks] for block in resolved.metadata.blocks]
    assert [each for each in codecs if Codec.GZIP in each] == [[Codec.ZSTD] * 3 + [Codec.GZIP] + [Codec.ZSTD] * 3]


OF_ANOTHER_TYPE: list[tuple[type[Any], str, list[Any]]] = [
    (WriterOptions, "row_group_row_count_max", ["5", 2.5, None, True]),
    (WriterOptions, "row_group_size_bytes_max", ["x", 1.5]),
    (WriterOptions, "rewrite_unused_ratio", ["x", None]),
    (WriterOptions, "rewrite_unused_bytes", ["x"]),
    (WriterOptions, "encoding", [5, None, {}]),
    (WriterOptions, "blooms", ["v", ["v"]]),
    (WriterOptions, "allow_unreadable_by_servers", [1, None, "yes"]),
    (BloomOptions, "columns", [["v"], {"v": "x"}, {5: 0.1}, {"v": None}]),
    (EncodeOptions, "codec", ["snappy", None]),
    (EncodeOptions, "level", ["x", 1.5]),
    (EncodeOptions, "page_size_bytes", ["x", 1.5, None]),
    (EncodeOptions, "page_row_count_max", ["x"]),
    (EncodeOptions, "statistics", ["x", None]),
    (EncodeOptions, "footer_extension", [5, "private"]),
    (EncodeOptions, "sorting", [5]),
    (EncodeOptions, "columns", [None, ["v"], {"v": "PLAIN"}, {"v": None}]),
    (ColumnOptions, "encoding", ["PLAIN", 0]),
    (ColumnOptions, "codec", ["zstd"]),
]


@pytest.mark.parametrize(
    ("kind", "name", "value"), [(kind, name, value) for kind, name, values in OF_ANOTHER_TYPE for value in values]
)
def test_options_of_another_type_are_rejected_when_they_are_made(kind: type[Any], name: str, value: Any) -> None:
    """They ended in errors of Python's, some of them in a commit."""
    with pytest.raises(OptionsRejectedError) as rejected:
        kind(**{name: value})
    assert re.fullmatch(rf"{name}: expected .*, found {re.escape(repr(value))}", str(rejected.value))


REJECTED: dict[str, tuple[Callable[[], object], str]] = {
    "row group without rows": (lambda: WriterOptions(row_group_row_count_max=0), "a row group has rows, not at most 0"),
    "row group without bytes": (lambda: WriterOptions(row_group_size_bytes_max=0), "a row group has bytes, not at"),
    "ratio that is none": (lambda: WriterOptions(rewrite_unused_ratio=math.nan), "is not negative, and not nan"),
    "negative ratio": (lambda: WriterOptions(rewrite_unused_ratio=-1), "is not negative, and not -1"),
    "negative bytes": (lambda: WriterOptions(rewrite_unused_bytes=-5), "unused bytes are not at most -5"),
    "page without bytes": (lambda: EncodeOptions(page_size_bytes=0), "a page has bytes, not at most 0"),
    "page without rows": (lambda: EncodeOptions(page_row_count_max=-1), "a page has rows, not at most -1"),
    "too many rows": (lambda: WriterOptions(row_group_row_count_max=1 << 63), "a row group has rows, not at most 922"),
    "too many bytes": (lambda: EncodeOptions(page_size_bytes=1 << 63), "a page has bytes, not at most 922"),
    "rate that is nearly 1": (
        lambda: WriterOptions(blooms=BloomOptions(columns={"v": 1 - 2**-53})),
        "column 'v': a false-positive rate is above 0 and below 1, not 0.9999999999999999",
    ),
    "codec": (
        lambda: EncodeOptions(codec=Codec.LZO),
        "all columns: LZO is not written; there are UNCOMPRESSED",
    ),
    "codec of one": (lambda: columns(v=ColumnOptions(codec=Codec.LZ4)), "column 'v': LZ4 is not written"),
    "level": (lambda: EncodeOptions(codec=Codec.GZIP, level=10), "all columns: the levels of GZIP are 1 to 9, not 10"),
    "level of none": (lambda: EncodeOptions(codec=Codec.SNAPPY, level=1), "all columns: SNAPPY has no levels"),
    "level of one": (
        lambda: EncodeOptions(codec=Codec.GZIP, columns={"v": ColumnOptions(level=11)}),
        "column 'v': the levels of GZIP are 1 to 9, not 11",
    ),
    "own sorting": (
        lambda: EncodeOptions(sorting=(SortingColumn(column_index=1, descending=False, nulls_first=False),)),
        "all are sorted by the designated timestamp, and say so",
    ),
    "unknown column": (lambda: columns(x=ColumnOptions()), "there is no column 'x'; the table has ts, v, n"),
    "encoding": (
        lambda: columns(n=ColumnOptions(encoding=Encoding.DELTA_BINARY_PACKED)),
        "column 'n': DELTA_BINARY_PACKED is not for its values, which are BYTE_ARRAY; there are DICTIONARY, PLAIN,",
    ),
    "encoding that no server reads": (
        lambda: columns(v=ColumnOptions(encoding=Encoding.BYTE_STREAM_SPLIT)),
        "column 'v': no server reads it in BYTE_STREAM_SPLIT; WriterOptions(allow_unreadable_by_servers=True) has it",
    ),
    "extended footer": (
        lambda: EncodeOptions(footer_extension=FooterForm.MIGRATION),
        "footer_extension MIGRATION: no server goes on with extended footers; WriterOptions(allow_unreadable_by_",
    ),
    "every number twice": (
        lambda: EncodeOptions(duplicates=True),
        "duplicates: no server goes on with extended metadata of chunks; WriterOptions(allow_unreadable_by_servers=Tr",
    ),
    "footer without Thrift": (
        lambda: WriterOptions(
            encoding=EncodeOptions(footer_extension=FooterForm.FINAL), allow_unreadable_by_servers=True
        ),
        "footers without Thrift are not for tables",
    ),
    "timestamp without statistics": (
        lambda: columns(ts=ColumnOptions(statistics=False)),
        "column 'ts': the designated timestamp always has statistics",
    ),
}


READ_BY_SERVERS = {
    Encoding.DICTIONARY: {name for name in ALL_TYPES if "array" not in name},
    Encoding.DELTA_BYTE_ARRAY: {"varchar"},
    Encoding.BYTE_STREAM_SPLIT: set[str](),
}


@pytest.mark.parametrize("encoding", Encoding)
def test_an_encoding_is_taken_of_the_types_that_some_server_reads_in_it(encoding: Encoding) -> None:
    """Commits in others were acknowledged, and "encoding not supported" was all that a server said of the rows."""
    storage, _ = new_table(*(NewColumn(name=name, type=int(kind)) for name, kind in ALL_TYPES.items()))
    taken = set()
    possible = {name for name, each in POSSIBLE if each is encoding}
    for name in possible:
        options = WriterOptions(encoding=columns(**{name: ColumnOptions(encoding=encoding)}))
        with suppress(OptionsRejectedError), writer_on(storage, options):
            taken.add(name)
    assert taken == READ_BY_SERVERS.get(encoding, possible) & possible


@pytest.mark.parametrize("name", REJECTED)
def test_invalid_options_are_rejected_with_a_message(name: str) -> None:
    make, message = REJECTED[name]
    storage, _ = new_table()
    with pytest.raises(OptionsRejectedError, match=re.escape(message)) as rejection:
        made = make()
        writer_on(storage, WriterOptions(encoding=made) if isinstance(made, EncodeOptions) else WriterOptions())
    assert isinstance(rejection.value, TornproofError) and isinstance(rejection.value, ValueError)
    # The lock was given back.
    writer_on(storage).close()


def test_symbols_are_encoded_by_dictionary_alone(questdb_data: Path) -> None:
    path, storage = in_memory(questdb_data / "tables/9.4.2/bloom/table")
    with pytest.raises(OptionsRejectedError, match="column 's': symbols are encoded by dictionary, not as PLAIN"):
        open_writer(storage, path, options=WriterOptions(encoding=columns(s=ColumnOptions(encoding=Encoding.PLAIN))))
    asked = columns(s=ColumnOptions(encoding=Encoding.DICTIONARY))
    open_writer(storage, path, options=WriterOptions(encoding=asked), allow_parquet_last=True).close()
