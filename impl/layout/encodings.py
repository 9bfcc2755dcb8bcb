"""Pages of bit-packed vectors: decimals of floating-point numbers (ALP), and integers with outliers (PFOR)."""

from typing import Annotated

from tornproof.impl.layout.record import I32, I64, U8, U16, U32, U64, Record, gap, layout_of, meaning

ALP_SOURCE = "Apache Parquet format, AlpEncoding.md"
PFOR_SOURCE = "proposed for the Apache Parquet format, PforEncoding.md"
EXPONENT, FACTOR = "power of ten that values are multiplied by", "power of ten that they are then divided by"
EXCEPTIONS = "values that are stored as they are, behind the packed ones"
FRAME, WIDTH = "what is added to every packed number", "bits of a packed number"


@layout_of(title="ALP page", size_bytes=7, source=ALP_SOURCE)
class AlpPage(Record):
    """The values of a page; u32 offsets of its vectors follow, counted from there, then the vectors."""

    compression_mode: U8 = meaning("0")
    integer_encoding: U8 = meaning("0, a bit-packed frame of reference")
    log_vector_size: U8 = meaning("binary logarithm of the values of a vector, from 3 to 15")
    num_elements: I32 = meaning("values that are not null")


@layout_of(title="ALP vector of doubles", size_bytes=13, source=ALP_SOURCE)
class AlpDoubles(Record):
    """Packed numbers follow, then u16 positions of the exceptions, then these."""

    exponent: U8 = meaning(EXPONENT)
    factor: U8 = meaning(FACTOR)
    num_exceptions: U16 = meaning(EXCEPTIONS)
    frame_of_reference: I64 = meaning(FRAME)
    bit_width: U8 = meaning(WIDTH)


@layout_of(title="ALP vector of floats", size_bytes=9, source=ALP_SOURCE)
class AlpFloats(Record):
    """The same for floats."""

    exponent: U8 = meaning(EXPONENT)
    factor: U8 = meaning(FACTOR)
    num_exceptions: U16 = meaning(EXCEPTIONS)
    frame_of_reference: I32 = meaning(FRAME)
    bit_width: U8 = meaning(WIDTH)


@layout_of(title="PFOR page", size_bytes=7, source=PFOR_SOURCE)
class PforPage(Record):
    """The values of a page; offsets and vectors follow as in an ALP page."""

    packing_mode: U8 = meaning("0, a bit-packed frame of reference")
    log_vector_size: U8 = meaning("binary logarithm of the values of a vector, from 3 to 15")
    value_byte_width: U8 = meaning("4 or 8")
    num_elements: U32 = meaning("values that are not null")


@layout_of(title="PFOR vector of 64-bit integers", size_bytes=11, source=PFOR_SOURCE)
class PforLongs(Record):
    """Packed numbers follow, then u16 positions of the exceptions, then these."""

    frame_of_reference: I64 = meaning(FRAME)
    bit_width: U8 = meaning(WIDTH)
    num_exceptions: U16 = meaning(EXCEPTIONS)


@layout_of(title="PFOR vector of 32-bit integers", size_bytes=7, source=PFOR_SOURCE)
class PforInts(Record):
    """The same for 32-bit integers."""

    frame_of_reference: I32 = meaning(FRAME)
    bit_width: U8 = meaning(WIDTH)
    num_exceptions: U16 = meaning(EXCEPTIONS)


@layout_of(title="Former footer tail", size_bytes=8, source="tornproof (docs/extensions.md)")
class FormerTail(Record):
    """Ends the file as it was before its chunks were duplicated, in place of the end of a Parquet file."""

    footer_length: U32 = meaning("bytes of the former Thrift footer, which is before this")
    footer_crc: U32 = meaning("CRC-32 (IEEE) of it; no magic bytes, so that a file cut here is none")


@layout_of(title="Duplicate chunk", size_bytes=56, source="tornproof (docs/extensions.md)")
class DuplicateTail(Record):
    """The extension of a ColumnMetaData: where the same values are in another encoding."""

    chunk_offset: U64 = meaning("where the duplicate starts in the file")
    chunk_length: U64 = meaning("its bytes")
    former_end: U64 = meaning("where the file as it was before ends, its footer included; 0 if there is none")
    chunk_crc: U32 = meaning("CRC-32 (IEEE) of the duplicate")
    encoding: U32 = meaning("how its values are encoded: 10 ALP, 11 PFOR")
    meta_crc: U32 = meaning("CRC-32 (IEEE) of the ColumnMetaData without this extension")
    record_crc: U32 = meaning("CRC-32 (IEEE) of the fields before")
    uuid: Annotated[bytes, gap(16)] = meaning("which extension it is")
