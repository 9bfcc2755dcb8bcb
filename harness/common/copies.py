"""Writers of copies and of made tables, which no server opens: what would harm a server's table is allowed."""

from __future__ import annotations

from functools import partial

from tornproof.impl.write.table_writer import open_writer

# A copy has no files of indexes and is not for a server.
open_writer_of_copy = partial(open_writer, allow_parquet_last=True, ignore_indexes=True)
