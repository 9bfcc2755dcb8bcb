"""What the argument of `inspect` is: from its name first, then from its bytes."""

from __future__ import annotations

import enum

from tornproof.cli.inspection.report import clean_text
from tornproof.impl.errors import UsageError
from tornproof.impl.layout.parquet import DATA_FILE, MAGIC
from tornproof.impl.storage.interface import EntryKind, ReadableStorage
from tornproof.impl.table.metadata_file import META_FILE
from tornproof.impl.table.partition import PM_FILE
from tornproof.impl.txn.transaction import TXN_FILE

PM_SUFFIX, PARQUET_SUFFIX = ".pm", ".parquet"


class TargetKind(enum.Enum):
    """What can be inspected."""

    PM = "_pm"
    TXN = "_txn"
    META = "_meta"
    PARQUET = "parquet"
    PARTITION = "partition"


def target_kind(storage: ReadableStorage, path: str) -> TargetKind:
    """Return what stands at a path; UsageError for what cannot be inspected, StorageError for what cannot be read."""
    if storage.kind(path) is EntryKind.DIRECTORY:
        return _directory_kind(storage, path)
    name = path.rpartition("/")[2]
    if name == PM_FILE or name.endswith(PM_SUFFIX):
        return TargetKind.PM
    if name in (TXN_FILE, META_FILE):
        return TargetKind(name)
    if name.endswith(PARQUET_SUFFIX):
        return TargetKind.PARQUET
    with storage.open_for_reading(path) as handle:
        end_offset = max(handle.size_bytes() - len(MAGIC), 0)
        if MAGIC in (handle.pread(len(MAGIC), 0), handle.pread(len(MAGIC), end_offset)):
            return TargetKind.PARQUET
    raise UsageError(
        f"{clean_text(path)}: neither name nor bytes are those of a {PM_FILE}, {TXN_FILE}, {META_FILE} or Parquet file"
    )


def _directory_kind(storage: ReadableStorage, path: str) -> TargetKind:
    names = storage.listdir(path)
    if TXN_FILE in names:
        raise UsageError(f"{clean_text(path)}: this is a whole table, which `tornproof verify` looks at")
    if PM_FILE in names or DATA_FILE in names:
        return TargetKind.PARTITION
    raise UsageError(f"{clean_text(path)}: this directory is neither a parquet partition nor a table")
