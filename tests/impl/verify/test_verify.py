import itertools
import json
import struct
import zlib
from dataclasses import dataclass
from pathlib import Path, PurePosixPath

import golden_data
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from depth import sampled
from golden_data import CopyOf
from real_tables import Seen, parquet_partitions, read_json, rows_of, seen, snapshot_of, verified

from tornproof.impl.verify.verify import LookedAt, PartitionReport, TableReport

DAY = "2024-01-01.1"
DATA, PM = f"{DAY}/data.parquet", f"{DAY}/_pm"
PAGE = "pages[0].type"
TRAILER_BYTES, FOOTER_BYTES, CHECKSUM_START = 8, 40, 8

# The damage in each image as in tests/golden/README.md: (file, field, offset in bytes).
POWER_LOSSES: dict[str, dict[str, Seen]] = {
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


@dataclass(frozen=True)
class Counted:
    """The counts of a second reader of a partition, which only knows the fixed offsets of fields."""

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
    """Where the last generation between two linked ones ends, by its checksum; `low` if there is none."""
    for end in range(high, max(low + FOOTER_BYTES, high - 8), -1):
        if zlib.crc32(pm[CHECKSUM_START : end - TRAILER_BYTES]) == struct.unpack_from("<I", pm, end - TRAILER_BYTES)[0]:
            return end
    assert high - low < 8
    return low


def json_unused_bytes(data: bytes, token: int) -> int:
    """The value in data.parquet's own key-value."""
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
            looked_at = LookedAt.OFFSETS_AND_SYMBOL_KEYS if (folder / name).is_dir() else LookedAt.NOTHING
            assert found == PartitionReport(
                name=name, format="native", rows=partition.row_count, token=partition.token, looked_at=looked_at
            )
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
    assert counts.decoded_chunks == counts.chunks, "the pages of the releases have no checksums"


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


@pytest.mark.parametrize("name", sampled(14, golden_data.HISTORY_STEPS))
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


@pytest.mark.parametrize("name", golden_data.LEGACY_TABLES)
def test_migrated_legacy_table_is_verified_like_any_other(name: str, copy_of: CopyOf) -> None:
    folder = copy_of(name)
    for migrated in (folder / "migrated").glob("*.pm"):
        migrated.rename(folder / "table" / migrated.stem / "_pm")
    report = verified(folder / "table")
    assert (report.sound, report.notes) == (True, ())
    assert report.counts.rows == rows_of(snapshot_of(folder / "table")).num_rows > 0


@pytest.mark.parametrize("name", golden_data.POWER_LOSSES)
def test_power_loss_image_gets_the_verdict_that_is_true_of_it(name: str, questdb_data: Path) -> None:
    release, image = PurePosixPath(name).parts[1:]
    report = verified(questdb_data / name / "table", whole=False)
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
    (problem,) = verified(questdb_data / "power-loss/9.4.2" / image / "table", whole=False).all_problems
    assert problem.actual.startswith("6667")
    assert ("ends at byte 1748" in problem.actual) is stands_behind


def test_an_id_in_the_json_by_which_a_server_takes_another_column_is_damage(copy_of: CopyOf) -> None:
    folder = copy_of("tables/2026-07/chain")
    data = next((folder / "table").glob("*/data.parquet"))
    before, id_of_a_column, behind = data.read_bytes().rpartition(b'"id":1')
    assert id_of_a_column
    data.write_bytes(before + b'"id":9' + behind)
    (problem,) = verified(folder / "table").all_problems
    assert (problem.field, problem.expected, problem.actual) == ("questdb schema[1].id", "1, as in _pm", "9")
