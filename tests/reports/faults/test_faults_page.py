"""Trials of planted faults: their totals, their page, and files that are none."""

import re
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from tornproof.harness.mutation.fault_file import BENIGN, JUDGES
from tornproof.harness.trial import SCHEMA, TOLD
from tornproof.reports.faults import trials as of_reports
from tornproof.reports.faults.page import faults_page
from tornproof.reports.faults.trials import read_trials, told_of, totals, trials_of, untold_of
from tornproof.reports.kit.json_fields import ResultError
from tornproof.reports.site import site_of


def row(fault: str, phase: str, verdict: str = "VALID", **others: Any) -> dict[str, Any]:
    found = verdict == "INVALID"
    return {
        "fault": fault,
        "family": "sizes",
        "is_set_aside": False,
        "argument": "",
        "seed": 0,
        "phase": phase,
        "verdict": verdict,
        "reached": True,
        "triggered": found,
        "property": "",
        "sentence": "",
        "cause": "",
        "case_count": 7,
        "cpu_seconds": 1.5,
        "replayed_count": 10 * found,
        "replay_count": 10,
        **others,
    }


FOUND = [row("found", "stateful", cpu_seconds=4.0), row("found", "crash", "INVALID", cpu_seconds=2.0)]
MISSED = [row("missed", "stateful"), row("missed", "crash", reached=False)]
FLAKY = [row("flaky", "stateful", "INVALID", replayed_count=9, is_set_aside=True)]
HARMLESS = [row("harmless", "stateful", argument="nobody reads it")]
TOLD_ROWS = [row("found", TOLD, "INVALID", replay_count=0, replayed_count=0, cpu_seconds=0.25)]
JUDGED = [row("blind", "stateful", "UNKNOWN", family=JUDGES), row("blinder", "stateful", family=JUDGES)]
RIGHT = [row("as right", "stateful", family=BENIGN), row("alarm", "stateful", "UNKNOWN", family=BENIGN)]
ALL_ROWS = [*TOLD_ROWS, *FOUND, *MISSED, *FLAKY, *HARMLESS, *JUDGED, *RIGHT]


def written(folder: Path, rows: list[dict[str, Any]], wanted_count: int | None = None) -> Path:
    """Write a file of trials, without the number of those that were wanted as earlier releases did."""
    path = folder / of_reports.TRIALS_FILE
    metadata = None if wanted_count is None else {of_reports.WANTED: str(wanted_count)}
    pq.write_table(pa.Table.from_pylist(rows, schema=SCHEMA.with_metadata(metadata)), path)
    return path


def test_the_names_are_those_of_the_harness() -> None:
    assert {name: SCHEMA.field(name).type for name in SCHEMA.names} == of_reports.TYPES
    assert (of_reports.TOLD, of_reports.JUDGES, of_reports.BENIGN) == (TOLD, JUDGES, BENIGN)


def test_a_file_gives_the_trials_of_its_rows_and_told_ones_are_apart(tmp_path: Path) -> None:
    trials = read_trials(written(tmp_path, ALL_ROWS))
    assert trials == trials_of(ALL_ROWS)
    assert [each.fault for each in told_of(trials)] == ["found"]
    assert len(untold_of(trials)) == 8 and [len(each.attempts) for each in trials] == [1, 2, 2, 1, 1, 1, 1, 1, 1]


def test_a_trial_takes_the_time_up_to_its_first_finding_and_only_what_replays_each_time_is_detected() -> None:
    found, missed, flaky, harmless, blind, blinder, *_ = untold_of(trials_of(ALL_ROWS))
    assert found.is_detected and found.cpu_seconds == 6 and found.triggered and found.found is not None
    assert found.found.phase == "crash"
    assert not missed.is_detected and missed.reached and not missed.triggered and missed.cpu_seconds == 3
    assert not flaky.is_detected and flaky.triggered
    assert harmless.is_fault is False
    assert blind.is_detected and blind.found is None and not blinder.is_detected


def test_totals_are_of_families_of_what_is_set_aside_and_of_all_without_the_harmless_and_the_benign() -> None:
    counts = {each.name: (each.trial_count, each.detected_count) for each in totals(untold_of(trials_of(ALL_ROWS)))}
    assert counts == {"judges": (2, 1), "sizes": (3, 1), "set aside": (1, 0), "all": (3, 1)}
    times = [each.median_seconds for each in totals(untold_of(trials_of(ALL_ROWS)))]
    assert times == [1.5, 6.0, None, 6.0]
    (one,) = [
        each
        for each in totals(trials_of([row(str(n), "x", "INVALID", cpu_seconds=n) for n in range(100)]))
        if each.name == "all"
    ]
    assert one.median_seconds == 49.5 and one.percentile_seconds == 94


def test_the_page_names_what_is_missed_what_raises_an_alarm_and_what_nothing_notices(tmp_path: Path) -> None:
    page = faults_page(written(tmp_path, ALL_ROWS))
    text = re.sub(r"<svg.*?</svg>", "", page.body, flags=re.DOTALL)
    assert page.verdict == "INVALID" and "finds 1 of 3 planted faults" in text
    assert re.findall(r"<li>(.*?)</li>", text) == [
        "alarm, seed 0: stateful: ",
        "blinder, seed 0",
        "missed (sizes), seed 0: reached",
        "flaky (sizes, set aside), seed 0: triggered",
    ]
    assert "(1 of 1)" in text and "✓ 2.0 s" in text and "not reached" in text and "nobody reads it" in text
    assert "<svg" in page.body


def test_a_page_without_anything_missed_is_valid_and_a_report_has_it(tmp_path: Path) -> None:
    written(tmp_path, [*FOUND, *HARMLESS, RIGHT[0], JUDGED[0]])
    site = site_of(tmp_path)
    assert site.verdict == "VALID" and [page.key for page in site.pages] == ["faults"]
    assert "verdict on Planted faults" in site.junit


@pytest.mark.parametrize(
    ("rows", "wanted", "verdict", "words"),
    [
        ([], None, "UNKNOWN", "0 of 0 trials have ended."),
        ([], 3, "UNKNOWN", "0 of 3 trials have ended"),
        (FOUND, 2, "UNKNOWN", "1 of 2 trials have ended"),
        (FOUND, 1, "VALID", "finds 1 of 1 planted fault."),
        (FOUND, None, "VALID", "finds 1 of 1 planted fault."),
        (MISSED, 2, "INVALID", "1 of 2 trials have ended"),
        (TOLD_ROWS, 1, "VALID", "The cheapest explorer, told the scenario, finds 1 of 1 planted fault."),
    ],
)
def test_no_trials_or_fewer_than_were_wanted_are_unknown_unless_something_is_missed(
    tmp_path: Path, rows: list[dict[str, Any]], wanted: int | None, verdict: str, words: str
) -> None:
    """No trials, as an interrupt left them, were VALID: nothing had failed."""
    page = faults_page(written(tmp_path, rows, wanted))
    assert page.verdict == verdict and words in page.body


def test_a_told_trial_that_misses_or_dies_counts_and_is_listed(tmp_path: Path) -> None:
    """Only those of checks counted, but for the exit code of the command all."""
    page = faults_page(written(tmp_path, [*FOUND, row("dull", TOLD), row("dead", TOLD, "UNKNOWN")]))
    assert page.verdict == "INVALID" and "finds 1 of 1 planted fault." in page.body
    assert re.findall(r"<li>(.*?)</li>", page.body) == ["dull (sizes), told: reached", "dead (sizes), told: reached"]


def test_a_number_of_wanted_trials_that_is_none_is_rejected(tmp_path: Path) -> None:
    path = tmp_path / of_reports.TRIALS_FILE
    pq.write_table(pa.Table.from_pylist(FOUND, schema=SCHEMA.with_metadata({of_reports.WANTED: "many"})), path)
    with pytest.raises(ResultError, match="many"):
        faults_page(path)


@pytest.mark.parametrize(
    ("table", "field"),
    [
        (pa.table({"fault": ["x"]}), "family"),
        (pa.Table.from_pylist(FOUND, schema=SCHEMA).drop_columns(["cpu_seconds"]), "cpu_seconds"),
        (
            pa.Table.from_pylist(
                [{**FOUND[0], "phase": None}], schema=pa.schema([f.with_nullable(True) for f in SCHEMA])
            ),
            "phase",
        ),
    ],
)
def test_another_file_is_rejected_by_its_field(tmp_path: Path, table: pa.Table, field: str) -> None:
    path = tmp_path / "other.parquet"
    pq.write_table(table, path)
    with pytest.raises(ResultError) as raised:
        read_trials(path)
    assert raised.value.field == field and raised.value.file == str(path)


def test_a_file_that_is_no_parquet_is_rejected(tmp_path: Path) -> None:
    path = tmp_path / of_reports.TRIALS_FILE
    path.write_bytes(b"nothing of the kind")
    with pytest.raises(ResultError):
        read_trials(path)
