"""Pages of packed vectors as other writers could make them are read as what they are; other readers are noticed."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from msgspec import structs
from replayed import first_that_replays

from tornproof.harness.common.patch import replaced
from tornproof.harness.explorers.roundtrip.explorer import findings_of
from tornproof.harness.explorers.roundtrip.parquet import packed_vectors
from tornproof.harness.explorers.roundtrip.parquet.packed_vectors import LOG_SIZES, failed_controls, packed, pages
from tornproof.harness.explorers.roundtrip.parts import part_of
from tornproof.impl.extension import vectors
from tornproof.impl.extension.bit_packing import unpack
from tornproof.impl.extension.vectors import Vectors, encode_vectors


def test_pages_of_all_sizes_are_read_and_a_reader_without_exceptions_is_noticed() -> None:
    assert LOG_SIZES == vectors.LOG_VECTOR_SIZES
    widths = {(page.type, width) for page in pages() for _, width in page.parts()}
    assert all(sum(of == page.type for of, _ in widths) > 8 for page in pages())


def divided(integers: Any, scale: Any, precision: Any) -> Any:
    """Return almost the same as two multiplications do."""
    powers = precision.powers("")
    return integers.astype(precision.value) * powers[scale.factor] / powers[scale.exponent]


@pytest.mark.parametrize(
    ("location", "broken"),
    [
        ("tornproof.impl.extension.vectors:unpack", lambda content, width, count: unpack(content, width, count) ^ 1),
        ("tornproof.impl.extension.alp:values_of", lambda rows, _: rows.reshape(-1)),
        ("tornproof.impl.extension.alp:_decimals", divided),
    ],
)
def test_a_reader_of_something_else_is_noticed_and_its_findings_replay(location: str, broken: object) -> None:
    first_that_replays("packed", replaced(location, broken))


@pytest.mark.nightly
@pytest.mark.parametrize("of", ["alp", "pfor"])
def test_a_writer_that_loses_bits_is_noticed_and_its_findings_replay(of: str) -> None:
    def narrowed(vectors: Vectors) -> bytes:
        return encode_vectors(structs.replace(vectors, numbers=vectors.numbers >> np.uint64(1) << np.uint64(1)))

    findings = first_that_replays("packed", replaced(f"tornproof.impl.extension.{of}:encode_vectors", narrowed))
    assert all(each.sentence.startswith("A page with what we pack of values") for each in findings)


@pytest.mark.parametrize(("of", "others"), [("alp", "i"), ("pfor", "f")])
def test_what_we_pack_of_integers_does_not_stand_in_for_floats_nor_they_for_integers(
    of: str, others: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    left = tuple(each for each in packed() if each.type[1] == others)
    monkeypatch.setattr(packed_vectors, "packed", lambda: left)
    assert [*failed_controls()] == [f"numbers of {of} take a bit less: not noticed"]


@pytest.mark.nightly
def test_a_reader_that_decodes_only_the_first_block_is_noticed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(packed_vectors, "SMALL_BLOCK_VALUES", 1 << 17)
    assert [*findings_of(part_of("packed"))] == []
    monkeypatch.undo()
    first = vectors.decode_vectors
    with replaced("tornproof.impl.extension.pfor:decode_vectors", lambda *a, **k: iter([next(first(*a, **k))])):
        assert len([*findings_of(part_of("packed"))]) > len(pages()) // 4


@pytest.mark.nightly
def test_a_reader_that_believes_widths_and_counts_is_noticed() -> None:
    with replaced("tornproof.impl.extension.vectors:LOG_VECTOR_SIZES", range(17)):
        findings = [*findings_of(part_of("packed"))]
        assert any("2^2 values a vector" in each.sentence for each in findings)
