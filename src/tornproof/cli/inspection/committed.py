"""Which token of a partition is the committed one, as the `_txn` of the table around it has it."""

from __future__ import annotations

from dataclasses import dataclass

from tornproof.cli.inspection.report import Document, clean_text
from tornproof.impl.errors import TornproofError
from tornproof.impl.storage.interface import ReadableStorage
from tornproof.impl.table.table import open_table
from tornproof.impl.txn.transaction import TXN_FILE


@dataclass(frozen=True, slots=True, kw_only=True)
class Committed:
    """What `_txn` has committed of one partition: the size of its data.parquet in one version of the table."""

    file: str
    version: int
    token: int

    def document(self, generation: int | None) -> Document:
        """Return the JSON document; `generation` is where the token stands in the chain of `_pm`."""
        return {"file": self.file, "version": self.version, "token": self.token, "generation": generation}


def committed_of(storage: ReadableStorage, directory_path: str) -> Committed | None:
    """Return what is committed of the partition in a directory, or None where nobody says it.

    That is so where the path does not name directory and table, the table does not list the directory as a parquet
    partition, or its `_txn` cannot be read, which is for an inspection of that file to say.
    """
    table_path, separator, name = directory_path.rpartition("/")
    table_path = table_path or ("/" if separator else ".")
    if name in ("", ".", ".."):
        return None
    try:
        table = open_table(storage, table_path)
        transaction = table.transaction()
        for partition in transaction.partitions:
            if partition.is_parquet and table.directory_of(partition) == name:
                file = clean_text(f"{table_path}/{TXN_FILE}")
                return Committed(file=file, version=transaction.version, token=partition.token)
    except TornproofError:
        pass
    return None
