from __future__ import annotations

import itertools
import json
import struct
import zlib
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path, PurePosixPath

import golden_data
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from real_tables import image_of, parquet_partitions, read_json, rows_of, snapshot_of

from harness.disk.image import DiskImage
from impl.layout import txn
from impl.operating_system import OperatingSystemStorage
from impl.storage import ReadableStorage
from impl.table import open_table
from impl.verify import PROBLEMS_PER_PARTITION, PartitionReport, TableReport, verify_table

DAY = "2024-01-01.1"
DATA, PM = f"{DAY}/data.parquet", f"{DAY}/_pm"
PAGE = "pages[0].type"
TRAILER_BYTES, FOOTER_BYTES, CHECKSUM_START = 8, 40, 8

# What the data notes say of each image, as (file, field, offset in bytes).
POWER_LOSSES: dict[str, dict[str, list[tuple[str, str, int | None]]]] = {
    "9.4.2": {
        "control-nothing-lost": [],
        "orphan-header-tail-new-data-new-txn-old-kill-9": [],
        "one-byte-flipped-inside-a-data-page": [(DATA, "MAX_STAT of column 'ts'", 4)],
        "data-tail-lost-length": [(DATA, "size", None)],
        "data-tail-zeros": [
            (DATA, "MAGIC", 6663),
            (DATA, "FOOTER_LENGTH", 6659),
            (DATA, "version", 5452),
            *((DATA, PAGE, offset) for offset in (5091, 5221, 5343)),
        ],
        "data-tail-first-512-b-zero": [
            (DATA, "version", 5452),
            *((DATA, PAGE, offset) for offset in (5091, 5221, 5343)),
        ],
        "pm-header-old-txn-new": [("_txn", "token", 424)],
        "pm-old-whole-txn-new": [("_txn", "token", 424)],
        "pm-one-bit-flipped-in-a-committed-block": [(PM, "CHECKSUM", 1740)],
        "pm-tail-zeros-header-new-txn-old": [(PM, "FOOTER_LENGTH", 1744)],
        "txn-version-new-record-area-old": [("_txn", "TXN", 400)],
    }
}
POWER_LOSSES["2026-07"] = POWER_LOSSES["9.4.2"] | {
    "one-byte-flipped-inside-a-data-page": [],
    "data-tail-zeros": [
        (DATA, "MAGIC", 7582),
        (DATA, "FOOTER_LENGTH", 7578),
        (DATA, "version", 6151),
        *((DATA, PAGE, offset) for offset in (5637, 5782, 5913)),
    ],
    "data-tail-first-512-b-zero": [(DATA, PAGE, offset) for offset in (5637, 5782, 5913)],
}


def verified(folder: Path | str, storage: ReadableStorage | None = None, *, quick: bool = False) -> TableReport:
    return verify_table(open_table(storage or OperatingSystemStorage(), str(folder)), quick=quick)


def seen(report: TableReport) -> list[tuple[str, str, int | None]]:
    return [(problem.file, problem.field, problem.offset_bytes) for problem in report.all_problems]


@dataclass(frozen=True)
class Counted:
    """What a second reading of a partition, which knows only the fixed places of fields, counts."""

    generations: int
    orphans: int
    dead_in_data: int
    dead_in_pm: int
    unused_bytes: int


def counted(folder: Path, token: int) -> Counted:
    pm, data = (folder / "_pm").read_bytes(), (folder / "data.parquet").read_bytes()
    chain = []
    end = struct.unpack_from("<Q", pm)[0]
    while end:
        start = end - 4 - struct.unpack_from("<I", pm, end - 4)[0]
        offset, length, groups, unused, prev, _ = struct.unpack_from("<QIIQQQ", pm, start)
        blocks = [entry << 3 for entry in struct.unpack_from(f"<{groups}I", pm, start + FOOTER_BYTES)]
        chain.append(
            (offset + length + 8, end, min((block for block in blocks if block >= prev), default=start), unused)
        )
        end = prev
    orphans = [each[0] for each in chain].index(token)
    kept = chain[orphans:]
    dead = len(pm) - kept[0][1]
    for (_, _, first_new_byte, _), (_, prev, _, _) in itertools.pairwise(kept):
        dead += orphan_end(pm, prev, first_new_byte) - prev
    return Counted(
        generations=len(kept),
        orphans=orphans,
        dead_in_data=len(data) - token,
        dead_in_pm=dead,
        unused_bytes=kept[0][3],
    )


def orphan_end(pm: bytes, low: int, high: int) -> int:
    """Where the last generation between two linked ones ends, by its checksum; `low` where there is none."""
    for end in range(high, max(low + FOOTER_BYTES, high - 8), -1):
        if zlib.crc32(pm[CHECKSUM_START : end - TRAILER_BYTES]) == struct.unpack_from("<I", pm, end - TRAILER_BYTES)[0]:
            return end
    assert high - low < 8
    return low


def json_unused_bytes(data: bytes, token: int) -> int:
    """What data.parquet itself says, in its own key-value."""
    said = json.loads(pq.read_metadata(pa.BufferReader(data[:token])).metadata[b"questdb"])
    return int(said.get("unused_bytes", 0))


def demand_exact_report(folder: Path, report: TableReport) -> None:
    """The report of a sound table, field by field, against the second reading and against the reader."""
    snapshot = snapshot_of(folder)
    assert report.sound
    assert report.version == snapshot.transaction.version
    assert len(report.partitions) == len(snapshot.transaction.partitions)
    for found, partition in zip(report.partitions, snapshot.transaction.partitions, strict=True):
        name = snapshot.table.directory_of(partition)
        if not partition.is_parquet:
            assert found == PartitionReport(name=name, format="native", rows=partition.row_count, token=partition.token)
            continue
        expected = counted(folder / name, partition.token)
        data = (folder / name / "data.parquet").read_bytes()
        assert expected.unused_bytes == json_unused_bytes(data, partition.token)
        assert found == PartitionReport(
            name=name,
            format="parquet",
            rows=partition.row_count,
            token=partition.token,
            generations=expected.generations,
            orphans=expected.orphans,
            unused_bytes=expected.unused_bytes,
            dead_bytes=expected.dead_in_data + expected.dead_in_pm,
        )
    metadata = [snapshot.resolve(partition).metadata for partition in parquet_partitions(snapshot)]
    chunks = [chunk for each in metadata for block in each.blocks for chunk in block.chunks]
    counts = report.counts
    assert counts.partitions == len(report.partitions)
    assert counts.generations == sum(partition.generations for partition in report.partitions)
    assert counts.thrift_footers == len(metadata)
    assert counts.row_groups == sum(len(each.blocks) for each in metadata)
    assert counts.rows == rows_of(snapshot).num_rows
    assert (counts.chunks, counts.pages_bytes) == (len(chunks), sum(chunk.total_compressed for chunk in chunks))


@pytest.mark.parametrize("name", golden_data.TABLES)
def test_table_of_a_clean_shutdown_is_sound_without_left_overs(name: str, questdb_data: Path) -> None:
    report = verified(questdb_data / name / "table")
    demand_exact_report(questdb_data / name / "table", report)
    assert [(each.orphans, each.dead_bytes) for each in report.partitions] == [(0, 0)] * len(report.partitions)
    assert (report.unreferenced, report.notes) == ((), ())
    answered = read_json(questdb_data / name / "expected.json")["partitions"]
    for found, row in zip(report.partitions, answered["rows"], strict=True):
        said = dict(zip(answered["columns"], row, strict=True))
        assert found.name.split(".")[0] == said["name"]
        assert (found.rows, found.format) == (said["numRows"], "parquet" if said["isParquet"] else "native")
        assert found.token == said["parquetFileSize"]


@pytest.mark.parametrize("name", golden_data.HISTORY_STEPS)
def test_every_commit_of_a_history_is_sound(name: str, questdb_data: Path) -> None:
    demand_exact_report(questdb_data / name, verified(questdb_data / name))


@pytest.mark.parametrize("name", golden_data.CRASHES)
def test_table_of_a_killed_server_is_sound_and_its_left_overs_are_counted(name: str, questdb_data: Path) -> None:
    folder = questdb_data / name / "table"
    report = verified(folder)
    demand_exact_report(folder, report)
    state = read_json(questdb_data / name / "expected.json")["state"].split()
    said = dict.fromkeys(["data+", "dirs", "orphan"], 0)
    for word in state:
        key = next(key for key in said if word.startswith(key))
        said[key] = int(word.removeprefix(key) or 1)
    first = report.partitions[0]
    assert first.orphans == said["orphan"]
    assert first.dead_bytes - counted(folder / first.name, first.token).dead_in_pm == said["data+"]
    assert [(each.orphans, each.dead_bytes) for each in report.partitions[1:]] == [(0, 0)]
    directories = {path.name for path in folder.iterdir() if path.is_dir()}
    assert set(report.unreferenced) == directories - {each.name for each in report.partitions}
    of_first_day = [each for each in directories if each.startswith(first.name.split(".")[0])]
    assert len(of_first_day) == (said["dirs"] or 1)


@pytest.mark.parametrize("name", golden_data.AFTER_RESTARTS)
def test_chain_that_jumps_an_orphan_is_sound_and_the_orphan_is_dead_bytes(name: str, questdb_data: Path) -> None:
    folder = questdb_data / name / "table"
    report = verified(folder)
    demand_exact_report(folder, report)
    first = report.partitions[0]
    assert (first.orphans, report.unreferenced) == (0, ())
    assert counted(folder / first.name, first.token).dead_in_pm > 0


@pytest.mark.parametrize("name", golden_data.LEGACY_TABLES)
def test_table_of_a_release_before_pm_is_sound_with_a_note_for_each_partition(name: str, questdb_data: Path) -> None:
    report = verified(questdb_data / name / "table")
    parquet = [each.name for each in report.partitions if each.format == "parquet"]
    assert report.sound
    assert parquet
    assert [note.split(" ")[0] for note in report.notes] == parquet
    assert all("can be migrated" in note for note in report.notes)
    answered = read_json(questdb_data / name / "expected.json")["partitions"]
    rows = [dict(zip(answered["columns"], row, strict=True))["numRows"] for row in answered["rows"]]
    assert [each.rows for each in report.partitions] == rows


@pytest.mark.parametrize(
    ("change", "found"),
    [
        (lambda data: data, []),
        (lambda data: data + b"dead", []),
        (lambda data: data[:-1], [("size", None)]),
        (lambda data: data[:-1] + b"2", [("MAGIC", 4)]),
        (lambda data: None, [("file", None)]),
    ],
)
def test_partition_without_pm_must_have_its_data(
    change: Callable[[bytes], bytes | None], found: list[tuple[str, int | None]], questdb_data: Path
) -> None:
    path, image = table_image(questdb_data, "legacy/9.3.4/chain/table")
    place = f"{path}/{DATA}"
    data = image.files[place]
    changed = change(data)
    damaged = image.without_file(place) if changed is None else image.with_file(place, changed)
    report = verified(path, damaged)
    assert seen(report) == [(DATA, field, back and len(data) - back) for field, back in found]
    assert len(report.notes) == (not found)


@pytest.mark.parametrize("name", golden_data.LEGACY_TABLES)
def test_migrated_legacy_table_is_verified_like_any_other(name: str, copy_of: Callable[[str], Path]) -> None:
    folder = copy_of(name)
    for migrated in (folder / "migrated").glob("*.pm"):
        migrated.rename(folder / "table" / migrated.stem / "_pm")
    report = verified(folder / "table")
    assert (report.sound, report.notes) == (True, ())
    assert report.counts.rows == rows_of(snapshot_of(folder / "table")).num_rows > 0


@pytest.mark.parametrize("name", golden_data.POWER_LOSSES)
def test_power_loss_image_gets_the_verdict_that_is_true_of_it(name: str, questdb_data: Path) -> None:
    release, image = PurePosixPath(name).parts[1:]
    report = verified(questdb_data / name / "table")
    assert seen(report) == POWER_LOSSES[release][image]
    if report.sound:
        demand_exact_report(questdb_data / name / "table", report)
        assert report.partitions[0].orphans == image.startswith("orphan")
        assert (report.partitions[0].dead_bytes > 0) is image.startswith("orphan")


def test_every_power_loss_image_has_an_expected_verdict() -> None:
    expected = {f"power-loss/{release}/{image}" for release, images in POWER_LOSSES.items() for image in images}
    assert expected == set(golden_data.POWER_LOSSES)


@pytest.mark.parametrize(("image", "stands_behind"), [("pm-header-old-txn-new", True), ("pm-old-whole-txn-new", False)])
def test_generation_that_stands_behind_the_published_size_is_named(
    image: str, stands_behind: bool, questdb_data: Path
) -> None:
    (problem,) = verified(questdb_data / "power-loss/9.4.2" / image / "table").all_problems
    assert problem.actual.startswith("6667")
    assert ("ends at byte 1748" in problem.actual) is stands_behind


def table_image(questdb_data: Path, name: str = "tables/9.4.2/chain/table") -> tuple[str, DiskImage]:
    return str(questdb_data / name), image_of(questdb_data / name)


def with_format_bit(image: DiskImage, path: str, place: int, value: int) -> DiskImage:
    """Set bit 61 of a partition's entry in `_txn`, by its place in the order of partitions."""
    partition = snapshot_of(path, image).transaction.partitions[place]
    content, offset = bytearray(image.files[f"{path}/_txn"]), partition.flags_offset_bytes
    word = struct.unpack_from("<Q", content, offset)[0]
    struct.pack_into("<Q", content, offset, word & ~(1 << 61) | value << 61)
    return image.with_file(f"{path}/_txn", bytes(content))


def test_parquet_directory_under_a_native_entry_is_a_problem_of_the_entry(questdb_data: Path) -> None:
    path, image = table_image(questdb_data)
    flipped = with_format_bit(image, path, 0, 0)
    entry = snapshot_of(path, image).transaction.partitions[0].flags_offset_bytes
    assert seen(verified(path, flipped)) == [("_txn", f"PARQUET_FORMAT of {DAY}", entry)]
    with_columns = flipped.with_file(f"{path}/{DAY}/ts.d", b"")
    assert verified(path, with_columns).sound


def test_native_directory_under_a_parquet_entry_is_a_problem(questdb_data: Path) -> None:
    path, image = table_image(questdb_data)
    token = snapshot_of(path, image).transaction.partitions[1].token_offset_bytes
    damaged = with_format_bit(image, path, 1, 1)
    assert verified(path, image).sound
    assert seen(verified(path, damaged)) == [("_txn", "token", token)]
    assert verified(path, damaged).notes == ()
    content = bytearray(damaged.files[f"{path}/_txn"])
    struct.pack_into("<q", content, token, 1000)
    with_token = damaged.with_file(f"{path}/_txn", bytes(content))
    assert seen(verified(path, with_token)) == [("2024-01-02/data.parquet", "file", None)]


@pytest.mark.parametrize("content", [None, b"", b"garbage"])
def test_native_partitions_are_never_judged(content: bytes | None, questdb_data: Path) -> None:
    path, image = table_image(questdb_data)
    native = [place for place in image.files if place.startswith(f"{path}/2024-01-02/")]
    for place in native:
        image = image.without_file(place) if content is None else image.with_file(place, content)
    assert native
    assert verified(path, image).sound


def test_missing_directory_of_a_native_partition_is_no_problem_but_that_of_a_parquet_one_is(questdb_data: Path) -> None:
    path, image = table_image(questdb_data)

    def without(name: str) -> DiskImage:
        files = {place: content for place, content in image.files.items() if f"/{name}/" not in place}
        return DiskImage(files, frozenset(str(parent) for place in files for parent in PurePosixPath(place).parents))

    assert verified(path, without("2024-01-02")).sound
    assert seen(verified(path, without(DAY))) == [(PM, "file", None)]


def test_quick_leaves_pages_out_and_nothing_else(questdb_data: Path) -> None:
    path = questdb_data / "power-loss/9.4.2/one-byte-flipped-inside-a-data-page/table"
    slow, quick = verified(path), verified(path, quick=True)
    assert (slow.sound, quick.sound) == (False, True)
    assert (quick.counts.chunks, quick.counts.pages_bytes) == (0, 0)
    assert replace(quick.counts, chunks=slow.counts.chunks, pages_bytes=slow.counts.pages_bytes) == slow.counts
    zeros = verified(questdb_data / "power-loss/9.4.2/data-tail-zeros/table", quick=True)
    assert [problem.field for problem in zeros.all_problems] == ["MAGIC", "FOOTER_LENGTH", "version"]


def test_problems_of_a_partition_are_capped_and_its_counts_are_not_lost(questdb_data: Path) -> None:
    path, image = table_image(questdb_data, "tables/9.4.2/wide/table")
    sound = verified(path, image).partitions[0]
    data = f"{path}/{sound.name}/data.parquet"
    damaged = image.with_file(data, bytes(sound.token) + image.files[data][sound.token :])
    report = verified(path, damaged)
    assert len(report.all_problems) == PROBLEMS_PER_PARTITION
    assert replace(report.partitions[0], problems=()) == sound
    assert 0 < report.counts.chunks <= PROBLEMS_PER_PARTITION


def test_progress_names_every_partition_in_order(questdb_data: Path) -> None:
    names: list[str] = []
    table = open_table(OperatingSystemStorage(), str(questdb_data / "tables/9.4.2/many/table"))
    report = verify_table(table, progress=names.append)
    assert names == [partition.name for partition in report.partitions]
    assert len(names) > 10


def test_impossible_time_of_a_partition_is_a_problem_of_the_table(questdb_data: Path) -> None:
    path, image = table_image(questdb_data)
    partition = snapshot_of(path, image).transaction.partitions[-1]
    content = bytearray(image.files[f"{path}/_txn"])
    struct.pack_into("<q", content, partition.entry_offset_bytes, (1 << 63) - 1)
    report = verified(path, image.with_file(f"{path}/_txn", bytes(content)))
    assert seen(report) == [("_txn", "TIMESTAMP of a partition", partition.entry_offset_bytes)]
    assert (report.version, report.partitions, len(report.problems)) == (None, (), 1)
    assert txn.PARQUET_FORMAT.mask == 1 << 61
