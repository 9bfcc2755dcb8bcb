"""What a probe tries, and what it does not change."""

import struct
from collections.abc import Callable

import pytest
from real_tables import with_wal
from written_tables import DAY_LENGTH, DIRECTORY, PATH, alter, new_table, rows, write, writer_on

import tornproof.harness.systems.probe as probing
from tornproof.harness.simulator.filesystem.image import DiskImage
from tornproof.harness.simulator.filesystem.memory import MemoryStorage
from tornproof.harness.systems.probe import Compatibility, cure_of, probe
from tornproof.harness.systems.releases import HARDENED_PRESET, PRESETS
from tornproof.impl.errors import CorruptError, NotATableError
from tornproof.impl.layout import txn as layout
from tornproof.impl.layout.parquet import FooterForm
from tornproof.impl.parquet.encode_options import ColumnOptions, EncodeOptions, Encoding
from tornproof.impl.table.table import open_table
from tornproof.impl.write.table_writer import TableWriter
from tornproof.impl.write.writer_options import WriterOptions

RELEASED = PRESETS["questdb-2026-07"]


def table_with_tail(tail_bytes: int, *, keys: tuple[str, ...] = ()) -> MemoryStorage:
    """Return a table of one partition whose data.parquet ends with dead bytes."""
    storage, _ = new_table(keys=keys)
    write(storage, rows(range(0, 40, 10)), rows(range(50, 90, 10), 10))
    with storage.open_for_writing(f"{DIRECTORY}/data.parquet") as data:
        data.truncate(data.size_bytes() + tail_bytes)
    return storage


@pytest.mark.parametrize("keys", [(), ("ts",), ("ts", "v")], ids=["plain", "by time", "by two columns"])
@pytest.mark.parametrize(("tail_bytes", "is_hazard"), [(0, False), (1, False), (3_000, True), (200_000, True)])
def test_only_a_tail_that_outlasts_a_short_commit_is_a_hazard(
    tail_bytes: int, is_hazard: bool, keys: tuple[str, ...]
) -> None:
    storage = table_with_tail(tail_bytes, keys=keys)
    compatibility = probe(with_wal(storage.image(), PATH), PATH, RELEASED)
    assert (compatibility.readable, compatibility.writable, bool(compatibility.hazards)) == (True, True, is_hazard), (
        compatibility
    )
    assert compatibility.reason == "8 rows are read, before and after a commit to 1 partitions"


def test_tail_beyond_what_is_written_is_cut_in_the_copy(monkeypatch: pytest.MonkeyPatch) -> None:
    image = table_with_tail(1_000_000).image()
    before = dict(image.files)
    monkeypatch.setattr(probing, "TAIL_LIMIT_BYTES", 4_096)
    compatibility = probe(with_wal(image, PATH), PATH, RELEASED)
    assert (compatibility.writable, len(compatibility.hazards)) == (True, 1)
    assert dict(image.files) == before


def test_tail_that_no_commit_has_room_to_cover_makes_a_table_not_writable() -> None:
    storage, _ = new_table(keys=("ts",))
    write(storage, rows([DAY_LENGTH - 3, DAY_LENGTH - 2, DAY_LENGTH - 1]))
    with storage.open_for_writing(f"{DIRECTORY}/data.parquet") as data:
        data.truncate(data.size_bytes() + 50_000)
    compatibility = probe(with_wal(storage.image(), PATH), PATH, RELEASED)
    assert (compatibility.readable, compatibility.writable, compatibility.hazards) == (True, False, ())
    assert "after a commit its reader refuses: _txn: token" in compatibility.reason


def test_every_parquet_partition_is_committed_to() -> None:
    storage, _ = new_table()
    write(storage, rows([0, DAY_LENGTH, 2 * DAY_LENGTH]))
    for number in range(3):
        other = storage.copy()
        path = f"{PATH}/2024-01-0{number + 1}.0/data.parquet"
        with other.open_for_writing(path) as data:
            # A footer that readers of rows do not use, but every writer that goes on from it does.
            data.pwrite(b"\xff" * 8, data.size_bytes() - 40)
        compatibility = probe(with_wal(other.image(), PATH), PATH, RELEASED)
        assert (compatibility.readable, compatibility.writable) == (True, False)
        assert compatibility.reason.startswith(f"its writer refuses: 2024-01-0{number + 1}.0/data.parquet: ")
    assert probe(with_wal(storage.image(), PATH), PATH, RELEASED).reason.endswith("a commit to 3 partitions")


UNREADABLE = {
    "footer": (EncodeOptions(footer_extension=FooterForm.PRIVATE), (True, False), "servers refuse the extensions in"),
    "duplicates": (EncodeOptions(duplicates=True), (True, False), "servers refuse the extensions in its Thrift"),
    "encoding": (
        EncodeOptions(columns={"v": ColumnOptions(encoding=Encoding.BYTE_STREAM_SPLIT)}),
        (False, False),
        "no server reads column 'v' in BYTE_STREAM_SPLIT",
    ),
    "nothing": (EncodeOptions(columns={"v": ColumnOptions(encoding=Encoding.DICTIONARY)}), (True, True), "are read"),
}


@pytest.mark.parametrize("name", UNREADABLE)
def test_no_server_goes_on_with_an_extension_or_an_encoding_that_none_reads(name: str) -> None:
    """All releases were said to go on with a table that no server opens."""
    encoding, expected, words = UNREADABLE[name]
    storage, _ = new_table()
    write(storage, rows([0, 1]), options=WriterOptions(encoding=encoding, allow_unreadable_by_servers=True))
    image = with_wal(storage.image(), PATH)
    found = probe(image, PATH, RELEASED)
    assert (found.readable, found.writable) == expected
    assert words in found.reason
    ours = probe(image, PATH, HARDENED_PRESET)
    assert (ours.readable, ours.writable) == (True, True)


def test_servers_go_on_with_a_table_whose_column_that_none_reads_was_dropped() -> None:
    """They read no column that the table has no more, and it was said that they read none of its rows."""
    storage, table = new_table()
    encoding = EncodeOptions(columns={"v": ColumnOptions(encoding=Encoding.BYTE_STREAM_SPLIT)})
    write(storage, rows([0]), options=WriterOptions(encoding=encoding, allow_unreadable_by_servers=True))
    assert not probe(with_wal(storage.image(), PATH), PATH, RELEASED).readable
    assert table.metadata is not None
    alter(storage, *(column for column in table.metadata.columns if column.name != "v"))
    assert probe(with_wal(storage.image(), PATH), PATH, RELEASED).readable


def read_only(entry: int) -> int:
    return entry | layout.READ_ONLY.mask


def native(entry: int) -> int:
    return entry & ~layout.PARQUET_FORMAT.mask


@pytest.mark.parametrize(("change", "row_count"), [(read_only, 3), (native, 2)])
def test_partitions_that_only_the_server_writes_to_are_left_alone(change: Callable[[int], int], row_count: int) -> None:
    storage, table = new_table()
    write(storage, rows([0, DAY_LENGTH, 2 * DAY_LENGTH]))
    offset_bytes = table.transaction().partitions[0].flags_offset_bytes
    with storage.open_for_writing(f"{PATH}/_txn") as txn:
        txn.pwrite(struct.pack("<Q", change(struct.unpack("<Q", txn.pread(8, offset_bytes))[0])), offset_bytes)
    image = storage.image()
    if change is native:
        image = image.without_file(f"{DIRECTORY}/data.parquet").without_file(f"{DIRECTORY}/_pm")
    compatibility = probe(with_wal(image, PATH), PATH, RELEASED)
    assert compatibility.reason == f"{row_count} rows are read, before and after a commit to 2 partitions"


def test_table_without_rows_has_nothing_to_try() -> None:
    storage, _ = new_table()
    for preset in PRESETS.values():
        compatibility = probe(with_wal(storage.image(), PATH), PATH, preset)
        assert compatibility.reason == "0 rows are read, before and after a commit to 0 partitions"


def test_folder_without_metadata_is_read_but_not_written_to() -> None:
    storage, _ = new_table()
    write(storage, rows([0]))
    compatibility = probe(storage.image().without_file(f"{PATH}/_meta"), PATH, RELEASED)
    assert (compatibility.readable, compatibility.writable) == (True, False)
    assert "no _meta" in compatibility.reason


def test_errors_that_do_not_depend_on_the_release_are_raised() -> None:
    with pytest.raises(NotATableError):
        probe(DiskImage(), PATH, RELEASED)
    storage, _ = new_table()
    with pytest.raises(CorruptError, match="_meta"):
        probe(storage.image().with_file(f"{PATH}/_meta", b"x" * 30), PATH, RELEASED)


def test_rows_that_a_commit_loses_or_adds_make_a_table_not_writable(monkeypatch: pytest.MonkeyPatch) -> None:
    storage, _ = new_table()
    write(storage, rows([0, 1, 2]))
    image = storage.image()
    assert probe(with_wal(image, PATH), PATH, HARDENED_PRESET).writable

    def drops(writer: TableWriter) -> int:
        writer.drop_partition(open_table(image, PATH).transaction().partitions[0].timestamp)
        return commit(writer)

    def adds(writer: TableWriter) -> int:
        writer.write(rows([7]))
        return commit(writer)

    commit = TableWriter.commit
    for changed, reason in ((drops, "rows are gone"), (adds, "rows that no commit brought")):
        monkeypatch.setattr(TableWriter, "commit", changed)
        compatibility = probe(with_wal(image, PATH), PATH, HARDENED_PRESET)
        assert (compatibility.readable, compatibility.writable) == (True, False) and reason in compatibility.reason


def test_image_is_not_changed_and_a_table_in_use_can_be_tried() -> None:
    storage = table_with_tail(3_000)
    with writer_on(storage):
        image = storage.image()
        before = dict(image.files)
        first, second = probe(with_wal(image, PATH), PATH, RELEASED), probe(with_wal(image, PATH), PATH, RELEASED)
        assert first == second and dict(image.files) == before


def test_each_cure_is_tried_on_a_copy_of_its_own(monkeypatch: pytest.MonkeyPatch) -> None:
    image = table_with_tail(0).image()
    seen = list[DiskImage]()

    def leave_a_trace(storage: MemoryStorage, path: str) -> None:
        seen.append(storage.image())
        storage.mkdir(f"{path}/trace")

    monkeypatch.setattr(probing, "repair_table", leave_a_trace)
    monkeypatch.setattr(probing, "migrate_table", leave_a_trace)
    unusable = Compatibility(preset="none", readable=False, writable=False, reason="it is not")
    assert cure_of(image.with_file(f"{PATH}/_txn", b""), PATH, RELEASED, unusable) is None
    assert len(seen) == 2 and seen[0].directories == seen[1].directories
