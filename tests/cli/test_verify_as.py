"""`tornproof verify --as PRESET` as its users meet it."""

from collections.abc import Callable
from pathlib import Path

import pytest
from command_line import WarmRunner, sentence_of
from depth import nightly

from tornproof.harness.systems.releases import PRESETS

CHAIN = "tables/9.4.2/chain/table"
ORPHANED = "crashes/9.4.2/sync-1-06/table"
FLIPPED_PAGE = "power-loss/9.4.2/one-byte-flipped-inside-a-data-page/table"
NO_VERSION = "power-loss/9.4.2/txn-version-new-record-area-old/table"
LONG_TAIL = "crashes/2026-07/sync-2-17/table"
LEGACY = "legacy/9.3.4/chain/table"
AS_KEYS = {"preset", "readable", "writable", "reason", "hazards"}


@pytest.mark.parametrize(
    ("table", "preset", "code", "readable", "writable"),
    [
        (CHAIN, "hardened", 0, True, True),
        nightly(CHAIN, "questdb-9.4.2", 0, True, True),
        (ORPHANED, "hardened", 0, True, True),
        (ORPHANED, "questdb-9.4.2", 1, False, False),
        nightly(ORPHANED, "questdb-9.4.3-sync", 1, False, False),
        (ORPHANED, "questdb-2026-07", 0, True, True),
        nightly(NO_VERSION, "questdb-9.4.2", 1, False, False),
        (FLIPPED_PAGE, "questdb-9.4.2", 1, True, True),
        (LEGACY, "questdb-9.4.2", 1, False, False),
    ],
)
def test_json_says_what_a_release_makes_of_a_table(
    table: str, preset: str, code: int, readable: bool, writable: bool, tornproof: WarmRunner, questdb_data: Path
) -> None:
    run = tornproof("verify", questdb_data / table, "--as", preset, "--json", "-")
    found = run.document["as"]
    assert (run.code, run.err) == (code, "")
    assert found.keys() == AS_KEYS
    assert (found["preset"], found["readable"], found["writable"]) == (preset, readable, writable)
    assert isinstance(found["reason"], str) and found["reason"]
    assert found["hazards"] == []
    plain = tornproof("verify", questdb_data / table, "--json", "-").document
    assert {**run.document, "as": None} == plain


def test_text_says_it_in_a_line_below_the_verdict(tornproof: WarmRunner, questdb_data: Path) -> None:
    rejected = tornproof("verify", questdb_data / ORPHANED, "--as", "questdb-9.4.2")
    assert rejected.code == 1
    assert "sound" in rejected.out
    assert "questdb-9.4.2: cannot read it: its reader refuses: 2024-01-01" in rejected.out
    gone_on = tornproof("verify", questdb_data / LONG_TAIL, "--as", "questdb-2026-07")
    assert gone_on.code == 0
    assert "questdb-2026-07: can continue: 314 rows are read" in gone_on.out
    assert "hazard a commit that does not cover the bytes behind the committed end loses a partition" in gone_on.out
    assert "questdb" not in tornproof("verify", questdb_data / LONG_TAIL).out.splitlines()[-1]


def test_table_that_can_be_read_but_not_gone_on_from_is_exit_1(
    tornproof: WarmRunner, copy_of: Callable[[str], Path]
) -> None:
    table = copy_of(CHAIN)
    (table / "_pins").mkdir()
    run = tornproof("verify", table, "--as", "hardened")
    assert run.code == 1
    assert "hardened: can read it, but not continue: its writer refuses: " in run.out


def test_unknown_preset_is_exit_2_with_the_names_of_all(tornproof: WarmRunner, questdb_data: Path) -> None:
    run = tornproof("verify", questdb_data / CHAIN, "--as", "questdb-1.0")
    assert (run.code, run.out) == (2, "")
    assert sentence_of(run) == f"there is no preset 'questdb-1.0'; there are {', '.join(PRESETS)}"


def test_damaged_metadata_of_a_table_is_no_answer_of_a_release_but_not_readable_either(
    tornproof: WarmRunner, copy_of: Callable[[str], Path]
) -> None:
    table = copy_of(CHAIN)
    (table / "_meta").write_bytes(b"x" * 40)
    run = tornproof("verify", table, "--as", "questdb-9.4.2", "--json", "-")
    assert (run.code, run.err) == (1, "")
    assert run.document["as"]["readable"] is False
    assert run.document["as"]["reason"].startswith("_meta: ")
    assert run.document["problems"]


def test_the_table_itself_is_not_touched(tornproof: WarmRunner, copy_of: Callable[[str], Path]) -> None:
    table = copy_of(ORPHANED)

    def content() -> dict[Path, bytes]:
        return {path: path.read_bytes() for path in table.rglob("*") if path.is_file()}

    before = content()
    for preset in ("hardened", "questdb-9.4.2", "questdb-2026-07"):
        tornproof("verify", table, "--as", preset)
    assert content() == before
    relative = tornproof("verify", table.name, "--as", "hardened", folder=table.parent)
    assert relative.code == 0


@pytest.mark.parametrize("preset", PRESETS)
def test_page_about_presets_tells_of_each(preset: str) -> None:
    assert f"`{preset}`" in (Path(__file__).parents[2] / "docs/presets.md").read_text()


def test_release_that_cannot_go_on_is_told_of_the_command_after_which_it_can(
    tornproof: WarmRunner, questdb_data: Path
) -> None:
    for table, command in ((ORPHANED, "recover"), (LEGACY, "migrate")):
        run = tornproof("verify", questdb_data / table, "--as", "questdb-9.4.2", "--json", "-")
        assert run.document["as"]["reason"].endswith(
            f"; it can continue after tornproof {command} {questdb_data / table}"
        )
    lost = tornproof("verify", questdb_data / NO_VERSION, "--as", "questdb-9.4.2", "--json", "-").document
    assert "it can continue after" not in lost["as"]["reason"]
