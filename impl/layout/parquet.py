"""The fixed bytes around a Parquet file."""

from __future__ import annotations

from typing import Annotated

from tornproof.impl.layout.record import U32, Record, gap, layout_of, meaning

DATA_FILE = "data.parquet"
MAGIC = b"PAR1"


@layout_of(title="Parquet tail", size_bytes=8, source="Apache Parquet format, File format")
class ParquetTail(Record):
    """The last bytes of the file, behind the Thrift footer."""

    footer_length: U32 = meaning("bytes of the Thrift footer")
    magic: Annotated[bytes, gap(4)] = meaning("`PAR1`")
