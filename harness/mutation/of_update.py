"""Faults of an update: what it appends to data.parquet, what it says of it, and what it keeps."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Mapping
from typing import Any

from tornproof.harness.mutation.fault import Explorer, faults_of
from tornproof.harness.mutation.planted import keep_replaced
from tornproof.impl.layout.parquet import DATA_FILE
from tornproof.impl.storage.interface import Storage
from tornproof.impl.write.commit import HARDENED, Action, PartitionWrite


def cut_before_append(actions: Mapping[Action, Callable[[Any], None]]) -> dict[Action, Callable[[Any], None]]:
    """Cut what an orphan left in data.parquet before rows are appended."""

    def append(run: Any) -> None:
        file, end_bytes = run._file(DATA_FILE), run._write.data_offset_bytes
        if file.size_bytes() > end_bytes:
            file.truncate(end_bytes)
        actions[Action.APPEND_DATA](run)

    return {**actions, Action.APPEND_DATA: append}


def before_the_tail(_: Storage, write: PartitionWrite) -> int:
    """Name the size without the length and the magic at its end."""
    return write.data_offset_bytes + len(write.data) - 8


def statistics_from_block(encode_chunk: Callable[..., bytes]) -> Callable[..., bytes]:
    """Count the offsets of long statistics from another place than readers do."""

    def encode(chunk: Any, index: int, references: dict[tuple[int, str], int]) -> bytes:
        return encode_chunk(chunk, index, {key: offset + 8 for key, offset in references.items()})

    return encode


APPENDS = "append-and-power-cut"
_fault = faults_of(part="update", mode="seq", explorer=Explorer.SEQUENTIAL)
UPDATES = (
    _fault(
        50,
        "token without the tail",
        "the size of data.parquet is counted without its last eight bytes",
        "token matches no footer",
        part="token",
        mode="seq; golden",
        place="Protocol.token_of",
        substitute=dataclasses.replace(HARDENED, token_of=before_the_tail),
        scenario=APPENDS,
    ),
    _fault(
        53,
        "blocks are not aligned",
        "a block starts right behind the statistics of the one before",
        "low bits of its offset are lost",
        part="offsets",
        mode="bnd",
        place="tornproof.impl.layout.pm:BLOCK_ALIGNMENT_BYTES",
        substitute=lambda _: 1,
        scenario="texts-of-many-lengths",
    ),
    _fault(
        54,
        "long statistics from another base",
        "offsets of statistics that do not fit inline are counted from another place",
        "wrong minimum and maximum",
        part="offsets",
        mode="golden; seq",
        place="tornproof.impl.pm.block:_encode_chunk",
        substitute=statistics_from_block,
        scenario="texts-of-many-lengths",
    ),
    _fault(
        69,
        "replaced row group stays",
        "a row group that was merged stays beside the merged one",
        "duplicate rows",
        place="tornproof.impl.write.partition_change:plan_merge",
        substitute=keep_replaced,
        scenario="merge-and-power-cut",
    ),
    _fault(
        70,
        "dead bytes are not counted",
        "UNUSED_BYTES leaves out row groups that an update replaces",
        "rewrite comes too late",
        mode="seq (model of dead bytes)",
        place="tornproof.impl.write.partition_writer:unused_bytes_of",
        substitute=lambda _: lambda *__: 0,
        explorer=Explorer.METRIC,
        scenario="merge-and-power-cut",
        also=(Explorer.STATEFUL,),
        hidden_from=(Explorer.SEQUENTIAL, Explorer.CRASH),
        argument="Readers never look at UNUSED_BYTES: it only says when a partition is written anew.",
    ),
    _fault(
        72,
        "dead tail cut off",
        "data.parquet is cut to the committed end before rows are appended",
        "mapped reader of dead bytes gets a bus error",
        mode="sched; real",
        place="tornproof.impl.write.commit:_PARTITION_ACTIONS",
        substitute=cut_before_append,
        explorer=Explorer.METRIC,
        scenario="two-orphans",
        hidden_from=(Explorer.SEQUENTIAL, Explorer.TRACE_RULE, Explorer.SCHEDULES, Explorer.CRASH),
        argument="Our readers map no data.parquet and read nothing behind a token, so that only the count of dead "
        "bytes tells; readers that map the whole file would get a bus error.",
    ),
)
