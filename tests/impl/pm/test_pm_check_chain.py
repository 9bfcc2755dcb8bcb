"""A chain is checked generation by generation, and what one shares with a newer one is looked into once."""

import pm_builder as pm
import pytest
from msgspec.structs import replace

from tornproof.impl.pm.chain import Metadata, decode_chain
from tornproof.impl.pm.check import check_metadata
from tornproof.impl.pm.encode import NewRowGroup
from tornproof.impl.pm.statistics import in_order, value_of
from tornproof.impl.types.questdb import TypeTag

PLAIN = pm.header()


def overlapping(ordinal: int = 0) -> NewRowGroup:
    """A row group whose second chunk starts inside of the first."""
    sound = pm.row_group(PLAIN, ordinal)
    first, second = sound.chunks
    return replace(sound, chunks=(first, replace(second, byte_range_start=first.byte_range_start + 50)))


def generations(data: bytes) -> tuple[Metadata, Metadata]:
    newer, older = decode_chain(data, file=pm.FILE, end_bytes=len(data))
    return newer, older


def fields(data: bytes, metadata: Metadata, newer: Metadata | None = None) -> list[str]:
    return [problem.field for problem in check_metadata(data, metadata, file=pm.FILE, newer=newer)]


def test_overlapping_ranges_of_a_block_that_the_newer_generation_dropped_are_found() -> None:
    data = pm.append(
        pm.file(PLAIN, overlapping(), footer=pm.facts(10_000)),
        pm.row_group(PLAIN, 1),
        footer=pm.facts(20_000),
        reuse=False,
    )
    newer, older = generations(data)
    assert fields(data, newer) == []
    assert fields(data, older, newer) == ["BYTE_RANGE_START of column 'v' of row group 0"]
    sound = pm.append(
        pm.file(PLAIN, footer=pm.facts(10_000)), pm.row_group(PLAIN, 1), footer=pm.facts(20_000), reuse=False
    )
    newer, older = generations(sound)
    assert fields(sound, older, newer) == fields(sound, newer) == []


def test_rows_out_of_order_in_a_block_that_the_newer_generation_dropped_are_found() -> None:
    first = pm.file(PLAIN, pm.row_group(PLAIN, 1), pm.row_group(PLAIN, 0), footer=pm.facts(10_000))
    data = pm.append(first, pm.row_group(PLAIN, 2), footer=pm.facts(20_000), reuse=False)
    newer, older = generations(data)
    assert fields(data, older, newer) == ["MIN_STAT of column 'ts' of row group 1"]


def test_a_block_that_both_have_is_named_once() -> None:
    data = pm.append(
        pm.file(PLAIN, overlapping(), footer=pm.facts(10_000)), pm.row_group(PLAIN, 1), footer=pm.facts(20_000)
    )
    newer, older = generations(data)
    assert fields(data, newer) == ["BYTE_RANGE_START of column 'v' of row group 0"]
    assert fields(data, older, newer) == []
    assert fields(data, older) == ["BYTE_RANGE_START of column 'v' of row group 0"]


@pytest.mark.parametrize(
    ("tag", "low", "high", "is_ordered"),
    [
        (TypeTag.CHAR, 1, 40_000, True),
        (TypeTag.CHAR, 40_000, 1, False),
        # A writer that widens 16 bits with their sign makes 32,768 and more look negative.
        (TypeTag.CHAR, 1, -32_768, True),
        (TypeTag.CHAR, -1, 32_767, False),
        (TypeTag.IPV4, 1, -1, True),
        (TypeTag.IPV4, -1, 1, False),
        (TypeTag.INT, 1, -1, False),
        (TypeTag.INT, -1, 1, True),
        (TypeTag.SHORT, 1, -32_768, False),
    ],
)
def test_characters_and_addresses_are_compared_without_sign(
    tag: TypeTag, low: int, high: int, is_ordered: bool
) -> None:
    column = pm.column("x", tag, physical_type=1)
    bounds = [value_of(column, bound.to_bytes(4, "little", signed=True)) for bound in (low, high)]
    assert bounds[0] is not None and bounds[1] is not None
    assert in_order(column, bounds[0], bounds[1]) is is_ordered
