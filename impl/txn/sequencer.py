"""How many transactions of a table's write-ahead log no commit has applied yet."""

from __future__ import annotations

from tornproof.impl.errors import FileMissingError
from tornproof.impl.layout.sequencer import SequencerHeader
from tornproof.impl.storage.interface import ReadableStorage
from tornproof.impl.txn.transaction import Transaction

SEQUENCER_FILE = "txn_seq/_txnlog"


def pending_transaction_count(storage: ReadableStorage, table_path: str, transaction: Transaction) -> int | None:
    """Return how many transactions the sequencer has acknowledged after the last one that a version contains.

    None without a sequencer, or without its whole header. Raises StorageError.
    """
    try:
        with storage.open_for_reading(f"{table_path}/{SEQUENCER_FILE}") as file:
            header = file.pread(SequencerHeader.layout.size_bytes, 0)
    except FileMissingError:
        return None
    if len(header) < SequencerHeader.layout.size_bytes:
        return None
    last = SequencerHeader.unpack(header, 0, file=SEQUENCER_FILE).last_transaction
    return max(0, last - transaction.record.seq_txn)
