"""Positive controls of the damage explorer: it must detect certain damage before its verdict counts."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from typing import Any

import pyarrow as pa
from msgspec import structs

from tornproof.harness.common.patch import blind_to_metadata, replaced
from tornproof.harness.counterexamples.regions import PAGE
from tornproof.harness.explorers.corruption.blocks import BLOCK_BYTES, BLOCKS_MAX, WORD_BYTES, zeroed
from tornproof.harness.explorers.corruption.catalogue import first_of, listed
from tornproof.harness.explorers.corruption.fields import Spot, field_damages
from tornproof.harness.explorers.corruption.judge import FOUND, Judge, Outcome
from tornproof.harness.explorers.corruption.parts import Question, rows_of
from tornproof.harness.explorers.corruption.plan import (
    BITS_IN_BYTE,
    LISTED_KINDS,
    Again,
    Cut,
    Damage,
    Flip,
    Kind,
    Overwrite,
    Pair,
)
from tornproof.impl.chunk.chunk import pages_of
from tornproof.impl.errors import TornproofError
from tornproof.impl.layout import pm as layout
from tornproof.impl.layout.parquet import DATA_FILE
from tornproof.impl.layout.txn import PARQUET_FORMAT
from tornproof.impl.parquet.pages import PageInfo
from tornproof.impl.read.reader import Snapshot
from tornproof.impl.repair.repair import RepairReport
from tornproof.impl.storage.interface import EntryKind, Storage
from tornproof.impl.table.partition import PM_FILE
from tornproof.impl.txn.transaction import ENTRY_BYTES, TXN_FILE

FOOTER = "tornproof.impl.pm.footer"
JUDGE = "tornproof.harness.explorers.corruption.judge"
CHUNK = "tornproof.impl.chunk.chunk"
VERIFY, READER = "tornproof.impl.verify.verify", "tornproof.impl.read.reader"
INDEXES = "tornproof.impl.verify.indexes"
PARTS = "tornproof.harness.explorers.corruption.parts"
CUTS_TRIED = 2
BODY_BYTES_TRIED = 8
PAGE_FLIPS_TRIED, PARTS_TRIED = 400, 8
SMALL_BYTES, WRONG_VALUES = 1_300, 8
IDENTITY_FIELDS = frozenset({"column ID", "NUM_ROWS"})
"""The column that a chunk belongs to, and its number of rows: what a reader must check."""
KINDS = (
    Kind.FIELD,
    Kind.ZEROED_WORD,
    Kind.STALE_WORD,
    Kind.MISDIRECTED_WORD,
    Kind.FORGED,
    Kind.BROKEN,
    Kind.PAIR,
)
"""Kinds with which a reader that checks nothing must be detected; lost writes are both stale and misdirected."""


def failed_controls(judge: Judge) -> list[str]:
    """Return the controls that failed, in words; an empty list when the explorer works on this table."""
    failures: list[str] = []
    for checksum, (directory, resolved) in zip(_checksum_flips(judge), judge.partitions.items(), strict=True):
        if {judge.judge(checksum)[0], judge.judge_whole(checksum)} != {Outcome.REJECTED}:
            failures.append(f"{checksum} was not rejected, although it is the checksum")
        cut = Cut(f"{directory}/{DATA_FILE}", resolved.partition.token - 1)
        if judge.judge(cut)[0] is not Outcome.REJECTED:
            failures.append(f"{cut} was not rejected, although it is shorter than the token")
    with replaced(f"{READER}:check_native", lambda *_: iter(())):
        failures += (
            f"{flip} was not detected, although a reader passes over the partition"
            for flip in _format_flips(judge)
            if not _is_detected(judge.anew(), flip) and not judge.leaves_a_version(flip)
        )
    if judge.judge(Cut(TXN_FILE, 0))[0] is not Outcome.REJECTED:
        failures.append(f"an empty {TXN_FILE} was not rejected")
    for kind in LISTED_KINDS:
        damage = first_of(judge, kind)
        if damage is not None and not judge.of(kind).changes(damage):
            failures.append(f"{damage} changes nothing")
    if not any(_is_noticed(judge, flip) for flip in _page_flips(judge)):
        failures.append("no flipped bit of any page made a difference")
    if (bit := first_of(judge, Kind.PAGE_BIT)) and judge.of(Kind.PAGE_BIT).judge(bit)[0] is not Outcome.REJECTED:
        failures.append(f"{bit} was not rejected, although the page has a checksum")
    if (bit := first_of(judge, Kind.FILTER_BIT)) and not _is_filter_noticed(judge.of(Kind.FILTER_BIT), bit):
        failures.append(f"{bit} was not rejected, or would not be silent if verifying looked at no filters")
    headers = [each for file in judge.files(Kind.HEADER_BIT) for each in listed(judge, Kind.HEADER_BIT, file)]
    if headers and not _any_detected(judge.of(Kind.HEADER_BIT), headers, f"{VERIFY}:page_checks", lambda *_: iter(())):
        failures.append("a check of no page was not detected")
    with blind_to_metadata():
        if not any(_is_detected(judge, flip) for flip in _descriptor_flips(judge)):
            failures.append("with the checks of _pm switched off, no damage of a column descriptor was silent")
    return failures


def failed_controls_of_kinds(judge: Judge) -> list[str]:
    """Return in words the kinds of damage, except bits and lengths, that do not detect a reader without checks."""
    # What needs earlier versions is prepared while all checks are on.
    kinds = [kind for kind in KINDS if judge.files(kind)]
    with blind_to_contradictions():
        return [
            f"with the checks of _pm switched off, none of the {kind.value} was silent"
            for kind in kinds
            if not any(_is_detected(judge.of(kind), damage) for damage in _metadata_damages(judge, kind))
        ]


def failed_controls_of_crafted(judge: Judge) -> list[str]:
    """Return in words which faulty reader, recovery or writer does not show on what the format allows."""
    allowed = [each for file in judge.files(Kind.ALLOWED) for each in listed(judge, Kind.ALLOWED, file)]
    metadata = [each for each in allowed if each.file.endswith(f"/{PM_FILE}")]
    first = metadata[:1] if judge.takes_commits else []
    # Commits are made to the sound table while nothing is replaced.
    return [
        f"{what} was not detected"
        for what, location, broken, damages in (
            ("a reader that takes no unknown sections", f"{FOOTER}:_has_unknown_bits", lambda *_: False, metadata),
            ("a recovery that removes the version", f"{JUDGE}:repair_table", _removes_version, metadata[:1]),
            ("a writer whose commits are lost", f"{JUDGE}:committed", lambda image, *_: iter([image] * 2), first),
        )
        if damages and not _any_detected(judge, damages, location, broken)
    ]


def failed_controls_of_reads(judge: Judge) -> list[str]:
    """Return in words which faulty reader of a damaged table does not show where it is read in parts."""
    cuts = [each for file in judge.files(Kind.PART) for each in listed(judge, Kind.PART, file)[:CUTS_TRIED]]
    beside = [each for file in judge.files(Kind.BESIDE) for each in listed(judge, Kind.BESIDE, file)[:CUTS_TRIED]]
    recovered = [each for file in judge.files(Kind.RECOVERED) for each in listed(judge, Kind.RECOVERED, file)]
    # The sound table is verified while nothing is replaced.
    outcomes = {judge.judge(each)[0] for each in beside}
    failures = ["a sound table was not verified"] if outcomes & set(FOUND) else []
    return failures + [
        f"{what} was not detected"
        for what, location, broken, damages in (
            ("a reader that leaves out what it cannot read", f"{PARTS}:rows_of", _leaves_out, cuts),
            ("a recovery of damage that removes the version", f"{JUDGE}:repair_table", _removes_version, recovered),
            # Called with three arguments, it raises TypeError there.
            ("an error that nobody expects", f"{VERIFY}:pending_transaction_count", int, beside),
        )
        if damages and not _any_detected(judge, damages, location, broken)
    ]


def failed_controls_of_values(judge: Judge) -> list[str]:
    """Return in words which faulty decoder does not show on values of every type."""
    values = [each for file in judge.files(Kind.VALUE) for each in listed(judge, Kind.VALUE, file)]
    arrays = [each for each in values if isinstance(each, Again) and isinstance(each.damage, Overwrite)]
    return [
        f"{what} was not detected"
        for what, location, broken, damages in (
            # A column is no number, so this raises TypeError there.
            ("a decoder that ends in an error that nobody expects", f"{CHUNK}:validated", int, values[:1]),
            ("a decoder that checks nothing", f"{JUDGE}:decode_chunk", lambda *_, **__: pa.nulls(0), arrays[:1]),
        )
        if not _any_detected(judge.of(Kind.VALUE), damages, location, broken)
    ]


def failed_controls_of_served(judge: Judge) -> list[str]:
    """Return in words which faulty check of a server's files does not show."""
    changes = {file: listed(judge, Kind.SERVED, file) for file in judge.files(Kind.SERVED)}
    indexes = [each for file, found in changes.items() if file.endswith("/indexed.k") for each in found]
    native = [each for file, found in changes.items() if file.endswith(".d") for each in found]
    return [
        f"{what} was not detected"
        for what, location, broken, damages in (
            ("a check of no index", f"{INDEXES}:_difference", lambda *_: None, indexes),
            ("a check of no native partition", f"{VERIFY}:check_native_columns", lambda *_, **__: (), native),
            # There are no files with this name.
            ("a check that does not find an index", f"{INDEXES}:suffixed", lambda *_: "none", indexes),
        )
        if damages and not _any_detected(judge.of(Kind.SERVED), damages, location, broken)
    ]


def _leaves_out(snapshot: Snapshot, question: Question) -> pa.Table:
    try:
        return rows_of(snapshot, question)
    except TornproofError:
        return pa.table({})


def failed_controls_of_parts(judge: Judge) -> list[str]:
    """Return in words what is judged otherwise by its part than by the whole table, or not as what it is."""
    flips = [*_entry_flips(judge), *itertools.islice(_accepted_page_flips(judge), PARTS_TRIED)]
    failures = [
        f"{flip} is {judge.judge(flip)[0].value} by its part, and {judge.judge_whole(flip).value} by the whole"
        for flip in flips
        if judge.judge(flip)[0] is not judge.judge_whole(flip)
    ]
    exposed = next((flip for flip in flips if judge.judge(flip)[0] is Outcome.EXPOSURE), None)
    if exposed is not None:
        with replaced("tornproof.harness.explorers.corruption.judge:pages_of", _pages_with_checksums):
            if judge.judge(exposed)[0] is not Outcome.SILENT:
                failures.append(f"{exposed} would not be silent, if the page had a checksum")
    checksum, unread = next(_checksum_flips(judge)), judge.unread_byte(TXN_FILE)
    if unread is not None:
        pair = Pair(Flip(TXN_FILE, unread * BITS_IN_BYTE), checksum)
        if judge.judge(pair)[0] is not Outcome.REJECTED:
            failures.append(f"{pair}: it was not rejected, although one of them is the checksum")
    return failures


def failed_controls_of_injectors() -> list[str]:
    """Damage a small file in each way, and return in words what is left out."""
    file, content = "file", bytes([1]) * SMALL_BYTES
    failures = []
    if len({Flip(file, bit).apply(content) for bit in range(SMALL_BYTES * BITS_IN_BYTE)}) < SMALL_BYTES * BITS_IN_BYTE:
        failures.append("not every bit of a file is flipped")
    for size_bytes in (WORD_BYTES, *BLOCK_BYTES):
        zeroed_bytes = {
            offset
            for damage in zeroed({file: content}, file, (size_bytes,), BLOCKS_MAX)
            for _, start, end in damage.ranges
            for offset in range(start, end)
        }
        if len(zeroed_bytes) < SMALL_BYTES:
            failures.append(f"not every block of {size_bytes} bytes is zeroed")
    if len([*field_damages([Spot(0, WORD_BYTES)], file, content)]) < WRONG_VALUES:
        failures.append("a number is not given every wrong value")
    return failures


def _checksum_flips(judge: Judge) -> Iterator[Flip]:
    for directory, resolved in judge.partitions.items():
        yield Flip(f"{directory}/{PM_FILE}", resolved.resolved.position.checksum_offset * BITS_IN_BYTE)


def _format_flips(judge: Judge) -> Iterator[Flip]:
    """Yield for each partition a flip of the bit that says that its rows are in Parquet."""
    (bit,) = (bit for bit in range(WORD_BYTES * BITS_IN_BYTE) if PARQUET_FORMAT.mask == 1 << bit)
    for resolved in judge.partitions.values():
        yield Flip(TXN_FILE, resolved.partition.flags_offset_bytes * BITS_IN_BYTE + bit)


def _entry_flips(judge: Judge) -> Iterator[Flip]:
    """Yield a flip in each word of the first partition's entry in `_txn`."""
    start = next(iter(judge.partitions.values())).partition.entry_offset_bytes
    yield from (Flip(TXN_FILE, (start + offset) * BITS_IN_BYTE) for offset in range(0, ENTRY_BYTES, WORD_BYTES))


def _accepted_page_flips(judge: Judge) -> Iterator[Flip]:
    flips = itertools.islice(_page_flips(judge), PAGE_FLIPS_TRIED)
    return (flip for flip in flips if judge.judge(flip)[0] is not Outcome.REJECTED)


def _pages_with_checksums(*arguments: Any, **more: Any) -> list[PageInfo]:
    return [structs.replace(page, crc=0) for page in pages_of(*arguments, **more)]


@contextmanager
def blind_to_contradictions() -> Iterator[None]:
    """Make readers neither check the CRC of `_pm` nor compare redundant metadata: they read whatever decodes."""
    with blind_to_metadata(), ExitStack() as stack:
        for location in ("tornproof.impl.verify.verify:check_partition", "tornproof.impl.verify.verify:check_metadata"):
            stack.enter_context(replaced(location, lambda *_, **__: iter(())))
        for location in (
            "tornproof.impl.read.reader:raise_first",
            "tornproof.impl.read.row_group:check_rows",
            "tornproof.impl.verify.pages:check_rows",
            "tornproof.impl.chunk.chunk:check_counts",
        ):
            stack.enter_context(replaced(location, lambda *_, **__: None))
        # What it returns says whether the bounds are those of an earlier server.
        stack.enter_context(replaced("tornproof.impl.chunk.chunk:check_bounds_of_pages", lambda *_, **__: False))
        yield


def _any_detected(judge: Judge, damages: Sequence[Damage], location: str, broken: Callable[..., Any]) -> bool:
    with replaced(location, broken):
        return any(_is_detected(judge, damage) for damage in damages)


def _removes_version(storage: Storage, path: str) -> RepairReport:
    # A second recovery has nothing to do.
    if storage.kind(f"{path}/{TXN_FILE}") is EntryKind.FILE:
        storage.unlink(f"{path}/{TXN_FILE}")
    return RepairReport(table=path, version=None, is_dry_run=False)


def _is_filter_noticed(judge: Judge, damage: Damage) -> bool:
    if judge.judge(damage)[0] is not Outcome.REJECTED:
        return False
    with replaced("tornproof.impl.verify.pages:missing_values", lambda *_: 0):
        return judge.judge(damage)[0] is Outcome.SILENT


def _is_noticed(judge: Judge, flip: Flip) -> bool:
    return judge.judge(flip)[0] in (Outcome.REJECTED, Outcome.EXPOSURE)


def _is_detected(judge: Judge, damage: Damage) -> bool:
    try:
        return judge.judge(damage)[0] in (*FOUND, Outcome.FORGED)
    except (pa.ArrowException, ValueError, AssertionError):
        # What a blind reader does not check may fail in another library.
        return False


def _metadata_damages(judge: Judge, kind: Kind) -> Iterator[Damage]:
    """Yield damages of a kind to IDENTITY_FIELDS; blocks are made like words, of which there are more."""
    if kind is Kind.PAIR:
        yield from itertools.starmap(Pair, itertools.pairwise(_descriptor_flips(judge)))
        return
    for file in judge.files(kind):
        if file.endswith(f"/{PM_FILE}"):
            damages = listed(judge, kind, file)
            yield from (damage for damage in damages if judge.of(kind).field_of(damage) in IDENTITY_FIELDS)


def _page_flips(judge: Judge) -> Iterator[Flip]:
    for directory, resolved in judge.partitions.items():
        file = f"{directory}/{DATA_FILE}"
        for block in resolved.metadata.blocks:
            for chunk in block.chunks:
                # A chunk ends with the body of its last page, whose last bits may be padding.
                start = max(chunk.byte_range_start, chunk.byte_range_end - BODY_BYTES_TRIED)
                flips = (Flip(file, bit) for bit in range(start * BITS_IN_BYTE, chunk.byte_range_end * BITS_IN_BYTE))
                yield from (flip for flip in flips if judge.field_of(flip) == PAGE)


def _descriptor_flips(judge: Judge) -> Iterator[Flip]:
    """Yield flips in the columns' IDs and names, with which a blind reader reads a wrong column, or none."""
    descriptor, header = layout.ColumnDescriptor.layout, layout.Header.layout
    for directory, resolved in judge.partitions.items():
        for index in range(len(resolved.metadata.header.columns)):
            offset = header.size_bytes + index * descriptor.size_bytes + descriptor.offset_of("id")
            yield from (Flip(f"{directory}/{PM_FILE}", offset * BITS_IN_BYTE + bit) for bit in range(4))
        for column_name_byte in range(resolved.metadata.header.size_bytes - 1, header.size_bytes, -1):
            yield Flip(f"{directory}/{PM_FILE}", column_name_byte * BITS_IN_BYTE)
