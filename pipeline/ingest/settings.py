"""The settings and the report of an ingest run."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass

from tornproof.impl.parquet.encode_options import EncodeOptions
from tornproof.impl.parquet.fields import Codec
from tornproof.impl.table.metadata_file import PartitionBy
from tornproof.impl.write.writer_options import WriterOptions
from tornproof.pipeline.ingest.schema import ArchiveSchema
from tornproof.pipeline.ingest.spill import SourceLines

ROW_GROUP_BYTES = 128_000_000
"""The default and the maximum: readers accept less than 128 MiB per column of a row group."""
ROWS_MAX = (1 << 31) - 1


@dataclass(frozen=True, slots=True, kw_only=True)
class ArchiveSettings:
    """The settings of a run; partitioning and columns are those of the table if it exists.

    With `force` a table is written to that a server has open.
    """

    partition_by: PartitionBy = PartitionBy.DAY
    row_group_bytes: int = ROW_GROUP_BYTES
    codec: Codec = Codec.ZSTD
    level: int | None = 3
    schema: ArchiveSchema | None = None
    timestamp: str | None = None
    sample_lines: int = 1000
    rejects_directory: str | None = None
    dry_run: bool = False
    force: bool = False
    allow_parquet_last: bool = False

    @property
    def options(self) -> WriterOptions:
        """Options of the table's writer."""
        encoding = EncodeOptions(codec=self.codec, level=self.level)
        return WriterOptions(
            row_group_row_count_max=ROWS_MAX, row_group_size_bytes_max=self.row_group_bytes, encoding=encoding
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class ArchiveReport:
    """The result of a run; `skipped` are files whose content was added before, with the file that had it first.

    `version` is the committed one, None if there is no table (`--dry-run`); `rejects_path` is "" without rejects.
    """

    schema: ArchiveSchema | None
    sources: tuple[SourceLines, ...]
    skipped: Mapping[str, str]
    version: int | None
    new_partitions: tuple[str, ...] = ()
    grown_partitions: tuple[str, ...] = ()
    rejects_path: str = ""

    @property
    def reject_counts(self) -> Counter[str]:
        """Number of rejected lines, by reason."""
        return sum((Counter(each.reject_counts) for each in self.sources), Counter())

    def total(self, name: str) -> int:
        """Return the sum of a count over all sources."""
        return sum(getattr(each, name) for each in self.sources)
