"""Barriers that are missing or do not wait; most of these faults are other values of `Protocol`."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from contextlib import suppress
from typing import Any

from tornproof.harness.mutation.fault import Explorer, PlantedFault, nothing
from tornproof.harness.systems.preset import leaving_out
from tornproof.impl.errors import StorageError
from tornproof.impl.write.commit import HARDENED, Action, Protocol


def without(*actions: Action) -> Protocol:
    """Return our protocol without some of its actions."""
    return leaving_out(HARDENED, actions)


def only_flushed(actions: Mapping[Action, Callable[[Any], None]]) -> dict[Action, Callable[[Any], None]]:
    """Hand data to the system without waiting for the disk."""
    return {**actions, Action.SYNC_DATA: nothing(actions), Action.SYNC_PM: nothing(actions)}


def started_only(actions: Mapping[Action, Callable[[Any], None]]) -> dict[Action, Callable[[Any], None]]:
    """Start the syncs of `_txn` without waiting for them."""
    return {**actions, Action.SYNC_RECORD: nothing(actions), Action.SYNC_VERSION: nothing(actions)}


def swallow_sync(actions: Mapping[Action, Callable[[Any], None]]) -> dict[Action, Callable[[Any], None]]:
    """Ignore what a sync of data.parquet reports."""

    def sync(run: Any) -> None:
        with suppress(StorageError):
            actions[Action.SYNC_DATA](run)

    return {**actions, Action.SYNC_DATA: sync}


CRASH = Explorer.CRASH
BARRIERS = (
    PlantedFault(
        1,
        "no fence before the version",
        "the store fence before the version is left out",
        "reader accepts a half-new record",
        location="Protocol.publish",
        substitute=without(Action.FENCE_BEFORE_VERSION),
        explorer=Explorer.MEMORY_WEAK,
        scenario="settled-words-of-two-commits",
        hidden_from=(Explorer.MEMORY_SEQUENTIAL, Explorer.MEMORY_TOTAL_STORE_ORDER, CRASH),
    ),
    PlantedFault(
        2,
        "no fence after the version",
        "the store fence after the version is left out",
        "old version with words of the one after the next",
        location="Protocol.publish",
        substitute=without(Action.FENCE_AFTER_VERSION),
        explorer=Explorer.MEMORY_WEAK,
        scenario="settled-words-of-two-commits",
        hidden_from=(Explorer.MEMORY_SEQUENTIAL, Explorer.MEMORY_TOTAL_STORE_ORDER, CRASH),
    ),
    PlantedFault(
        11,
        "record not synced (F4)",
        "the sync of the record before the version is left out",
        "version n with old rows and token",
        location="Protocol.publish",
        substitute=without(Action.SYNC_RECORD),
        explorer=Explorer.TRACE_RULE,
        also=(Explorer.POWER_C_512,),
        scenario="record-across-sectors",
        hidden_from=(CRASH, Explorer.POWER_B),
    ),
    PlantedFault(
        12,
        "version not synced (F5)",
        "the last sync before the acknowledgement is left out",
        "acknowledged commit lost",
        location="Protocol.publish",
        substitute=without(Action.SYNC_VERSION),
        explorer=Explorer.TRACE_RULE,
        also=(Explorer.POWER_B,),
        scenario="append-and-power-cut",
        hidden_from=(CRASH, Explorer.SEQUENTIAL),
    ),
    PlantedFault(
        13,
        "syncs of _txn are only started",
        "both syncs of `_txn` return at once",
        "acknowledged commit lost",
        location="tornproof.impl.write.commit:_PUBLISH_ACTIONS",
        substitute=started_only,
        explorer=Explorer.TRACE_RULE,
        also=(Explorer.POWER_B,),
        scenario="append-and-power-cut",
        hidden_from=(CRASH, Explorer.SEQUENTIAL),
    ),
    PlantedFault(
        21,
        "data not synced (F1)",
        "the sync of data.parquet is left out",
        "committed rows are not on disk",
        location="Protocol.update",
        substitute=without(Action.SYNC_DATA),
        explorer=Explorer.TRACE_RULE,
        also=(Explorer.POWER_B,),
        scenario="append-and-power-cut",
        hidden_from=(Explorer.SEQUENTIAL, CRASH),
    ),
    PlantedFault(
        22,
        "body of _pm not synced (F2)",
        "the sync of `_pm` before the header is left out",
        "old committed chain unreachable",
        location="Protocol.update",
        substitute=without(Action.SYNC_PM),
        explorer=Explorer.TRACE_RULE,
        also=(Explorer.POWER_C_512,),
        scenario="append-and-power-cut",
        hidden_from=(CRASH, Explorer.POWER_B),
    ),
    PlantedFault(
        23,
        "header of _pm not synced (F3)",
        "the sync of `_pm` after the header is left out",
        "acknowledged commit unreachable",
        location="Protocol.update",
        substitute=without(Action.SYNC_HEADER),
        explorer=Explorer.TRACE_RULE,
        also=(Explorer.POWER_B,),
        scenario="append-and-power-cut",
        hidden_from=(Explorer.SEQUENTIAL, CRASH),
    ),
    PlantedFault(
        24,
        "syncs are flushes",
        "data.parquet and `_pm` are handed to the system without waiting for the disk",
        "committed rows are not on disk",
        location="tornproof.impl.write.commit:_PARTITION_ACTIONS",
        substitute=only_flushed,
        explorer=Explorer.TRACE_RULE,
        also=(Explorer.POWER_B,),
        scenario="append-and-power-cut",
        hidden_from=(Explorer.SEQUENTIAL, CRASH),
    ),
    PlantedFault(
        25,
        "new directory not synced (F6)",
        "the sync of a new partition's directory is left out",
        "whole partition missing",
        location="Protocol.rewrite",
        substitute=without(Action.SYNC_DIRECTORY),
        explorer=Explorer.TRACE_RULE,
        also=(Explorer.POWER_CDIR,),
        scenario="new-partition-and-power-cut",
        hidden_from=(CRASH, Explorer.POWER_C_4096),
    ),
    PlantedFault(
        26,
        "table's directory not synced (F6)",
        "the sync of the table's directory after a new partition is left out",
        "whole partition missing",
        location="Protocol.rewrite",
        substitute=without(Action.SYNC_TABLE_DIRECTORY),
        explorer=Explorer.TRACE_RULE,
        also=(Explorer.POWER_CDIR,),
        scenario="new-partition-and-power-cut",
        hidden_from=(CRASH, Explorer.POWER_C_4096),
    ),
    PlantedFault(
        None,
        "symbols not synced (F1)",
        "the sync of new symbols before the version that counts them is left out",
        "a version counts symbols that are not on disk",
        location="Protocol.dictionary",
        substitute=without(Action.SYNC_SYMBOLS),
        explorer=Explorer.TRACE_RULE,
        also=(Explorer.POWER_B, Explorer.POWER_C_4096),
        scenario="new-symbols-and-power-cut",
        hidden_from=(Explorer.SEQUENTIAL, CRASH),
    ),
    PlantedFault(
        None,
        "keys of a hash index not synced (F1)",
        "the sync of the keys of a dictionary's hash index before their name is left out",
        "symbols cannot be looked up",
        location="Protocol.dictionary",
        substitute=without(Action.SYNC_INDEX),
        explorer=Explorer.TRACE_RULE,
        also=(Explorer.POWER_C_4096,),
        scenario="new-symbols-and-power-cut",
        hidden_from=(Explorer.SEQUENTIAL, CRASH),
    ),
    PlantedFault(
        27,
        "failed sync ignored",
        "what the sync of data.parquet reports is ignored",
        "acknowledged commit lost",
        location="tornproof.impl.write.commit:_PARTITION_ACTIONS",
        substitute=swallow_sync,
        explorer=Explorer.FAILED_SYNC,
        scenario="sync-fails",
        hidden_from=(Explorer.SEQUENTIAL, CRASH, Explorer.POWER_C_512, Explorer.TRACE_RULE),
    ),
)
