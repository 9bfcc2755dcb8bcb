"""Judges damaged bytes: runs the code that reads and verifies tables on a damaged image.

Damage of a file affects only what is derived from that file. So damage of `_txn` is judged by the whole table, of `_pm`
and of the footer of data.parquet by their partition, and of a page by its chunk. `judge_whole` always reads the whole
table, and judges a sample a second time, as a check. Damage of two files is judged by the whole table at once.
"""

from __future__ import annotations

import bisect
import copy
import enum
import functools
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass

import pyarrow as pa
from msgspec.structs import replace

from tornproof.harness.common.patch import replaced
from tornproof.harness.common.whose_error import is_of_explorers
from tornproof.harness.counterexamples.regions import RegionMap, data_regions, pm_regions, txn_regions
from tornproof.harness.explorers.corruption.beside import beside_files
from tornproof.harness.explorers.corruption.every_type import PATH as PATH_OF_EVERY_TYPE
from tornproof.harness.explorers.corruption.every_type import image_of_every_type
from tornproof.harness.explorers.corruption.history import Version, committed, grow
from tornproof.harness.explorers.corruption.parts import PartReads
from tornproof.harness.explorers.corruption.plan import CRAFTED, GROWN, Again, Crafted, Cut, Damage, Kind, Overwrite
from tornproof.harness.explorers.corruption.served import PATH as PATH_OF_SERVER
from tornproof.harness.explorers.corruption.served import served_image
from tornproof.harness.explorers.corruption.served_changes import served_files
from tornproof.harness.explorers.corruption.states import key_of, legal_answers, same_metadata
from tornproof.harness.simulator.filesystem.image import DiskImage
from tornproof.harness.simulator.filesystem.memory import MemoryStorage
from tornproof.harness.simulator.filesystem.step_bound import EndlessError
from tornproof.harness.simulator.filesystem.trace import TracingStorage
from tornproof.harness.systems.answer import Answer, answer_of, bits, read_answer
from tornproof.harness.systems.table_operation import TableOperation
from tornproof.harness.systems.workload import crash_operations
from tornproof.impl.chunk.chunk import decode_chunk, pages_of
from tornproof.impl.errors import (
    CorruptError,
    IndexedColumnError,
    Problem,
    ProblemError,
    TornproofError,
    UnsupportedError,
)
from tornproof.impl.layout.parquet import DATA_FILE
from tornproof.impl.parquet.pages import PageInfo
from tornproof.impl.parquet.thrift import Known
from tornproof.impl.pm.block import Chunk
from tornproof.impl.pm.bloom_position import reference_of
from tornproof.impl.pm.header import Column
from tornproof.impl.read.reader import open_snapshot
from tornproof.impl.repair.repair import repair_table
from tornproof.impl.table.partition import PM_FILE, ResolvedPartition, check_data_size
from tornproof.impl.table.table import Table, open_table
from tornproof.impl.txn.transaction import TXN_FILE
from tornproof.impl.verify.pages import ChunkFilter, filter_of
from tornproof.impl.verify.transaction_record import (
    PartitionTimes,
    check_record,
    end_partitions,
    has_right_lag_checksum,
    parquet_times,
)
from tornproof.impl.verify.verify import Counts, check_thrift_footer, verify_partition, verify_resolved, verify_table

CRAFTED_PARTITIONS_MAX = 3
VERIFY = "tornproof.impl.verify.verify"
NATIVE, INDEX = "tornproof.impl.verify.native", "tornproof.impl.table.symbol_index"
SMALL_PIECE_BYTES, SMALL_PIECE_ROWS = 16, 3
CONTENT = "content"
"""What all bytes are called of a file whose fields have no names here."""


class Outcome(enum.StrEnum):
    """The result of a damage (docs/damage.md).

    A rollback is an older version than any crash could leave: no checksum of this format ties `_txn` to its files.
    Forged damage would be silent, but a disk cannot cause it: its checksum is right. Nonconforming is what the format
    forbids and is accepted, or what it allows and is not.
    """

    REJECTED = "rejected"
    HARMLESS = "harmless"
    LEGAL_STATE = "legal state"
    EXPOSURE = "exposure"
    ROLLBACK = "rollback"
    FORGED = "forged"
    SILENT = "silent"
    NONCONFORMING = "nonconforming"


FOUND = (Outcome.SILENT, Outcome.NONCONFORMING)
"""The outcomes that are findings."""
EXPECTED = {Kind.BROKEN: Outcome.REJECTED, Kind.REQUIRED: Outcome.REJECTED, Kind.ALLOWED: Outcome.HARMLESS}
"""What must come of what a writer could have made; anything else does not conform to the format."""


@dataclass(frozen=True, slots=True)
class PlacedChunk:
    """A column chunk and what checking it needs; `values` as `bits`, `bloom` where it has a filter."""

    column: Column
    chunk: Chunk
    values: pa.Array
    bloom: ChunkFilter | None


class Judge:
    """Holds a sound table's image and right answers, and judges damages of it."""

    def __init__(
        self, image: DiskImage, path: str, *, older: Sequence[Version] = (), beside: Mapping[str, bytes] | None = None
    ) -> None:
        """Read the undamaged table; raises what reading raises. `older` are earlier versions, newest first.

        `beside` are the other files to damage, by default some of each kind.
        `reason` says in words why what was judged last is nonconforming.
        """
        self.image, self.path, self.older = image, path, older
        traced = TracingStorage(image)
        self.snapshot = open_snapshot(open_table(traced, path))
        self.answer = read_answer(self.snapshot)
        verify_table(self.snapshot.table, whole=False)
        self.reached: Counter[str] = Counter()
        self._legal = legal_answers(image, path, self.snapshot.transaction.version)
        self._whole: dict[tuple[object, ...], tuple[Outcome, str]] = {}
        self._key = key_of(self.snapshot)
        self.partitions: dict[str, ResolvedPartition] = {}
        self._chunks: dict[str, list[PlacedChunk]] = {}
        self._footers: dict[str, Known] = {}
        self.regions: dict[str, RegionMap] = {TXN_FILE: txn_regions(self._content(TXN_FILE))}
        for partition in self.snapshot.transaction.partitions:
            if partition.is_parquet:
                self._add_partition(self.snapshot.resolve(partition))
        self._read = {file: traced.ranges(f"{path}/{file}") for file in self.regions}
        self.contents = self.contents_of(image)
        self.beside = beside_files(image, path) if beside is None else beside
        self.no_past = ""
        self.reason = ""

    @functools.cached_property
    def grown(self) -> Judge | None:
        """The judge of the table after a few more commits; None where it takes none, and then `no_past` says why."""
        try:
            *older, newest = grow(self.image, self.path)
            return Judge(newest.image, self.path, older=older[::-1])
        except TornproofError as error:
            self.no_past = str(error)
            return None

    @functools.cached_property
    def of_every_type(self) -> Judge:
        """The judge of a small table with columns of every type."""
        return Judge(image_of_every_type(), PATH_OF_EVERY_TYPE)

    @functools.cached_property
    def of_server(self) -> Judge:
        """The judge of a small table as a server leaves it."""
        return Judge(served_image(), PATH_OF_SERVER, beside=served_files())

    def of(self, kind: Kind) -> Judge:
        """Return the judge of the table that a kind of damage is done to."""
        match kind:
            case Kind.VALUE:
                return self.of_every_type
            case Kind.SERVED:
                return self.of_server
        judge = self.grown if kind in GROWN else self
        assert judge is not None, "damage with older content was planned for a table without it"
        return judge

    def files(self, kind: Kind) -> Sequence[str]:
        """Return the files that a kind of damage is done to: none where it needs older content and there is none.

        Files are crafted, and tables read in parts, for some partitions only: the smallest ones, to one of which a
        commit can be made.
        """
        if kind in CRAFTED or kind in (Kind.PART, Kind.RECOVERED):
            rows = {directory: resolved.partition.row_count for directory, resolved in self.partitions.items()}
            smallest = sorted(rows, key=rows.__getitem__)[:CRAFTED_PARTITIONS_MAX]
            files = [file for file in self.regions if file.partition("/")[0] in smallest]
            return [TXN_FILE, *files] if kind in CRAFTED else files
        if kind is Kind.BESIDE:
            return tuple(self.beside)
        if kind is Kind.SERVED:
            return tuple(served_files())
        if kind is Kind.VALUE:
            return tuple(file for file in self.of(kind).regions if file.endswith(DATA_FILE))
        return () if kind in GROWN and self.grown is None else tuple(self.of(kind).regions)

    @property
    def damaged_files(self) -> Sequence[str]:
        """The files that are damaged in any way."""
        return *self.regions, *self.beside

    def contents_of(self, image: DiskImage) -> dict[str, bytes]:
        """Return the content of the files to damage in an image of the table, of those that exist there."""
        paths = {file: f"{self.path}/{file}" for file in self.regions}
        return {file: image.files[path] for file, path in paths.items() if path in image.files}

    def size_bytes(self, file: str) -> int:
        """Return the size of one of the table's files."""
        return len(self._content(file))

    def judge(self, damage: Damage) -> tuple[Outcome, str]:
        """Return the outcome of a damage and the field that it hit; an error that says no damage is a finding."""
        self.reason = ""
        try:
            outcome = self._judge(damage)
        except Exception as error:
            if is_of_explorers(error):
                raise
            outcome, self.reason = Outcome.NONCONFORMING, f"{type(error).__name__}: {error}"
        return _outcome_for(damage, outcome), self.field_of(damage)

    @functools.cached_property
    def _times(self) -> dict[int, PartitionTimes]:
        """The first and last times of the partitions at both ends, of those in Parquet."""
        ends = [self.snapshot.resolve(each) for each in end_partitions(self.snapshot.transaction) if each.is_parquet]
        known = {each.partition.timestamp: parquet_times(each) for each in ends}
        return {timestamp: times for timestamp, times in known.items() if times is not None}

    @property
    def takes_commits(self) -> bool:
        """Whether our own writer can write to the sound table."""
        return bool(self._next_images)

    @functools.cached_property
    def _next_images(self) -> list[DiskImage]:
        """The sound table after each of some commits, none where it takes no commits."""
        try:
            return self._committed(self.image)
        except TornproofError:
            return []

    @functools.cached_property
    def _next_answers(self) -> list[Answer]:
        return self._answers_after(self._next_images)

    @functools.cached_property
    def _next_operations(self) -> tuple[TableOperation, TableOperation]:
        """A commit in place, and a rewrite."""
        grown, _, rewritten, _ = crash_operations(self.image, self.path)
        return grown, rewritten

    def _answers_after(self, images: Sequence[DiskImage]) -> list[Answer]:
        return [answer_of(each, self.path) for each in images]

    def _committed(self, image: DiskImage) -> list[DiskImage]:
        """Return the table after each of the commits that are also made to the sound one."""
        return [*committed(image, self.path, self._next_operations)]

    def _miswritten(self, damaged: DiskImage, crafted: Crafted) -> str:
        """Commit to what the format allows, and return in words what is wrong then."""
        images = self._committed(damaged)
        if self._answers_after(images) != self._next_answers:
            return "other rows are read after the next commit"
        directory, _, name = crafted.file.rpartition("/")
        if name != PM_FILE or (before := self._scratchpads(damaged).get(directory)) is None:
            return ""
        # Of all optional sections only this one is carried on, and not if the partition is rewritten.
        after = self._scratchpads(images[0]).get(directory, before)
        return "" if after == before else f"after the next commit the scratchpad is {after}, and was {before}"

    def _scratchpads(self, image: DiskImage) -> dict[str, tuple[tuple[int, bytes], ...] | None]:
        """Return what each partition that is committed as Parquet has, by directories."""
        snapshot = open_snapshot(open_table(image, self.path))
        return {
            snapshot.table.directory_of(each): snapshot.resolve(each).metadata.generation.sections.scratchpad
            for each in snapshot.transaction.partitions
            if each.is_parquet
        }

    def _misrecovered(self, damaged: DiskImage, crafted: Crafted) -> str:
        """Recover the table, and return in words what is wrong then: all rows are there, or nothing is changed."""
        storage, file = MemoryStorage.of(damaged), f"{self.path}/{crafted.file}"
        try:
            report = repair_table(storage, self.path)
        except IndexedColumnError:
            # It is refused as a whole, before anything is changed.
            return ""
        self.reached["a recovery of a file as a writer could have made it"] += 1
        image = storage.image()
        if report.problems:
            allowed = f"recovery calls it damaged: {report.problems[0]}" if crafted.kind is Kind.ALLOWED else ""
            return allowed or ("" if image.files[file] == damaged.files[file] else "recovery changes a damaged file")
        if self._judge_table(image, False) is not Outcome.HARMLESS:
            return "after a recovery the table is damaged, or has other rows"
        left = repair_table(storage, self.path).actions
        return f"a second recovery has something to do: {left[0]}" if left else ""

    def _judge_crafted(self, crafted: Crafted) -> Outcome:
        """Judge by the whole table what a writer could have made, and what is allowed also by the next commits."""
        takes_commits, damaged = self.takes_commits, self._damaged(crafted)
        with self._errors_as_reasons():
            self.reason = self._misread(damaged, crafted.kind)
            if crafted.file != TXN_FILE:
                self.reason = self.reason or self._misrecovered(damaged, crafted)
            if crafted.kind is Kind.ALLOWED and takes_commits and not self.reason:
                self.reached["a commit to what the format allows"] += 1
                self.reason = self._miswritten(damaged, crafted)
        return Outcome.NONCONFORMING if self.reason else EXPECTED[crafted.kind]

    @contextmanager
    def _errors_as_reasons(self) -> Iterator[None]:
        """Take what the block ends in for the reason; a mistake of an explorer itself is none."""
        self.reason = ""
        try:
            yield
        except EndlessError as error:
            self.reason = f"it does not end: {error}"
        except TornproofError as error:
            self.reason = f"the next commit, or a recovery, fails: {error}"
        except Exception as error:
            if is_of_explorers(error):
                raise
            self.reason = f"{type(error).__name__}: {error}"

    @functools.cached_property
    def _problems(self) -> tuple[Problem, ...]:
        """What the sound table lacks because its copy has only the files that reading and writing Parquet needs."""
        return verify_table(open_table(self.image, self.path)).all_problems

    def _judge_beside(self, again: Again) -> Outcome:
        """Judge damage of what no checksum covers: it may be read as other rows, but must not end in another error."""
        found, sound = Outcome.HARMLESS, self._problems
        with self._errors_as_reasons():
            try:
                table = open_table(self._damaged(again), self.path)
                is_same = verify_table(table).all_problems == sound
                answer = read_answer(open_snapshot(table))
                found = Outcome.REJECTED if not is_same else found if answer == self.answer else Outcome.EXPOSURE
            except TornproofError:
                found = Outcome.REJECTED
        return Outcome.NONCONFORMING if self.reason else found

    def _judge_again(self, again: Again) -> Outcome:
        judges = {
            Kind.BESIDE: self._judge_beside,
            Kind.HEADER_BIT: self._judge_header,
            Kind.PART: self._judge_part,
            Kind.RECOVERED: self._judge_recovered,
            Kind.SERVED: self._judge_served,
            Kind.VALUE: self._judge_value,
        }
        return judges[again.kind](again)

    def _judge_header(self, again: Again) -> Outcome:
        """Judge a page whose sizes only its own header says, because the Thrift footer is too large to be compared."""
        with replaced(f"{VERIFY}:THRIFT_LIMIT_BYTES", 0):
            return self._judge_table(self._damaged(again), True)

    def _judge_recovered(self, again: Again) -> Outcome:
        """Judge what an offline recovery does to damage: it reports it and changes nothing, or all rows are there."""
        found, damaged = Outcome.REJECTED, self._damaged(again)
        storage = MemoryStorage.of(damaged)
        with self._errors_as_reasons():
            try:
                report = repair_table(storage, self.path)
            except IndexedColumnError:
                return found
            image = storage.image()
            self.reached["a recovery of a damaged table"] += 1
            if report.problems:
                directory = f"{self.path}/{again.file.partition('/')[0]}"
                files = [f"{directory}/{name}" for name in (DATA_FILE, PM_FILE)]
                if any(image.files[file] != damaged.files[file] for file in files):
                    self.reason = "a recovery reports damage, and changes the partition all the same"
            else:
                found = self._judge_table(image, self._is_unprotected_page(again.damage))
                if found in (Outcome.REJECTED, Outcome.ROLLBACK, Outcome.LEGAL_STATE):
                    self.reason = "a recovery reports no damage, and the table is damaged or has other rows"
        return Outcome.NONCONFORMING if self.reason else found

    def _judge_served(self, again: Again) -> Outcome:
        """Judge a change of a server's file: what breaks a rule is reported, also by pieces, and nothing else is."""
        table, kind = open_table(self._damaged(again), self.path), again.damage.kind
        with self._errors_as_reasons():
            report = verify_table(table)
            with (
                replaced(f"{NATIVE}:PIECE_BYTES", SMALL_PIECE_BYTES),
                replaced(f"{INDEX}:PIECE_ROWS", SMALL_PIECE_ROWS),
            ):
                by_pieces = verify_table(table)
            if report.all_problems != by_pieces.all_problems:
                self.reason = "other problems are found when files are read in smaller pieces"
            elif kind is Kind.BROKEN and not report.all_problems:
                self.reason = "the table is verified as sound"
            elif kind is Kind.ALLOWED and report.all_problems:
                self.reason = f"it is called damaged: {report.all_problems[0]}"
            elif kind is Kind.ALLOWED and report.notes:
                self.reason = f"something is not looked at: {report.notes[0]}"
        return Outcome.NONCONFORMING if self.reason else EXPECTED[kind]

    def _judge_value(self, again: Again) -> Outcome:
        """Judge damage of a page without checksum: other values are expected, but only of values."""
        found = Outcome.HARMLESS
        with self._errors_as_reasons():
            found = self._judge_pages(again.damage, again.file.partition("/")[0])
        if self.reason:
            return Outcome.NONCONFORMING
        if isinstance(again.damage, Overwrite) and found is not Outcome.REJECTED:
            self.reason = "it contradicts the rest of the file, and is not rejected"
            return Outcome.SILENT
        return found if found is Outcome.REJECTED else Outcome.HARMLESS

    def _judge_part(self, again: Again) -> Outcome:
        """Judge by reads of parts a damage of which reading everything ends in an error."""
        damaged, other_rows = self._table_on(self._damaged(again)), ""
        with self._errors_as_reasons():
            if _is_readable(damaged):
                # Its rows may be other ones, of a page without checksum.
                return self._judge(again.damage)
            self.reached["parts were read of a table that cannot be read as a whole"] += 1
            other_rows = self._parts.misread(damaged, again.file.partition("/")[0])
        if self.reason:
            return Outcome.NONCONFORMING
        self.reason = other_rows
        return Outcome.SILENT if other_rows else Outcome.REJECTED

    @functools.cached_property
    def _parts(self) -> PartReads:
        return PartReads(self.snapshot)

    def _misread(self, damaged: DiskImage, kind: Kind) -> str:
        """Return in words what is wrong with how a file is read that a writer could have made."""
        try:
            answer = read_answer(open_snapshot(self._sound_table(damaged)))
        except UnsupportedError as error:
            return "" if kind is Kind.REQUIRED else f"it is rejected as unsupported: {error}"
        except TornproofError as error:
            return "" if kind is Kind.BROKEN else f"it is rejected: {error}"
        if kind is not Kind.ALLOWED:
            return "it is read"
        return "" if answer == self.answer else "other rows are read"

    def _judge(self, damage: Damage) -> Outcome:
        if isinstance(damage, Crafted):
            return self._judge_crafted(damage)
        if isinstance(damage, Again):
            return self._judge_again(damage)
        if damage.kind is Kind.FILTER_BIT:
            return self._judge_filter(damage)
        if not isinstance(damage, Cut) and not any(
            self._read[file].have_any(start, end) for file, start, end in damage.ranges
        ):
            # Neither reading nor verifying the sound table reads these bytes, and sizes are unchanged.
            self.reached["a byte that is never read"] += 1
            return Outcome.HARMLESS
        if len({file for file, *_ in damage.ranges}) > 1:
            return self.judge_whole(damage)
        if damage.file == TXN_FILE:
            return self._judge_txn(damage)
        directory, _, name = damage.file.partition("/")
        if name == PM_FILE:
            return self._judge_pm(damage, directory)
        return self._judge_pages(damage, directory)

    def judge_whole(self, damage: Damage) -> Outcome:
        """Judge by verifying and reading the whole damaged table, whatever was damaged."""
        if isinstance(damage, Crafted | Again) or damage.kind is Kind.FILTER_BIT:
            return self._judge(damage)
        return _outcome_for(damage, self._judge_table(self._damaged(damage), self._is_unprotected_page(damage)))

    def _judge_filter(self, damage: Damage) -> Outcome:
        """Judge a filter that misses a value: all rows are still read without a condition, but verifying must tell."""
        outcome = self._judge_table(self._damaged(damage), False)
        self.reason = "the filter misses a value of its column chunk, and the table is verified as sound"
        return Outcome.SILENT if outcome is Outcome.HARMLESS else outcome

    def unread_byte(self, file: str) -> int | None:
        """Return the first byte of a file that neither reading nor verifying the sound table reads."""
        read = self._read[file]
        return next((each for each in range(self.size_bytes(file)) if not read.have_any(each, each + 1)), None)

    def pages(self, file: str) -> Iterator[tuple[Column, PageInfo]]:
        """Yield each page of a file, and its column."""
        for placed in self._chunks_at(file, 0, self.size_bytes(file)):
            yield from ((placed.column, page) for page in self._pages_of(file, placed.chunk))

    def protected_bodies(self, file: str) -> Iterator[tuple[int, int]]:
        """Yield the first byte of each page of a file that has a checksum, without its header, and the end."""
        return ((page.body_offset_bytes, page.end_bytes) for _, page in self.pages(file) if page.crc is not None)

    def protected_headers(self, file: str) -> Iterator[tuple[int, int]]:
        """Yield the first byte and the end of the header of each page of a file that has a checksum."""
        headers = ((page.header_offset_bytes, page.body_offset_bytes, page.crc) for _, page in self.pages(file))
        return ((start, end) for start, end, crc in headers if crc is not None)

    def protected_filters(self, file: str) -> Iterator[tuple[int, int]]:
        """Yield the first byte and the end of each bitset in a data.parquet, of chunks whose pages have checksums."""
        directory, _, name = file.rpartition("/")
        if name != DATA_FILE:
            return
        resolved = self.partitions[directory]
        with resolved.files.open_data() as handle:
            for ordinal, block in enumerate(resolved.metadata.blocks):
                for index in resolved.metadata.header.bloom_columns:
                    reference = reference_of(resolved.metadata, ordinal, index)
                    found = filter_of(resolved, handle, ordinal, index)
                    if found is None or reference is None or reference.length_bytes is None:
                        continue
                    if all(page.crc is not None for page in self._pages_of(file, block.chunks[index])):
                        # Parquet's own header may be before it.
                        end = reference.offset_bytes + reference.length_bytes
                        yield end - len(found.bitset), end

    def changes(self, damage: Damage) -> bool:
        """Say whether a damage changes a file at all."""
        return self._damaged(damage).files != self.image.files

    def field_of(self, damage: Damage) -> str:
        """Return the name of the field of the first damaged or missing byte."""
        regions = self.regions.get(damage.file)
        return regions.label(damage.offset_bytes) if regions else CONTENT

    def _content(self, file: str) -> bytes:
        return self.image.files[f"{self.path}/{file}"]

    def _damaged(self, damage: Damage) -> DiskImage:
        image = self.image
        for file in dict.fromkeys(file for file, *_ in damage.ranges):
            image = image.with_file(f"{self.path}/{file}", damage.apply(self._content(file), file))
        return image

    def _table_on(self, image: DiskImage) -> Table:
        # `_meta` is not damaged, so it is not decoded again.
        return replace(self.snapshot.table, storage=image)

    def _add_partition(self, resolved: ResolvedPartition) -> None:
        directory = resolved.files.name
        content = self._content(f"{directory}/{DATA_FILE}")
        self.partitions[directory] = resolved
        self._footers[directory] = Known()
        check_thrift_footer(resolved, self._footers[directory])
        self.regions[f"{directory}/{PM_FILE}"] = pm_regions(resolved, resolved.published.file_size_bytes)
        self.regions[f"{directory}/{DATA_FILE}"] = data_regions(resolved, content)
        with resolved.files.open_data() as handle:
            placed = [
                PlacedChunk(
                    column,
                    chunk,
                    bits(_decode(content, column, chunk)),
                    filter_of(resolved, handle, ordinal, index),
                )
                for ordinal, block in enumerate(resolved.metadata.blocks)
                for index, (column, chunk) in enumerate(
                    zip(resolved.metadata.header.columns, block.chunks, strict=True)
                )
            ]
        self._chunks[directory] = sorted(placed, key=lambda each: each.chunk.byte_range_start)

    def _chunks_at(self, file: str, start: int, end: int) -> Sequence[PlacedChunk]:
        """Return the chunks of a data.parquet that share bytes with a range of it."""
        directory, _, name = file.partition("/")
        if name != DATA_FILE:
            return ()
        chunks = self._chunks[directory]
        first = bisect.bisect_right(chunks, start, key=lambda each: each.chunk.byte_range_end)
        return chunks[first : bisect.bisect_left(chunks, end, key=lambda each: each.chunk.byte_range_start)]

    def leaves_a_version(self, damage: Damage) -> bool:
        """Whether a reader reads the version, or one before it that a crash or lost writes may leave."""
        return self._version_of(read_answer(open_snapshot(self._table_on(self._damaged(damage))))) is not None

    def _version_of(self, answer: Answer) -> Outcome | None:
        """Return which version has an answer, as the outcome that it is; None if none has."""
        if answer == self.answer:
            return Outcome.HARMLESS
        if answer in self._legal:
            return Outcome.LEGAL_STATE
        return Outcome.ROLLBACK if any(answer == version.answer for version in self.older) else None

    def anew(self) -> Judge:
        """Return a judge of the same table that has read nothing through a damaged `_txn` yet."""
        other = copy.copy(self)
        other._whole = {}
        return other

    def _judge_txn(self, damage: Damage) -> Outcome:
        damaged = self._damaged(damage)
        try:
            snapshot = open_snapshot(self._table_on(damaged))
            key, transaction = key_of(snapshot), snapshot.transaction
        except TornproofError:
            return Outcome.REJECTED
        if key == self._key:
            # The rest of the table is unchanged, so its times are known.
            wrong = next(check_record(transaction, self.snapshot.table.metadata, self._times), None)
            return Outcome.HARMLESS if wrong is None else Outcome.REJECTED
        # Equal keys and records give equal answers.
        record = transaction.record
        is_right = has_right_lag_checksum(record, self.snapshot.table.metadata)
        key = *key, record.min_timestamp, record.max_timestamp, is_right
        if key not in self._whole:
            outcome = self._judge_table(damaged, False)
            outcome = self._judge_reader(damaged) if outcome is Outcome.REJECTED else outcome
            self._whole[key] = outcome, self.reason
        outcome, self.reason = self._whole[key]
        self.reached["another snapshot was read through a damaged _txn"] += 1
        self.reached["a legal state was read"] += outcome is Outcome.LEGAL_STATE
        return outcome

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
        if same_metadata(resolved.metadata, baseline.metadata):
            return Outcome.HARMLESS
        return self._judge_table(damaged, False)

    def _judge_pages(self, damage: Damage, directory: str) -> Outcome:
        """Judge damage of a data.parquet: the chunks that it hits, and if it goes beyond them, the rest."""
        if isinstance(damage, Cut):
            return self._judge_data(damage, directory)
        hit = {id(each): each for range_ in damage.ranges for each in self._chunks_at(*range_)}
        found = {self._judge_page(damage, placed) for placed in hit.values()}
        covered = sum(
            max(0, min(end, each.chunk.byte_range_end) - max(start, each.chunk.byte_range_start))
            for _, start, end in damage.ranges
            for each in hit.values()
        )
        if Outcome.REJECTED not in found and covered < sum(end - start for _, start, end in damage.ranges):
            found.add(self._judge_data(damage, directory))
        # Damage of a page without a checksum is undetectable by what the page says alone, and stays so here.
        if found <= {Outcome.HARMLESS} and self._is_contradicted(damage, directory):
            return Outcome.REJECTED
        return next(outcome for outcome in _WORST_FIRST if outcome in found)

    def _is_contradicted(self, damage: Damage, directory: str) -> bool:
        """Whether verification finds what no chunk alone shows: indexes of pages, filters, the order of times."""
        try:
            return bool(verify_resolved(self._damaged_partition(damage, directory), counts=Counts()).problems)
        except ProblemError:
            return True

    def _judge_page(self, damage: Damage, placed: PlacedChunk) -> Outcome:
        start, end = placed.chunk.byte_range_start, placed.chunk.byte_range_end
        damaged = damage.apply(self._content(damage.file)[start:end], start_bytes=start)
        try:
            values = decode_chunk(damaged, placed.column, placed.chunk, file=damage.file)
        except ProblemError as error:
            self.reached[f"a page rejected by {_check_name(error.problem.field)}"] += 1
            return Outcome.REJECTED
        if bits(values).equals(placed.values):
            return Outcome.HARMLESS
        self.reached["a page decoded to other values"] += 1
        if placed.bloom is not None and placed.bloom.problem(values):
            self.reached["a page rejected by its bloom filter"] += 1
            return Outcome.REJECTED
        return Outcome.EXPOSURE if self._is_unprotected_page(damage) else Outcome.SILENT

    def _damaged_partition(self, damage: Damage, directory: str) -> ResolvedPartition:
        """Return the partition as it is found in `_pm`, with damaged files behind it."""
        baseline = self.partitions[directory]
        return replace(baseline, files=replace(baseline.files, storage=self._damaged(damage)))

    def _judge_data(self, damage: Damage, directory: str) -> Outcome:
        """Judge damage outside of pages: the size, the last bytes, the Thrift footer."""
        damaged = self._damaged_partition(damage, directory)
        try:
            if any(check_data_size(damaged)):
                return Outcome.REJECTED
            _, problems = check_thrift_footer(damaged, self._footers[directory])
        except ProblemError:
            return Outcome.REJECTED
        return Outcome.REJECTED if problems else Outcome.HARMLESS

    def _judge_table(self, damaged: DiskImage, unprotected: bool) -> Outcome:
        try:
            table = self._sound_table(damaged)
        except TornproofError:
            return Outcome.REJECTED
        try:
            answer = read_answer(open_snapshot(table))
        except TornproofError as error:
            self.reason = f"it is verified as sound, and cannot be read: {error}"
            return Outcome.NONCONFORMING
        version = self._version_of(answer)
        if version is not None:
            return version
        return Outcome.EXPOSURE if unprotected else Outcome.SILENT

    def _judge_reader(self, damaged: DiskImage) -> Outcome:
        """Judge a reader that does not verify the table before: what verification rejects, it may read right."""
        try:
            answer = read_answer(open_snapshot(self._table_on(damaged)))
        except TornproofError:
            return Outcome.REJECTED
        if self._version_of(answer) is not None:
            return Outcome.REJECTED
        self.reason = "the table is verified as damaged, and a reader that does not verify it reads other rows"
        return Outcome.SILENT

    def _sound_table(self, damaged: DiskImage) -> Table:
        """Return a table after verifying it; raises CorruptError for the first problem, and UnsupportedError."""
        table = open_table(damaged, self.path)
        for problem in verify_table(table, whole=False).all_problems:
            raise CorruptError.of(problem)
        return table

    def _is_unprotected_page(self, damage: Damage) -> bool:
        """Whether Parquet has no way to detect the damage: some of it is in a page without checksum."""
        if isinstance(damage, Cut):
            return False
        return any(
            page.header_offset_bytes < end
            and start < page.body_offset_bytes + page.compressed_size_bytes
            # A page's checksum does not cover its header.
            and (page.crc is None or start < page.body_offset_bytes)
            for file, start, end in damage.ranges
            for placed in self._chunks_at(file, start, end)
            for page in self._pages_of(file, placed.chunk)
        )

    def _pages_of(self, file: str, chunk: Chunk) -> Sequence[PageInfo]:
        return pages_of(self._content(file)[chunk.byte_range_start : chunk.byte_range_end], chunk, file=file)


_WORST_FIRST = (Outcome.REJECTED, Outcome.SILENT, Outcome.EXPOSURE, Outcome.HARMLESS)


def _is_readable(table: Table) -> bool:
    """Whether all rows can be read."""
    try:
        read_answer(open_snapshot(table))
    except TornproofError:
        return False
    return True


def _outcome_for(damage: Damage, outcome: Outcome) -> Outcome:
    """Return FORGED for a silent damage that is forged: only its checksum could have shown it, and that is right."""
    return Outcome.FORGED if damage.kind is Kind.FORGED and outcome is Outcome.SILENT else outcome


def _decode(content: bytes, column: Column, chunk: Chunk) -> pa.Array:
    return decode_chunk(content[chunk.byte_range_start : chunk.byte_range_end], column, chunk, file=DATA_FILE)


def _check_name(field: str) -> str:
    """Return the check that a problem's field belongs to, without column names and numbers."""
    return "its header" if field.startswith("pages[") else field.split(" ")[0]
