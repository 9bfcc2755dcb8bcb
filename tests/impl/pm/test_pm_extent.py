"""Which bytes of `_pm` a chain reaches, and how much of the file is dead."""

import json
import re
from pathlib import Path

import golden_data
import pm_builder as pm
import pytest
from msgspec.structs import replace

from tornproof.impl.layout import pm as layout
from tornproof.impl.pm.chain import decode_metadata, resolve, walk
from tornproof.impl.pm.encode import NewRowGroup, append_generation, append_point
from tornproof.impl.pm.extent import (
    Interval,
    bitset_intervals,
    block_intervals,
    dead_byte_count,
    find_generation,
    reached_intervals,
)
from tornproof.impl.types.questdb import TypeTag

DEAD_AFTER_RESTART = {"sync-2-02": 504, "sync-2-12": 288, "sync-2-14": 296, "sync-2-18": 296}
PLAIN = pm.header()
TEXT = pm.header(pm.TIMESTAMP, pm.column("s", TypeTag.VARCHAR, 6))
# Lengths of an out-of-line statistic, which move the ends of blocks and generations through all alignments.
LENGTHS = range(9, 17)


def text_group(ordinal: int, length_bytes: int) -> NewRowGroup:
    group = pm.row_group(PLAIN, ordinal)
    timestamp, value = group.chunks
    text = replace(value, minimum=pm.statistic(b"s" * length_bytes), maximum=None)
    return replace(group, chunks=(timestamp, text))


def reached(data: bytes, token: int) -> list[Interval]:
    location = resolve(data, token, file=pm.FILE).position
    generations = [
        decode_metadata(data, each, file=pm.FILE) for each in walk(data, file=pm.FILE, end_bytes=location.end_bytes)
    ]
    return reached_intervals(data, generations, file=pm.FILE)


def dead(data: bytes, token: int, *, file_size_bytes: int | None = None) -> int:
    size_bytes = len(data) if file_size_bytes is None else file_size_bytes
    return dead_byte_count(data, size_bytes, reached(data, token), file=pm.FILE)


def with_jumped_orphans(length_bytes: int, orphan_count: int, *, junk: bytes = b"") -> tuple[bytes, int]:
    """Return a chain that jumps orphans and, behind them, junk; and the bytes that all of these take."""
    data = pm.file(TEXT, text_group(0, length_bytes), footer=pm.facts(10_000))
    committed = pm.newest(data)
    for nth in range(orphan_count):
        data = pm.append(data, text_group(1, length_bytes), footer=pm.facts(20_000 + nth), anchor=committed)
    data += junk
    dead_end = len(data)
    data = pm.append(data, text_group(1, length_bytes), footer=pm.facts(30_000), anchor=committed)
    return data, dead_end - committed.end_bytes


def test_a_chain_without_orphans_reaches_every_byte() -> None:
    data = pm.chain_of(10_000, 20_000, 30_000)
    assert reached(data, 30_000) == [(0, len(data))]
    assert dead(data, 30_000) == 0


@pytest.mark.parametrize("length_bytes", LENGTHS)
def test_bytes_of_alignment_are_not_dead(length_bytes: int) -> None:
    data = pm.file(TEXT, text_group(0, length_bytes), text_group(1, length_bytes), footer=pm.facts(10_000))
    assert dead(data, 10_000) == 0
    assert dead(pm.append(data, text_group(2, length_bytes), footer=pm.facts(20_000)), 20_000) == 0


def test_bytes_of_replaced_blocks_are_still_reached_by_older_generations() -> None:
    data = pm.append(pm.file(), pm.row_group(PLAIN, 1), footer=pm.facts(20_000), reuse=False)
    assert dead(data, 20_000) == 0


def test_bytes_above_the_resolved_generation_are_dead() -> None:
    data = pm.chain_of(10_000, 20_000)
    assert dead(data, 10_000) == len(data) - len(pm.chain_of(10_000))


def test_bytes_past_the_published_ones_are_dead() -> None:
    data = pm.chain_of(10_000, 20_000)
    assert dead(data, 20_000, file_size_bytes=len(data) + 77) == 77


@pytest.mark.parametrize("orphan_count", [1, 2, 3])
@pytest.mark.parametrize("length_bytes", LENGTHS)
def test_jumped_orphans_are_dead_to_the_byte(length_bytes: int, orphan_count: int) -> None:
    data, dead_bytes = with_jumped_orphans(length_bytes, orphan_count)
    assert dead_bytes > 0
    assert dead(data, 30_000) == dead_bytes


@pytest.mark.parametrize("length_bytes", LENGTHS)
def test_bytes_behind_an_orphan_that_align_nothing_are_dead(length_bytes: int) -> None:
    data, dead_bytes = with_jumped_orphans(length_bytes, 1, junk=b"\xee")
    block = pm.read(data, 30_000).blocks[1].offset_bytes
    # The end of these bytes is unknown, so the alignment counts too.
    committed_end = pm.newest(data).fixed.prev_parquet_meta_file_size
    assert dead(data, 30_000) == block - committed_end >= dead_bytes


def test_an_orphan_is_found_by_its_checksum() -> None:
    data, orphan_bytes = with_jumped_orphans(9, 1)
    low = pm.newest(data).fixed.prev_parquet_meta_file_size
    high = pm.read(data, 30_000).blocks[1].offset_bytes
    found = find_generation(data, low, high, file=pm.FILE)
    assert found is not None
    assert (found.end_bytes, found.token) == (low + orphan_bytes, 20_000)
    torn = data[: low + 20] + b"\xff" + data[low + 21 :]
    assert find_generation(torn, low, high, file=pm.FILE) is None
    assert find_generation(data, low, high - 8, file=pm.FILE) is None
    # A generation would have to end at `low`, and the only footer is not between the two.
    assert find_generation(data, low + 1, high, file=pm.FILE) is None
    assert find_generation(data, low, low, file=pm.FILE) is None


def test_a_torn_orphan_is_dead_up_to_the_next_block() -> None:
    data = pm.file(footer=pm.facts(10_000))
    committed = pm.newest(data)
    gap = b"\xee" * 100
    new = append_generation(
        PLAIN,
        append_point(data + gap, committed, base_bytes=len(data) + 100),
        [pm.row_group(PLAIN, 1)],
        pm.facts(30_000),
    )
    whole = pm.publish(data + gap + new)
    block = pm.read(whole, 30_000).blocks[0].offset_bytes
    assert dead(whole, 30_000) == block - len(data)


def test_the_interval_of_a_block_ends_with_its_last_bitset() -> None:
    of = pm.header(pm.TIMESTAMP, pm.UUID, bloom_columns=(0, 1))
    data = pm.file(of, pm.row_group(of, blooms=(b"x" * 32, b"y" * 5)), pm.row_group(of, 1))
    metadata = pm.read(data)
    first, second = block_intervals(data, metadata, file=pm.FILE)
    bitsets = bitset_intervals(data, metadata, file=pm.FILE)
    assert [(ordinal, position, end - start) for ordinal, position, (start, end) in bitsets] == [(0, 0, 36), (0, 1, 9)]
    assert first == (metadata.blocks[0].offset_bytes, bitsets[1][2][1])
    assert second == (metadata.blocks[1].offset_bytes, metadata.blocks[1].end_bytes)
    assert metadata.blocks[0].end_bytes == bitsets[0][2][0]


@pytest.mark.parametrize("name", golden_data.AFTER_RESTARTS)
def test_the_orphan_that_a_restarted_server_jumped_is_dead(questdb_data: Path, name: str) -> None:
    path = questdb_data / name / "table" / "2024-01-01.2" / "_pm"
    content = path.read_bytes()
    data = content[: layout.Header.unpack(content, 0, file=name).parquet_meta_file_size]
    token = pm.newest(data).token
    assert dead(data, token, file_size_bytes=len(content)) == DEAD_AFTER_RESTART[Path(name).name]
    assert len(reached(data, token)) == 2


@pytest.mark.parametrize("name", [each for each in golden_data.CRASHES if "rewrite" not in each])
def test_the_orphan_of_a_killed_server_is_dead_and_the_committed_generation_is_found(
    questdb_data: Path, name: str
) -> None:
    folder = questdb_data / name
    state = json.loads((folder / "expected.json").read_text())["state"]
    [match] = re.findall(r"data\+(\d+)", state)
    [partition] = (folder / "table").glob("2024-01-01.*")
    data = (partition / "_pm").read_bytes()
    # `expected.json` has the number of bytes behind the committed token.
    token = (partition / "data.parquet").stat().st_size - int(match)
    resolved = resolve(data, token, file=name)
    assert resolved.orphan_count == int("orphan" in state)
    assert dead(data, token) == len(data) - resolved.position.end_bytes
    assert (dead(data, token) > 0) == ("orphan" in state)


def test_the_crash_images_hold_orphans(questdb_data: Path) -> None:
    states = [json.loads((questdb_data / name / "expected.json").read_text())["state"] for name in golden_data.CRASHES]
    assert sum("orphan" in state for state in states) >= 11
    assert {Path(name).name for name in golden_data.AFTER_RESTARTS} == DEAD_AFTER_RESTART.keys()
