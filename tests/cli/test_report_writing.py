"""Runs that are added to a folder of results: they get the next number, and are whole from the first moment on."""

import errno
import json
import os
from pathlib import Path
from typing import Any

import pytest

from tornproof.cli import report_writing
from tornproof.cli.output import write_json
from tornproof.cli.report_writing import save_run

RUN: dict[str, Any] = {"findings": [{"file": "elsewhere/power-1.json"}]}


def test_runs_are_numbered_and_refer_to_the_findings_of_the_folder(tmp_path: Path) -> None:
    paths = [save_run(RUN, tmp_path) for _ in range(2)]
    assert paths == [tmp_path / "runs/run-0001.json", tmp_path / "runs/run-0002.json"]
    assert json.loads(paths[1].read_text()) == {"findings": [{"file": "findings/power-1.json"}]}
    assert sorted((tmp_path / "runs").iterdir()) == paths


def test_a_run_takes_its_number_when_it_is_whole(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """After a kill its file was empty under its number, and all later reports on the folder were UNKNOWN."""

    def write(document: dict[str, Any], target: str) -> None:
        assert list((tmp_path / "runs").iterdir()) == []
        write_json(document, target)
        assert all(path.name.startswith(".") for path in (tmp_path / "runs").iterdir())

    monkeypatch.setattr(report_writing, "write_json", write)
    assert save_run(RUN, tmp_path).name == "run-0001.json"


def test_a_number_that_another_run_takes_meanwhile_is_left_to_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("tornproof.reports.folder.next_run_number", lambda _: 1)
    for hard_links in (True, False):
        if not hard_links:
            monkeypatch.setattr(os, "link", link_on_fat)
        before = {path.name: path.read_text() for path in (tmp_path / "runs").glob("*")}
        assert save_run(RUN, tmp_path).name == f"run-{len(before) + 1:04}.json"
        after = {path.name: path.read_text() for path in (tmp_path / "runs").glob("*")}
        assert len(after) == len(before) + 1 and before.items() <= after.items()


def link_on_fat(*_: object) -> None:
    raise PermissionError(errno.EPERM, os.strerror(errno.EPERM))
