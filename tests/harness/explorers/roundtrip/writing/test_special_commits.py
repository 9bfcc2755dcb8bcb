"""Commits to special tables leave what they should; writers that do not are found, and a blind look is noticed."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractContextManager
from typing import Any

import pyarrow as pa
import pytest
from depth import nightly
from replayed import kinds_that_replay

from tornproof.harness.common.patch import original_of, replaced, wrapped
from tornproof.harness.explorers.roundtrip.worked_out.question import problem_of
from tornproof.harness.explorers.roundtrip.writing import special_commits as module
from tornproof.harness.explorers.roundtrip.writing.special_commits import CHANGE, failed_controls, special_commits
from tornproof.impl.layout.txn import SymbolCount
from tornproof.impl.write.new_symbols import Dictionaries


def as_doubles(comparable: Callable[[pa.ChunkedArray], pa.Array]) -> Callable[[pa.ChunkedArray], pa.Array]:
    def compared(column: pa.ChunkedArray) -> pa.Array:
        values = comparable(column)
        return values.cast(pa.float64()) if pa.types.is_decimal(values.type) else values

    return compared


@pytest.mark.nightly
@pytest.mark.parametrize(
    ("location", "wrap", "kinds"),
    [
        ("tornproof.impl.write.incoming_rows:_comparable", as_doubles, {"keys"}),
        nightly(
            "tornproof.impl.write.partition_change:encode_options", lambda _: lambda *_: None, {"bounds", "renamed"}
        ),
        nightly("tornproof.impl.write.partition_change:excess_of", lambda _: lambda *_: None, {"filters"}),
    ],
)
def test_what_a_writer_does_otherwise_is_found_and_replays(
    location: str, wrap: Callable[[Any], Any], kinds: set[str]
) -> None:
    assert kinds_that_replay("special", wrapped(location, wrap)) == kinds


def test_a_blind_look_is_noticed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "problem_of", lambda _: None)
    assert len([*failed_controls()]) == 3


def test_a_writer_that_miscounts_symbols_only_where_there_were_some_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    count = Dictionaries._count

    def miscounted(dictionaries: Dictionaries, name: str, before: SymbolCount) -> SymbolCount:
        after = count(dictionaries, name, before)
        return after.changed(count=after.count - (0 < before.count < after.count))

    monkeypatch.setattr(Dictionaries, "_count", miscounted)
    of_symbols = [each for each in special_commits() if each.kind == "symbols"]
    assert [each.name for each in of_symbols if problem_of(each)] == [
        "the counts of symbols after 2 commits of several"
    ]


def test_a_commit_is_streamed_or_written_at_once_as_is_said_and_again_where_its_filters_are_too_large() -> None:
    """What makes it streamed may be prepared and never begun."""
    questions, begun = [each for each in special_commits() if each.kind == "filters"], list[str]()
    assert len({each.name for each in questions}) == len(questions) == 4

    def noted(way: str) -> AbstractContextManager[None]:
        begin = original_of(f"{CHANGE}:{way}")

        def noting(*of: Any, **more: Any) -> Any:
            begun.append(way)
            return begin(*of, **more)

        return replaced(f"{CHANGE}:{way}", noting)

    with noted("stream_new_directory"), noted("next_in_new_directory"):
        for question in questions:
            begun.clear()
            assert problem_of(question) is None
            way = "stream_new_directory" if question.name.endswith("streamed") else "next_in_new_directory"
            assert begun == [way] * (2 if " 2000 bytes" in question.name else 1)
