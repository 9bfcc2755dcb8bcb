"""`_pm` for a Parquet file outside of any table: its token is its size."""

from __future__ import annotations

from tornproof.impl.errors import BusyError, ProblemError
from tornproof.impl.migrate.convert import ConversionMode, convert
from tornproof.impl.migrate.partition_migration import footer_digest
from tornproof.impl.migrate.partition_publish import parent_of
from tornproof.impl.migrate.plan import Migration, PartitionMigration, rejection
from tornproof.impl.migrate.table_migration import OUTPUT_SUFFIX, publish_output
from tornproof.impl.storage.interface import Storage


def migrate_file(
    storage: Storage,
    path: str,
    *,
    mode: ConversionMode = ConversionMode.SERVER,
    dry_run: bool = False,
    out: str | None = None,
) -> Migration:
    """Write the `_pm` of a Parquet file as NAME.pm next to it, or into the directory `out`; raises StorageError."""
    name = path.rpartition("/")[2]
    size_bytes = 0
    try:
        with storage.open_for_reading(path) as handle:
            size_bytes = handle.size_bytes()
            digest = footer_digest(handle, size_bytes, file=name)
            content = convert(handle.pread, size_bytes=size_bytes, file=name, mode=mode)
        with storage.open_for_reading(path) as handle:
            if handle.size_bytes() != size_bytes or footer_digest(handle, size_bytes, file=name) != digest:
                raise BusyError(f"{path}: the file changed while it was read; nothing was written")
    except (ProblemError, BusyError) as error:
        return Migration(path=path, partitions=(rejection(name, size_bytes, error),))
    target = f"{parent_of(path) if out is None else out}/{name}{OUTPUT_SUFFIX}"
    outcome = publish_output(storage, target, content, dry_run=dry_run)
    done = PartitionMigration(name=name, outcome=outcome, token=size_bytes, written_to=target, pm_bytes=len(content))
    return Migration(path=path, partitions=(done,))
