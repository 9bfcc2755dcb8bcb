"""The workflow in docs/nightly.md: what it runs exists, and what it keeps is what the commands write."""

import os
import re
import shlex
import subprocess
import sys
from pathlib import Path
from typing import Any

import msgspec
import pytest
from command_line import ROOT, TIMEOUT_SECONDS, WarmRunner

WORKFLOW: dict[str, Any] = msgspec.yaml.decode(
    re.findall(r"```yaml\n(.*?)```", (ROOT / "docs" / "nightly.md").read_text(), re.DOTALL)[0]
)
STEPS: list[dict[str, Any]] = WORKFLOW["jobs"]["crashes"]["steps"]
LINES = [line.strip() for step in STEPS for line in step.get("run", "").splitlines()]


def test_each_step_runs_or_uses_something_and_the_cache_is_restored_under_what_it_is_saved_as() -> None:
    assert all(("run" in step) is not ("uses" in step) for step in STEPS)
    restored, saved = (step for step in STEPS if step.get("uses", "").startswith("actions/cache/"))
    assert restored["with"]["path"] == saved["with"]["path"] == "results"
    assert restored["with"]["key"] == saved["with"]["key"] and saved["if"] == "${{ always() }}"
    assert restored["with"]["key"].startswith(restored["with"]["restore-keys"])


def test_the_commands_have_the_options(tornproof: WarmRunner) -> None:
    commands = [shlex.split(command) for line in LINES for command in re.findall(r"\btornproof .*", line)]
    commands = [command for command in commands if command[1] in ("check", "replay")]
    assert {command[1] for command in commands} == {"check", "replay"}
    for command in commands:
        run = tornproof(command[1], "--help")
        assert run.code == 0
        options = [word for word in command if word.startswith("--")]
        assert all(re.search(rf"{option}\b", run.out) for option in options), (command, run.out)


def test_pytest_has_the_options(tmp_path: Path) -> None:
    (line,) = [line for line in LINES if line.startswith("pytest ")]
    words = [word.replace("auto", "0") for word in shlex.split(line)[1:]]
    done = subprocess.run(
        [sys.executable, "-m", "pytest", "--rootdir", tmp_path, "-c", os.devnull, *words, tmp_path],
        cwd=tmp_path,
        capture_output=True,
        text=True,
        timeout=TIMEOUT_SECONDS,
        check=False,
    )
    assert done.returncode == pytest.ExitCode.NO_TESTS_COLLECTED, done


@pytest.mark.parametrize(("again", "code"), [((), 0), (("b",), 1)])
def test_a_finding_of_an_earlier_night_fails_the_night_while_it_happens(
    tmp_path: Path, again: tuple[str, ...], code: int
) -> None:
    """With a `tornproof` in place of ours that fails for some files."""
    (script,) = [step["run"] for step in STEPS if step.get("name") == "findings of earlier nights"]
    command = tmp_path / "tornproof"
    command.write_text('#!/bin/sh\necho "$@" >> asked\ntest ! -e "$2.again"\n')
    command.chmod(0o755)
    for folder, name in (("tests", "a"), ("findings", "b"), ("findings", "c")):
        (tmp_path / "results" / folder).mkdir(parents=True, exist_ok=True)
        (tmp_path / "results" / folder / f"{name}.json").touch()
    for name in again:
        (tmp_path / "results" / "findings" / f"{name}.json.again").touch()
    done = subprocess.run(
        ["bash", "-e", "-c", script],
        cwd=tmp_path,
        env={**os.environ, "PATH": f"{tmp_path}:{os.environ['PATH']}"},
        timeout=TIMEOUT_SECONDS,
        check=False,
    )
    assert done.returncode == code
    asked = (tmp_path / "asked").read_text().splitlines()
    assert asked == [f"replay results/{name}.json" for name in ("tests/a", "findings/b", "findings/c")]
