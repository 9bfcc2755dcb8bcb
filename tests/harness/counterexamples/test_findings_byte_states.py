"""States of bytes follow from what the disk can hold, and a map made of them is whole whatever the file is."""

import kernel_programs
import numpy as np
import pytest
from file_maps import Map, is_whole
from hypothesis import given
from hypothesis import strategies as st

from tornproof.harness.counterexamples.byte_map import (
    DURABLE,
    KEPT,
    LOST,
    RANGE_COUNT_MAX,
    SEVERAL,
    STATES,
    TORN,
    WRITTEN,
    file_map,
    merged_ranges,
    states_after,
    states_before,
)
from tornproof.harness.counterexamples.regions import PAST_TOKEN, Region, RegionMap
from tornproof.harness.counterexamples.state_recorder import _durable_paths
from tornproof.harness.simulator.filesystem.file_state import FileState
from tornproof.harness.simulator.filesystem.image import DiskImage
from tornproof.harness.simulator.filesystem.kernel import Kernel

# Of few values, so that a byte is often as it was in one version and not in another.
CONTENT = st.lists(st.integers(0, 2), max_size=24).map(bytes)
REGIONS = st.builds(Region, st.integers(0, 24), st.integers(0, 30), st.sampled_from(["a", "b", PAST_TOKEN, ""]))


@given(CONTENT, st.lists(CONTENT, min_size=1, max_size=3), st.booleans())
def test_bytes_are_durable_where_the_disk_can_hold_nothing_else(new: bytes, versions: list[bytes], named: bool) -> None:
    states = states_before(FileState(new, tuple(versions)), has_name=named)
    for offset, state in enumerate(states.tolist()):
        sure = named and all(version[offset : offset + 1] == new[offset : offset + 1] for version in versions)
        assert state == (DURABLE if sure else WRITTEN)


@given(CONTENT, CONTENT, CONTENT)
def test_a_byte_is_kept_or_lost_by_what_is_left_of_it(old: bytes, new: bytes, left: bytes) -> None:
    states = states_after(FileState(new, (old, new)), left, has_name=True)
    assert len(states) == max(len(new), len(left))
    for offset, state in enumerate(states.tolist()):
        was, written, held = (each[offset : offset + 1] for each in (old, new, left))
        assert (state in (DURABLE, KEPT), state in (DURABLE, LOST)) == (held == written, held == was)


@given(CONTENT, CONTENT, CONTENT, st.lists(REGIONS), st.lists(st.tuples(st.integers(0, 30), st.integers(0, 30))))
def test_a_map_is_whole_whatever_the_file_is(
    old: bytes, new: bytes, left: bytes, regions: list[Region], read: list[tuple[int, int]]
) -> None:
    states = states_after(FileState(new, (old, new)), left, has_name=False)
    found = file_map("f", states, RegionMap(regions, len(states), "rest"), read)
    assert is_whole(found)
    marked = {offset for each in found["read"] for offset in range(each["start"], each["end"])}
    assert marked == {offset for start, end in read for offset in range(start, min(end, len(states)))}


def states_of(old: bytes, new: bytes, left: bytes, *regions: Region) -> list[tuple[int, int, str]]:
    states = states_after(FileState(new, (old, new)), left, has_name=True)
    found = file_map("f", states, RegionMap(regions, len(states), ""), ())
    return [(each["start"], each["end"], each["state"]) for each in found["ranges"]]


def test_a_field_of_which_a_part_is_lost_is_torn_but_bytes_without_a_field_are_kept_and_lost() -> None:
    old, new, left = b"a" * 32, b"b" * 32, b"b" * 16 + b"a" * 16
    assert states_of(old, new, left, Region(0, 32, "record")) == [(0, 32, "torn")]
    halves = [(0, 16, "kept"), (16, 32, "lost")]
    assert states_of(old, new, left) == halves
    assert states_of(old, new, left, Region(0, 32, PAST_TOKEN)) == halves
    assert states_of(old, new, left, Region(0, 16, "one"), Region(16, 32, "other")) == halves
    assert states_of(old, new, b"c" * 32) == [(0, 32, "torn")]


def test_a_small_field_is_of_one_state_and_small_gaps_are_none() -> None:
    old, new = bytes(24), b"\1" + bytes(23)
    assert states_of(old, new, old, Region(0, 8, "size")) == [(0, 8, "lost"), (8, 24, "durable")]
    assert states_of(old, new, old) == [(0, 1, "lost"), (1, 24, "durable")]
    near, far = (b"\1" + bytes(gap) + b"\1" + bytes(22 - gap) for gap in (7, 8))
    assert states_of(old, near, near) == [(0, 9, "kept"), (9, 24, "durable")]
    assert [state for _, _, state in states_of(old, far, far)] == ["kept", "durable", "kept", "durable"]


def chunk_map(count: int, *states: int) -> Map:
    """Return the map of a file of `count` row groups with ten fields each, in these states by turns."""
    size_bytes = 10 * count
    regions = [
        Region(offset, offset + 1, f'row group {offset // 10} column "{offset % 10}"') for offset in range(size_bytes)
    ]
    by_turns = np.resize(np.array(states, np.uint8), size_bytes)
    read = [(offset, offset + 1) for offset in range(0, count, 2)]
    return file_map("f", by_turns, RegionMap(regions, size_bytes, ""), read)


def test_a_map_of_many_fields_is_coarse_and_still_whole() -> None:
    assert "coarse" not in chunk_map(RANGE_COUNT_MAX // 10, DURABLE)
    by_group = chunk_map(RANGE_COUNT_MAX // 10 + 1, DURABLE)
    assert by_group["coarse"] and is_whole(by_group)
    assert [each["field"] for each in by_group["ranges"][:2]] == ["row group 0", "row group 1"]
    joined = chunk_map(RANGE_COUNT_MAX + 1, WRITTEN)
    assert is_whole(joined) and {each["field"] for each in joined["ranges"][:-1]} == {SEVERAL}
    assert len(chunk_map(2 * RANGE_COUNT_MAX + 2, WRITTEN)["read"]) <= RANGE_COUNT_MAX


@pytest.mark.parametrize(
    ("states", "state"),
    [
        ((DURABLE, WRITTEN), WRITTEN),
        ((DURABLE, LOST), LOST),
        ((DURABLE, KEPT), KEPT),
        ((KEPT, LOST), TORN),
        ((KEPT, TORN), TORN),
    ],
)
def test_joined_ranges_show_that_something_was_not_durable(states: tuple[int, ...], state: int) -> None:
    found = chunk_map(RANGE_COUNT_MAX + 1, *states)
    assert is_whole(found) and {each["state"] for each in found["ranges"][:-1]} == {STATES[state]}


def test_reads_that_touch_are_one() -> None:
    assert merged_ranges([(4, 8), (0, 4), (2, 3), (10, 12), (9, 9)]) == [(0, 8), (10, 12)]


def test_a_name_is_durable_where_it_leads_to_the_same_file_on_disk() -> None:
    kernel = kernel_programs.machine()
    seen = []
    for call in (("create", "r/a"), ("syncdir", "r"), ("create", "r/b"), ("rename", "r/b", "r/a"), ("syncdir", "r")):
        assert kernel_programs.run(kernel, call)
        seen.append([*_durable_paths(kernel)])
    assert seen == [[], ["r/a"], ["r/a"], [], ["r/a"]]


def test_durable_names_of_directories_of_which_each_is_in_the_other_are_found_once() -> None:
    """A directory with two names, as after a power cut, leaves one that it was in, which is then moved into it."""
    kernel = Kernel.of(DiskImage({"p/d/f": b"x"}, frozenset({"p", "p/d"})))
    entry = (*kernel.way("q"), kernel.entry("p/d"))
    kernel.change_entries(entry)
    kernel.sync_entries(entry[0])
    for call in (("rename", "p/d", "z"), ("rename", "p", "q/p"), ("syncdir", "q")):
        assert kernel_programs.run(kernel, call)
    assert [*_durable_paths(kernel)] == ["q/f"]
