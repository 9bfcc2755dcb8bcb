"""Chunks that are decoded together are what each is alone; others that take their place are noticed."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import pyarrow as pa
import pytest
from replayed import first_that_replays

from tornproof.harness.common.patch import wrapped
from tornproof.harness.explorers.roundtrip.parquet.chunks_together import CHANGES, COUNTS, chunks_together
from tornproof.impl.chunk.together import MANY_COUNT

MODULE = "tornproof.impl.chunk.together"


def test_chunks_are_together_what_each_is_alone() -> None:
    assert min(COUNTS) < MANY_COUNT < max(COUNTS)
    assert {each.change for each in chunks_together()} == {*CHANGES}
    assert {each.is_rejected for each in chunks_together()} == {True, False, None}


def last_first(decode: Callable[..., list[Any]]) -> Callable[..., list[Any]]:
    return lambda *arguments: decode(*arguments)[::-1]


def always_exact(are_exact: Callable[..., Sequence[bool]]) -> Callable[..., Sequence[bool]]:
    return lambda values, column, chunks: [True] * len(chunks)


def without_a_row(validated: Callable[..., pa.Array]) -> Callable[..., pa.Array]:
    return lambda column: validated(column).slice(1)


@pytest.mark.parametrize(
    ("function", "broken"), [("_decode", last_first), ("are_exact", always_exact), ("validated", without_a_row)]
)
def test_others_in_the_place_of_chunks_are_findings_that_replay(function: str, broken: Callable[..., Any]) -> None:
    first_that_replays("together", wrapped(f"{MODULE}:{function}", broken))
