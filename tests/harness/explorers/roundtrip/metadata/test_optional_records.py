"""What is optional may be damaged; a reader that rejects it, or takes it for right, is found, a blind look noticed."""

from __future__ import annotations

from typing import Any

import pytest
from replayed import first_that_replays

from tornproof.harness.common.patch import wrapped
from tornproof.harness.explorers.roundtrip.forms import is_same, opened
from tornproof.harness.explorers.roundtrip.metadata import optional_records as module
from tornproof.harness.explorers.roundtrip.metadata.optional_records import failed_controls, flipped_bits
from tornproof.impl.chunk.duplicate_values import ChunkSource
from tornproof.impl.errors import CorruptError


def test_damage_of_each_record_and_each_second_chunk_leaves_the_file_readable() -> None:
    assert {each.kind for each in flipped_bits()} == {"a record", "a second chunk"}
    assert len({each.bit for each in flipped_bits()}) == len(flipped_bits()) > 500


def rejecting(_: Any) -> Any:
    def difference(*_: Any) -> Any:
        raise CorruptError("data.parquet", "checksum", 0, 1, 2)

    return difference


def test_a_reader_that_rejects_the_file_is_found_and_replays() -> None:
    findings = first_that_replays("optional", wrapped("tornproof.impl.chunk.duplicates:Duplicate", rejecting))
    assert "a record" in findings[0].sentence


def test_a_blind_look_is_noticed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "_problem_in", lambda _: None)
    assert [*failed_controls()] == [
        "no damage: not noticed",
        "other values: not noticed",
        "other values of the old chunk: not noticed",
    ]


def test_the_file_has_both_chunks_of_each_column() -> None:
    sources = [source for _, sources, _ in module._columns().values() for source in sources]
    assert sources == [ChunkSource.DUPLICATE] * 4


def test_a_look_that_leaves_out_what_is_read_from_old_chunks_is_noticed(monkeypatch: pytest.MonkeyPatch) -> None:
    seen, read = module._problem_in, vars(module)

    def problem_in(content: bytes) -> str | None:
        expected = read["_columns"]()
        others = {
            name: column
            for name, column in read["columns_of"](content, opened(content)).items()
            if ChunkSource.OLD not in column[1]
        }
        if any(not is_same(column[0], expected[name][0]) for name, column in others.items()):
            return "one of the others has other values"
        said = seen(content)
        return None if said is None or "other values" in said else said

    monkeypatch.setattr(module, "_problem_in", problem_in)
    assert [*failed_controls()] == ["other values of the old chunk: not noticed"]
