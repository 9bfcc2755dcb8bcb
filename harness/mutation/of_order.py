"""Faults in the order of a commit's actions, and in the base of an update."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from msgspec import structs

from tornproof.harness.mutation.fault import Explorer, PlantedFault
from tornproof.harness.systems.preset import physical_length
from tornproof.harness.systems.readers import by_header, unchecked
from tornproof.impl.read.reader_protocol import HARDENED_READER
from tornproof.impl.storage.interface import Storage
from tornproof.impl.table.partition_names import looks_like_partition, split_name
from tornproof.impl.txn.write import StorePlan
from tornproof.impl.write.commit import HARDENED, Action, PartitionWrite, Protocol
from tornproof.impl.write.recovery import remove_directory

UPDATE, PUBLISH = HARDENED.update, HARDENED.publish
EXECUTE = "tornproof.impl.write.table_writer:execute"


def published_before(*late: Action) -> Callable[[Any], Any]:
    """Do some actions on partitions that grow after the version is stored."""

    def wrap(execute: Callable[..., None]) -> Callable[..., None]:
        def commit(
            protocol: Protocol, storage: Storage, path: str, writes: Sequence[PartitionWrite], plan: StorePlan
        ) -> None:
            early = tuple(action for action in protocol.update if action not in late)
            execute(structs.replace(protocol, update=early), storage, path, writes, plan)
            if protocol.publish:
                grown = [write for write in writes if not write.is_new]
                after = structs.replace(protocol, update=late, publish=())
                execute(after, storage, path, grown, plan)

        return commit

    return wrap


def removed_early(execute: Callable[..., None]) -> Callable[..., None]:
    """Remove the directory that a rewrite replaces when the new version is stored but not yet durable."""

    def commit(
        protocol: Protocol, storage: Storage, path: str, writes: Sequence[PartitionWrite], plan: StorePlan
    ) -> None:
        sync_index = protocol.publish.index(Action.SYNC_VERSION) if protocol.publish else 0
        execute(structs.replace(protocol, publish=protocol.publish[:sync_index]), storage, path, writes, plan)
        for write in writes:
            new = write.directory_path.rpartition("/")[2]
            for name in storage.listdir(path) if write.is_new else ():
                if looks_like_partition(name) and split_name(name)[0] == split_name(new)[0] and name != new:
                    remove_directory(storage, f"{path}/{name}")
        execute(structs.replace(protocol, publish=protocol.publish[sync_index:]), storage, path, (), plan)

    return commit


NEWEST = structs.replace(HARDENED_READER, resolve=by_header, check=unchecked)
BASED_ON_NEWEST = structs.replace(HARDENED, base=NEWEST, recovery=HARDENED.recovery[1:])
"""Recovery must not republish the committed generation, which would then be the newest."""
CRASH, SCHEDULES = Explorer.CRASH, Explorer.SCHEDULES
ORDER = (
    PlantedFault(
        9,
        "version before its record",
        "the version is stored before the record and its slot",
        "reader uses a stale offset and size",
        location="Protocol.publish",
        substitute=structs.replace(HARDENED, publish=(*PUBLISH[3:5], *PUBLISH[0:2])),
        explorer=Explorer.TRACE_RULE,
        also=(SCHEDULES,),
        scenario="record-grows-once",
        hidden_from=(Explorer.SEQUENTIAL,),
    ),
    PlantedFault(
        18,
        "header after the version",
        "the header of `_pm` is patched after the version is stored",
        "token not found",
        location=EXECUTE,
        substitute=published_before(Action.PATCH_HEADER, Action.SYNC_HEADER),
        explorer=Explorer.TRACE_RULE,
        also=(SCHEDULES, CRASH),
        scenario="one-commit-one-reader",
        hidden_from=(Explorer.SEQUENTIAL,),
    ),
    PlantedFault(
        19,
        "_pm before the data",
        "`_pm` is published before the data is written",
        "an orphan that describes no bytes",
        location="Protocol.update",
        substitute=structs.replace(HARDENED, update=(*UPDATE[2:], *UPDATE[:2])),
        explorer=Explorer.TRACE_RULE,
        scenario="append-and-power-cut",
        hidden_from=(Explorer.SEQUENTIAL, CRASH, Explorer.POWER_B, Explorer.POWER_C_512),
        argument="The version is stored after both, so only an orphan can describe missing bytes, and no reader "
        "resolves an orphan.",
    ),
    PlantedFault(
        20,
        "data after the version",
        "data.parquet is written after the version is stored",
        "wrong bytes",
        location=EXECUTE,
        substitute=published_before(Action.APPEND_DATA, Action.SYNC_DATA),
        explorer=Explorer.TRACE_RULE,
        also=(
            SCHEDULES,
            CRASH,
        ),
        scenario="one-commit-one-reader",
        hidden_from=(Explorer.SEQUENTIAL,),
    ),
    PlantedFault(
        35,
        "header before the body",
        "the header of `_pm` is patched before the body is written",
        "reader takes bytes that are not there",
        location="Protocol.update",
        substitute=structs.replace(HARDENED, update=(*UPDATE[:2], UPDATE[4], *UPDATE[2:4], UPDATE[5])),
        explorer=SCHEDULES,
        also=(CRASH,),
        scenario="one-commit-one-reader",
        hidden_from=(Explorer.SEQUENTIAL,),
    ),
    PlantedFault(
        74,
        "old directory removed early",
        "a rewrite removes the old directory before the new version is on disk",
        "`_txn` names a missing directory",
        location=EXECUTE,
        substitute=removed_early,
        explorer=Explorer.SEQUENTIAL,
        also=(Explorer.POWER_B,),
        scenario="rewrite-and-power-cut",
        hidden_from=(CRASH,),
    ),
    PlantedFault(
        75,
        "orphan taken for the base",
        "an update is based on the newest generation, orphan or not",
        "orphan becomes committed",
        location="Protocol.base",
        substitute=BASED_ON_NEWEST,
        explorer=Explorer.SEQUENTIAL,
        scenario="equal-retry-and-a-reader-that-looks-twice",
        also=(SCHEDULES, CRASH),
    ),
    PlantedFault(
        78,
        "token from the file's size (H1)",
        "`_txn` is given the physical length of data.parquet",
        "committed partition names no generation",
        location="Protocol.token_of",
        substitute=structs.replace(HARDENED, token_of=physical_length),
        explorer=CRASH,
        scenario="orphan-and-smaller-commit",
        hidden_from=(Explorer.SEQUENTIAL,),
    ),
)
