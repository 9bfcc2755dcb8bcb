"""Faults of recovery, of purging, and of how a session uses the files of the session before."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import ExitStack
from functools import partial
from typing import Any

from msgspec import structs

from tornproof.harness.mutation.fault import Explorer, PlantedFault, nothing
from tornproof.harness.mutation.processes import purge_regardless
from tornproof.impl.layout import pm as layout
from tornproof.impl.layout.record import Buffer
from tornproof.impl.pm.encode import AppendPoint, patch_header
from tornproof.impl.pm.footer import FooterPosition
from tornproof.impl.storage.interface import EntryKind, File, Storage
from tornproof.impl.table.partition import PM_FILE, ResolvedPartition
from tornproof.impl.txn.transaction import Transaction
from tornproof.impl.write.commit import publish


def rolled_back(*, truncates: bool) -> Callable[[Any], Callable[..., None]]:
    """Set the header back to the committed generation, so that the next one overwrites the orphan; or truncate it."""

    def republish(storage: Storage, resolved: ResolvedPartition) -> None:
        end_bytes = resolved.resolved.position.end_bytes
        with ExitStack() as opened:
            handle = opened.enter_context(storage.open_for_writing(f"{resolved.files.path}/{PM_FILE}"))
            publish(handle, end_bytes, opened).msync()
            if truncates:
                handle.truncate(end_bytes)

    return lambda _: republish


def prev_of_orphan(append_point: Callable[..., AppendPoint]) -> Callable[..., AppendPoint]:
    """Continue the generation right before the new one, orphan or not."""

    def point(data: Buffer, anchor: FooterPosition, *, base_bytes: int) -> AppendPoint:
        return structs.replace(append_point(data, anchor, base_bytes=base_bytes), prev=base_bytes)

    return point


def version_before(store: Callable[..., None]) -> Callable[..., None]:
    """Store the version before the committed one again."""
    return lambda storage, path, version: store(storage, path, max(version - 1, 0))


def all_uncommitted(split_name: Callable[[str], tuple[str, int]]) -> Callable[[str], tuple[str, int]]:
    """Take every directory that the committed version does not name for one of an uncommitted version."""
    return lambda name: (split_name(name)[0], 1 << 62)


def chains_stay(dictionary_writes: Callable[..., list[Any]]) -> Callable[..., list[Any]]:
    """Leave out the write that removes what a killed commit has added."""
    return lambda *arguments: dictionary_writes(*arguments)[-1:]


def links_followed(_: Callable[..., None]) -> Callable[..., None]:
    """Remove what a link leads to, as if it were a directory of the table, and then the link."""

    def remove(storage: Storage, path: str) -> None:
        for name in storage.listdir(path):
            storage.unlink(f"{path}/{name}")
        (storage.unlink if storage.own_kind(path) is EntryKind.LINK else storage.rmdir)(path)

    return remove


def not_locked(_: Callable[..., Transaction]) -> Callable[..., Transaction]:
    """Take the version for pinned that was read before."""
    return lambda storage, file, path, transaction: transaction


def written_header(_: Callable[..., Any]) -> Callable[..., Any]:
    """Write the eight bytes of the header instead of storing them as one word."""

    def put(pm: File, published_bytes: int, opened: ExitStack) -> Any:
        pm.pwrite(patch_header(published_bytes), 0)
        return opened.enter_context(pm.map(layout.Header.layout.field("parquet_meta_file_size").end_bytes))

    return put


def unsigned(value_of: Callable[..., Any]) -> Callable[..., Any]:
    """Decode the integers of statistics as unsigned ones."""

    def value(column: Any, raw: bytes) -> Any:
        known = value_of(column, raw)
        return int.from_bytes(raw, "little") if isinstance(known, int) else known

    return value


SEQUENTIAL, SCHEDULES, CRASH = Explorer.SEQUENTIAL, Explorer.SCHEDULES, Explorer.CRASH
RETRY = "equal-retry-and-a-reader-that-looks-twice"
_fault = partial(PlantedFault, explorer=SEQUENTIAL)
RECOVERY = (
    _fault(
        29,
        "orphan overwritten",
        "the header is set back to the committed generation, and the next one is written over the orphan",
        "chain root broken; live reader rejected",
        location="tornproof.impl.write.recovery:_republish",
        substitute=rolled_back(truncates=False),
        explorer=SCHEDULES,
        scenario="two-orphans",
        also=(Explorer.PRODUCT_A,),
        hidden_from=(SEQUENTIAL,),
    ),
    _fault(
        31,
        "orphan cut off",
        "recovery removes the orphan by truncating `_pm`",
        "file ends under a reader",
        location="tornproof.impl.write.recovery:_republish",
        substitute=rolled_back(truncates=True),
        explorer=SCHEDULES,
        scenario=RETRY,
        hidden_from=(SEQUENTIAL,),
    ),
    _fault(
        32,
        "prev names the orphan",
        "the republished generation continues the orphan and not the committed one",
        "chain is not the committed history",
        location="tornproof.impl.write.recovery:append_point",
        substitute=prev_of_orphan,
        scenario=RETRY,
        hidden_from=(),
    ),
    _fault(
        59,
        "signed bounds taken for unsigned",
        "statistics of signed integers are compared as unsigned ones",
        "wrong pruning",
        location="tornproof.impl.pm.statistics:value_of",
        substitute=unsigned,
        scenario="texts-of-many-lengths",
    ),
    _fault(
        73,
        "pins not asked for",
        "a replaced directory is removed while a reader pins it",
        "pinned reader loses its files",
        location="tornproof.impl.write.table_writer:purge",
        substitute=purge_regardless,
        scenario="purge-beside-a-pinned-reader",
        also=(SCHEDULES,),
        hidden_from=(CRASH,),
    ),
    _fault(
        80,
        "version before stored again",
        "recovery stores the version before the committed one",
        "acknowledged commit undone",
        location="tornproof.impl.write.recovery:_store_version_again",
        substitute=version_before,
        scenario="append-and-power-cut",
        also=(CRASH,),
    ),
    _fault(
        None,
        "version not stored again",
        "recovery takes the version from the page cache and does not make it durable",
        "adopted commit lost after a failed sync",
        location="tornproof.impl.write.recovery:_store_version_again",
        substitute=nothing,
        explorer=Explorer.FAILED_SYNC,
        scenario="sync-fails",
        hidden_from=(SEQUENTIAL, CRASH, Explorer.POWER_C_512),
    ),
    _fault(
        85,
        "header written and not stored",
        "the published size is written as eight bytes and not stored as one word",
        "torn size: no chain has a root",
        location="tornproof.impl.write.commit:publish",
        substitute=written_header,
        explorer=Explorer.TORN_CRASH,
        scenario="append-and-power-cut",
        hidden_from=(SEQUENTIAL, CRASH, Explorer.POWER_C_512),
    ),
    _fault(
        None,
        "uncommitted directories stay",
        "recovery leaves the directories of uncommitted versions",
        "the next commit cannot make its directory",
        location="tornproof.impl.write.recovery:_remove_uncommitted",
        substitute=nothing,
        explorer=CRASH,
        scenario="rewrite-again-after-a-kill",
        hidden_from=(SEQUENTIAL,),
    ),
    _fault(
        None,
        "pinned directories taken for uncommitted",
        "recovery removes directories that only pinned versions name",
        "pinned reader loses its files",
        location="tornproof.impl.write.recovery:split_name",
        substitute=all_uncommitted,
        scenario="rewrite-and-power-cut",
        hidden_from=(CRASH,),
    ),
    _fault(
        None,
        "orphan not put aside",
        "recovery leaves an orphan as the newest generation, and nothing restates the committed one",
        "a partition that no commit can continue",
        location="tornproof.impl.write.recovery:_republish",
        substitute=nothing,
        scenario="two-orphans",
        also=(CRASH, Explorer.POWER_C_512),
    ),
    _fault(
        None,
        "pin not taken",
        "a reader goes on without the lock on its version",
        "pinned reader loses its files",
        location="tornproof.impl.txn.pins:_lock_committed",
        substitute=not_locked,
        explorer=SCHEDULES,
        scenario="purge-beside-a-pinned-reader",
        hidden_from=(SEQUENTIAL,),
    ),
    _fault(
        None,
        "servers not looked for",
        "a writer is opened and recovers although a server has the table open",
        "what a server is about to commit is removed",
        location="tornproof.impl.write.table_writer:reject_if_served",
        substitute=nothing,
        explorer=Explorer.PROTECTED,
        scenario="new-symbols-and-power-cut",
        hidden_from=(SEQUENTIAL,),
    ),
    _fault(
        None,
        "indexes not looked for",
        "a writer is opened although a column has an index, which it does not write",
        "a server's lookups miss rows or find wrong ones",
        location="tornproof.impl.write.table_writer:reject_indexed",
        substitute=nothing,
        explorer=Explorer.PROTECTED,
        scenario="new-symbols-and-power-cut",
        hidden_from=(SEQUENTIAL,),
    ),
    _fault(
        None,
        "last partition not looked at",
        "the last partition of a table without a write-ahead log may be in Parquet",
        "a server's next insert is lost",
        location="tornproof.impl.write.table_writer:parquet_last_advice",
        substitute=nothing,
        explorer=Explorer.PROTECTED,
        scenario="new-symbols-and-power-cut",
        hidden_from=(SEQUENTIAL,),
    ),
    _fault(
        None,
        "links followed by a purge",
        "a purge removes the files that a soft-linked partition leads to",
        "files of another volume are lost",
        location="tornproof.impl.write.purge:remove_directory",
        substitute=links_followed,
        explorer=Explorer.SOFT_LINKS,
        scenario="rewrite-and-power-cut",
        hidden_from=(SEQUENTIAL, CRASH),
    ),
    PlantedFault(
        None,
        "symbols of a killed commit stay in the hash index",
        "the chains of a hash index are not cut before another commit adds to them",
        "a chain leads into the blocks of another",
        location="tornproof.impl.write.new_symbols:dictionary_writes",
        substitute=chains_stay,
        explorer=Explorer.CRASH,
        scenario="new-symbols-of-a-killed-commit",
        hidden_from=(Explorer.SEQUENTIAL, Explorer.TRACE_RULE),
    ),
)
