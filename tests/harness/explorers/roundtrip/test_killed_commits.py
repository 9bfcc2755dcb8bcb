"""A commit may be killed anywhere; what it then leaves half done is noticed."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from planted_faults import planted
from replayed import all_that_replay

from tornproof.harness.common.patch import wrapped
from tornproof.harness.explorers.roundtrip.explorer import findings_of
from tornproof.harness.explorers.roundtrip.killed_commits import killed_commits
from tornproof.harness.explorers.roundtrip.parts import part_of
from tornproof.impl.write.commit import Action

ACTIONS = "tornproof.impl.write.commit:_DICTIONARY_ACTIONS"


def test_each_commit_has_a_name_of_its_own() -> None:
    assert len({each.name for each in killed_commits()}) == len(killed_commits())


def test_two_kills_show_that_symbols_of_the_first_are_not_taken_out() -> None:
    with planted("symbols of a killed commit stay in the hash index"):
        (finding,) = findings_of(part_of("killed"))
    assert "where a killed commit has left symbols" in finding.sentence


def naming_twice(actions: dict[Action, Callable[..., None]]) -> dict[Action, Callable[..., None]]:
    def name_index(run: Any) -> None:
        run._storage.unlink(run._write.index_path)
        actions[Action.NAME_INDEX](run)

    return {**actions, Action.NAME_INDEX: name_index}


@pytest.mark.nightly
def test_an_index_that_is_removed_first_is_a_finding_that_replays() -> None:
    findings = all_that_replay("killed", wrapped(ACTIONS, naming_twice))
    assert len(findings) == 1
