"""Faults of readers: of `_txn` by words and by ranges, of `_pm` and its chain, and of data.parquet."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import suppress
from functools import partial
from typing import Any

from msgspec import structs

from tornproof.harness.mutation.fault import Explorer, PlantedFault, nothing
from tornproof.harness.simulator.filesystem.intercept import Answer, Call, CallKind, InterceptedStorage, Run
from tornproof.harness.systems.readers import by_newest, unchecked
from tornproof.impl.errors import Problem, StorageError
from tornproof.impl.layout import pm as pm_layout
from tornproof.impl.layout import txn as layout
from tornproof.impl.layout.record import Buffer
from tornproof.impl.pm.chain import Resolved, TokenMissingError, check_checksum, decode_metadata, resolve, walk
from tornproof.impl.read.reader_protocol import HARDENED_READER
from tornproof.impl.storage.interface import ReadableStorage, Storage
from tornproof.impl.table.partition import PM_FILE, PartitionFiles, PublishedMetadata, ResolvedPartition, read_published
from tornproof.impl.txn.transaction import Partition, Transaction, area_of, decode_transaction

HEAD_BYTES = pm_layout.Header.layout.field("parquet_meta_file_size").end_bytes


def always(_: object) -> Callable[..., bool]:
    """Accept every version."""
    return lambda *_: True


def checked_by_the_record(_: object) -> Callable[..., Transaction]:
    """Read the record's own number again, and not the version."""

    def read(storage: ReadableStorage, path: str, *, file: str = "_txn") -> Transaction:
        while True:
            area, transaction = _selected(storage, path, file)
            with storage.open_for_reading(path) as handle:
                if int.from_bytes(handle.pread(8, area), "little") == transaction.version:
                    return transaction

    return read


def _selected(storage: ReadableStorage, path: str, file: str) -> tuple[int, Transaction]:
    with storage.open_for_reading(path) as handle:
        head = handle.pread(layout.BaseHeader.layout.size_bytes, 0)
        base = layout.BaseHeader.unpack(head, 0, file=file)
        area = area_of(base, base.version)
        record = handle.pread(area.size_bytes, area.record_offset)
    content = head.ljust(area.record_offset, b"\0") + record
    return area.record_offset, decode_transaction(content, file=file, version=base.version)


class _EarlyHeaders(InterceptedStorage):
    """Reads the headers of all `_pm` at once, and returns each at the first read of it."""

    def __init__(self, inner: Storage, path: str) -> None:
        super().__init__(inner)
        self._heads: dict[str, bytes] = {}
        for name in inner.listdir(path):
            pm_path = f"{path}/{name}/{PM_FILE}"
            with suppress(StorageError), inner.open_for_reading(pm_path) as file:
                self._heads[pm_path] = file.pread(HEAD_BYTES, 0)

    def intercept(self, call: Call, run: Run[Answer]) -> Answer:
        answer = run()
        is_head = call.kind is CallKind.PREAD and (call.size_bytes, call.offset_bytes) == (HEAD_BYTES, 0)
        return self._heads.pop(call.path, answer) if is_head else answer  # type: ignore[return-value]


def early_headers(table: Callable[..., Any]) -> Callable[..., Any]:
    """Read the headers of all `_pm` when a table is opened, before `_txn` is read."""
    return lambda *, storage, path, metadata: table(storage=_EarlyHeaders(storage, path), path=path, metadata=metadata)


def kept_mapping(files: PartitionFiles, partition: Partition) -> ResolvedPartition:
    """Use the bytes that this process read before, as long as they have the token."""
    known: dict[str, PublishedMetadata] = vars(files.storage).setdefault("kept_mappings", {})
    label, kept = files.pm_label, known.get(files.path)
    if kept is None or partition.token not in [footer.token for footer in walk(kept.content, file=label)]:
        kept = known[files.path] = read_published(files)
    resolved = resolve(kept.content, partition.token, file=label)
    metadata = decode_metadata(kept.content, resolved.position, file=label)
    return ResolvedPartition(files=files, partition=partition, published=kept, resolved=resolved, metadata=metadata)


def read_to_the_end(
    read_published: Callable[[PartitionFiles], PublishedMetadata],
) -> Callable[[PartitionFiles], PublishedMetadata]:
    """Take the size of `_pm` for the published one."""

    def read(files: PartitionFiles) -> PublishedMetadata:
        published = read_published(files)
        with files.open_pm() as handle:
            return structs.replace(published, content=handle.pread(published.file_size_bytes, 0))

    return read


def resolve_at_least(_: Callable[..., Resolved]) -> Callable[..., Resolved]:
    """Take the first footer with the token or a larger one."""

    def resolve(data: Buffer, token: int, *, file: str) -> Resolved:
        for count, footer in enumerate(walk(data, file=file)):
            if footer.token >= token:
                check_checksum(data, footer, file=file)
                return Resolved(position=footer, orphan_count=count)
        raise _missing(token, file)

    return resolve


def resolve_newest(original: Callable[..., Resolved]) -> Callable[..., Resolved]:
    """Accept the newest footer only."""

    def resolve(data: Buffer, token: int, *, file: str) -> Resolved:
        if next(walk(data, file=file)).token != token:
            raise _missing(token, file)
        return original(data, token, file=file)

    return resolve


def _missing(token: int, file: str) -> TokenMissingError:
    return TokenMissingError(file=file, field="token", offset_bytes=None, expected="another one", actual=token)


def resolve_oldest(resolve: Callable[..., Resolved]) -> Callable[..., Resolved]:
    """Take the oldest footer with the token."""

    def find(data: Buffer, token: int, *, file: str) -> Resolved:
        newest = resolve(data, token, file=file)
        footers = list(enumerate(walk(data, file=file)))
        count, oldest = next((count, footer) for count, footer in reversed(footers) if footer.token == token)
        return newest if oldest == newest.position else Resolved(position=oldest, orphan_count=count)

    return find


def physical_tail(check_data: Callable[..., Iterator[Problem]]) -> Callable[..., Iterator[Problem]]:
    """Check the last bytes of data.parquet at the end of the file, and not at the token."""

    def check(files: PartitionFiles, token: int, footer_length: int | None) -> Iterator[Problem]:
        with files.open_data() as handle:
            return check_data(files, handle.size_bytes(), footer_length)

    return check


SEQUENTIAL, SCHEDULES = Explorer.SEQUENTIAL, Explorer.SCHEDULES
WORDS, ONE = "settled-words-of-two-commits", "one-commit-one-reader"
RETRY = "equal-retry-and-a-reader-that-looks-twice"
_fault = partial(PlantedFault, explorer=Explorer.SCHEDULES)
READER = (
    _fault(
        3,
        "no load fence after the version",
        "the load fence between the version and its record is left out",
        "mixed record",
        location="tornproof.impl.txn.transaction:fence_after_version",
        substitute=nothing,
        explorer=Explorer.MEMORY_WEAK,
        scenario=WORDS,
        hidden_from=(Explorer.MEMORY_SEQUENTIAL, Explorer.MEMORY_TOTAL_STORE_ORDER),
    ),
    _fault(
        4,
        "no load fence before the final look",
        "the load fence between the record and the second read of the version is left out",
        "mixed record",
        location="tornproof.impl.txn.transaction:fence_before_final_look",
        substitute=nothing,
        explorer=Explorer.MEMORY_WEAK,
        scenario=WORDS,
        hidden_from=(Explorer.MEMORY_SEQUENTIAL, Explorer.MEMORY_TOTAL_STORE_ORDER),
    ),
    _fault(
        5,
        "no final look",
        "the version is not read again after the record",
        "mixed record after two commits",
        location="tornproof.impl.txn.transaction:is_committed_still",
        substitute=always,
        scenario="two-commits-one-reader",
        hidden_from=(SEQUENTIAL, Explorer.CRASH),
    ),
    _fault(
        5,
        "no final look at words",
        "the version is not read again after the record",
        "mixed record after two commits",
        location="tornproof.impl.txn.transaction:is_committed_still",
        substitute=always,
        explorer=Explorer.MEMORY_SEQUENTIAL,
        scenario=WORDS,
        hidden_from=(SEQUENTIAL,),
    ),
    _fault(
        6,
        "final look at the record",
        "the record's own number is read again, and not the version",
        "mixed tail of a record",
        location="tornproof.impl.table.table:safe_read",
        substitute=checked_by_the_record,
        scenario="two-commits-one-reader",
        hidden_from=(SEQUENTIAL, Explorer.CRASH),
    ),
    _fault(
        40,
        "CRC never checked",
        "the CRC of `_pm` is not compared",
        "silent corruption",
        location="tornproof.impl.pm.chain:check_checksum",
        substitute=nothing,
        explorer=Explorer.DAMAGE,
        scenario=ONE,
        hidden_from=(SEQUENTIAL, SCHEDULES, Explorer.CRASH, Explorer.POWER_C_512),
    ),
    _fault(
        43,
        "size from the file",
        "the size of `_pm` is that of the file and not the published one",
        "reader sees an unpublished tail",
        location="tornproof.impl.table.partition:read_published",
        substitute=read_to_the_end,
        scenario="body-across-pages",
        also=(Explorer.CRASH,),
        hidden_from=(SEQUENTIAL,),
    ),
    _fault(
        44,
        "header before the version",
        "the header of `_pm` is read before `_txn`",
        "token is not in the chain",
        location="tornproof.impl.table.table:Table",
        substitute=early_headers,
        scenario=ONE,
        hidden_from=(SEQUENTIAL, Explorer.CRASH),
    ),
    _fault(
        45,
        "mapping kept",
        "bytes of `_pm` that were read before are used as long as they have the token",
        "orphan's footer is used for the retry's token (ABA)",
        location="ReaderProtocol.resolve",
        substitute=structs.replace(HARDENED_READER, resolve=kept_mapping),
        scenario=RETRY,
        hidden_from=(SEQUENTIAL,),
    ),
    _fault(
        46,
        "first footer with the token or more",
        "the walk takes the first footer with the token or a larger one",
        "newer footer for a pinned reader",
        location="tornproof.impl.table.partition:resolve",
        substitute=resolve_at_least,
        explorer=SEQUENTIAL,
        scenario="append-and-power-cut",
    ),
    _fault(
        47,
        "newest footer only",
        "the walk stops after one step",
        "reader that falls behind fails",
        location="tornproof.impl.table.partition:resolve",
        substitute=resolve_newest,
        explorer=SEQUENTIAL,
        scenario=ONE,
        also=(SCHEDULES, Explorer.CRASH),
    ),
    _fault(
        49,
        "oldest footer with the token",
        "the walk takes the oldest footer with the token and not the newest",
        "orphans of a republished generation are counted for ever, and no commit can continue the partition",
        location="tornproof.impl.table.partition:resolve",
        substitute=resolve_oldest,
        explorer=SEQUENTIAL,
        scenario=RETRY,
        also=(SCHEDULES, Explorer.CRASH),
    ),
    _fault(
        None,
        "decoded by the newest footer",
        "the token is found, but the newest footer is decoded, within the pinned length (9.4.2, 9.4.3)",
        "read is rejected with no other fault",
        location="ReaderProtocol.resolve",
        substitute=structs.replace(HARDENED_READER, resolve=by_newest, check=unchecked),
        explorer=SEQUENTIAL,
        scenario=ONE,
        also=(SCHEDULES, Explorer.CRASH),
    ),
    _fault(
        81,
        "size of data.parquet from the file",
        "the Thrift footer is read at the end of the file and not at the token",
        "reader sees a tail that is being written",
        location="tornproof.impl.table.partition:_check_data",
        substitute=physical_tail,
        scenario="merge-beside-a-reader",
    ),
)
