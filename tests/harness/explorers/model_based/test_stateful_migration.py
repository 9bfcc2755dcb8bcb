"""Tables of a release without `_pm` in the state machine: a migration that leaves anything out is found."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from msgspec.structs import replace

from tornproof.harness.common.patch import wrapped
from tornproof.harness.explorers.model_based.explorer import Stateful
from tornproof.harness.explorers.model_based.files import ViolationError
from tornproof.harness.explorers.model_based.fixed_programs import COMMITS, MIGRATE
from tornproof.harness.explorers.model_based.machine import Search, replay
from tornproof.harness.mutation.fault_file import file_named

(PROGRAM,) = (program for program in COMMITS if MIGRATE in program)


@pytest.fixture
def search(tmp_path: Path) -> Search:
    return Stateful(None, "")._search(None, str(tmp_path), steps=0)


def violation(search: Search) -> ViolationError | None:
    return replay(search, 1, PROGRAM, notes=True)


def test_a_migrated_table_has_the_same_rows_and_goes_on(search: Search) -> None:
    assert violation(search) is None
    assert search.reached["table migrated"] == 1 and search.counts["read where"] > 10


@pytest.mark.parametrize(
    ("name", "said"),
    [
        ("a sound _pm is made anew, without its history", "not all of"),
        ("the new _pm is not synced", "not synced is byte 0 of _pm"),
        ("the partition's directory is not synced", "not synced is the name of _pm in its directory"),
        ("the size of data.parquet is taken for the token", "not all of"),
    ],
)
def test_a_migration_that_leaves_something_out_is_found(name: str, said: str, search: Search) -> None:
    with file_named(name).patch.planted(lambda: None):
        found = violation(search)
    assert found is not None and said in str(found)


def test_a_wrong_bound_of_a_migrated_chunk_is_found(search: Search) -> None:
    def swapped(chunk_of: Callable[..., Any]) -> Callable[..., Any]:
        def made(*arguments: Any, **more: Any) -> Any:
            chunk = chunk_of(*arguments, **more)
            return replace(chunk, minimum=chunk.maximum)

        return made

    with wrapped("tornproof.impl.migrate.convert:chunk_of", swapped):
        assert violation(search) is not None
