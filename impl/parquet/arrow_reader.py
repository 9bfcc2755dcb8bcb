"""pyarrow's reader of Parquet without importing `pyarrow.parquet`, for code that also runs on small tables.

On import `pyarrow.parquet` brings the file systems of five clouds and TLS, which takes as long as verifying a small
table; the reader below it needs none of them.
"""

from __future__ import annotations

from collections.abc import Sequence

import pyarrow as pa
from pyarrow._parquet import FileMetaData, ParquetReader

__all__ = ["FileMetaData", "ParquetReader", "metadata_of", "open_reader"]


def open_reader(
    content: bytes,
    metadata: FileMetaData | None = None,
    dictionary_columns: Sequence[int] = (),
    int96_unit: str | None = None,
) -> ParquetReader:
    """Open a file in memory, of which some columns are read as dictionaries; `metadata` instead of its own footer.

    INT96 is read as times in `int96_unit`, nanoseconds by default, without a word about those that do not fit.

    Raises pyarrow's errors.
    """
    reader = ParquetReader()
    reader.open(
        pa.BufferReader(content),
        metadata=metadata,
        read_dictionary=dictionary_columns or None,
        pre_buffer=False,
        coerce_int96_timestamp_unit=int96_unit,
    )
    return reader


def metadata_of(content: bytes) -> FileMetaData:
    """Return the decoded footer of a file in memory; raises pyarrow's errors."""
    return open_reader(content).metadata
