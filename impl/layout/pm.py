"""The byte layouts of `_pm`, the metadata file of one parquet partition."""

from tornproof.impl.layout.bits import Bits, BitTable
from tornproof.impl.layout.record import I32, I64, U8, U32, U64, Record, layout_of, meaning

SPECIFICATION = "parquet-metadata.md of 9.4.2"
BLOCK_ALIGNMENT_BYTES = 8
BLOCK_OFFSET_SHIFT = 3
STATISTIC_LENGTH_BITS = 16
INLINE_STATISTIC_LIMIT_BYTES = 8


@layout_of(title="`_pm` header", size_bytes=32, source=f"{SPECIFICATION}, File header")
class Header(Record):
    """The fixed part at the start of the file."""

    parquet_meta_file_size: U64 = meaning("end of the newest published generation; patched last; not under any CRC")
    feature_flags: U64 = meaning("feature bits of the whole file")
    designated_timestamp: I32 = meaning("index of the designated timestamp column, or -1")
    sorting_column_count: U32 = meaning("sorting columns that follow the descriptors")
    column_count: U32 = meaning("column descriptors")
    reserved: U32 = meaning("0")


@layout_of(title="Column descriptor", size_bytes=32, source=f"{SPECIFICATION}, Column descriptor")
class ColumnDescriptor(Record):
    """One column, the same for all row groups."""

    name_offset: U64 = meaning("absolute offset of the UTF-8 name")
    id: I32 = meaning("writer index of the column in the table, or -1")
    type: I32 = meaning("QuestDB column type, or -1")
    flags: I32 = meaning("column flags")
    fixed_byte_len: I32 = meaning("length of FIXED_LEN_BYTE_ARRAY values, else 0")
    name_length: U32 = meaning("bytes of the name")
    physical_type: U8 = meaning("Parquet physical type")
    max_rep_level: U8 = meaning("maximum repetition level")
    max_def_level: U8 = meaning("maximum definition level")
    reserved: U8 = meaning("0")


@layout_of(title="Sorting column", size_bytes=4, source=f"{SPECIFICATION}, Sorting column")
class SortingColumn(Record):
    """One entry of the explicit sorting order."""

    index: U32 = meaning("position among the column descriptors")


@layout_of(title="Bloom columns", size_bytes=4, source=f"{SPECIFICATION}, Bloom filters")
class BloomColumns(Record):
    """Header section of BLOOM_FILTERS; as many u32 column indices follow, ascending and unique."""

    bloom_col_count: U32 = meaning("columns that may have bloom filters, more than 0")


@layout_of(title="Squash tracker", size_bytes=8, source="observed in the 9.4.2 sources")
class SquashTracker(Record):
    """Header section of SQUASH_TRACKER."""

    squash_tracker: I64 = meaning("squash counter of the partition; the bit is clear instead of -1")


@layout_of(title="Row group block", size_bytes=8, source=f"{SPECIFICATION}, Row group block")
class RowGroupHeader(Record):
    """Start of a block; column chunks follow, then the block's out-of-line region."""

    num_rows: U64 = meaning("rows of the row group")


@layout_of(title="Column chunk", size_bytes=64, source=f"{SPECIFICATION}, Column chunk")
class ColumnChunk(Record):
    """One column of one row group: the position of its pages in data.parquet, and statistics of its values."""

    codec: U8 = meaning("Parquet CompressionCodec")
    encodings: U8 = meaning("encodings of the pages, a bit each")
    stat_flags: U8 = meaning("which statistics are present, inlined and exact")
    stat_sizes: U8 = meaning("bytes of the inlined minimum (low nibble) and maximum (high nibble)")
    reserved: U32 = meaning("0")
    num_values: U64 = meaning("values, nulls included")
    byte_range_start: U64 = meaning("first byte of the chunk in data.parquet")
    total_compressed: U64 = meaning("bytes of all its pages")
    null_count: U64 = meaning("nulls")
    distinct_count: U64 = meaning("distinct values")
    min_stat: U64 = meaning("minimum: its bytes, or a reference into the block's out-of-line region")
    max_stat: U64 = meaning("maximum, the same way")


@layout_of(title="`_pm` footer", size_bytes=40, source=f"{SPECIFICATION}, Footer")
class Footer(Record):
    """The fixed part of one generation's footer; row group entries and feature sections follow."""

    parquet_footer_offset: U64 = meaning("start of the Thrift footer in data.parquet")
    parquet_footer_length: U32 = meaning("bytes of the Thrift footer")
    row_group_count: U32 = meaning("row group entries")
    unused_bytes: U64 = meaning("bytes of data.parquet that this generation no longer needs")
    prev_parquet_meta_file_size: U64 = meaning("end of the previous generation, or 0")
    footer_feature_flags: U64 = meaning("feature bits of this footer alone")


@layout_of(title="Row group entry", size_bytes=4, source=f"{SPECIFICATION}, Row group entry")
class RowGroupEntry(Record):
    """Reference from a footer to a block."""

    block_offset: U32 = meaning("offset of the block from the start of the file, shifted right by 3")


@layout_of(title="Bloom reference, inlined", size_bytes=4, source=f"{SPECIFICATION}, Bloom filters")
class InlineBloomReference(Record):
    """One entry of the matrix row group x bloom column when the bitsets lie in `_pm`."""

    bitset_offset: U32 = meaning("absolute offset of the bitset shifted right by 3; 0 = no filter")


@layout_of(title="Bloom reference, external", size_bytes=16, source=f"{SPECIFICATION}, Bloom filters")
class ExternalBloomReference(Record):
    """One entry of the matrix row group x bloom column when the filters lie in data.parquet."""

    bitset_offset: U64 = meaning("offset in data.parquet; 0 with length 0 = no filter")
    bitset_length: U64 = meaning("bytes")


@layout_of(title="Bloom bitset, inlined", size_bytes=4, source=f"{SPECIFICATION}, Bloom filter bitset (inlined)")
class BloomBitset(Record):
    """Start of an inlined bitset; so many bytes follow."""

    length: I32 = meaning("bytes of the bitset")


@layout_of(title="Sequencer transaction", size_bytes=8, source="later releases")
class SequencerTransaction(Record):
    """Footer section of SEQ_TXN."""

    seq_txn: I64 = meaning("sequencer transaction of the snapshot")


@layout_of(title="Scratchpad", size_bytes=4, source="later releases")
class Scratchpad(Record):
    """Footer section of SCRATCHPAD; so many entries follow."""

    entry_count: U32 = meaning("entries, more than 0")


@layout_of(title="Scratchpad entry", size_bytes=8, source="later releases")
class ScratchpadEntry(Record):
    """Start of one scratchpad entry; so many bytes follow."""

    code: U32 = meaning("what the entry is")
    length: U32 = meaning("bytes of the entry")


@layout_of(title="`_pm` trailer", size_bytes=8, source=f"{SPECIFICATION}, Footer")
class Trailer(Record):
    """The last words of a generation."""

    checksum: U32 = meaning("CRC-32 (IEEE) of the file from byte 8 up to this field")
    footer_length: U32 = meaning("bytes from the footer's start through CHECKSUM")


COLUMN_FLAGS = BitTable(
    "Column flags",
    f"{SPECIFICATION}, Column flags",
    32,
    (
        Bits("LOCAL_KEY_IS_GLOBAL", 0, 1, "dictionary keys of a symbol column are the table's symbol keys"),
        Bits("IS_ASCII", 1, 1, "all values of a varchar column are ASCII"),
        Bits("FIELD_REPETITION", 2, 2, "0 = required, 1 = optional, 2 = repeated"),
        Bits("DESCENDING", 4, 1, "a sorting column is sorted descending"),
    ),
)
LOCAL_KEY_IS_GLOBAL, IS_ASCII, FIELD_REPETITION, DESCENDING = COLUMN_FLAGS.bits

HEADER_FEATURES = BitTable(
    "Header feature flags",
    f"{SPECIFICATION}, Defined feature flags; bit 3 observed in the 9.4.2 sources",
    64,
    (
        Bits("BLOOM_FILTERS", 0, 1, "the file may hold bloom filters: a header and a footer section"),
        Bits("BLOOM_FILTERS_EXTERNAL", 1, 1, "the filters lie in data.parquet; needs bit 0"),
        Bits("SORTING_IS_DTS_ASC", 2, 1, "sorted by the designated timestamp, ascending; no sorting columns stored"),
        Bits("SQUASH_TRACKER", 3, 1, "a header section with the squash counter"),
    ),
)
BLOOM_FILTERS, BLOOM_FILTERS_EXTERNAL, SORTING_IS_DTS_ASC, SQUASH_TRACKER = HEADER_FEATURES.bits

FOOTER_FEATURES = BitTable(
    "Footer feature flags",
    "later releases",
    64,
    (
        Bits("SEQ_TXN", 0, 1, "a section with the sequencer transaction"),
        Bits("SCRATCHPAD", 1, 1, "a section with small named byte strings"),
        Bits("COVERING_INDEX", 2, 1, "a section that describes covering indexes"),
        Bits("COVERING_INDEX_REQUIRED", 32, 1, "required counterpart of COVERING_INDEX: rejected by this reader"),
    ),
)
SEQ_TXN, SCRATCHPAD, COVERING_INDEX, COVERING_INDEX_REQUIRED = FOOTER_FEATURES.bits

REQUIRED_FEATURES = Bits("REQUIRED", 32, 32, "a reader rejects what has an unknown bit here")
OPTIONAL_FEATURES = Bits("OPTIONAL", 0, 32, "unknown bits here are ignored and kept")

STAT_FLAGS = BitTable(
    "Statistics flags",
    f"{SPECIFICATION}, STAT_FLAGS interpretation",
    8,
    (
        Bits("MIN_STAT_PRESENT", 0, 1, "there is a minimum"),
        Bits("MIN_STAT_INLINED", 1, 1, "its bytes are in the chunk"),
        Bits("MIN_STAT_VALUE_EXACT", 2, 1, "it is a value of the chunk, not only a bound"),
        Bits("MAX_STAT_PRESENT", 3, 1, "there is a maximum"),
        Bits("MAX_STAT_INLINED", 4, 1, "its bytes are in the chunk"),
        Bits("MAX_STAT_VALUE_EXACT", 5, 1, "it is a value of the chunk, not only a bound"),
        Bits("DISTINCT_COUNT_PRESENT", 6, 1, "DISTINCT_COUNT is known"),
        Bits("NULL_COUNT_PRESENT", 7, 1, "NULL_COUNT is known"),
    ),
)
(
    MIN_STAT_PRESENT,
    MIN_STAT_INLINED,
    MIN_STAT_VALUE_EXACT,
    MAX_STAT_PRESENT,
    MAX_STAT_INLINED,
    MAX_STAT_VALUE_EXACT,
    DISTINCT_COUNT_PRESENT,
    NULL_COUNT_PRESENT,
) = STAT_FLAGS.bits

STAT_SIZES = BitTable(
    "Statistics sizes",
    f"{SPECIFICATION}, Column chunk",
    8,
    (
        Bits("MIN_STAT_SIZE", 0, 4, "bytes of the inlined minimum"),
        Bits("MAX_STAT_SIZE", 4, 4, "bytes of the inlined maximum"),
    ),
)
MIN_STAT_SIZE, MAX_STAT_SIZE = STAT_SIZES.bits

STAT_REFERENCE = BitTable(
    "Out-of-line statistic",
    f"{SPECIFICATION}, Stat encoding",
    64,
    (
        Bits("LENGTH", 0, 16, "bytes of the statistic"),
        Bits("OFFSET", 16, 48, "offset from the start of the block's out-of-line region"),
    ),
)
STAT_REFERENCE_LENGTH, STAT_REFERENCE_OFFSET = STAT_REFERENCE.bits

ENCODINGS = BitTable(
    "Encodings",
    f"{SPECIFICATION}, Column chunk",
    8,
    (
        Bits("PLAIN", 0, 1, "plain values"),
        Bits("RLE_DICTIONARY", 1, 1, "dictionary keys, also PLAIN_DICTIONARY"),
        Bits("DELTA_BINARY_PACKED", 2, 1, "integer deltas"),
        Bits("DELTA_LENGTH_BYTE_ARRAY", 3, 1, "deltas of lengths, then bytes"),
        Bits("DELTA_BYTE_ARRAY", 4, 1, "shared prefixes and suffixes"),
        Bits("BYTE_STREAM_SPLIT", 5, 1, "bytes of floats, plane by plane"),
    ),
)
