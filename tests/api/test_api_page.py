"""The page of the Python API."""

import re
from pathlib import Path

import pytest
from api_page import HEAD, PAGE, groups, page

import tornproof


def test_the_page_says_what_the_docstrings_say() -> None:
    assert PAGE.read_text(encoding="utf-8") == page(), "python docs/api_page.py makes it anew"


def test_every_public_name_stands_on_it_once() -> None:
    names = [name for each in groups().values() for name in each]
    assert sorted([*names, "__version__"]) == sorted(tornproof.__all__)


def test_its_example_runs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    (example,) = re.findall(r"```python\n(.*?)```", HEAD, re.DOTALL)
    monkeypatch.chdir(tmp_path)
    quick = example.replace('effort="small"', 'effort=1, only=["verify"]')
    assert quick != example
    exec(compile(quick, "example", "exec"), {})
    out = capsys.readouterr().out
    assert "1.5" in out and "True" in out
