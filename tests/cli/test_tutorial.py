"""The tutorial: its commands are run, and what it shows of their output is what they print."""

import re
import shutil
import subprocess
from pathlib import Path

import pytest
from command_line import WarmRunner

ROOT = Path(__file__).parents[2]
TEXT = (ROOT / "docs" / "tutorial.md").read_text(encoding="utf-8")
SHELL = ("cp ", "printf ")
NOT_RUN = ("make check", "export ")
"""What the other tests of the README's commands run, and what changes a shell."""


def steps() -> list[tuple[str, list[str]]]:
    """Return each command of the tutorial with the lines that it shows below it."""
    found: list[tuple[str, list[str]]] = []
    for block in re.findall(r"```console\n(.*?)```", TEXT, re.DOTALL):
        for line in block.splitlines():
            if line.startswith("$ "):
                found.append((line[2:], []))
            else:
                found[-1][1].append(line)
    return [step for step in found if not step[0].startswith(NOT_RUN)]


def test_every_command_prints_what_the_tutorial_shows(
    tornproof: WarmRunner, questdb_data: Path, tmp_path: Path
) -> None:
    shutil.copytree(questdb_data / "tables/9.4.2/chain/table", tmp_path / ".build/chain")
    assert len(steps()) == 6
    for command, shown in steps():
        if command.startswith(SHELL):
            subprocess.run(command, shell=True, cwd=tmp_path, check=True, capture_output=True)
            continue
        run = tornproof(*command.removeprefix("tornproof ").split(), folder=tmp_path)
        printed = " ".join((run.out + run.err).split())
        for line in shown:
            for part in filter(None, (part.strip() for part in line.split("…"))):
                assert " ".join(part.split()) in printed, (command, part, printed)


def test_its_python_runs(
    questdb_data: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    shutil.copytree(questdb_data / "tables/9.4.2/chain/table", tmp_path / ".build/chain")
    monkeypatch.chdir(tmp_path)
    (example,) = re.findall(r"```python\n(.*?)```", TEXT, re.DOTALL)
    exec(compile(example, "tutorial.md", "exec"), {})
    assert capsys.readouterr().out.startswith("5 ")


@pytest.mark.parametrize("name", ["tutorial", "operators", "nightly"])
def test_links_lead_somewhere(name: str) -> None:
    text = (ROOT / "docs" / f"{name}.md").read_text(encoding="utf-8")
    links = re.findall(r"\]\(([^)#]+)\)", text)
    assert links and [link for link in links if not (ROOT / "docs" / link).exists()] == []
