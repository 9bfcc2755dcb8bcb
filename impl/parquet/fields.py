"""The structs of Parquet's metadata as tables of fields: id, name, form. Field ids are defined only here.

Source: parquet.thrift of Apache Parquet format. Negative sizes, counts and offsets are rejected, except that a
tolerant caller can read those that QuestDB's converter accepts.
"""

from __future__ import annotations

from enum import IntEnum

from tornproof.impl.parquet.records import (
    ClosedUnionTable,
    Form,
    Member,
    Table,
    UnionTable,
    choice,
    integer,
    list_of,
    size,
    struct_of,
)
from tornproof.impl.parquet.thrift import Kind
from tornproof.impl.types.physical import PhysicalType


class Repetition(IntEnum):
    """How often a schema element occurs in its parent."""

    REQUIRED = 0
    OPTIONAL = 1
    REPEATED = 2


class Codec(IntEnum):
    """How pages are compressed; LZ4 means Hadoop's deprecated framing."""

    UNCOMPRESSED = 0
    SNAPPY = 1
    GZIP = 2
    LZO = 3
    BROTLI = 4
    LZ4 = 5
    ZSTD = 6
    LZ4_RAW = 7


class ConvertedType(IntEnum):
    """The annotation of a schema element in older releases of the format."""

    UTF8 = 0
    MAP = 1
    MAP_KEY_VALUE = 2
    LIST = 3
    ENUM = 4
    DECIMAL = 5
    DATE = 6
    TIME_MILLIS = 7
    TIME_MICROS = 8
    TIMESTAMP_MILLIS = 9
    TIMESTAMP_MICROS = 10
    UINT_8 = 11
    UINT_16 = 12
    UINT_32 = 13
    UINT_64 = 14
    INT_8 = 15
    INT_16 = 16
    INT_32 = 17
    INT_64 = 18
    JSON = 19
    BSON = 20
    INTERVAL = 21


CONVERTED_NAMES = {int(each): each.name for each in ConvertedType}


class PageEncoding(IntEnum):
    """How the values or the levels of a page are encoded."""

    PLAIN = 0
    PLAIN_DICTIONARY = 2
    RLE = 3
    BIT_PACKED = 4
    DELTA_BINARY_PACKED = 5
    DELTA_LENGTH_BYTE_ARRAY = 6
    DELTA_BYTE_ARRAY = 7
    RLE_DICTIONARY = 8
    BYTE_STREAM_SPLIT = 9
    ALP = 10
    PFOR = 11


BY_DICTIONARY = frozenset({PageEncoding.PLAIN_DICTIONARY, PageEncoding.RLE_DICTIONARY})
"""Both encodings for dictionary keys."""
OF_DICTIONARIES = frozenset({PageEncoding.PLAIN, PageEncoding.PLAIN_DICTIONARY})
"""Both names of the one encoding for the values of a dictionary."""


class BoundaryOrder(IntEnum):
    """In which order the bounds of a chunk's pages are."""

    UNORDERED = 0
    ASCENDING = 1
    DESCENDING = 2


class PageType(IntEnum):
    """What a page holds."""

    DATA_V1 = 0
    INDEX = 1
    DICTIONARY = 2
    DATA_V2 = 3


I8 = Form(kind=Kind.BYTE, high=255)
I16 = integer(Kind.I16, 16)
I32 = integer(Kind.I32, 32)
I64 = integer(Kind.I64, 64)
SIZE32 = size(Kind.I32, 32)
SIZE64 = size(Kind.I64, 64)
TOLERATED32 = size(Kind.I32, 32, tolerated=True)
TOLERATED64 = size(Kind.I64, 64, tolerated=True)
BOOL = Form(kind=Kind.BOOL, high=1)
BYTES = Form(kind=Kind.BINARY)
TEXT = Form(kind=Kind.BINARY, is_text=True)
TREE = struct_of(None, as_tree=True)

DECIMAL_TYPE = Table("DecimalType", Member(1, "scale", I32, True), Member(2, "precision", I32, True))
TIME_UNIT = ClosedUnionTable("TimeUnit", Member(1, "MILLIS", TREE), Member(2, "MICROS", TREE), Member(3, "NANOS", TREE))
TIME_TYPE = Table(
    "TimeType", Member(1, "is_adjusted_to_utc", BOOL, True), Member(2, "unit", struct_of(TIME_UNIT), True)
)
INTEGER_TYPE = Table("IntType", Member(1, "bit_width", I8, True), Member(2, "is_signed", BOOL, True))
LOGICAL_TYPE = UnionTable(
    "LogicalType",
    Member(1, "STRING", TREE),
    Member(2, "MAP", TREE),
    Member(3, "LIST", TREE),
    Member(4, "ENUM", TREE),
    Member(5, "DECIMAL", struct_of(DECIMAL_TYPE)),
    Member(6, "DATE", TREE),
    Member(7, "TIME", struct_of(TIME_TYPE)),
    Member(8, "TIMESTAMP", struct_of(TIME_TYPE)),
    Member(10, "INTEGER", struct_of(INTEGER_TYPE)),
    Member(11, "UNKNOWN", TREE),
    Member(12, "JSON", TREE),
    Member(13, "BSON", TREE),
    Member(14, "UUID", TREE),
    Member(15, "FLOAT16", TREE),
    Member(16, "VARIANT", TREE),
    Member(17, "GEOMETRY", TREE),
    Member(18, "GEOGRAPHY", TREE),
    Member(19, "VECTOR", TREE),
)
SCHEMA_ELEMENT = Table(
    "SchemaElement",
    Member(1, "type", choice(PhysicalType.FIXED_LEN_BYTE_ARRAY)),
    Member(2, "type_length", SIZE32),
    Member(3, "repetition_type", choice(Repetition.REPEATED)),
    Member(4, "name", TEXT, True),
    Member(5, "num_children", SIZE32),
    Member(6, "converted_type", I32),
    Member(7, "scale", I32),
    Member(8, "precision", I32),
    Member(9, "field_id", I32),
    Member(10, "logical_type", struct_of(LOGICAL_TYPE, as_tree=True)),
    Member(11, "vector_length", I32),
)
SIZE_STATISTICS = Table(
    "SizeStatistics",
    Member(1, "unencoded_byte_array_data_bytes", I64),
    Member(2, "repetition_level_histogram", list_of(I64, as_tree=True)),
    Member(3, "definition_level_histogram", list_of(I64, as_tree=True)),
)
STATISTICS = Table(
    "Statistics",
    Member(1, "max", BYTES),
    Member(2, "min", BYTES),
    Member(3, "null_count", TOLERATED64),
    Member(4, "distinct_count", TOLERATED64),
    Member(5, "max_value", BYTES),
    Member(6, "min_value", BYTES),
    Member(7, "is_max_value_exact", BOOL),
    Member(8, "is_min_value_exact", BOOL),
    Member(9, "nan_count", TOLERATED64),
)
KEY_VALUE = Table("KeyValue", Member(1, "key", TEXT, True), Member(2, "value", TEXT))
SORTING_COLUMN = Table(
    "SortingColumn",
    Member(1, "column_index", I32, True),
    Member(2, "descending", BOOL, True),
    Member(3, "nulls_first", BOOL, True),
)
PAGE_ENCODING_STATS = Table(
    "PageEncodingStats",
    Member(1, "page_type", I32, True),
    Member(2, "encoding", I32, True),
    Member(3, "count", I32, True),
)
COLUMN_META_DATA = Table(
    "ColumnMetaData",
    Member(1, "type", I32, True),
    Member(2, "encodings", list_of(I32), True),
    Member(3, "path_in_schema", list_of(TEXT), True),
    Member(4, "codec", choice(Codec.LZ4_RAW), True),
    Member(5, "num_values", TOLERATED64, True),
    Member(6, "total_uncompressed_size", TOLERATED64, True),
    Member(7, "total_compressed_size", SIZE64, True),
    Member(8, "key_value_metadata", list_of(struct_of(KEY_VALUE), as_tree=True)),
    Member(9, "data_page_offset", SIZE64, True),
    Member(10, "index_page_offset", SIZE64),
    Member(11, "dictionary_page_offset", SIZE64),
    Member(12, "statistics", struct_of(STATISTICS)),
    Member(13, "encoding_stats", list_of(struct_of(PAGE_ENCODING_STATS), as_tree=True)),
    Member(14, "bloom_filter_offset", TOLERATED64),
    Member(15, "bloom_filter_length", TOLERATED32),
    Member(16, "size_statistics", struct_of(SIZE_STATISTICS, as_tree=True)),
    Member(17, "geospatial_statistics", TREE),
)
ENCRYPTION_WITH_COLUMN_KEY = Table(
    "EncryptionWithColumnKey", Member(1, "path_in_schema", list_of(TEXT), True), Member(2, "key_metadata", BYTES)
)
COLUMN_CRYPTO_META_DATA = UnionTable(
    "ColumnCryptoMetaData",
    Member(1, "ENCRYPTION_WITH_FOOTER_KEY", TREE),
    Member(2, "ENCRYPTION_WITH_COLUMN_KEY", struct_of(ENCRYPTION_WITH_COLUMN_KEY)),
)
AES_GCM = Table(
    "AesGcm", Member(1, "aad_prefix", BYTES), Member(2, "aad_file_unique", BYTES), Member(3, "supply_aad_prefix", BOOL)
)
ENCRYPTION_ALGORITHM = UnionTable(
    "EncryptionAlgorithm",
    Member(1, "AES_GCM_V1", struct_of(AES_GCM)),
    Member(2, "AES_GCM_CTR_V1", struct_of(AES_GCM)),
)
COLUMN_CHUNK = Table(
    "ColumnChunk",
    Member(1, "file_path", TEXT),
    Member(2, "file_offset", I64, True),
    Member(3, "meta_data", struct_of(COLUMN_META_DATA), True),
    Member(4, "offset_index_offset", TOLERATED64),
    Member(5, "offset_index_length", TOLERATED32),
    Member(6, "column_index_offset", TOLERATED64),
    Member(7, "column_index_length", TOLERATED32),
    Member(8, "crypto_metadata", struct_of(COLUMN_CRYPTO_META_DATA, as_tree=True)),
    Member(9, "encrypted_column_metadata", BYTES),
)
ROW_GROUP = Table(
    "RowGroup",
    Member(1, "columns", list_of(struct_of(COLUMN_CHUNK)), True),
    Member(2, "total_byte_size", SIZE64, True),
    Member(3, "num_rows", SIZE64, True),
    Member(4, "sorting_columns", list_of(struct_of(SORTING_COLUMN))),
    Member(5, "file_offset", I64),
    Member(6, "total_compressed_size", I64),
    Member(7, "ordinal", I16),
)
COLUMN_ORDER = UnionTable(
    "ColumnOrder",
    Member(1, "TYPE_ORDER", TREE),
    Member(2, "IEEE_754_TOTAL_ORDER", TREE),
    Member(3, "INT96_TIMESTAMP_ORDER", TREE),
)
FILE_META_DATA = Table(
    "FileMetaData",
    Member(1, "version", I32, True),
    Member(2, "schema", list_of(struct_of(SCHEMA_ELEMENT)), True),
    Member(3, "num_rows", SIZE64, True),
    Member(4, "row_groups", list_of(struct_of(ROW_GROUP)), True),
    Member(5, "key_value_metadata", list_of(struct_of(KEY_VALUE))),
    Member(6, "created_by", TEXT),
    Member(7, "column_orders", list_of(struct_of(COLUMN_ORDER), as_tree=True)),
    Member(8, "encryption_algorithm", struct_of(ENCRYPTION_ALGORITHM, as_tree=True)),
    Member(9, "footer_signing_key_metadata", BYTES),
)
DATA_PAGE_HEADER = Table(
    "DataPageHeader",
    Member(1, "num_values", SIZE32, True),
    Member(2, "encoding", I32, True),
    Member(3, "definition_level_encoding", I32, True),
    Member(4, "repetition_level_encoding", I32, True),
    Member(5, "statistics", struct_of(STATISTICS, as_tree=True)),
)
DICTIONARY_PAGE_HEADER = Table(
    "DictionaryPageHeader",
    Member(1, "num_values", SIZE32, True),
    Member(2, "encoding", I32, True),
    Member(3, "is_sorted", BOOL),
)
DATA_PAGE_HEADER_V2 = Table(
    "DataPageHeaderV2",
    Member(1, "num_values", SIZE32, True),
    Member(2, "num_nulls", SIZE32, True),
    Member(3, "num_rows", SIZE32, True),
    Member(4, "encoding", I32, True),
    Member(5, "definition_levels_byte_length", SIZE32, True),
    Member(6, "repetition_levels_byte_length", SIZE32, True),
    Member(7, "is_compressed", BOOL),
    Member(8, "statistics", struct_of(STATISTICS, as_tree=True)),
)
PAGE_HEADER = Table(
    "PageHeader",
    Member(1, "type", choice(PageType.DATA_V2), True),
    Member(2, "uncompressed_page_size", SIZE32, True),
    Member(3, "compressed_page_size", SIZE32, True),
    Member(4, "crc", I32),
    Member(5, "data_page_header", struct_of(DATA_PAGE_HEADER)),
    Member(6, "index_page_header", TREE),
    Member(7, "dictionary_page_header", struct_of(DICTIONARY_PAGE_HEADER)),
    Member(8, "data_page_header_v2", struct_of(DATA_PAGE_HEADER_V2)),
)
BLOOM_FILTER_ALGORITHM = UnionTable("BloomFilterAlgorithm", Member(1, "BLOCK", TREE, True))
BLOOM_FILTER_HASH = UnionTable("BloomFilterHash", Member(1, "XXHASH", TREE, True))
BLOOM_FILTER_COMPRESSION = UnionTable("BloomFilterCompression", Member(1, "UNCOMPRESSED", TREE, True))
BLOOM_FILTER_HEADER = Table(
    "BloomFilterHeader",
    Member(1, "num_bytes", SIZE32, True),
    Member(2, "algorithm", struct_of(BLOOM_FILTER_ALGORITHM), True),
    Member(3, "hash", struct_of(BLOOM_FILTER_HASH), True),
    Member(4, "compression", struct_of(BLOOM_FILTER_COMPRESSION), True),
)
PAGE_LOCATION = Table(
    "PageLocation",
    Member(1, "offset", SIZE64, True),
    Member(2, "compressed_page_size", SIZE32, True),
    Member(3, "first_row_index", SIZE64, True),
)
OFFSET_INDEX = Table(
    "OffsetIndex",
    Member(1, "page_locations", list_of(struct_of(PAGE_LOCATION)), True),
    Member(2, "unencoded_byte_array_data_bytes", list_of(I64, as_tree=True)),
)

COLUMN_INDEX = Table(
    "ColumnIndex",
    Member(1, "null_pages", list_of(BOOL, as_tree=True), True),
    Member(2, "min_values", list_of(BYTES), True),
    Member(3, "max_values", list_of(BYTES), True),
    Member(4, "boundary_order", Form(kind=Kind.I32, high=BoundaryOrder.DESCENDING), True),
    Member(5, "null_counts", list_of(SIZE64)),
    Member(6, "repetition_level_histograms", list_of(I64, as_tree=True)),
    Member(7, "definition_level_histograms", list_of(I64, as_tree=True)),
)


def ids_of(table: Table) -> dict[str, int]:
    """Return the members' ids by their names, for code that edits trees."""
    return {member.name: member.id for member in table.by_id.values()}
