"""Footers with unknown required bits: only reading by such a generation is rejected, not its neighbours."""

from collections.abc import Callable
from pathlib import Path

import pm_builder as pm
import pytest
from golden_data import MANY
from real_tables import rows_of, snapshot_of, table_image, verified
from rejections import rejection

from tornproof.harness.explorers.roundtrip.metadata.generations import reencode_generations
from tornproof.harness.simulator.filesystem.image import DiskImage
from tornproof.impl import limits
from tornproof.impl.errors import UnsupportedError
from tornproof.impl.layout import pm as layout
from tornproof.impl.pm.chain import decode_chain, decode_metadata, walk
from tornproof.impl.pm.footer import check_flags, decode_generation

DAY = "2024-01-01.1"
PM, DATA = f"{DAY}/_pm", f"{DAY}/data.parquet"
ORPHAN = "power-loss/9.4.2/orphan-header-tail-new-data-new-txn-old-kill-9/table"
UNKNOWN_BITS = [1 << 63, 1 << 40, layout.COVERING_INDEX_REQUIRED.put(0, 1)]


def with_bit(data: bytes, generation: int, bit: int) -> bytes:
    """Set a bit in the footer flags of a generation, counted from the newest one, and repair all checksums."""
    position = list(walk(data, file=pm.FILE))[generation]
    flags = position.fixed.footer_feature_flags | bit
    return pm.seal(pm.set_field(data, layout.Footer, position.offset_bytes, "footer_feature_flags", flags))


def table_with_bit(
    questdb_data: Path, generation: int, bit: int, name: str = "tables/9.4.2/chain/table"
) -> tuple[str, DiskImage]:
    path, image = table_image(questdb_data, name)
    return path, image.with_file(f"{path}/{PM}", with_bit(image.files[f"{path}/{PM}"], generation, bit))


@pytest.mark.parametrize("bit", UNKNOWN_BITS)
@pytest.mark.parametrize("generation", [1, 2, 3])
def test_an_unknown_required_bit_in_an_older_generation_condemns_nothing(
    generation: int, bit: int, questdb_data: Path
) -> None:
    path, image = table_with_bit(questdb_data, generation, bit)
    sound = verified(questdb_data / "tables/9.4.2/chain/table")
    report = verified(path, image)
    assert report == sound
    assert (report.counts.generations, report.sound) == (4, True)
    assert rows_of(snapshot_of(path, image)).equals(rows_of(snapshot_of(path)))
    again = reencode_generations(image.files[f"{path}/{PM}"], file=PM)
    assert (again.generation_count, again.mismatches) == (4, ())


@pytest.mark.parametrize("bit", UNKNOWN_BITS)
def test_an_unknown_required_bit_in_an_orphan_condemns_nothing(bit: int, questdb_data: Path) -> None:
    path, image = table_with_bit(questdb_data, 0, bit, ORPHAN)
    report = verified(path, image)
    assert report == verified(questdb_data / ORPHAN)
    # Its native partition is missing, which is the only problem.
    assert (report.partitions[0].problems, report.partitions[0].orphans) == ((), 1)
    assert rows_of(snapshot_of(path, image)).equals(rows_of(snapshot_of(path)))


@pytest.mark.parametrize("bit", UNKNOWN_BITS)
@pytest.mark.parametrize(("name", "generation"), [("tables/9.4.2/chain/table", 0), (ORPHAN, 1)])
def test_an_unknown_required_bit_in_the_committed_generation_is_unsupported(
    name: str, generation: int, bit: int, questdb_data: Path
) -> None:
    path, image = table_with_bit(questdb_data, generation, bit, name)
    actions: list[Callable[[], object]] = [lambda: rows_of(snapshot_of(path, image))]
    if name != ORPHAN:  # which is damaged besides, because its native partition is missing
        actions.append(lambda: verified(path, image))
    for action in actions:
        problem = rejection(action, UnsupportedError)
        assert (problem.file, problem.field) == (PM, "FOOTER_FEATURE_FLAGS")
        assert problem.actual.startswith(f"{bit:#x}")


def test_an_unsupported_partition_beside_a_damaged_one_is_damage(questdb_data: Path) -> None:
    path, image = table_image(questdb_data, MANY)
    names = [partition.name for partition in verified(path, image).partitions if partition.format == "parquet"]
    first, second = (f"{path}/{name}" for name in names[:2])
    odd = image.with_file(f"{first}/_pm", with_bit(image.files[f"{first}/_pm"], 0, 1 << 63))
    rejection(lambda: verified(path, odd), UnsupportedError)
    cut = odd.with_file(f"{second}/data.parquet", b"")
    assert [(problem.file, problem.field) for problem in verified(path, cut).all_problems] == [
        (f"{names[0]}/_pm", "FOOTER_FEATURE_FLAGS"),
        (f"{names[1]}/data.parquet", "size"),
    ]


def test_a_chunk_that_is_not_supported_is_no_problem_beside_the_footer_that_says_otherwise(questdb_data: Path) -> None:
    path, image = table_image(questdb_data)
    lzo = image.with_file(f"{path}/{PM}", pm.set_chunk(image.files[f"{path}/{PM}"], "codec", 3, column=1))
    for quick in (False, True):
        fields = [problem.field for problem in verified(path, lzo, quick=quick).all_problems]
        assert fields == ["row_groups[0].columns[1].codec"]


def test_a_generation_with_unknown_bits_is_still_judged_by_its_structure() -> None:
    data = with_bit(pm.chain_of(10_000, 20_000), 1, 1 << 63)
    positions = list(walk(data, file=pm.FILE))
    assert [metadata.token for metadata in decode_chain(data, file=pm.FILE, end_bytes=len(data))] == [20_000, 10_000]
    entry = positions[1].offset_bytes + layout.Footer.layout.size_bytes
    broken = pm.set_field(data, layout.RowGroupEntry, entry, "block_offset", 0)
    generations = decode_chain(broken, file=pm.FILE, end_bytes=len(data))
    assert next(generations).token == 20_000
    assert rejection(lambda: next(generations)).file == pm.FILE


def test_only_reading_by_a_generation_asks_for_its_bits() -> None:
    data = with_bit(pm.file(), 0, 1 << 63)
    position, header = pm.newest(data), pm.header_of(data)
    assert decode_generation(data, position, header, file=pm.FILE).position == position
    rejection(lambda: check_flags(position, file=pm.FILE), UnsupportedError)
    rejection(lambda: decode_metadata(data, position, file=pm.FILE), UnsupportedError)


def test_a_chain_has_a_limit(monkeypatch: pytest.MonkeyPatch) -> None:
    data = pm.chain_of(10_000, 20_000, 30_000)
    assert limits.GENERATION_COUNT_LIMIT == 65_536
    monkeypatch.setattr("tornproof.impl.limits.GENERATION_COUNT_LIMIT", 3)
    assert len(list(walk(data, file=pm.FILE))) == 3
    monkeypatch.setattr("tornproof.impl.limits.GENERATION_COUNT_LIMIT", 2)
    problem = rejection(lambda: list(walk(data, file=pm.FILE)), UnsupportedError)
    assert (problem.field, problem.expected) == ("PREV_PARQUET_META_FILE_SIZE", "a chain of at most 2 generations")


def test_a_chain_above_the_limit_can_be_read_and_not_verified(
    questdb_data: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path, image = table_image(questdb_data)
    rows = rows_of(snapshot_of(path, image))
    for limit, is_verified in ((4, True), (3, False)):
        monkeypatch.setattr("tornproof.impl.limits.GENERATION_COUNT_LIMIT", limit)
        assert rows_of(snapshot_of(path, image)).equals(rows)
        if is_verified:
            assert verified(path, image).sound
        else:
            rejection(lambda: verified(path, image), UnsupportedError)


@pytest.mark.parametrize(("limit", "fitting"), [("ROW_GROUP_COUNT_LIMIT", 2), ("CHUNK_COUNT_LIMIT", 4)])
def test_row_groups_and_chunks_of_a_generation_have_a_limit(
    limit: str, fitting: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    plain = pm.header()
    data = pm.file(plain, pm.row_group(plain, 0), pm.row_group(plain, 1))
    monkeypatch.setattr(limits, limit, fitting)
    assert pm.read(data).row_count == 20
    monkeypatch.setattr(limits, limit, fitting - 1)
    problem = rejection(lambda: pm.read(data), UnsupportedError)
    assert (problem.field, problem.actual) == ("ROW_GROUP_COUNT", "2 row groups of 2 columns")


def test_many_entries_of_one_block_are_rejected_at_once() -> None:
    plain = pm.header()
    data = pm.file(plain, *(pm.row_group(plain, ordinal) for ordinal in range(3)))
    position = pm.newest(data)
    claims = (1 << 32) - 1
    too_many = pm.set_footer(data, "row_group_count", claims)
    assert rejection(lambda: pm.read(too_many)).actual == str(claims)
    assert position.fixed.row_group_count == 3
