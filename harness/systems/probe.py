"""Whether a release could go on from the files of a table: its reader and its writer are tried on a copy.

The commit that is tried adds copies of existing rows, so it needs no new symbol. It merges into the newest row group of
every writable parquet partition. If there are bytes after the committed end it is tried twice: as short as possible,
and long enough to cover them (docs/presets.md).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial

import numpy as np
import numpy.typing as npt
import pyarrow as pa
from msgspec.structs import replace

from tornproof.harness.common.copies import open_writer_of_copy
from tornproof.harness.simulator.filesystem.image import DiskImage
from tornproof.harness.simulator.filesystem.memory import MemoryStorage
from tornproof.harness.systems.answer import holds_all
from tornproof.harness.systems.preset import Preset
from tornproof.harness.systems.server_refusals import refused_footer, refused_values
from tornproof.impl.chunk.row_group_encoder import EncodeOptions, encode_row_group
from tornproof.impl.errors import ProblemError, TornproofError
from tornproof.impl.layout import txn as layout
from tornproof.impl.layout.parquet import DATA_FILE
from tornproof.impl.migrate.table_migration import migrate_table
from tornproof.impl.parquet.fields import Codec
from tornproof.impl.read.reader import Snapshot, open_snapshot, snapshot_of
from tornproof.impl.repair.repair import repair_table
from tornproof.impl.storage.interface import Storage
from tornproof.impl.table.parquet_last import parquet_last_advice
from tornproof.impl.table.partition_names import interval_end
from tornproof.impl.table.table import open_table
from tornproof.impl.txn.transaction import I64_MAX, Partition
from tornproof.impl.write.partition_change import RowGroupEncoder, WriterOptions

TIMESTAMP_BYTES = 8
TAIL_LIMIT_BYTES = 8 << 20
IN_PLACE = WriterOptions(rewrite_unused_ratio=1.0)
# Uncompressed, each row takes at least the bytes of its timestamp, so a commit can be made as long as needed.
AT_FULL_LENGTH = partial(encode_row_group, options=EncodeOptions(codec=Codec.UNCOMPRESSED, page_checksums=False))


@dataclass(frozen=True, slots=True, kw_only=True)
class Compatibility:
    """Whether a preset's reader and writer can use a table; `hazards` are losses that only some commits would cause."""

    preset: str
    readable: bool
    writable: bool
    reason: str
    hazards: tuple[str, ...] = ()


def cure_of(image: DiskImage, path: str, preset: Preset, compatibility: Compatibility) -> str | None:
    """Return the command after which the preset could continue, tried on a copy; None if there is none or no need."""
    if compatibility.readable and compatibility.writable:
        return None
    cures: Mapping[str, Callable[[Storage, str], object]] = {"recover": repair_table, "migrate": migrate_table}
    for command, run in cures.items():
        storage = MemoryStorage.of(image)
        try:
            run(storage, path)
            after = probe(storage.image(), path, preset)
        except TornproofError:
            continue
        if after.readable and after.writable:
            return command
    return None


def probe(image: DiskImage, path: str, preset: Preset) -> Compatibility:
    """Try the reader and the writer of `preset` on a copy of the table at `path`.

    Raises NotATableError and, for a damaged `_meta`, ProblemError, which do not depend on the preset.
    """
    table = open_table(image, path)
    try:
        transaction = table.transaction()
    except ProblemError as error:
        return _unreadable(preset, f"no version can be read (a server says: Transaction read timeout): {error}")
    try:
        snapshot = snapshot_of(table, transaction, preset.reader)
        refused = refused_values(snapshot) if preset.is_server else None
        if refused is not None:
            return _unreadable(preset, refused)
        trial = _Trial(image=image, preset=preset, before=_rows(snapshot), spots=tuple(_spots(snapshot)))
    except TornproofError as error:
        return _unreadable(preset, f"its reader refuses: {error}")
    last_is_parquet = any(each.is_parquet for each in transaction.partitions[-1:])
    advice = parquet_last_advice(table, last_is_parquet) or refused_footer(snapshot) if preset.is_server else None
    if advice is not None:
        return Compatibility(preset=preset.name, readable=True, writable=False, reason=advice)
    rejection = trial.rejection(preset.encode, [0] * len(trial.spots), path)
    hazards: tuple[str, ...] = ()
    if rejection and any(spot.dead_bytes for spot in trial.spots):
        long_rejection = trial.rejection(AT_FULL_LENGTH, [spot.dead_bytes for spot in trial.spots], path)
        if long_rejection is None:
            hazards = (
                f"a commit that does not cover the bytes behind the committed end loses a partition: {rejection}",
            )
        rejection = long_rejection
    went_on = f"{trial.before.num_rows} rows are read, before and after a commit to {len(trial.spots)} partitions"
    return Compatibility(
        preset=preset.name, readable=True, writable=not rejection, reason=rejection or went_on, hazards=hazards
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class _Spot:
    """A partition to commit to: the first row of its newest row group, its timestamps, and the bytes past its token."""

    data_path: str
    token: int
    dead_bytes: int
    row: pa.Table
    timestamp_name: str
    times: npt.NDArray[np.int64]
    end: int

    def rows(self, least_bytes: int) -> pa.Table:
        """Return the row, and after it as many with distinct timestamps as take `least_bytes`, if there is room."""
        count = least_bytes // TIMESTAMP_BYTES
        first = int(self.row[self.timestamp_name].cast(pa.int64())[0].as_py())
        stop = min(first + 1 + count + len(self.times), self.end)
        times = np.array([first], np.int64)
        if count and first + 1 < stop:
            times = np.append(times, np.setdiff1d(np.arange(first + 1, stop), self.times)[:count])
        rows = self.row.take(np.zeros(len(times), np.int64))
        index = rows.schema.get_field_index(self.timestamp_name)
        field = rows.schema.field(index)
        return rows.set_column(index, field, pa.array(times, pa.int64()).cast(field.type))


@dataclass(frozen=True, slots=True, kw_only=True)
class _Trial:
    """A table whose rows were read; each commit is tried on a new copy of it."""

    image: DiskImage
    preset: Preset
    before: pa.Table
    spots: tuple[_Spot, ...]

    def rejection(self, encode: RowGroupEncoder, least_bytes: Sequence[int], path: str) -> str | None:
        """Return what goes wrong with a commit of at least so many bytes to each spot, or None."""
        storage = MemoryStorage.of(self.image)
        for spot in self.spots:
            if spot.dead_bytes > TAIL_LIMIT_BYTES:
                # A commit ends before the rest of the tail, which makes no difference then.
                with storage.open_for_writing(spot.data_path) as data:
                    data.truncate(spot.token + TAIL_LIMIT_BYTES)
        portions = [
            spot.rows(min(least, TAIL_LIMIT_BYTES)) for spot, least in zip(self.spots, least_bytes, strict=True)
        ]
        try:
            with open_writer_of_copy(
                storage, path, options=IN_PLACE, protocol=self.preset.protocol, encode=encode
            ) as writer:
                for rows in portions:
                    writer.write(rows)
                writer.commit()
        except TornproofError as error:
            return f"its writer refuses: {error}"
        try:
            after = _rows(open_snapshot(open_table(storage, path), self.preset.reader))
        except TornproofError as error:
            return f"after a commit its reader refuses: {error}"
        if not holds_all(after, self.before):
            return "after a commit rows are gone that were there before it"
        if after.num_rows > self.before.num_rows + sum(map(len, portions)):
            return "after a commit there are rows that no commit brought"
        return None


def _unreadable(preset: Preset, reason: str) -> Compatibility:
    return Compatibility(preset=preset.name, readable=False, writable=False, reason=reason)


def _rows(snapshot: Snapshot, *partitions: Partition) -> pa.Table:
    if partitions:
        snapshot = replace(snapshot, transaction=replace(snapshot.transaction, partitions=partitions))
    return pa.Table.from_batches(snapshot.batches(), schema=snapshot.schema)


def _spots(snapshot: Snapshot) -> list[_Spot]:
    """Return the partitions that can be committed to: those in Parquet that are neither empty nor read-only."""
    metadata = snapshot.table.metadata
    names = [column.name for column in snapshot.columns if column.id == snapshot.timestamp_id]
    spots = []
    for partition in snapshot.transaction.partitions if metadata and names else ():
        if not partition.is_parquet or layout.READ_ONLY.get(partition.flags):
            continue
        assert metadata is not None
        rows = _rows(snapshot, partition)
        if not rows.num_rows:
            continue
        newest_count = max(1, snapshot.resolve(partition).metadata.blocks[-1].num_rows)
        files = snapshot.table.files_of(partition)
        with files.open_data() as data:
            dead_bytes = max(0, data.size_bytes() - partition.token)
        end = interval_end(partition.timestamp, metadata.partition_by, nanoseconds=metadata.counts_nanoseconds)
        ends = [each for each in (end, partition.next_timestamp) if each is not None]
        spots.append(
            _Spot(
                data_path=f"{files.path}/{DATA_FILE}",
                token=partition.token,
                dead_bytes=dead_bytes,
                row=rows.slice(rows.num_rows - newest_count, 1),
                timestamp_name=names[0],
                times=np.asarray(rows[names[0]].cast(pa.int64()).to_numpy(), np.int64),
                end=min(ends, default=I64_MAX),
            )
        )
    return spots
