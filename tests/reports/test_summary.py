"""The summary of a report on a terminal: what somebody without a browser learns."""

import io
from pathlib import Path

from rich.console import Console
from run_documents import damaged_verify_document, invalid_run, phase_document, run_document, write, write_run

from tornproof.reports import terminal as summary
from tornproof.reports.site import site_of


def printed(folder: Path) -> list[str]:
    console = Console(file=io.StringIO(), width=400, highlight=False)
    site = site_of(folder)
    summary.print_summary(console, site)
    summary.print_notices(console, site)
    assert isinstance(console.file, io.StringIO)
    return console.file.getvalue().splitlines()


def test_the_newest_runs_are_told_phase_by_phase(tmp_path: Path) -> None:
    reached = {"a": 0, "b": 2}
    phases = phase_document(reached=reached), phase_document("power", "UNKNOWN", seconds=0, note="the time was over")
    write_run(tmp_path, 1, run_document(*phases))
    lines = printed(tmp_path)
    assert lines[1].split() == ["schedules", "1,200", "yes", "4.0", "300.0", "1", "of", "2", "VALID"]
    assert lines[2].split()[:5] == ["power", "1,200", "yes", "0.0", "-"]
    assert "power: the time was over" in lines
    assert lines[-1] == (
        "run 1, a small new table, hardened: UNKNOWN: Nothing was found, but power of 2 phases gave no verdict."
    )


def test_findings_are_told_once_with_their_replay_line(tmp_path: Path) -> None:
    write_run(tmp_path, 1, invalid_run("product-1", "product-2"))
    lines = printed(tmp_path)
    assert "violated a reader gets an answer" in lines
    assert "  product: reader 1: found at byte 0 (and 1 like it)" in lines
    assert [line for line in lines if "replay" in line] == [
        f"    replay: tornproof replay {tmp_path}/findings/product-1.json"
    ]


def test_tables_are_told_by_their_verdict(tmp_path: Path) -> None:
    write(tmp_path / "trades.json", damaged_verify_document())
    (line,) = printed(tmp_path)
    assert line.startswith("Table ") and line.endswith("trades: INVALID")


def test_what_is_left_out_is_told_and_long_lists_end(tmp_path: Path) -> None:
    write_run(tmp_path, 1, run_document(phase_document()))
    for number in range(summary.NOTICES_SHOWN + 3):
        write(tmp_path / f"other-{number:02}.json", {})
    lines = printed(tmp_path)
    assert f"left out is not a result of tornproof: {tmp_path}/other-00.json" in lines
    assert lines[-1] == "and 3 more, listed in the report"
