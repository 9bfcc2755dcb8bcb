"""The encoder gives every generation of every real `_pm` byte for byte."""

from collections import Counter
from pathlib import Path
from typing import Any

import golden_archive
import pm_builder as pm
import pytest

import tornproof.impl.pm.encode as encode
from tornproof.harness.explorers.roundtrip.metadata import generations
from tornproof.harness.explorers.roundtrip.metadata.generations import Mismatch, RoundTrip, reencode_generations
from tornproof.impl.errors import CorruptError
from tornproof.impl.layout import pm as layout
from tornproof.impl.pm.block import OutOfLineOrder, encode_block

PM_FILES = tuple(name for name in golden_archive.member_names() if name.endswith(("/_pm", ".pm")))
GENERATIONS_AT_LEAST = {
    "after-restart": 37,
    "crashes": 339,
    "external": 47,
    "indexed": 5,
    "legacy": 12,
    "power-loss": 56,
    "server-mode": 2,
    "tables": 700,
    "vectors": 143,
}
# A killed rewrite leaves a `_pm` of no bytes.
EMPTY_COUNT = 4
FLIPPED = "power-loss/{}/pm-one-bit-flipped-in-a-committed-block/table/2024-01-01.1/_pm"
# Sorting columns that do not exist, and a header that names a generation of zeros.
REJECTED = {f"vectors/footer-sort-idx-{what}.pm" for what in ("neg.server", "neg.tool")}
REJECTED |= {f"vectors/footer-sort-idx-{what}.pm" for what in ("out-of-range.server", "out-of-range.tool")}
REJECTED |= {
    f"power-loss/{each}/pm-tail-zeros-header-new-txn-old/table/2024-01-01.1/_pm" for each in ("9.4.2", "2026-07")
}
BLOOM = "tables/9.4.2/bloom/table/2024-06-01.1/_pm"
ORPHAN = "after-restart/2026-07/sync-2-02/table/2024-01-01.2/_pm"


def published(path: Path) -> bytes:
    content = path.read_bytes()
    return content[: layout.Header.unpack(content, 0, file=str(path)).parquet_meta_file_size]


def test_every_generation_of_every_real_file_is_encoded_to_its_own_bytes(questdb_data: Path) -> None:
    done: dict[str, RoundTrip] = {}
    rejected = set()
    filled = [name for name in PM_FILES if (questdb_data / name).stat().st_size]
    for name in filled:
        try:
            done[name] = reencode_generations(published(questdb_data / name), file=name)
        except CorruptError:
            rejected.add(name)
    assert len(PM_FILES) >= 433
    assert len(PM_FILES) - len(filled) == EMPTY_COUNT
    assert rejected == REJECTED
    counts: Counter[str] = Counter()
    for name, result in done.items():
        counts[name.split("/")[0]] += result.generation_count
    assert {folder: counts[folder] for folder in counts if counts[folder] < GENERATIONS_AT_LEAST[folder]} == {}
    assert counts.keys() == GENERATIONS_AT_LEAST.keys()
    # One generation holds the flipped bit; its writer would have written another checksum.
    rot = (Mismatch(generation_end_bytes=1204, offset_bytes=1196),)
    assert {name: result.mismatches for name, result in done.items() if result.mismatches} == {
        FLIPPED.format("9.4.2"): rot,
        FLIPPED.format("2026-07"): rot,
    }


def other_order(num_rows: int, chunks: Any, bitsets: Any, order: OutOfLineOrder) -> Any:
    other = OutOfLineOrder.BY_COLUMN if order is OutOfLineOrder.STATISTICS_FIRST else OutOfLineOrder.STATISTICS_FIRST
    return encode_block(num_rows, chunks, bitsets, other)


def rows_off_by_one(num_rows: int, chunks: Any, bitsets: Any, order: OutOfLineOrder) -> Any:
    return encode_block(num_rows + 1, chunks, bitsets, order)


def one_short(parquet_meta_file_size: int) -> bytes:
    return encode.patch_header(parquet_meta_file_size - 1)


@pytest.mark.parametrize(
    ("module", "name", "mutant"),
    [
        pytest.param(encode, "encode_block", other_order, id="out-of-line order"),
        pytest.param(encode, "encode_block", rows_off_by_one, id="row count"),
        pytest.param(encode, "CHECKSUM_START", 0, id="checksum over the size"),
        pytest.param(encode, "CHECKSUM_BYTES", 0, id="footer length without checksum"),
        pytest.param(layout, "BLOCK_ALIGNMENT_BYTES", 16, id="alignment"),
        pytest.param(generations, "patch_header", one_short, id="published size"),
    ],
)
def test_a_mutated_encoder_is_noticed(
    questdb_data: Path, monkeypatch: pytest.MonkeyPatch, module: Any, name: str, mutant: Any
) -> None:
    data = published(questdb_data / BLOOM)
    assert reencode_generations(data, file=BLOOM) == RoundTrip(generation_count=3, mismatches=())
    monkeypatch.setattr(module, name, mutant)
    assert reencode_generations(data, file=BLOOM).mismatches


def test_a_generation_that_skips_an_orphan_is_encoded_after_it(
    questdb_data: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    data = published(questdb_data / ORPHAN)
    assert reencode_generations(data, file=ORPHAN).mismatches == ()
    monkeypatch.setattr(generations, "find_generation", lambda *_, **__: None)
    assert reencode_generations(data, file=ORPHAN).mismatches == (
        Mismatch(generation_end_bytes=8536, offset_bytes=7128),
    )


def test_a_mismatch_names_the_generation_and_the_first_byte() -> None:
    data = pm.chain_of(10_000, 20_000)
    position = pm.newest(data)
    changed = pm.set_field(data, layout.Trailer, position.checksum_offset, "checksum", position.trailer.checksum ^ 1)
    assert reencode_generations(changed, file=pm.FILE) == RoundTrip(
        generation_count=2,
        mismatches=(Mismatch(generation_end_bytes=len(data), offset_bytes=position.checksum_offset),),
    )


@pytest.mark.parametrize("longer", [True, False])
def test_a_comparison_that_is_blind_to_one_kind_of_end_fails_the_control(
    longer: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    seen = generations._first_difference

    def blind(encoded: bytes, content: bytes) -> int | None:
        return None if encoded != content and (len(encoded) > len(content)) is longer else seen(encoded, content)

    monkeypatch.setattr(generations, "_first_difference", blind)
    assert "too early or too late" in generations.failed_controls(pm.chain_of(10_000), file=pm.FILE)[0]
