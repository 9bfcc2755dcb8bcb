"""What is acknowledged is read under each limit; a writer that goes beyond is found, and blind looks are noticed."""

from __future__ import annotations

import pytest
from replayed import first_that_replays

from tornproof.harness.common.patch import replaced
from tornproof.harness.explorers.roundtrip.writing import limited_commits as module
from tornproof.harness.explorers.roundtrip.writing.limited_commits import LIMITS, failed_controls, limited_commits


@pytest.mark.nightly
def test_the_least_limits_refuse_something_and_the_largest_nothing() -> None:
    assert {each.kind for each in limited_commits()} == {*LIMITS}
    with replaced(f"{module.__name__}:_unread", lambda *_: "it is not looked at"):
        assert all(module.problem_of(each) is None for each in limited_commits())
    refused, commit = set[str](), module._commit

    def watched(*arguments: object) -> None:
        try:
            commit(*arguments)  # type: ignore[arg-type]  # as they are given
        except Exception:
            refused.add(case.kind)
            raise

    with replaced(f"{module.__name__}:_commit", watched):
        for case in limited_commits():
            assert module.problem_of(case) is None
    assert refused >= {"bytes of a chunk", "bytes of all symbols", "symbols", "bytes of a record in _txn"}


def test_a_writer_without_a_limit_of_symbols_is_found_and_replays() -> None:
    first_that_replays("limited", replaced("tornproof.impl.write.new_symbols:_check_limits", lambda *_: None))


def test_a_blind_look_is_noticed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "problem_of", lambda _: None)
    assert len([*failed_controls()]) == 4
