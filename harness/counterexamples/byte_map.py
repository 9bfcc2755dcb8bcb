"""The state of each byte of a file, by fields: what a power cut could lose, or what it lost."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import suppress
from itertools import pairwise
from typing import Any, NamedTuple, TypeVar

import numpy as np
import numpy.typing as npt

from tornproof.harness.counterexamples.regions import UNREACHED, RegionMap, own_fields, pm_regions, txn_regions
from tornproof.harness.simulator.filesystem.file_state import FileState
from tornproof.harness.simulator.filesystem.image import DiskImage
from tornproof.harness.simulator.filesystem.kernel import Kernel, entries_of
from tornproof.harness.simulator.persistence.legal_disks import Disk
from tornproof.harness.simulator.process.case import TestCase
from tornproof.impl.errors import TornproofError
from tornproof.impl.table.partition import PM_FILE, resolve_partition
from tornproof.impl.table.table import open_table
from tornproof.impl.txn.transaction import TXN_FILE

SCALAR_BYTES = 8
"""A field of up to this size has one state."""
RANGE_COUNT_MAX = 400
GAP_BYTES = 8
"""Changes this near to each other are one range."""
FIELDS_MAX = 4
SEVERAL = "several fields"
STATES = ("durable", "written", "kept", "lost", "torn", "no name")
DURABLE, WRITTEN, KEPT, LOST, TORN, NO_NAME = range(len(STATES))
"""Before a power cut bytes are durable, or written to the page cache; after one, written bytes are kept, lost, torn (a
part of both), or in a file that lost its name."""
_GROUP = re.compile(r"((?:newest generation: )?row group \d+) .*|([a-z]+) [A-Z][A-Z0-9_]*")

States = npt.NDArray[np.uint8]
Each = TypeVar("Each")


class Range(NamedTuple):
    """Bytes [start, end) with one state and one field."""

    start: int
    end: int
    state: int
    field: str


def states_before(state: FileState, *, has_name: bool) -> States:
    """Return the state of each byte of a file in the page cache; without a durable name nothing of it is durable."""
    size_bytes = len(state.content)
    latest = padded(state.content, size_bytes)
    is_loose = np.full(size_bytes, not has_name)
    for version in state.versions:
        is_loose |= padded(version, size_bytes) != latest
    return np.where(is_loose, WRITTEN, DURABLE).astype(np.uint8)


def states_after(state: FileState, left: bytes, *, has_name: bool) -> States:
    """Return the state of each byte of a file after a power cut that left this content."""
    size_bytes = max(len(state.content), len(left))
    old, new, held = (padded(each, size_bytes) for each in (state.versions[0], state.content, left))
    is_kept, is_lost = held == new, held == old
    states = np.select([is_kept & is_lost, is_kept, is_lost], [DURABLE if has_name else KEPT, KEPT, LOST], TORN)
    return states.astype(np.uint8)


def whole(state: int, size_bytes: int) -> States:
    """Return one state for all bytes."""
    return np.full(size_bytes, state, np.uint8)


def file_map(file: str, states: States, fields: RegionMap | None, read: Iterable[tuple[int, int]]) -> dict[str, Any]:
    """Return a file's bytes as JSON: ranges from 0 to its size, and which of them were read.

    A field that is kept in part and lost in part is torn. Above `RANGE_COUNT_MAX` ranges, the document is "coarse":
    fields are named by their kind, and if that is not enough, neighbours are joined.
    """
    size_bytes = len(states)
    labels = [""] * size_bytes if fields is None else list(map(fields.label, range(size_bytes)))
    ranges = _merged(each for run in _runs(labels) for each in _in_field(states, run, labels[run[0]]))
    reads = merged_ranges((start, min(end, size_bytes)) for start, end in read)
    document: dict[str, Any] = {"file": file, "size_bytes": size_bytes}
    if max(len(ranges), len(reads)) > RANGE_COUNT_MAX:
        ranges = _merged(each._replace(field=_kind(each.field)) for each in ranges)
        ranges = _in_groups(ranges, _joined)
        reads = _in_groups(reads, lambda group: (group[0][0], group[-1][1]))
        document["coarse"] = True
    document["ranges"] = [{**each._asdict(), "state": STATES[each.state]} for each in ranges]
    document["read"] = [{"start": start, "end": end} for start, end in reads]
    return document


def merged_ranges(ranges: Iterable[tuple[int, int]]) -> list[tuple[int, int]]:
    """Return the ranges in order, without empty ones; those that touch or overlap are joined."""
    merged: list[tuple[int, int]] = []
    for start, end in sorted(each for each in ranges if each[0] < each[1]):
        if merged and start <= merged[-1][1]:
            merged[-1] = merged[-1][0], max(end, merged[-1][1])
        else:
            merged.append((start, end))
    return merged


def padded(content: bytes, size_bytes: int) -> npt.NDArray[np.int16]:
    """Return a file's bytes up to a size; -1 past its end."""
    padded = np.full(size_bytes, -1, np.int16)
    padded[: len(content)] = np.frombuffer(content, np.uint8, min(len(content), size_bytes))
    return padded


def _runs(values: Sequence[object]) -> Iterable[tuple[int, int]]:
    """Yield the ranges of indexes with equal values."""
    edges = [index for index in range(1, len(values)) if values[index] != values[index - 1]]
    return pairwise([0, *edges, len(values)]) if values else ()


def _in_field(states: States, run: tuple[int, int], label: str) -> list[Range]:
    """Return the ranges of one field: one state if it is small or torn, else without small gaps."""
    first, last = run
    held = states[first:last].tolist()
    changed = set(held) - {DURABLE}
    if label and last - first <= SCALAR_BYTES and changed:
        held = [TORN if len(changed) > 1 else changed.pop()] * len(held)
    elif label and label not in UNREACHED and {KEPT, LOST} <= changed:
        # Bytes that nothing refers to are not a field, and cannot be torn.
        held = [state if state == DURABLE else TORN for state in held]
    ranges = [Range(first + start, first + end, held[start], label) for start, end in _runs(held)]
    for index in range(1, len(ranges) - 1):
        if ranges[index].state == DURABLE and ranges[index].end - ranges[index].start < GAP_BYTES:
            ranges[index] = ranges[index]._replace(state=ranges[index - 1].state)
    return ranges


def _merged(ranges: Iterable[Range]) -> list[Range]:
    merged: list[Range] = []
    for each in ranges:
        if merged and merged[-1][2:] == each[2:]:
            merged[-1] = merged[-1]._replace(end=each.end)
        else:
            merged.append(each)
    return merged


def _kind(label: str) -> str:
    """Return the row group or the record that a field is in."""
    found = _GROUP.fullmatch(label)
    return label if found is None else found[1] or found[2]


def _in_groups(ranges: Sequence[Each], join: Callable[[Sequence[Each]], Each]) -> list[Each]:
    """Join neighbours until there are no more than `RANGE_COUNT_MAX`."""
    width = -(-len(ranges) // RANGE_COUNT_MAX) or 1
    return [join(ranges[start : start + width]) for start in range(0, len(ranges), width)]


def _joined(group: Sequence[Range]) -> Range:
    """Return neighbours as one range; of several states, one that is not durable, or torn."""
    states, fields = {each.state for each in group}, {each.field for each in group}
    if len(states) > 1:
        states = {WRITTEN} if states <= {DURABLE, WRITTEN} else states - {DURABLE}
    state = states.pop() if len(states) == 1 else TORN
    return Range(group[0].start, group[-1].end, state, fields.pop() if len(fields) == 1 else SEVERAL)


def crash_ranges(kernel: Kernel, disk: Disk, case: TestCase) -> list[dict[str, Any]]:
    """Return the ranges of each file that were not durable at a power cut, with their state after it.

    "kept" is on disk though no sync had returned, "lost" is as before, "torn" is a part of both or neither. A file
    whose name is not on disk has the state "no name", and one whose name leads to another file there "old name". Names
    that were removed or moved, but not on disk, come last.
    """
    image, path = kernel.image(), case.path
    regions = dict(_regions(image, path)) | own_fields(case.target, image, path)
    left = disk.files()
    ranges: list[dict[str, Any]] = []
    for file_path, number in sorted(kernel.paths()):
        state = kernel.files[number]
        file = file_path.removeprefix(f"{path}/")
        if file_path not in left:
            ranges.append({"file": file, "start": 0, "end": len(state.content), "state": "no name", "fields": []})
            continue
        if len(state.versions) == 1 and left[file_path] != state.content:
            ranges.append({"file": file, "start": 0, "end": len(state.content), "state": "old name", "fields": []})
        for start, end in differences(state.versions[0], state.content):
            found = {"file": file, "start": start, "end": end}
            found["state"] = _state_after(state.versions[0], state.content, left[file_path], start, end)
            ranges.append({**found, "fields": _fields(regions.get(file_path), start, end)})
    return [*ranges, *_names_left(kernel, disk.kernel(), f"{path}/")]


def _names_left(kernel: Kernel, left: Kernel, prefix: str) -> Iterator[dict[str, Any]]:
    """Yield the names on disk that were no longer there before a power cut, of directories without what is in them.

    One whose file or directory has another name on disk, as a rename may leave, has the state "both names", any other
    one "not removed".
    """
    there = {path for path, _ in entries_of(kernel.directories)}
    names = sorted(entries_of(left.directories))
    counts = Counter(number for _, number in names)
    for path, number in names:
        above = path.rpartition("/")[0]
        if path not in there and (not above or above in there):
            size_bytes = len(left.files[number].content) if number in left.files else 0
            state = "both names" if counts[number] > 1 else "not removed"
            yield {"file": path.removeprefix(prefix), "start": 0, "end": size_bytes, "state": state, "fields": []}


def differences(old: bytes, new: bytes) -> Iterator[tuple[int, int]]:
    """Yield the ranges in which two contents differ; the part past the end of the shorter one is its own range."""
    shared = min(len(old), len(new))
    offsets = np.flatnonzero(np.frombuffer(old, np.uint8, shared) != np.frombuffer(new, np.uint8, shared))
    for group in np.split(offsets, np.flatnonzero(np.diff(offsets) > GAP_BYTES) + 1):
        if len(group):
            yield int(group[0]), int(group[-1]) + 1
    if len(old) != len(new):
        yield shared, max(len(old), len(new))


def _state_after(old: bytes, new: bytes, left: bytes, start: int, end: int) -> str:
    held = left[start:end]
    if held == new[start:end]:
        return "kept"
    return "lost" if held == old[start:end] else "torn"


def _fields(regions: RegionMap | None, start: int, end: int) -> list[str]:
    if regions is None:
        return []
    labels = list(dict.fromkeys(filter(None, map(regions.label, range(start, end)))))
    return labels if len(labels) <= FIELDS_MAX else [*labels[: FIELDS_MAX - 1], f"{len(labels) - FIELDS_MAX + 1} more"]


def _regions(image: DiskImage, path: str) -> Iterator[tuple[str, RegionMap]]:
    """Yield the region maps of the files that decode, as they are in the page cache."""
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
