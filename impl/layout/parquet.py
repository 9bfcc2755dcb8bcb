"""The fixed bytes around a Parquet file."""

import enum
from typing import Annotated

from tornproof.impl.layout.record import U32, Record, gap, layout_of, meaning

DATA_FILE = "data.parquet"
MAGIC = b"PAR1"
FINAL_MAGIC = b"PAR3"

EXTENSION_SOURCE = "Apache Parquet format, Binary protocol extensions"


class FooterForm(enum.StrEnum):
    """Which footers a file has; the first three can be read by every reader of Parquet (docs/extensions.md)."""

    THRIFT = "thrift"
    PRIVATE = "private"
    MIGRATION = "migration"
    FINAL = "final"


@layout_of(title="Parquet tail", size_bytes=8, source="Apache Parquet format, File format")
class ParquetTail(Record):
    """The last bytes of the file, behind the Thrift footer."""

    footer_length: U32 = meaning("bytes of the Thrift footer")
    magic: Annotated[bytes, gap(4)] = meaning("`PAR1`")


@layout_of(title="Footer extension tail", size_bytes=28, source=EXTENSION_SOURCE)
class ExtensionTail(Record):
    """The last bytes of a footer extension, between its FlatBuffers footer and the stop byte of the Thrift footer."""

    flatbuffer_crc: U32 = meaning("CRC-32 (IEEE) of the FlatBuffers footer")
    flatbuffer_size: U32 = meaning("bytes of the FlatBuffers footer")
    size_crc: U32 = meaning("CRC-32 (IEEE) of the field before")
    uuid: Annotated[bytes, gap(16)] = meaning("which extension it is")


@layout_of(title="Final footer tail", size_bytes=16, source=EXTENSION_SOURCE)
class FinalTail(Record):
    """The last bytes of a file without a Thrift footer."""

    flatbuffer_crc: U32 = meaning("CRC-32 (IEEE) of the FlatBuffers footer")
    flatbuffer_size: U32 = meaning("bytes of the FlatBuffers footer")
    size_crc: U32 = meaning("CRC-32 (IEEE) of the field before")
    magic: Annotated[bytes, gap(4)] = meaning("`PAR3`")
