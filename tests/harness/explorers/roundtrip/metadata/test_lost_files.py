"""Each file that a table has lost is named; a verification that excuses some is found, and a blind look is noticed."""

from __future__ import annotations

import re
from collections.abc import Callable
from types import SimpleNamespace

import pytest
from replayed import replayed

from tornproof.harness.common.verdict import Verdict
from tornproof.harness.explorers.roundtrip.explorer import findings_of
from tornproof.harness.explorers.roundtrip.metadata import lost_files as module
from tornproof.harness.explorers.roundtrip.metadata.lost_files import (
    Dictionary,
    Lost,
    _dictionaries,
    failed_controls,
    lost_files,
)
from tornproof.harness.explorers.roundtrip.parts import part_of
from tornproof.impl.verify import table_files
from tornproof.impl.verify.indexes import PartitionIndex


def lost_by_server() -> list[Lost]:
    return [each for each in lost_files() if isinstance(each, Lost)]


def test_each_lost_file_is_named() -> None:
    kinds = {each.file.rpartition("/")[2].partition(".")[2][:1] for each in lost_by_server()}
    assert {*"cokvdi"} <= kinds


def test_a_verification_that_excuses_lost_indexes_is_found_and_replays(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(PartitionIndex, "_missing", lambda *_: None)
    findings = [*findings_of(part_of("lost"))]
    assert replayed(findings) == {Verdict.INVALID}
    monkeypatch.undo()
    assert {lost_files()[each.evidence["lost"]].kind[-1] for each in findings} <= {*"kv3"} and len(findings) > 3
    assert replayed(findings) == {Verdict.VALID}


def test_a_look_at_nothing_is_noticed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "_unnamed", lambda *_: None)
    assert len([*failed_controls()]) == len(lost_by_server()) - 1


def test_names_that_are_patterns_are_found_and_replay(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(table_files, "re", SimpleNamespace(compile=re.compile, escape=str))
    findings = [*findings_of(part_of("lost"))]
    assert replayed(findings) == {Verdict.INVALID}
    columns = {lost_files()[each.evidence["lost"]].kind.removeprefix("dictionary of ")[:4] for each in findings}
    assert len(columns) > 3
    monkeypatch.undo()
    assert replayed(findings) == {Verdict.VALID}


def test_a_look_at_no_dictionaries_is_noticed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "_wrong_of", lambda *_: None)
    assert len([*failed_controls()]) == 6


@pytest.mark.parametrize(
    ("is_left_out", "unnoticed"),
    [
        (lambda each: not each.instead, "nothing excuses a loss"),
        (lambda each: each.is_another, "a file of another version excuses a loss"),
        (lambda each: each.instead and not each.is_another, "a file of a similar column excuses a loss"),
    ],
)
def test_dictionaries_that_are_not_lost_in_one_of_three_ways_fail_a_control(
    is_left_out: Callable[[Dictionary], bool], unnoticed: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """None was lost without another file in its place, and nothing noticed that."""
    assert [*failed_controls()] == []
    others = [each for each in _dictionaries() if not is_left_out(each)]
    monkeypatch.setattr(module, "_dictionaries", lambda: others)
    assert [*failed_controls()] == [f"{unnoticed}: not noticed"]
