"""Partitions in QuestDB's native format: what their files must have, and what is said not to be looked at."""

import struct
from collections.abc import Callable
from pathlib import Path

import golden_data
import pytest
from damage import each_flipped
from depth import sampled
from real_tables import Seen, put, seen, snapshot_of, table_image, verified, word

from tornproof.harness.simulator.filesystem.image import DiskImage
from tornproof.impl.verify import native
from tornproof.impl.verify.verify import LookedAt

TYPES = "tables/9.4.2/types/table"
ODD_COLUMNS = "tables/9.4.2/oddcols/table"
INDEXED = "indexed/9.4.2/indexed_nonwal/table"
PARTITION = "2024-05-02.0"
ROW_COUNT = 3
WIDTHS = {
    **dict.fromkeys(("b", "by", "gb", "dec8"), 1),
    **dict.fromkeys(("sh", "ch", "gs", "dec16"), 2),
    **dict.fromkeys(("i", "f", "ip", "gi", "sy", "dec32"), 4),
    **dict.fromkeys(("l", "d", "da", "ts", "gl", "dec64"), 8),
    **dict.fromkeys(("u", "dec128"), 16),
    **dict.fromkeys(("l256", "dec256"), 32),
}
OFFSETS = {"st": 8 * (ROW_COUNT + 1), "bi": 8 * (ROW_COUNT + 1), "vc": 16 * ROW_COUNT, "arr": 16 * ROW_COUNT}
REAL = (*golden_data.TABLES, *golden_data.LEGACY_TABLES, *golden_data.INDEXED_TABLES)
Change = Callable[[bytes], bytes]


def seen_after(
    questdb_data: Path, file: str, change: Change | None, table: str = TYPES, *, quick: bool = False
) -> Seen:
    """Return what is wrong with a sound table once a file was changed or, for None, removed."""
    path, image = table_image(questdb_data, table)
    position = f"{path}/{file}"
    if change is None:
        return seen(verified(path, image.without_file(position), quick=quick))
    return seen(verified(path, image.with_file(position, change(image.files[position])), quick=quick))


@pytest.mark.parametrize("name", REAL)
def test_native_partitions_of_real_tables_are_sound_in_what_is_looked_at(name: str, questdb_data: Path) -> None:
    path = questdb_data / name / "table"
    if not (path / "_meta").exists():
        pytest.skip("a history without _meta")
    report = verified(path)
    assert report.sound
    assert {each.looked_at for each in report.native} <= {LookedAt.OFFSETS_AND_SYMBOL_KEYS}
    assert not [note for note in report.notes if "not looked at" in note]
    quick = verified(path, quick=True)
    assert {each.looked_at for each in quick.native} <= {LookedAt.SIZES}


def test_verdict_says_how_many_rows_were_looked_at_in_which_way(questdb_data: Path) -> None:
    path, image = table_image(questdb_data, "tables/9.4.2/many/table")
    sound = "sound in its 10 parquet partitions; 2 native partitions (18 rows)"
    assert verified(path, image).verdict == f"{sound} looked at only in sizes, offsets, symbol keys and row times"
    assert verified(path, image, quick=True).verdict == f"{sound} looked at only in sizes"
    assert verified(path, image, whole=False).verdict == f"{sound} not looked at"
    assert verified(path, image.with_file(f"{path}/_cv", b"")).verdict == "damaged: 1 problem"


def test_table_of_parquet_partitions_alone_is_just_sound(questdb_data: Path) -> None:
    assert verified(questdb_data / "after-restart/2026-07/sync-2-02/table").verdict == "sound"


@pytest.mark.parametrize("column", sampled(8, list(WIDTHS)))
def test_column_file_must_have_room_for_the_rows_and_no_more(column: str, questdb_data: Path) -> None:
    file, size_bytes = f"{PARTITION}/{column}.d", WIDTHS[column] * ROW_COUNT
    assert seen_after(questdb_data, file, lambda data: data[:size_bytes], quick=True) == []
    for change in (lambda data: data[: size_bytes - 1], lambda data: b""):
        assert seen_after(questdb_data, file, change, quick=True) == [(file, "size", None)]
    assert seen_after(questdb_data, file, None, quick=True) == [(file, "file", None)]


@pytest.mark.parametrize("column", OFFSETS)
def test_offsets_must_have_room_for_the_rows_and_no_more(column: str, questdb_data: Path) -> None:
    file = f"{PARTITION}/{column}.i"
    assert seen_after(questdb_data, file, lambda data: data[: OFFSETS[column]]) == []
    assert seen_after(questdb_data, file, lambda data: data[: OFFSETS[column] - 1]) == [(file, "size", None)]
    assert seen_after(questdb_data, file, None) == [(file, "file", None)]
    assert seen_after(questdb_data, f"{PARTITION}/{column}.d", None) == [(f"{PARTITION}/{column}.d", "file", None)]


@pytest.mark.parametrize(
    ("column", "offset_bytes", "raw", "row"),
    [
        ("st", 8, word(-1), 1),
        ("st", 8, word(9999), 1),
        ("st", 16, word(1), 2),
        ("st", 24, word(1 << 62), 3),
        ("bi", 24, word(4097), 3),
        # 40 characters that begin behind the file, and 2^27 from its beginning.
        ("vc", 16, struct.pack("<I", 40 << 4) + bytes(12), 1),
        ("vc", 32, struct.pack("<IIQ", 1 << 31, 0, 0), 2),
        ("arr", 0, word(4090), 0),
        ("arr", 24, word(1 << 30), 1),
        ("arr", 24, struct.pack("<i", -1), 1),
    ],
)
def test_offsets_must_ascend_inside_the_data(
    column: str, offset_bytes: int, raw: bytes, row: int, questdb_data: Path
) -> None:
    file, width = f"{PARTITION}/{column}.i", 8 if column in ("st", "bi") else 16
    found = [(file, f"position of row {row}", row * width)]
    assert seen_after(questdb_data, file, put(offset_bytes, raw)) == found
    assert seen_after(questdb_data, file, put(offset_bytes, raw), quick=True) == []


def test_offsets_are_compared_across_pieces(questdb_data: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(native, "PIECE_BYTES", 16)
    assert seen_after(questdb_data, f"{PARTITION}/st.i", lambda data: data) == []
    found = [(f"{PARTITION}/st.i", "position of row 2", 16)]
    assert seen_after(questdb_data, f"{PARTITION}/st.i", put(16, word(1))) == found


@pytest.mark.parametrize(
    ("key", "is_sound"), [(0, True), (-(1 << 31), True), (1, True), (4, True), (5, False), (-1, False)]
)
def test_symbol_keys_must_be_in_the_dictionary(key: int, is_sound: bool, questdb_data: Path) -> None:
    file = "2024-01-02/s.d"
    found = seen_after(questdb_data, file, put(4, struct.pack("<i", key)), "tables/9.4.2/chain/table")
    assert found == ([] if is_sound else [(file, "key of row 1", 4)])


@pytest.mark.parametrize(
    ("row", "change", "is_wrong"),
    [
        (0, 1 << 50, True),
        (0, -1, True),
        (2, -1 << 40, True),
        (1, 1 << 40, True),
        (2, 86_400_000_000, True),
        (1, 0, False),
    ],
)
@pytest.mark.parametrize("piece_bytes", [16, 1 << 20])
def test_times_of_native_rows_ascend_within_their_interval(
    row: int, change: int, is_wrong: bool, piece_bytes: int, questdb_data: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A native first time 12 days later, after the second one and outside of its partition, was called sound."""
    monkeypatch.setattr(native, "PIECE_BYTES", piece_bytes)
    file = f"{PARTITION}/ts.d"

    def moved(data: bytes) -> bytes:
        (time,) = struct.unpack_from("<q", data, 8 * row)
        return put(8 * row, word(time + change))(data)

    found = seen_after(questdb_data, file, moved)
    assert bool(found) is is_wrong
    assert {(name, field.partition(" of ")[0]) for name, field, _ in found} <= {(file, "time")}


def test_column_that_was_added_has_no_rows_from_before(questdb_data: Path) -> None:
    # Both were added after the partition's only row.
    path, image = table_image(questdb_data, ODD_COLUMNS)
    entries = [partition for partition in snapshot_of(path, image).transaction.partitions if not partition.is_parquet]
    assert [partition.row_count for partition in entries] == [1]
    for file in ("2025-04-03/d.d.2", "2025-04-03/e.d.6"):
        assert seen_after(questdb_data, file, lambda data: b"", ODD_COLUMNS) == []
        assert seen_after(questdb_data, file, None, ODD_COLUMNS) == []
    assert seen_after(questdb_data, "2025-04-03/a1.d.7", None, ODD_COLUMNS) == [("2025-04-03/a1.d.7", "file", None)]


@pytest.mark.parametrize("other", ["a1.d", "a1.d.9"])
def test_lost_file_of_a_column_is_not_excused_by_one_of_another_version(other: str, questdb_data: Path) -> None:
    """The file that an UPDATE wrote was lost, and the table called sound, because the one before it was still there."""
    path, image = table_image(questdb_data, ODD_COLUMNS)
    position = f"{path}/2025-04-03/a1.d.7"
    replaced = image.without_file(position).with_file(f"{path}/2025-04-03/{other}", image.files[position])
    (problem,) = verified(path, replaced).all_problems
    assert str(problem) == f"2025-04-03/a1.d.7: file: expected the file that column 'a1' has by _cv, found {other}"


@pytest.mark.parametrize("file", ["_cv", "_name", "sy.o", "sy.c", "sy.k", "sy.v"])
def test_missing_file_of_the_table_is_a_problem(file: str, questdb_data: Path) -> None:
    assert seen_after(questdb_data, file, None) == [(file, "file", None)]


@pytest.mark.parametrize("file", ["_cv", "_name", "sy.o", "sy.c"])
def test_file_of_the_table_without_content_is_a_problem(file: str, questdb_data: Path) -> None:
    ((found, _, _),) = seen_after(questdb_data, file, lambda _: b"")
    assert found == file


@pytest.mark.parametrize("units", [0, -1, 6])
def test_name_of_another_length_than_its_file_has_is_a_problem(units: int, questdb_data: Path) -> None:
    found = seen_after(questdb_data, "_name", put(0, struct.pack("<i", units)))
    assert found == [("_name", "CODE_UNIT_COUNT", 0)]


def test_lost_metadata_is_a_problem_and_in_a_mere_copy_of_commits_a_note(questdb_data: Path) -> None:
    """A table whose `_meta` was deleted, so that no server could open it, was called sound, with exit code 0."""
    assert seen_after(questdb_data, "_meta", None) == [("_meta", "file", None)]
    path, image = table_image(questdb_data, TYPES)
    for file in ("_meta", "_cv", "_name"):
        image = image.without_file(f"{path}/{file}")
    report = verified(path, image)
    assert report.sound
    assert report.notes == ("there is no _meta, so columns and dictionaries were not looked at",)


def test_partition_without_any_file_has_a_limited_number_of_problems(questdb_data: Path) -> None:
    path, image = table_image(questdb_data, TYPES)
    for position in [name for name in image.files if f"/{PARTITION}/" in name]:
        image = image.with_file(position, b"")
    report = verified(path, image)
    assert 10 < len(report.all_problems) <= 20


def test_index_of_a_native_partition_is_compared_with_its_keys(questdb_data: Path) -> None:
    file = "2024-05-03/s.v"
    assert seen_after(questdb_data, file, put(0, word(1)), INDEXED) == [(file, "row of key 1", 0)]
    assert seen_after(questdb_data, "2024-05-03/s.k", None, INDEXED) == [("2024-05-03/s.k", "file", None)]


def test_directory_that_is_a_file_is_a_problem(questdb_data: Path) -> None:
    path, image = table_image(questdb_data, TYPES)
    files = {name: content for name, content in image.files.items() if f"/{PARTITION}/" not in name}
    broken = DiskImage.of_files({**files, f"{path}/{PARTITION}": b"file"})
    assert seen(verified(path, broken)) == [(PARTITION, "directory", None)]


@pytest.mark.parametrize("name", [ODD_COLUMNS, INDEXED])
def test_flipped_bits_of_column_versions_and_positions_are_answered(name: str, questdb_data: Path) -> None:
    path, image = table_image(questdb_data, name)
    files = [file for file in image.files if file.endswith(("/_cv", "/n.i", "-03/s.k", ".i"))]
    assert len(files) > 1
    for file in files:
        content = image.files[file]
        for damaged in each_flipped(content[:200], step=311):
            changed = image.with_file(file, damaged + content[len(damaged) :])
            assert verified(path, changed).version is not None


def test_column_that_is_older_than_all_rows_or_newer_is_taken_as_such(questdb_data: Path) -> None:
    path, image = table_image(questdb_data, INDEXED)
    start = snapshot_of(path, image).transaction.partitions[-1].timestamp
    for top, is_sound in ((-5, True), (0, True), (112, True), (1 << 62, True), (1, False)):
        entry = struct.pack("<4q", start, 3, -1, top)
        versions = struct.pack("<5q", 0, 40, 32, 0, 0) + entry
        assert verified(path, image.with_file(f"{path}/_cv", versions)).sound is is_sound, top
