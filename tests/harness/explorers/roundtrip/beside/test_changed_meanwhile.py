"""Operations beside other processes end as if one came before the other; others are found, and a blind look noticed."""

from __future__ import annotations

import pytest
from depth import nightly
from replayed import replayed

from tornproof.harness.common.verdict import Verdict
from tornproof.harness.explorers.roundtrip.beside import changed_meanwhile as module
from tornproof.harness.explorers.roundtrip.beside.changed_meanwhile import (
    failed_controls,
    migrations_beside,
    operations_beside,
    problem_of,
)
from tornproof.harness.explorers.roundtrip.beside.operations import ACTS, OPERATIONS, Other
from tornproof.harness.explorers.roundtrip.beside.small_tables import ALONE, PATH, State, small_table
from tornproof.harness.explorers.roundtrip.explorer import findings_of
from tornproof.harness.explorers.roundtrip.parts import part_of
from tornproof.harness.simulator.filesystem.memory import MemoryStorage
from tornproof.impl.table.table import open_table


@pytest.mark.parametrize("every", [5, nightly(1)])
def test_operations_beside_others_end_as_in_an_order(every: int) -> None:
    cases = (*migrations_beside(), *operations_beside())
    assert [(each.name, problem) for each in cases[::every] if (problem := problem_of(each))] == []
    assert {each.operation.name for each in cases} == {each.name for each in OPERATIONS}


def test_what_a_server_does_beside_an_operation_commits_a_version() -> None:
    act = next(each for each in ACTS if each.name == "commits as a server does")
    for state in act.of:
        storage = MemoryStorage.of(small_table(state))
        before = open_table(storage, PATH).transaction().version
        act.run(Other(storage))
        assert open_table(storage, PATH).transaction().version == before + 1


def test_a_file_that_is_made_longer_keeps_what_it_had() -> None:
    act = next(each for each in ACTS if each.name == "makes it longer")
    storage = MemoryStorage.of(small_table(State.FILE))
    before = storage.image().files[ALONE]
    act.run(Other(storage))
    after = storage.image().files[ALONE]
    assert after.startswith(before) and len(after) > len(before)


def test_each_control_of_a_commit_is_of_something_else() -> None:
    assert len({each[-1] for each in module._commits()}) == len(module._commits())


@pytest.mark.nightly
def test_migrations_that_do_not_look_again_are_found_and_replay(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("tornproof.impl.migrate.table_migration.check_unchanged", lambda *_: None)
    findings = [*findings_of(part_of("migrations_beside"))]
    assert len(findings) > 2
    assert replayed(findings) == {Verdict.INVALID}
    monkeypatch.undo()
    assert replayed(findings) == {Verdict.VALID}


@pytest.mark.nightly
def test_a_look_at_no_end_is_noticed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "_difference", lambda *_: None)
    assert len([*failed_controls()]) == 2
