"""When two tables count as the same, and which other versions a damaged table may be."""

from __future__ import annotations

from tornproof.harness.simulator.filesystem.image import DiskImage
from tornproof.harness.systems.answer import Answer, answer_of
from tornproof.impl.errors import TornproofError
from tornproof.impl.layout.txn import BaseHeader, TransactionRecord
from tornproof.impl.pm.chain import Metadata
from tornproof.impl.read.reader import Snapshot
from tornproof.impl.txn.transaction import RECORD_BYTES, TXN_FILE, area_of


def key_of(snapshot: Snapshot) -> tuple[object, ...]:
    """Return everything in `_txn` that reading depends on, and verifying each partition."""
    transaction = snapshot.transaction
    return transaction.version, *(
        (snapshot.table.directory_of(each), each.parquet_was_generated, each.row_count, each.token, each.next_timestamp)
        if each.is_parquet
        else snapshot.table.directory_of(each)
        for each in transaction.partitions
    )


def legal_answers(image: DiskImage, path: str, version: int) -> list[Answer]:
    """Return the answers that a crash may leave: those of the record in the other area, where it can be read.

    Whether the record is that of the version is not left to the reader under test.
    """
    txn_path, field = f"{path}/{TXN_FILE}", BaseHeader.layout.field("version")
    content = image.files[txn_path]
    answers = []
    for neighbour in (version - 1, version + 1):
        stored = (neighbour % (1 << 64)).to_bytes(field.wire.size_bytes, "little")
        legal = image.with_file(txn_path, stored + content[field.end_bytes :])
        if _txn_of(content, neighbour) != neighbour:
            continue
        try:
            answers.append(answer_of(legal, path))
        except TornproofError:
            continue
    return answers


def _txn_of(content: bytes, version: int) -> int | None:
    """Return the version that the record says it is of which a version selects; None where there is no record."""
    offset_bytes = area_of(BaseHeader.unpack(content, 0, file=TXN_FILE), version).record_offset
    if not 0 <= offset_bytes <= len(content) - RECORD_BYTES:
        return None
    return TransactionRecord.unpack(content, offset_bytes, file=TXN_FILE).txn


def same_metadata(left: Metadata, right: Metadata) -> bool:
    """Whether two generations lead a reader to the same bytes."""
    return (left.header, left.generation.block_offsets, left.blocks) == (
        right.header,
        right.generation.block_offsets,
        right.blocks,
    )
