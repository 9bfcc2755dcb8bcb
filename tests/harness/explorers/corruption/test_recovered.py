"""Damage that a recovery meets: it is reported and left alone, and a recovery that looks at less is found."""

from __future__ import annotations

from collections import Counter

import pytest

from tornproof.harness.common.patch import wrapped
from tornproof.harness.explorers.corruption.catalogue import listed
from tornproof.harness.explorers.corruption.judge import FOUND, Judge, Outcome
from tornproof.harness.explorers.corruption.plan import Kind
from tornproof.harness.explorers.corruption.recovered import FLIPS_MAX
from tornproof.harness.systems.workload import MADE_PATH, made_image


@pytest.fixture(scope="module")
def judge() -> Judge:
    return Judge(made_image(), MADE_PATH)


def outcomes(judge: Judge) -> Counter[Outcome]:
    damages = [each for file in judge.files(Kind.RECOVERED) for each in listed(judge, Kind.RECOVERED, file)]
    assert len(judge.files(Kind.RECOVERED)) - 1 <= len(damages) // FLIPS_MAX + 1
    return Counter(judge.judge(each)[0] for each in damages)


def test_a_recovery_reports_damage_or_leaves_all_rows(judge: Judge) -> None:
    found = outcomes(judge)
    assert found[Outcome.REJECTED] > FLIPS_MAX and found[Outcome.HARMLESS] > 0
    assert not {*found} & {*FOUND}
    assert judge.reached["a recovery of a damaged table"] >= sum(found.values())


def test_a_recovery_that_looks_at_no_pages_is_found(judge: Judge) -> None:
    def quickly(verify: object) -> object:
        return lambda *arguments, **settings: verify(*arguments, **{**settings, "quick": True})  # type: ignore[operator]

    with wrapped("tornproof.impl.repair.plan:verify_partition", quickly):
        assert outcomes(judge)[Outcome.NONCONFORMING] > 0


def test_a_recovery_that_changes_what_it_reports_is_found(judge: Judge) -> None:
    def reporting(repair: object) -> object:
        def repaired(storage: object, path: str) -> object:
            report = repair(storage, path)  # type: ignore[operator]
            with storage.open_for_writing(f"{path}/{judge.files(Kind.RECOVERED)[0]}") as file:  # type: ignore[attr-defined]
                file.truncate(0)
            return report

        return repaired

    with wrapped("tornproof.harness.explorers.corruption.judge:repair_table", reporting):
        assert outcomes(judge)[Outcome.NONCONFORMING] > 0
