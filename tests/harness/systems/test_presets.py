"""Presets as values: their names, the order of their calls, and the functions that only they use."""

from collections.abc import Callable

import pyarrow as pa
import pytest
from written_tables import DAY, DIRECTORY, IN_PLACE, PATH, new_table, rows

from tornproof.harness.common.remembered_codecs import remembered_encoder
from tornproof.harness.simulator.filesystem.faulty import FaultyStorage
from tornproof.harness.simulator.filesystem.intercept import BARRIERS, CallKind
from tornproof.harness.simulator.filesystem.memory import MemoryStorage
from tornproof.harness.systems.answer import holds_all
from tornproof.harness.systems.preset import CommitMode
from tornproof.harness.systems.readers import PinnedFiles, by_header, by_newest, without_statistics
from tornproof.harness.systems.releases import HARDENED_PRESET, PRESETS
from tornproof.harness.systems.table import GROWING, TableTarget
from tornproof.harness.systems.table_operation import TableOperation
from tornproof.impl.chunk.row_group_encoder import encode_row_group
from tornproof.impl.errors import CorruptError
from tornproof.impl.pm.block import Block, Chunk, Statistic
from tornproof.impl.read.reader_protocol import HARDENED_READER
from tornproof.impl.table.partition import resolve_partition
from tornproof.impl.table.table import Table, open_table
from tornproof.impl.write.commit import HARDENED
from tornproof.impl.write.table_writer import TableWriter, open_writer

CHANGES = BARRIERS | {
    CallKind.PWRITE,
    CallKind.TRUNCATE,
    CallKind.STORE,
    CallKind.MKDIR,
    CallKind.UNLINK,
    CallKind.RMDIR,
}
DATA_WRITE, PM_WRITE = ("write", "data.parquet"), ("write", "_pm")
HEADER, PM_SYNC = ("store a word", "_pm"), ("sync the data", "_pm")
TXN, TXN_SYNC = ("store a word", "_txn"), ("sync the mapping", "_txn")
NEW, OLD = "2024-01-01.2", "2024-01-01.0"
REMOVAL = [("unlink", "_pm"), ("unlink", "data.parquet"), ("remove directory", OLD)]
RELEASES = ("questdb-9.4.2", "questdb-9.4.3", "questdb-2026-07")
MODES = {
    "": ([], []),
    "-async": ([PM_SYNC], []),
    "-sync": ([PM_SYNC], [TXN_SYNC]),
}
Change = Callable[[TableWriter], None]


def calls_of(name: str, change: Change) -> list[tuple[str, str]]:
    """Return what a preset's commit writes and syncs, as kind and file name; stores into `_txn` count as one."""
    storage, _ = new_table()
    preset = PRESETS[name]
    recorded = FaultyStorage(storage)
    with open_writer(
        recorded, PATH, options=IN_PLACE, protocol=preset.protocol, encode=preset.encode, allow_parquet_last=True
    ) as writer:
        for batch in (rows([1, 3]), rows([5], 2)):
            writer.write(batch)
            writer.commit()
        change(writer)
        recorded.arm()
        writer.commit()
        calls = [(call.kind.value, call.path.rpartition("/")[2]) for call in recorded.calls if call.kind in CHANGES]
    return [call for number, call in enumerate(calls) if call != TXN or calls[number - 1] != TXN]


def update(writer: TableWriter) -> None:
    writer.write(rows([2], 7))


def rewrite(writer: TableWriter) -> None:
    writer.rewrite_partition(DAY)


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("release", RELEASES)
def test_calls_of_a_release_are_in_the_order_that_was_seen(release: str, mode: str) -> None:
    pm_sync, txn_sync = MODES[mode]
    assert calls_of(release + mode, update) == [DATA_WRITE, PM_WRITE, HEADER, *pm_sync, TXN, *txn_sync]
    made = [("make directory", NEW), DATA_WRITE, PM_WRITE, *pm_sync]
    assert calls_of(release + mode, rewrite) == [*made, TXN, *txn_sync, *REMOVAL]


def test_specification_names_no_barrier_and_removes_nothing_at_once() -> None:
    assert calls_of("specification", update) == [DATA_WRITE, PM_WRITE, HEADER, TXN]
    assert calls_of("specification", rewrite) == [("make directory", NEW), DATA_WRITE, PM_WRITE, TXN]


def test_hardened_preset_is_the_default_of_writers_and_readers() -> None:
    assert (HARDENED_PRESET.protocol, HARDENED_PRESET.reader) == (HARDENED, HARDENED_READER)
    assert HARDENED_PRESET.encode is encode_row_group
    assert TableTarget.of(HARDENED_PRESET) == TableTarget()
    assert calls_of("hardened", update) == [
        DATA_WRITE, ("sync the data", "data.parquet"), PM_WRITE, PM_SYNC, HEADER, ("sync the mapping", "_pm"),
        TXN, TXN_SYNC, TXN, TXN_SYNC,
    ]  # fmt: skip


def test_every_preset_has_its_name_a_title_and_a_commit_mode() -> None:
    assert set(PRESETS) == {"hardened", "specification", *(release + mode for release in RELEASES for mode in MODES)}
    for name, preset in PRESETS.items():
        assert preset.name == name
        assert preset.title.endswith(".") and preset.title[0].isupper()
        mode = name.rpartition("-")[2]
        if name.startswith("questdb"):
            assert preset.commit_mode is (CommitMode(mode) if mode in ("sync", "async") else CommitMode.NOSYNC)
    assert len({preset.title for preset in PRESETS.values()}) == len(PRESETS)


def test_target_of_a_preset_writes_and_reads_as_it_says_and_grows_files_in_place() -> None:
    preset = PRESETS["questdb-9.4.2"]
    target = TableTarget.of(preset)
    assert (target.name, target.protocol, target.reader) == (preset.name, preset.protocol, preset.reader)
    assert (target.encode, target.options) == (preset.encode, GROWING)
    encode = remembered_encoder()
    assert TableTarget.of(preset, encode=encode, name="x") == TableTarget(
        name="x", protocol=preset.protocol, reader=preset.reader, encode=encode
    )
    storage = MemoryStorage()
    target.create(storage, "t")
    batch = pa.table({"ts": [1], "v": [2], "s": ["a"]})
    with target.open_writer(storage, "t") as writer:
        writer.commit(TableOperation(rows=(batch,)))
    assert target.read(storage, "t").row_count == 1


def test_target_reads_by_its_own_reader() -> None:
    storage, table = orphaned()
    assert TableTarget(reader=PRESETS["questdb-2026-07"].reader).read(storage, PATH).row_count == 2
    with pytest.raises(CorruptError, match="exceeds data length"):
        TableTarget(reader=PRESETS["questdb-9.4.2"].reader).read(storage, PATH)
    assert table.path == PATH


@pytest.mark.parametrize("name", PRESETS)
def test_only_hardened_pages_have_checksums(name: str) -> None:
    made = PRESETS[name].encode(pa.table({"v": [1, 2, 3]}))
    with_checksums, without = (
        encode_row_group(pa.table({"v": [1, 2, 3]})),
        PRESETS["specification"].encode(pa.table({"v": [1, 2, 3]})),
    )
    assert made.content == (with_checksums if name == "hardened" else without).content
    assert len(with_checksums.content) > len(without.content)


def orphaned() -> tuple[MemoryStorage, Table]:
    """Return a table of two rows with a published generation of three that was never committed."""
    storage, table = new_table()
    with open_writer(storage, PATH, options=IN_PLACE, allow_parquet_last=True) as writer:
        writer.write(rows([1, 3]))
        writer.commit()
        old_txn = storage.image().files[f"{PATH}/_txn"]
        writer.write(rows([2], 7))
        writer.commit()
    with storage.open_for_writing(f"{PATH}/_txn") as txn:
        txn.pwrite(old_txn, 0)
    return storage, open_table(storage, table.path)


def test_newest_generation_is_taken_with_as_much_data_as_is_committed_or_with_all_of_it() -> None:
    _, table = orphaned()
    (partition,) = table.transaction().partitions
    files = table.files_of(partition)
    committed, newest, header = (find(files, partition) for find in (resolve_partition, by_newest, by_header))
    assert (committed.metadata.row_count, committed.resolved.orphan_count) == (2, 1)
    for found in (newest, header):
        assert (found.metadata.row_count, found.resolved.orphan_count) == (3, 0)
        assert found.metadata.token > partition.token
    assert isinstance(newest.files, PinnedFiles) and header.files == files
    with newest.files.open_data() as data, header.files.open_data() as whole:
        assert data.size_bytes() == partition.token < whole.size_bytes()
        assert data.pread(4, partition.token - 4) == whole.pread(4, partition.token - 4) == b"PAR1"
        assert len(whole.pread(4, partition.token - 3)) == 4
        with pytest.raises(CorruptError, match=f"range {partition.token - 3}..{partition.token + 1} exceeds"):
            data.pread(4, partition.token - 3)


def test_torn_orphan_stops_only_those_that_check_the_newest_generation() -> None:
    storage, table = orphaned()
    (partition,) = table.transaction().partitions
    files = table.files_of(partition)
    first = resolve_partition(files, partition).resolved.position.end_bytes
    with storage.open_for_writing(f"{DIRECTORY}/_pm") as pm:
        pm.pwrite(bytes([pm.pread(1, first + 20)[0] ^ 1]), first + 20)
    assert resolve_partition(files, partition).metadata.row_count == 2
    for find in (by_newest, by_header):
        with pytest.raises(CorruptError, match="CHECKSUM"):
            find(files, partition)


def test_block_without_statistics_says_all_that_decoding_needs() -> None:
    bound = Statistic(value=b"1", exact=True)
    reported = {"codec": 0, "encodings": 1, "num_values": 2, "byte_range_start": 4, "total_compressed": 9}
    full = Chunk(**reported, null_count=0, distinct_count=1, minimum=bound, maximum=bound)
    bare = Chunk(**reported, null_count=None, distinct_count=None, minimum=None, maximum=None)
    block = Block(offset_bytes=8, end_bytes=99, num_rows=2, chunks=(full, full))
    assert without_statistics(block) == Block(offset_bytes=8, end_bytes=99, num_rows=2, chunks=(bare, bare))
    assert len(Chunk.__struct_fields__) == 9


NAN = float("nan")
SOME = pa.table({"v": [1, 1, 2, None], "d": [NAN, 0.0, -0.0, NAN], "l": [[1.0], [], None, [1.0, 2.0]]})


@pytest.mark.parametrize(
    ("kept", "holds"),
    [([0, 1, 2, 3], True), ([3, 1, 0, 2, 2], True), ([0, 1, 2], False), ([0, 0, 1, 2], False), ([], False)],
)
def test_all_rows_are_there_each_as_often_as_it_was_in_whatever_order(kept: list[int], holds: bool) -> None:
    assert holds_all(SOME.take(pa.array(kept, pa.int64())), SOME) is holds


def test_rows_are_the_same_only_bit_by_bit() -> None:
    zeros = pa.table({"d": [0.0]}), pa.table({"d": [-0.0]})
    assert holds_all(zeros[0], zeros[0]) and not holds_all(zeros[0], zeros[1])
    assert holds_all(SOME, SOME.slice(0, 0)) and holds_all(SOME.slice(0, 0), SOME.slice(0, 0))
    swapped = pa.table({"a": [1, 2], "b": [2, 1]}), pa.table({"a": [1, 2], "b": [1, 2]})
    assert not holds_all(*swapped)
