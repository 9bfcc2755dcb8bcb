"""Which bytes a power cut took: ranges that were not durable, what became of each, and the fields that they are."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import suppress
from typing import Any

import numpy as np

from tornproof.harness.counterexamples.regions import RegionMap, pm_regions, txn_regions
from tornproof.harness.simulator.filesystem.image import DiskImage
from tornproof.harness.simulator.filesystem.kernel import Kernel
from tornproof.harness.simulator.persistence.legal_disks import Disk
from tornproof.impl.errors import TornproofError
from tornproof.impl.table.partition import PM_FILE, resolve_partition
from tornproof.impl.table.table import open_table
from tornproof.impl.txn.transaction import TXN_FILE

GAP_BYTES = 8
"""Changes this near to each other are one range."""
FIELDS_MAX = 4


def crash_ranges(kernel: Kernel, disk: Disk, path: str) -> list[dict[str, Any]]:
    """Return, for each file that was not durable, ranges with what became of them.

    "kept" is on disk though nobody had waited for that, "lost" is as before, "torn" is a part of both or neither. Names
    that did not get to the disk are of the state "no name".
    """
    regions = dict(_regions(kernel.image(), path))
    left = disk.files()
    ranges: list[dict[str, Any]] = []
    for place, number in sorted(kernel.paths()):
        state = kernel.files[number]
        file = place.removeprefix(f"{path}/")
        if place not in left:
            ranges.append({"file": file, "start": 0, "end": len(state.content), "state": "no name", "fields": []})
            continue
        for start, end in _differences(state.versions[0], state.content):
            found = {"file": file, "start": start, "end": end}
            found["state"] = _fate(state.versions[0], state.content, left[place], start, end)
            ranges.append({**found, "fields": _fields(regions.get(place), start, end)})
    return ranges


def _differences(old: bytes, new: bytes) -> Iterator[tuple[int, int]]:
    """Yield the ranges in which two contents differ; what only one of them has is a range of its own."""
    shared = min(len(old), len(new))
    places = np.flatnonzero(np.frombuffer(old, np.uint8, shared) != np.frombuffer(new, np.uint8, shared))
    for group in np.split(places, np.flatnonzero(np.diff(places) > GAP_BYTES) + 1):
        if len(group):
            yield int(group[0]), int(group[-1]) + 1
    if len(old) != len(new):
        yield shared, max(len(old), len(new))


def _fate(old: bytes, new: bytes, left: bytes, start: int, end: int) -> str:
    held = left[start:end]
    if held == new[start:end]:
        return "kept"
    return "lost" if held == old[start:end] else "torn"


def _fields(regions: RegionMap | None, start: int, end: int) -> list[str]:
    if regions is None:
        return []
    labels = list(dict.fromkeys(regions.label(offset) for offset in range(start, end)))
    return labels if len(labels) <= FIELDS_MAX else [*labels[: FIELDS_MAX - 1], f"{len(labels) - FIELDS_MAX + 1} more"]


def _regions(image: DiskImage, path: str) -> Iterator[tuple[str, RegionMap]]:
    """Yield maps of the files that can be told apart as they stand in the page cache."""
    txn = f"{path}/{TXN_FILE}"
    if txn not in image.files:
        return
    with suppress(TornproofError):
        yield txn, txn_regions(image.files[txn])
        table = open_table(image, path)
        for partition in table.transaction().partitions:
            files = table.files_of(partition)
            with suppress(TornproofError):
                resolved = resolve_partition(files, partition)
                pm = f"{files.path}/{PM_FILE}"
                yield pm, pm_regions(resolved, len(image.files[pm]))
