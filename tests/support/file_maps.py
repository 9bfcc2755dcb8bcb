"""What every map of a file in a finding is like."""

from typing import Any

from tornproof.harness.counterexamples.byte_map import RANGE_COUNT_MAX

Map = dict[str, Any]


def is_whole(found: Map) -> bool:
    """Whether the ranges are those from 0 to the size, and what was read lies in them."""
    edges = [0, *(each["end"] for each in found["ranges"])]
    starts = [each["start"] for each in found["ranges"]]
    reads = [edge for each in found["read"] for edge in (each["start"], each["end"])]
    return (
        (starts, found["size_bytes"]) == (edges[:-1], edges[-1])
        and edges == sorted(set(edges))
        and reads == sorted(set(reads))
        and (not reads or reads[-1] <= found["size_bytes"])
        and len(found["ranges"]) <= RANGE_COUNT_MAX
    )
