"""Which barriers a commit needs: which model misses each one, and that the page on guarantees says so."""

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest
from depth import nightly
from msgspec import structs

from tornproof.harness.common.remembered_codecs import remembered_decoding, remembered_encoder
from tornproof.harness.common.verdict import Finding
from tornproof.harness.explorers.barriers.document import SAFE, UNSAFE, document, markdown, rows
from tornproof.harness.explorers.barriers.explorer import (
    ALL,
    BARRIERS,
    Names,
    Outcome,
    Workload,
    explore_barriers,
    minimal_safe_sets,
    protocol_with,
    settings_of,
    subsets,
)
from tornproof.harness.explorers.power_cuts.judge import PowerJudge
from tornproof.harness.explorers.power_cuts.sessions import explore_model
from tornproof.harness.explorers.power_cuts.trace import Traces
from tornproof.harness.simulator.persistence.models import (
    C_8,
    C_512,
    C_4096,
    CDIR,
    MODELS,
    N_512,
    POWER_MODELS,
    W_512,
    A,
    B,
    D,
    Model,
)
from tornproof.harness.simulator.process.case import TestCase
from tornproof.harness.simulator.process.observer import Property
from tornproof.harness.systems.table import TableTarget
from tornproof.harness.systems.workload import MADE_PATH, crash_operations, made_image
from tornproof.impl.write.commit import HARDENED, Action, Protocol

PAGE = Path(__file__).parents[4] / "docs" / "guarantees.md"
ONE_MISSING = [tuple(name for name in ALL if name != missing) for missing in ALL]
# Where a missing barrier is seen, and where it is not (docs/guarantees.md).
SEEN_BY = {
    "F1": {*POWER_MODELS, D},
    "F2": {*POWER_MODELS, D},
    "F3": {*POWER_MODELS, D},
    "F4": {C_512, C_8, W_512, N_512},
    "F5": {*POWER_MODELS, D},
    "F6": {CDIR, N_512},
}


def tried(names: Names, model: Model) -> bool:
    """Return whether a model is tried outside nightly runs: one that finds something ends soon, others try all disks.

    Of models that find nothing one is tried, and two where no barrier is missing; `test_power` explores the same
    commits in the others with all barriers. C-8 is tried only where B finds nothing, and N-512 only where it does.
    """
    found_by = set().union(*(SEEN_BY[missing] for missing in ALL if missing not in names))
    found_by -= {C_8} if B in found_by else {N_512}
    finds_nothing = (A, B) if names == ALL else (B,) if {*names} >= {"F1", "F2", "F3", "F5"} else ()
    return model in found_by or model in finds_nothing


@pytest.fixture(scope="module", params=["some models", nightly("all models")])
def outcomes(request: pytest.FixtureRequest) -> list[Outcome]:
    found: list[Outcome] = []
    with remembered_decoding():
        workload = Workload()
        for names in (ALL, *ONE_MISSING):
            models = [model for model in MODELS if request.param == "all models" or tried(names, model)]
            found += workload.outcomes(names, models)
        workload.judge.close()
    return found


def test_all_barriers_are_safe_in_every_model_and_all_but_torn_sectors_explored_completely(
    outcomes: list[Outcome],
) -> None:
    hardened = [outcome for outcome in outcomes if outcome.barriers == ALL]
    assert {outcome.model for outcome in hardened} >= {A, B}
    for outcome in hardened:
        assert outcome.is_safe, outcome.finding
        assert outcome.is_complete is (outcome.model is not C_8)
        assert outcome.disk_count >= 60


@pytest.mark.parametrize("missing", ALL)
def test_a_missing_barrier_is_found_by_the_models_that_can_see_it_and_by_no_other(
    outcomes: list[Outcome], missing: str
) -> None:
    without = [outcome for outcome in outcomes if missing not in outcome.barriers]
    assert {outcome.model for outcome in without if not outcome.is_safe} >= SEEN_BY[missing] - {C_8, N_512}
    assert all(outcome.is_safe is (outcome.model not in SEEN_BY[missing]) for outcome in without)


def explored(protocol: Protocol, model: Model) -> bool:
    start = made_image()
    with remembered_decoding():
        case = TestCase(
            target=TableTarget(protocol=protocol, encode=remembered_encoder()),
            path=MADE_PATH,
            operations=crash_operations(start, MADE_PATH),
            first_session=(0, 1, 2),
            second_session=(3,),
            start=start,
        )
        judge = PowerJudge(case)
        exploration = explore_model(judge, Traces(case), model, settings_of(model))
        judge.close()
    return not exploration.found


@pytest.mark.nightly
def test_where_files_keep_their_order_only_a_new_pm_needs_the_sync_of_its_body() -> None:
    update = tuple(action for action in HARDENED.update if action is not Action.SYNC_PM)
    grown = structs.replace(HARDENED, update=update)
    assert explored(grown, A)
    assert explored(grown, B)
    assert not explored(grown, C_4096)


@pytest.mark.parametrize("action", BARRIERS["F6"])
def test_each_of_the_two_directory_syncs_is_needed(action: Action) -> None:
    rewrite = tuple(each for each in HARDENED.rewrite if each is not action)
    assert not explored(structs.replace(HARDENED, rewrite=rewrite), CDIR)


def test_a_protocol_with_all_barriers_is_the_hardened_one_and_each_action_is_in_one_barrier() -> None:
    assert protocol_with(ALL) == HARDENED
    actions = [action for name in ALL for action in BARRIERS[name]]
    assert len(actions) == len(set(actions)) == 9
    bare = protocol_with(())
    assert not set(actions) & {*bare.update, *bare.rewrite, *bare.publish}
    every = list(subsets())
    assert len(every) == len(set(every)) == 64
    assert (every[0], every[-1]) == ((), ALL)


def made(model: Model, *safe: Names) -> Iterator[Outcome]:
    finding = Finding(property=Property.LOST, phase="power", sentence="gone.", evidence={})
    for names in subsets():
        is_safe = any(set(each) <= set(names) for each in safe)
        yield Outcome(barriers=names, model=model, finding=None if is_safe else finding, is_complete=True, disk_count=1)


def test_smallest_safe_sets_are_those_of_which_every_smaller_part_is_unsafe() -> None:
    outcomes = list(made(B, ("F1", "F2"), ("F3",)))
    assert minimal_safe_sets(outcomes, B) == [("F3",), ("F1", "F2")]
    assert minimal_safe_sets(list(made(B, ())), B) == [()]
    assert minimal_safe_sets(list(made(B)), B) == []


def test_the_document_and_the_page_say_what_was_found() -> None:
    outcomes = [*made(A, ()), *made(B, ("F1", "F2"), ("F3",)), *made(CDIR)]
    text = markdown(outcomes)
    assert "| B | F3; F1 F2 | completely |" in text
    assert "| A | no barrier is needed | completely |" in text
    assert "| Cdir | no set | completely |" in text
    first, *others = made(A, ())
    sampled = markdown([replace(first, is_complete=False), *others])
    assert "| A | no barrier is needed | a sample |" in sampled and f"| none | {SAFE} |" in sampled
    assert "The hardened commit, with all six, is **unsafe** in Cdir." in text
    assert f"| F3 | – | – | {Property.LOST} |" in text
    assert f"| F1 F2 | {SAFE} | {SAFE} | {UNSAFE} |" in text
    models = document(outcomes)["models"]
    assert [(model["name"], model["safe_set_count"], model["set_count"]) for model in models] == [
        ("A", 64, 64),
        ("B", 40, 64),
        ("Cdir", 0, 64),
    ]


def test_a_cell_is_in_the_column_of_its_model_in_whatever_order_models_were_explored() -> None:
    text = markdown([*made(CDIR), *made(A, ())])
    assert "| barriers | A | Cdir |" in text
    assert f"| F1 F2 | {SAFE} | {UNSAFE} |" in text


def test_the_page_on_guarantees_is_not_stale_where_one_barrier_is_missing(outcomes: list[Outcome]) -> None:
    page = PAGE.read_text(encoding="utf-8")
    lines = [line.strip("| ").split(" | ") for line in page.splitlines()]
    for outcome in outcomes:
        ((barriers, found),) = rows([outcome])
        (line,) = (cells[1:] for cells in lines if cells[0] == barriers and len(cells) == 1 + len(MODELS))
        assert line[MODELS.index(outcome.model)] == found
    for model in MODELS:
        assert f"| {model.name} | {model.content} | {model.names.value} |" in page
        assert f"| {model.name} | {model.stands_for} |" in page
        assert all(f"[{source.title}]({source.address})" in page for source in model.sources)
    assert "seen but not acknowledged may be lost by a power cut" in page


@pytest.mark.nightly
def test_the_page_on_guarantees_is_what_all_sets_give() -> None:
    assert PAGE.read_text(encoding="utf-8") == markdown(explore_barriers())
