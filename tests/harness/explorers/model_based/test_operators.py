"""What operators do in programs: each mistake of the tools is found, and without one nothing is."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from depth import nightly, sampled

from tornproof.harness.common.patch import wrapped
from tornproof.harness.explorers.model_based import operators
from tornproof.harness.explorers.model_based.explorer import FIXED_GOALS, Stateful
from tornproof.harness.explorers.model_based.files import ViolationError
from tornproof.harness.explorers.model_based.fixed_programs import BESIDE_A_WRITER, IN_PIECES, OPERATED, PROTECTED
from tornproof.harness.explorers.model_based.machine import Search, replay
from tornproof.harness.explorers.model_based.start import StorageKind
from tornproof.harness.explorers.model_based.surroundings import PIECES, USUAL
from tornproof.harness.explorers.model_based.tables import SYMBOLS
from tornproof.harness.mutation.fault_file import file_named
from tornproof.harness.simulator.filesystem.image import DiskImage
from tornproof.harness.simulator.filesystem.memory import MemoryStorage

Wrap = Callable[[Callable[..., Any]], Callable[..., Any]]


@pytest.fixture(params=[nightly(StorageKind.FILES), StorageKind.MEMORY])
def search(tmp_path: Path, request: pytest.FixtureRequest) -> Search:
    kind: StorageKind = request.param
    folder = tmp_path / "with a space"
    folder.mkdir()
    return Stateful(None, "", kind)._search(SYMBOLS.name, str(folder), steps=0)


def violation(search: Search, program: Any) -> ViolationError | None:
    return replay(search, 1, program, notes=True)


def writing(run: Callable[..., Any]) -> Callable[..., Any]:
    return lambda *arguments, **settings: run(*arguments, **{**settings, "dry_run": False})


def returning(answer: Any) -> Wrap:
    return lambda _: lambda *arguments, **settings: answer


def everything_kept(kept_files: Callable[..., Any]) -> Callable[..., Any]:
    return lambda *arguments: ([], [])


def test_operators_find_nothing_wrong(search: Search) -> None:
    for program in (OPERATED, PROTECTED, BESIDE_A_WRITER):
        assert violation(search, program) is None
    goals = {goal for goal in FIXED_GOALS if not goal.startswith(("text", "token"))}
    assert goals <= {point for point, count in search.reached.items() if count}


@pytest.mark.parametrize(
    ("location", "broken", "said"),
    sampled(
        2,
        [
            ("operators:repair_table", writing, "a dry run"),
            ("operators:migrate_table", lambda run: lambda *a, **s: run(*a, **{**s, "out": None}), "another place"),
            ("operators:forget_kept", writing, "were forgotten"),
            ("tornproof.impl.repair.repair:kept_files", everything_kept, "still there"),
            ("tornproof.impl.repair.repair:_lock", returning(None), "while a reader had the table open"),
            ("tornproof.impl.migrate.table_migration:_holds", returning(True), "over files of as many bytes"),
        ],
    ),
)
def test_a_tool_that_does_something_else_is_found(search: Search, location: str, broken: Wrap, said: str) -> None:
    place = location if ":" in location and "." in location else f"tornproof.harness.explorers.model_based.{location}"
    with wrapped(place, broken):
        found = violation(search, OPERATED)
    assert found is not None and said in str(found)


@pytest.mark.parametrize("name", ["indexes not looked for", "last partition not looked at", "servers not looked for"])
def test_a_writer_of_a_protected_table_is_found(search: Search, name: str) -> None:
    with file_named(name).patch.planted(lambda: None):
        found = violation(search, PROTECTED)
    assert found is not None and "a writer changed files" in str(found)


def test_a_recovery_that_looks_before_it_locks_is_found(search: Search) -> None:
    with file_named("table is checked for changes before it is locked").patch.planted(lambda: None):
        found = violation(search, BESIDE_A_WRITER)
    assert found is not None and "a recovery after one beside a writer" in str(found)


@pytest.mark.parametrize("last", [0, 1, 255])
def test_a_changed_file_is_another_one_whatever_it_ends_with(last: int) -> None:
    storage = MemoryStorage.of(DiskImage.of_files({"f": bytes([7, last])}))
    operators._change_last_byte(storage, "f")
    assert storage.image().files == {"f": bytes([7, last ^ 1])}


@pytest.mark.nightly
def test_work_in_pieces_ends(search: Search) -> None:
    assert {*PIECES} == {*USUAL} and all(PIECES[each] != USUAL[each] for each in PIECES)
    assert violation(search, IN_PIECES) is None
