"""Every byte of every real file has exactly one name, and the right one."""

from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import golden_data
import pytest
import table_builder as tb
from hypothesis import given
from hypothesis import strategies as st
from written_tables import PATH, filled, rows

from tornproof.harness.check import capture_table
from tornproof.harness.counterexamples.regions import (
    Region,
    RegionMap,
    data_regions,
    fields_of,
    pm_regions,
    txn_regions,
)
from tornproof.impl.errors import TornproofError
from tornproof.impl.layout import txn as txn_layout
from tornproof.impl.read.reader import open_snapshot
from tornproof.impl.storage.operating_system import OperatingSystemStorage
from tornproof.impl.table.partition import ResolvedPartition
from tornproof.impl.table.table import open_table
from tornproof.impl.write.writer_options import BloomOptions, BloomPosition, WriterOptions

FALLBACKS = {"outside of both areas", "past the published end", "past the token"}
ALL_TABLES = [
    *(f"{name}/table" for name in (*golden_data.TABLES, *golden_data.CRASHES, *golden_data.AFTER_RESTARTS)),
    *golden_data.HISTORY_STEPS,
]
ORPHANED = "power-loss/9.4.2/orphan-header-tail-new-data-new-txn-old-kill-9/table"
DIRECTORY = "2024-01-01.1"


def resolved_partitions(path: Path) -> Iterator[tuple[ResolvedPartition, bytes, bytes]]:
    """Yield the parquet partitions of a table, with the bytes of `_pm` and data.parquet."""
    image = capture_table(OperatingSystemStorage(), str(path))
    snapshot = open_snapshot(open_table(image, str(path)))
    for partition in snapshot.transaction.partitions:
        if partition.is_parquet:
            resolved = snapshot.resolve(partition)
            base = resolved.files.path
            yield resolved, image.files[f"{base}/_pm"], image.files[f"{base}/data.parquet"]


def labels(regions: RegionMap, size_bytes: int) -> Counter[str]:
    return Counter(regions.label(offset_bytes) for offset_bytes in range(size_bytes))


REGIONS = st.lists(
    st.builds(
        lambda start, length, label: Region(start, start + length, label), *[st.integers(0, 40)] * 2, st.text("ab")
    )
)


@given(REGIONS, st.integers(0, 60))
def test_the_first_region_that_holds_a_byte_names_it(regions: list[Region], size_bytes: int) -> None:
    found = RegionMap(regions, size_bytes, "fallback")
    for offset_bytes in range(size_bytes):
        holders = [region.label for region in regions if region.start <= offset_bytes < region.end]
        assert found.label(offset_bytes) == (holders or ["fallback"])[0]


def test_every_byte_of_every_real_file_has_a_name(questdb_data: Path) -> None:
    seen: Counter[str] = Counter()
    files = 0
    for name in ALL_TABLES:
        txn = (questdb_data / name / "_txn").read_bytes()
        seen += labels(txn_regions(txn), len(txn))
        for resolved, pm, data in resolved_partitions(questdb_data / name):
            seen += labels(pm_regions(resolved, len(pm)), len(pm))
            # One byte in seven, as some files are large; the step is coprime to every record's size.
            of_data = data_regions(resolved, data)
            seen += Counter(of_data.label(offset_bytes) for offset_bytes in range(0, len(data), 7))
            files += 2
    assert files >= 2 * 60
    assert "" not in seen
    assert {
        "VERSION",
        "partition TOKEN",
        "the other area",
        "symbol counts",
        "CHECKSUM",
        "older CHECKSUM",
        "older block",
        "orphan footer",
        "orphan trailer",
        "orphan block",
        "column ID",
        "chunk BYTE_RANGE_START",
        "names and header sections",
        "out-of-line statistics",
        "padding and bloom bitsets",
        "page",
        "page header",
        "Thrift footer",
        "MAGIC",
        "leading magic",
        "unused below the token",
        *FALLBACKS - {"past the published end"},
    } <= seen.keys()


def test_fields_have_their_size_and_no_byte_before_the_ends_is_without_a_field() -> None:
    table = tb.build({})
    (resolved,) = built_partitions(table)
    pm, data, txn = table.files[tb.PM], table.files[tb.DATA], table.files["_txn"]
    of_txn = labels(txn_regions(txn), len(txn))
    assert {name: of_txn[name] for name in ("VERSION", "FIXED_ROW_COUNT", "partition TOKEN", "PARTITIONS_SIZE")} == {
        "VERSION": 8,
        "FIXED_ROW_COUNT": 8,
        "partition TOKEN": 8,
        "PARTITIONS_SIZE": 4,
    }
    of_pm = labels(pm_regions(resolved, len(pm)), len(pm))
    assert (of_pm["PARQUET_META_FILE_SIZE"], of_pm["CHECKSUM"], of_pm["FOOTER_LENGTH"], of_pm["column ID"]) == (
        8,
        4,
        4,
        4,
    )
    of_data = labels(data_regions(resolved, data), len(data))
    assert (of_data["MAGIC"], of_data["FOOTER_LENGTH"], of_data["leading magic"]) == (4, 4, 4)
    assert of_data["page"] + of_data["page header"] == sum(
        chunk.total_compressed for block in resolved.metadata.blocks for chunk in block.chunks
    )
    assert not FALLBACKS & (of_txn.keys() | of_pm.keys() | of_data.keys())


def built_partitions(table: tb.BuiltTable) -> list[ResolvedPartition]:
    snapshot = open_snapshot(open_table(table.image(), "/table"))
    return [snapshot.resolve(partition) for partition in snapshot.transaction.partitions]


def test_bloom_filters_in_a_data_file_have_their_name_where_metadata_says_so() -> None:
    blooms = BloomOptions(columns={"v": 0.01}, position=BloomPosition.EXTERNAL)
    image = filled(rows([0, 1]), options=WriterOptions(blooms=blooms)).image()
    snapshot = open_snapshot(open_table(image, PATH))
    (resolved,) = [snapshot.resolve(partition) for partition in snapshot.transaction.partitions]
    ((reference,),) = resolved.metadata.generation.blooms
    assert reference is not None and reference.length_bytes
    file = f"{resolved.files.path}/data.parquet"
    named = labels(fields_of(image, image, PATH)[file], len(image.files[file]))
    assert named["row group 0 bloom filter"] == reference.length_bytes


def test_bytes_past_the_ends_are_named_so() -> None:
    table = tb.build({})
    (resolved,) = built_partitions(table)
    pm, data, txn = (table.files[name] + bytes(5) for name in (tb.PM, tb.DATA, "_txn"))
    assert labels(pm_regions(resolved, len(pm)), len(pm))["past the published end"] == 5
    assert labels(data_regions(resolved, data), len(data))["past the token"] == 5
    assert labels(txn_regions(txn), len(txn))["outside of both areas"] == 5


def test_an_orphan_is_told_from_the_committed_generation(questdb_data: Path) -> None:
    ((resolved, pm, _),) = resolved_partitions(questdb_data / ORPHANED)
    committed = resolved.resolved.position
    regions = pm_regions(resolved, len(pm))
    assert resolved.resolved.orphan_count == 1
    assert {regions.label(offset) for offset in range(committed.end_bytes, len(pm))} == {
        "orphan block",
        "orphan footer",
        "orphan trailer",
    }
    assert not any("orphan" in regions.label(offset) for offset in range(committed.end_bytes))
    assert regions.label(committed.checksum_offset) == "CHECKSUM"


@pytest.mark.parametrize(
    ("offset", "size"), [(0, 0), (-1, 0), (64, -1), (2**31 - 8, 2**31 - 8)], ids=["none", "negative", "size", "huge"]
)
def test_an_other_area_that_makes_no_sense_costs_nothing(offset: int, size: int) -> None:
    content = tb.build({}).files["_txn"]
    base = txn_layout.BaseHeader.unpack(content, 0, file="_txn")
    torn = base.changed(b_record_offset=offset, b_symbols_size=size, b_partitions_size=size).pack()
    found = labels(txn_regions(torn + content[len(torn) :]), len(content))
    assert found["VERSION"] == 8
    assert found["the other area"] == 0


def test_bytes_that_do_not_decode_have_no_names() -> None:
    with pytest.raises(TornproofError):
        txn_regions(b"short")
