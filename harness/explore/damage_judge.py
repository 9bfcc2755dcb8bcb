"""What a reader makes of one damaged byte: the same code that reads and verifies tables, run on a damaged image.

A file's damage can only reach what is derived from that file. So `_txn` is judged by the whole table, `_pm` and the
footer of data.parquet by their partition, and a page by its chunk; `judge_whole` makes no such use of structure and
judges a sample a second time, as a check of the first.
"""

from __future__ import annotations

import bisect
import enum
from collections import Counter
from dataclasses import dataclass, replace

import pyarrow as pa

from harness.disk.image import DiskImage
from harness.disk.trace import TracingStorage
from harness.explore.answer import Answer, bits, read_answer
from harness.explore.damage_plan import BITS_IN_BYTE, Cut, Damage, Flip
from harness.explore.regions import THRIFT_FOOTER, RegionMap, data_regions, pm_regions, txn_regions
from impl.chunk import decode_chunk, pages_of
from impl.errors import ProblemError, TornproofError
from impl.layout.txn import BaseHeader
from impl.partition import DATA_FILE, PM_FILE, ResolvedPartition, check_partition
from impl.pm.block import Chunk
from impl.pm.chain import Metadata
from impl.pm.header import Column
from impl.reader import Snapshot, open_snapshot
from impl.table import Table, open_table
from impl.transaction import TXN_FILE
from impl.verify import Counts, check_thrift_footer, verify_partition, verify_table


class Outcome(enum.Enum):
    """What became of a damage (design, section 2)."""

    REJECTED = "rejected"
    HARMLESS = "harmless"
    LEGAL_STATE = "legal state"
    EXPOSURE = "exposure"
    SILENT = "silent"


@dataclass(frozen=True, slots=True)
class PlacedChunk:
    """A column chunk and what is needed to decode it; `values` as `bits`."""

    column: Column
    chunk: Chunk
    values: pa.Array


class Judge:
    """Knows a sound table's image and its right answers, and judges damages of it."""

    def __init__(self, image: DiskImage, path: str) -> None:
        """Read everything once, undamaged; raises what reading raises."""
        self.image, self.path = image, path
        traced = TracingStorage(image)
        self.snapshot = open_snapshot(open_table(traced, path))
        self.answer = read_answer(self.snapshot)
        verify_table(self.snapshot.table)
        self.reached: Counter[str] = Counter()
        self._legal = _legal_answers(image, path, self.snapshot.transaction.version)
        self._whole: dict[tuple[object, ...], Outcome] = {}
        self._key = _key(self.snapshot)
        self.partitions: dict[str, ResolvedPartition] = {}
        self._chunks: dict[str, list[PlacedChunk]] = {}
        self.regions: dict[str, RegionMap] = {TXN_FILE: txn_regions(self._content(TXN_FILE))}
        for partition in self.snapshot.transaction.partitions:
            if partition.is_parquet:
                self._add_partition(self.snapshot.resolve(partition))
        self._read = {file: traced.ranges(f"{path}/{file}") for file in self.regions}

    def size_bytes(self, file: str) -> int:
        """Return the size of one of the table's files."""
        return len(self._content(file))

    def judge(self, damage: Damage) -> tuple[Outcome, str]:
        """Return the outcome of a damage and the field that it hit."""
        field = self.field_of(damage)
        if isinstance(damage, Flip) and damage.offset_bytes not in self._read[damage.file]:
            # Neither reading nor verifying the sound table looks at the byte, and sizes are as they were.
            self.reached["a byte that is never read"] += 1
            return Outcome.HARMLESS, field
        if damage.file == TXN_FILE:
            return self._judge_txn(damage), field
        directory, _, name = damage.file.partition("/")
        if name == PM_FILE:
            return self._judge_pm(damage, directory), field
        if isinstance(damage, Flip):
            placed = self._chunk_at(directory, damage.offset_bytes)
            if placed is not None:
                return self._judge_page(damage, placed), field
        return self._judge_data(damage, directory), field

    def judge_whole(self, damage: Damage) -> Outcome:
        """Judge by verifying and reading the whole damaged table, whatever was damaged."""
        return self._judge_table(self._damaged(damage), self._is_unprotected_page(damage))

    def field_of(self, damage: Damage) -> str:
        """Return what the first damaged or missing byte is called."""
        return self.regions[damage.file].label(damage.offset_bytes)

    def _content(self, file: str) -> bytes:
        return self.image.files[f"{self.path}/{file}"]

    def _damaged(self, damage: Damage) -> DiskImage:
        return self.image.with_file(f"{self.path}/{damage.file}", damage.apply(self._content(damage.file)))

    def _table_on(self, image: DiskImage) -> Table:
        # `_meta` is not damaged, so what it says is not decoded again.
        return replace(self.snapshot.table, storage=image)

    def _add_partition(self, resolved: ResolvedPartition) -> None:
        directory = resolved.files.name
        content = self._content(f"{directory}/{DATA_FILE}")
        self.partitions[directory] = resolved
        self.regions[f"{directory}/{PM_FILE}"] = pm_regions(resolved, resolved.published.file_size_bytes)
        self.regions[f"{directory}/{DATA_FILE}"] = data_regions(resolved, content)
        placed = [
            PlacedChunk(column, chunk, bits(_decode(content, column, chunk)))
            for block in resolved.metadata.blocks
            for column, chunk in zip(resolved.metadata.header.columns, block.chunks, strict=True)
        ]
        self._chunks[directory] = sorted(placed, key=lambda each: each.chunk.byte_range_start)

    def _chunk_at(self, directory: str, offset_bytes: int) -> PlacedChunk | None:
        chunks = self._chunks[directory]
        index = bisect.bisect_right(chunks, offset_bytes, key=lambda each: each.chunk.byte_range_start) - 1
        return chunks[index] if index >= 0 and offset_bytes < chunks[index].chunk.byte_range_end else None

    def _judge_txn(self, damage: Damage) -> Outcome:
        damaged = self._damaged(damage)
        try:
            key = _key(open_snapshot(self._table_on(damaged)))
        except TornproofError:
            return Outcome.REJECTED
        if key == self._key:
            return Outcome.HARMLESS
        # Everything else of the table is as it was, so equal keys give equal answers.
        if key not in self._whole:
            self._whole[key] = self._judge_table(damaged, False)
        self.reached["another snapshot was read through a damaged _txn"] += 1
        self.reached["a legal state was read"] += self._whole[key] is Outcome.LEGAL_STATE
        return self._whole[key]

    def _judge_pm(self, damage: Damage, directory: str) -> Outcome:
        damaged = self._damaged(damage)
        snapshot = replace(self.snapshot, table=self._table_on(damaged))
        baseline = self.partitions[directory]
        try:
            resolved = snapshot.resolve(baseline.partition)
        except ProblemError as error:
            self.reached[f"rejected by {error.problem.field.split(' ')[0]} of _pm"] += 1
            return Outcome.REJECTED
        report = verify_partition(resolved.files, baseline.partition, counts=Counts(), quick=True)
        if report.problems:
            return Outcome.REJECTED
        if _same_metadata(resolved.metadata, baseline.metadata):
            return Outcome.HARMLESS
        return self._judge_table(damaged, False)

    def _judge_page(self, damage: Flip, placed: PlacedChunk) -> Outcome:
        start = placed.chunk.byte_range_start
        content = self._content(damage.file)[start : placed.chunk.byte_range_end]
        damaged = Flip(damage.file, damage.bit - start * BITS_IN_BYTE).apply(content)
        try:
            values = decode_chunk(damaged, placed.column, placed.chunk, file=damage.file)
        except ProblemError as error:
            self.reached[f"a page rejected by {_check_name(error.problem.field)}"] += 1
            return Outcome.REJECTED
        if bits(values).equals(placed.values):
            return Outcome.HARMLESS
        self.reached["a page decoded to other values"] += 1
        return Outcome.EXPOSURE if self._is_unprotected_page(damage) else Outcome.SILENT

    def _judge_data(self, damage: Damage, directory: str) -> Outcome:
        """Judge what is no page: the size, the last bytes, the Thrift footer."""
        baseline = self.partitions[directory]
        damaged = replace(baseline, files=replace(baseline.files, storage=self._damaged(damage)))
        try:
            problems = check_thrift_footer(damaged) or []
            if not self._is_thrift_flip(damage):
                problems += check_partition(damaged)
        except ProblemError:
            return Outcome.REJECTED
        return Outcome.REJECTED if problems else Outcome.HARMLESS

    def _is_thrift_flip(self, damage: Damage) -> bool:
        return isinstance(damage, Flip) and self.field_of(damage) == THRIFT_FOOTER

    def _judge_table(self, damaged: DiskImage, unprotected: bool) -> Outcome:
        try:
            table = open_table(damaged, self.path)
            if not verify_table(table).sound:
                return Outcome.REJECTED
            answer = read_answer(open_snapshot(table))
        except TornproofError:
            return Outcome.REJECTED
        if answer == self.answer:
            return Outcome.HARMLESS
        if answer in self._legal:
            return Outcome.LEGAL_STATE
        return Outcome.EXPOSURE if unprotected else Outcome.SILENT

    def _is_unprotected_page(self, damage: Damage) -> bool:
        """Whether a foreign format has no way to notice the damage: it lies in a page without checksum."""
        directory, _, name = damage.file.partition("/")
        if name != DATA_FILE or isinstance(damage, Cut):
            return False
        placed = self._chunk_at(directory, damage.offset_bytes)
        if placed is None:
            return False
        start, end = placed.chunk.byte_range_start, placed.chunk.byte_range_end
        pages = pages_of(self._content(damage.file)[start:end], placed.chunk, file=damage.file)
        hit = next(page for page in reversed(pages) if page.header_offset_bytes <= damage.offset_bytes)
        return hit.crc is None or damage.offset_bytes < hit.body_offset_bytes


def _key(snapshot: Snapshot) -> tuple[object, ...]:
    """Return all that the rest of reading and verifying takes from `_txn`."""
    transaction = snapshot.transaction
    return transaction.version, *(
        (snapshot.table.directory_of(each), each.parquet_was_generated, each.row_count, each.token, each.next_timestamp)
        if each.is_parquet
        else snapshot.table.directory_of(each)
        for each in transaction.partitions
    )


def _legal_answers(image: DiskImage, path: str, version: int) -> list[Answer]:
    """Return the answers that a crash may leave: the other area's record, where it is whole and can be read."""
    txn_path, field = f"{path}/{TXN_FILE}", BaseHeader.layout.field("version")
    content = image.files[txn_path]
    answers = []
    for neighbour in (version - 1, version + 1):
        stored = (neighbour % (1 << 64)).to_bytes(field.wire.size_bytes, "little")
        legal = image.with_file(txn_path, stored + content[field.end_bytes :])
        try:
            answers.append(read_answer(open_snapshot(open_table(legal, path))))
        except TornproofError:
            continue
    return answers


def _decode(content: bytes, column: Column, chunk: Chunk) -> pa.Array:
    return decode_chunk(content[chunk.byte_range_start : chunk.byte_range_end], column, chunk, file=DATA_FILE)


def _same_metadata(left: Metadata, right: Metadata) -> bool:
    return (left.header, left.generation.block_offsets, left.blocks) == (
        right.header,
        right.generation.block_offsets,
        right.blocks,
    )


def _check_name(field: str) -> str:
    """Return which check a problem's field stands for, without column names and numbers."""
    return "its header" if field.startswith("pages[") else field.split(" ")[0]
