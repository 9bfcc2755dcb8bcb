"""A commit may be killed anywhere; what it then leaves half done is noticed."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from replayed import replayed

from tornproof.harness.common.patch import wrapped
from tornproof.harness.common.verdict import Verdict
from tornproof.harness.explorers.roundtrip.explorer import findings_of
from tornproof.harness.explorers.roundtrip.killed_commits import killed_commits
from tornproof.harness.explorers.roundtrip.parts import KILLED_COMMITS
from tornproof.impl.write.commit import Action

ACTIONS = "tornproof.impl.write.commit:_DICTIONARY_ACTIONS"


def test_a_commit_may_be_killed_anywhere() -> None:
    assert len({each.name for each in killed_commits()}) == len(killed_commits())


def naming_twice(actions: dict[Action, Callable[..., None]]) -> dict[Action, Callable[..., None]]:
    def name_index(run: Any) -> None:
        run._storage.unlink(run._write.index_path)
        actions[Action.NAME_INDEX](run)

    return {**actions, Action.NAME_INDEX: name_index}


def test_an_index_that_is_removed_first_is_a_finding_that_replays() -> None:
    with wrapped(ACTIONS, naming_twice):
        findings = [*findings_of(KILLED_COMMITS)]
        assert len(findings) == 1
        assert replayed(findings) == {Verdict.INVALID}
    assert replayed(findings) == {Verdict.VALID}
