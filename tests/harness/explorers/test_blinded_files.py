"""Each injector and each judge of the explorers of real files is blinded in turn, and a control must fail."""

from __future__ import annotations

import itertools
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from depth import sampled

from tornproof.harness.checkers.rules import RULES
from tornproof.harness.explorers.corruption import controls as damage
from tornproof.harness.explorers.corruption.judge import Judge, Outcome
from tornproof.harness.explorers.corruption.parts import PartReads
from tornproof.harness.explorers.corruption.plan import (
    AGAIN,
    CRAFTED,
    LISTED_KINDS,
    Again,
    Crafted,
    Cut,
    Flip,
    Kind,
    Overwrite,
    Pair,
)
from tornproof.harness.explorers.model_based import commit as commits
from tornproof.harness.explorers.model_based import readers, system_calls
from tornproof.harness.explorers.model_based.commit import commit
from tornproof.harness.explorers.model_based.explorer import CONTROLS, Stateful
from tornproof.harness.explorers.model_based.rules import RULES as RULES_OF_PROGRAMS
from tornproof.harness.explorers.model_based.start import StorageKind
from tornproof.harness.explorers.model_based.world import World
from tornproof.harness.explorers.processes import small_histories
from tornproof.harness.systems.workload import MADE_PATH, made_image

Patch = pytest.MonkeyPatch
Blinding = Callable[[Patch], None]


def failed_of_damage() -> list[str]:
    judge = Judge(made_image(), MADE_PATH)
    of_kinds = damage.failed_controls_of_kinds(judge), damage.failed_controls_of_crafted(judge)
    of_reads = damage.failed_controls_of_reads(judge) + damage.failed_controls_of_values(judge)
    return [*damage.failed_controls(judge), *itertools.chain(*of_kinds), *of_reads]


def not_done(damaged: type[Any], *kinds: Kind) -> Blinding:
    def blind(patch: Patch) -> None:
        apply = damaged.apply

        def leave(self: Any, content: bytes, *arguments: Any, **more: Any) -> bytes:
            is_left = not kinds or self.kind in kinds
            return content if is_left else apply(self, content, *arguments, **more)

        patch.setattr(damaged, "apply", leave)

    return blind


def harmless(method: str) -> Blinding:
    return lambda patch: patch.setattr(Judge, method, lambda self, *arguments: Outcome.HARMLESS)


def never(outcome: Outcome, instead: Outcome) -> Blinding:
    def blind(patch: Patch) -> None:
        judge = Judge.judge

        def judged(self: Judge, each: Any) -> Any:
            found, field = judge(self, each)
            return (instead if found is outcome else found), field

        patch.setattr(Judge, "judge", judged)

    return blind


def blinded(owner: Any, name: str) -> Blinding:
    return lambda patch: patch.setattr(owner, name, lambda *_, **__: None)


def form_of(kind: Kind) -> type[Any]:
    return Crafted if kind in CRAFTED else Again if kind in AGAIN else Overwrite


DAMAGE_BLINDINGS: dict[str, Blinding] = {
    "no bit is flipped": not_done(Flip),
    "no file is cut": not_done(Cut),
    "no pair is flipped": not_done(Pair),
    **{f"no {kind.value}": not_done(form_of(kind), kind) for kind in LISTED_KINDS},
    "reads of parts find nothing": blinded(PartReads, "misread"),
    **{f"{method} finds nothing": blinded(Judge, method) for method in ("_misrecovered", "_answers_after")},
    **{
        f"{method} says harmless": harmless(method)
        for method in (
            "_judge_txn",
            "_judge_pm",
            "_judge_page",
            "_judge_data",
            "_judge_table",
            "_judge_beside",
            "_judge_filter",
            "_judge_value",
            "judge_whole",
        )
    },
    "silent damage is harmless": never(Outcome.SILENT, Outcome.HARMLESS),
    "silent damage is an exposure": never(Outcome.SILENT, Outcome.EXPOSURE),
    "forged damage is harmless": never(Outcome.FORGED, Outcome.HARMLESS),
}


@pytest.mark.parametrize("name", sampled(4, list(DAMAGE_BLINDINGS)))
def test_a_blinded_explorer_of_damage_is_noticed(name: str, monkeypatch: Patch) -> None:
    DAMAGE_BLINDINGS[name](monkeypatch)
    assert failed_of_damage()


def test_without_blinding_all_controls_of_damage_pass() -> None:
    assert failed_of_damage() == []


@pytest.mark.parametrize("kind", RULES)
def test_a_kind_of_anomaly_that_is_not_looked_for_is_noticed(kind: str, monkeypatch: Patch) -> None:
    monkeypatch.setitem(RULES, kind, replace(RULES[kind], find=lambda case: []))
    assert [*small_histories.wrongly_judged()] == [f"a small history was not detected as {kind}"]


def test_each_kind_of_anomaly_has_a_small_history_that_is_judged_correctly() -> None:
    assert small_histories.HISTORIES.keys() == RULES.keys()
    assert [*small_histories.wrongly_judged()] == []


def no_commit_is_killed(patch: Patch) -> None:
    for name in ("commit that is killed", "commit that fails"):
        patch.setitem(RULES_OF_PROGRAMS, name, replace(RULES_OF_PROGRAMS[name], run=lambda world, **_: commit(world)))


def times_are_not_compared(patch: Patch) -> None:
    patch.setattr(World, "check_times", lambda self, transaction: None)


def not_run(*rules: str) -> Blinding:
    def blind(patch: Patch) -> None:
        for name in rules:
            patch.setitem(RULES_OF_PROGRAMS, name, replace(RULES_OF_PROGRAMS[name], run=lambda world, **_: None))

    return blind


def rows_are_not_compared(patch: Patch) -> None:
    blinded(World, "check_rows")(patch)
    not_run("read token", "read where", "read between", "read each value")(patch)


def pins_are_not_looked_at(patch: Patch) -> None:
    blinded(readers, "_check_pins")(patch)
    not_run("purge")(patch)


def transfers_are_whole(patch: Patch) -> None:
    for name in ("READ_BYTES_MAX", "WRITTEN_BYTES_MAX"):
        patch.setattr(system_calls, name, 1 << 30)


def files_of_names_are_not_compared(patch: Patch) -> None:
    missing = system_calls.Durable.missing

    def missing_by_name(self: system_calls.Durable, path: Path, size_bytes: int) -> str | None:
        names = self.names[path.parent.stat().st_ino]
        patch.setitem(names, path.name, path.stat().st_ino)
        return missing(self, path, size_bytes)

    patch.setattr(system_calls.Durable, "missing", missing_by_name)


STATEFUL_BLINDINGS: dict[str, tuple[Blinding, str]] = {
    "all system calls transfer everything": (transfers_are_whole, "a write that is not continued"),
    "what is synced is not compared": (blinded(World, "check_durable"), "a mapping that is not synced"),
    "what file a synced name leads to is not compared": (
        files_of_names_are_not_compared,
        "a synced name that leads to another file now",
    ),
    "rows are not compared": (rows_are_not_compared, "rows of one time in the wrong order"),
    "rows that are selected are not compared": (
        blinded(readers, "_check_selected"),
        "a filter that skips a row group",
    ),
    "unused bytes are not compared": (blinded(commits, "_check_growth"), "unused bytes that are not counted"),
    "neither locks nor purges are looked at": (pins_are_not_looked_at, "a pin that locks nothing"),
    "what a purge leaves is not looked at": (not_run("purge"), "a purge that removes nothing"),
    "no reader reloads": (not_run("reload"), "a change that is not announced"),
    "no commit is killed": (no_commit_is_killed, "a recovery that restates no orphan"),
    "times are not compared": (times_are_not_compared, "a record that keeps its times"),
}


@pytest.mark.nightly
@pytest.mark.parametrize("name", STATEFUL_BLINDINGS)
def test_blinded_programs_are_noticed(name: str, monkeypatch: Patch) -> None:
    blind, missed = STATEFUL_BLINDINGS[name]
    programs = Stateful(None, "/table", StorageKind.MEMORY)
    (control,) = (each for each in CONTROLS if each.name == missed)
    assert programs.detects(control, 0, "")
    blind(monkeypatch)
    assert not programs.detects(control, 0, "")
