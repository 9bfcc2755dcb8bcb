"""Files of native partitions are judged row by row; other widths, limits and names are noticed."""

from __future__ import annotations

import pytest
from depth import sampled
from replayed import first_that_replays

from tornproof.harness.common.patch import replaced
from tornproof.harness.explorers.roundtrip.native.native_columns import CONTENT_BYTES_MAX, TAGS, _judged, native_columns
from tornproof.impl.types.questdb import TypeTag
from tornproof.impl.verify import native


def test_native_partitions_are_judged_as_their_rows_are() -> None:
    assert {tag.name: tag.value for tag in TypeTag} == TAGS
    assert CONTENT_BYTES_MAX == native.CONTENT_LIMIT_BYTES


def test_every_kind_of_problem_and_sound_columns_of_every_type_are_among_them() -> None:
    fields = {each[1].partition(" ")[0] for case in native_columns() for each in _judged(case, is_quick=False)}
    assert fields == {"directory", "file", "size", "key", "position", "column", ""}
    assert {tag for case in native_columns() if case.is_sound for tag in case.tags} == {*TAGS.values()}


@pytest.mark.parametrize(
    ("location", "broken"),
    sampled(1, [("VARCHAR_SIZE_SHIFT_BITS", 3), ("CONTENT_LIMIT_BYTES", 1 << 37), ("suffixed", lambda name, _: name)]),
)
def test_other_checks_are_noticed_and_their_findings_replay(location: str, broken: object) -> None:
    first_that_replays("native", replaced(f"tornproof.impl.verify.native:{location}", broken))


def test_texts_of_one_size_are_tried_with_each_flag() -> None:
    tried = {flags for flags in range(16) for each in native_columns() if f", 20 bytes, flags {flags} at" in each.name}
    assert tried == {0, 1, 2, 4, 8, 15}
