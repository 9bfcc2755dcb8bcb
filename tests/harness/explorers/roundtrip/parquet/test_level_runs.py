"""Nulls are read from all runs that say them; readers that make runs as long as they claim to be are found."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from replayed import first_that_replays

from tornproof.harness.common.patch import wrapped
from tornproof.harness.explorers.roundtrip.parquet import level_runs
from tornproof.harness.explorers.roundtrip.parquet.level_runs import Run, failed_controls

RUNS = "tornproof.impl.chunk.duplicate_pages:_runs"


def test_runs_are_those_of_the_specification() -> None:
    """The packed one is the example of Encodings.md, with one bit for each level instead of three."""
    assert Run(8, 1).encoded() == b"\x10\x01"
    assert Run(1, packed=[1, 0, 1, 1, 0, 0, 0, 1]).encoded() == b"\x03\x8d"
    assert Run(200, 1).encoded() == b"\x90\x03\x01"
    assert Run(8, 1, number_bytes=5).encoded() == b"\x90\x80\x80\x80\x00\x01"


def with_long_runs(runs_of: Any) -> Any:
    """Return what also makes the first run as long as it claims to be."""

    def runs(levels: Any, *of: Any) -> Any:
        head = [byte & 127 for byte in levels[:4]]
        np.ones(sum(byte << 7 * number for number, byte in enumerate(head)) >> 1, np.bool_)
        return runs_of(levels, *of)

    return runs


@pytest.mark.parametrize(
    ("wrap", "words"),
    [
        (with_long_runs, "bytes of memory"),
        (lambda _: lambda levels, count, *of: [np.ones(count, np.bool_)], "it is rejected"),
    ],
)
def test_a_reader_of_other_runs_is_found_and_replays(wrap: Any, words: str) -> None:
    findings = first_that_replays("levels", wrapped(RUNS, wrap))
    assert any(words in each.sentence for each in findings)


@pytest.mark.parametrize(("name", "substitute"), [("PEAK_BYTES_MAX", 1 << 40), ("problem_of", lambda case: None)])
def test_a_blind_look_is_noticed(monkeypatch: pytest.MonkeyPatch, name: str, substitute: object) -> None:
    monkeypatch.setattr(level_runs, name, substitute)
    assert [*failed_controls()]
