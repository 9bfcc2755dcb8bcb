"""Every image of a killed server and of a lost disk cache: the preset of its release does what the release did."""

import functools
from pathlib import Path

import golden_data
import pytest
from depth import sampled
from real_tables import read_json, table_image

from tornproof.harness.simulator.filesystem.memory import MemoryStorage
from tornproof.harness.systems.probe import Compatibility, probe
from tornproof.harness.systems.releases import PRESETS
from tornproof.impl.repair.repair import repair_table

RELEASES = ("hardened", "specification", "questdb-9.4.2", "questdb-9.4.3", "questdb-2026-07")
# What a server reports, and what names the same mechanism here.
WORDS = {
    "Column chunk range": "exceeds data length",
    "Invalid thrift": "data.parquet: ",
    "failed to resolve footer": "_txn: token at byte",
    "checksum mismatch": "CHECKSUM",
    "footer too small": "FOOTER_LENGTH",
    "invalid _pm footer offset": "FOOTER_LENGTH",
    "Transaction read timeout": "Transaction read timeout",
}


@functools.cache
def compatibility_of(questdb_data: Path, name: str, preset: str) -> Compatibility:
    path, image = table_image(questdb_data, f"{name}/table")
    return probe(image, path, PRESETS[preset])


def release_of(name: str) -> str:
    return f"questdb-{Path(name).parent.name}"


@pytest.mark.parametrize("name", golden_data.CRASHES)
def test_a_killed_servers_table_goes_on_where_the_release_did(name: str, questdb_data: Path) -> None:
    answer = read_json(questdb_data / name / "expected.json")["server_after_restart"]
    compatibility = compatibility_of(questdb_data, name, release_of(name))
    went_on = not answer.startswith("ERR")
    assert (compatibility.readable, compatibility.writable) == (went_on, went_on), compatibility.reason
    assert ("exceeds data length" in compatibility.reason) is not went_on


@pytest.mark.parametrize("name", golden_data.POWER_LOSSES)
def test_a_table_with_lost_writes_answers_as_the_release_did(name: str, questdb_data: Path) -> None:
    outcome = read_json(questdb_data / name / "outcome.json")
    compatibility = compatibility_of(questdb_data, name, release_of(name))
    was = [isinstance(outcome[step], list) for step in ("read", "next_commit")]
    assert [compatibility.readable, compatibility.writable] == was, compatibility.reason
    if isinstance(outcome["read"], str):
        (ours,) = (ours for theirs, ours in WORDS.items() if theirs in outcome["read"])
        assert ours in compatibility.reason


@pytest.mark.parametrize("name", sampled(4, golden_data.CRASHES))
def test_only_orphans_part_the_releases_and_our_own_writer_goes_on_from_every_kill(
    name: str, questdb_data: Path
) -> None:
    has_orphan = "orphan" in read_json(questdb_data / name / "expected.json")["state"]
    for preset, goes_on in (
        ("questdb-9.4.2", not has_orphan),
        ("questdb-9.4.3", not has_orphan),
        ("questdb-2026-07", True),
        ("hardened", True),
    ):
        compatibility = compatibility_of(questdb_data, name, preset)
        assert (compatibility.readable, compatibility.writable) == (goes_on, goes_on), (preset, compatibility.reason)
    assert compatibility.hazards == ()


@pytest.mark.parametrize("name", sampled(3, golden_data.CRASHES))
def test_every_release_goes_on_from_a_recovered_table_and_no_commit_is_dangerous(name: str, questdb_data: Path) -> None:
    path, image = table_image(questdb_data, f"{name}/table")
    storage = MemoryStorage.of(image)
    repair_table(storage, path)
    for preset in RELEASES:
        compatibility = probe(storage.image(), path, PRESETS[preset])
        assert (compatibility.readable, compatibility.writable, compatibility.hazards) == (True, True, ()), (
            compatibility.reason
        )


@pytest.mark.parametrize(
    "name",
    sampled(3, [*golden_data.TABLES, *golden_data.AFTER_RESTARTS]),
)
def test_every_release_goes_on_from_a_table_that_was_shut_down(name: str, questdb_data: Path) -> None:
    for preset in RELEASES:
        compatibility = compatibility_of(questdb_data, name, preset)
        assert (compatibility.readable, compatibility.writable, compatibility.hazards) == (True, True, ()), (
            compatibility.reason
        )


@pytest.mark.parametrize("name", golden_data.LEGACY_TABLES)
def test_a_table_from_before_pm_has_to_be_migrated_first(name: str, questdb_data: Path) -> None:
    for preset in RELEASES:
        compatibility = compatibility_of(questdb_data, name, preset)
        assert (compatibility.readable, compatibility.writable) == (False, False)
        assert "was not migrated" in compatibility.reason


@pytest.mark.parametrize("release", ["9.4.2", "2026-07"])
def test_a_byte_changed_inside_a_page_is_returned_by_servers_and_rejected_by_us_where_a_bound_shows_it(
    release: str, questdb_data: Path
) -> None:
    name = f"power-loss/{release}/one-byte-flipped-inside-a-data-page"
    assert compatibility_of(questdb_data, name, "questdb-9.4.2").readable
    assert compatibility_of(questdb_data, name, "hardened").readable is (release == "2026-07")


@pytest.mark.parametrize("release", ["9.4.2", "2026-07"])
def test_commit_modes_make_no_difference_to_files_at_rest(release: str, questdb_data: Path) -> None:
    name = f"power-loss/{release}/orphan-header-tail-new-data-new-txn-old-kill-9"
    found = [compatibility_of(questdb_data, name, release_of(name) + mode) for mode in ("", "-async", "-sync")]
    assert len({(each.readable, each.writable, each.reason, each.hazards) for each in found}) == 1
    assert [each.preset for each in found] == [release_of(name) + mode for mode in ("", "-async", "-sync")]
