"""The fuzzer finds planted bugs with every installed engine, and prints how to reproduce them."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import fuzz_run
import pytest
from command_line import TIMEOUT_SECONDS
from depth import always_if, nightly
from fuzz_child import ATHERIS, MUTATION, has_atheris
from fuzz_run import Plan, Result, fuzz

ENGINES = [MUTATION, *([ATHERIS] if has_atheris() else [])]
SECONDS = 60.0


def run(target: str, engine: str, folder: Path) -> Result:
    return fuzz(target, Plan(folder=folder, engine=engine, seconds=SECONDS, inputs=40, seed=1, deaths_max=1))


def replay(target: str, path: Path) -> subprocess.CompletedProcess[str]:
    line = [sys.executable, fuzz_run.__file__, target, "--input", str(path)]
    return subprocess.run(line, capture_output=True, text=True, timeout=TIMEOUT_SECONDS, check=False)


@pytest.mark.parametrize(
    ("engine", "target", "kind", "input_start"),
    [
        *((engine, "planted_index_error", "IndexError", b"I") for engine in ENGINES),
        *((engine, "planted_hoard", "memory", b"M") for engine in ENGINES),
        # Two seconds are waited for this one.
        *(nightly(engine, "planted_hang", "hang", b"H") for engine in ENGINES),
    ],
)
def test_planted_bug_is_found_and_kept(engine: str, target: str, kind: str, input_start: bytes, tmp_path: Path) -> None:
    result = run(target, engine, tmp_path)
    (bug,) = result.bugs
    assert bug.name.startswith(f"{kind}-")
    assert bug.read_bytes()[:1] == input_start
    assert bug.with_name(f"{bug.name}.txt").read_text()
    assert f"{result}".startswith(target)


@pytest.mark.parametrize("engine", always_if(lambda engine: engine == ENGINES[0], ENGINES))
def test_sound_decoder_has_no_bugs_and_all_inputs_count(engine: str, tmp_path: Path) -> None:
    result = run("cv", engine, tmp_path)
    assert result.bugs == []
    assert result.deaths == 0
    assert result.input_count >= 40
    assert (result.edges > 0) == (engine == ATHERIS)


def test_target_that_cannot_be_imported_is_an_error_and_no_bug(tmp_path: Path) -> None:
    with pytest.raises(RuntimeError, match="KeyError: 'unheard'"):
        run("unheard", MUTATION, tmp_path)


@pytest.mark.nightly
def test_kept_input_shows_its_bug_again_and_a_harmless_one_does_not(tmp_path: Path) -> None:
    for target, content, code in (("planted_hang", b"H", 1), ("planted_hang", b"x", 0)):
        path = tmp_path / "input"
        path.write_bytes(content)
        again = replay(target, path)
        assert again.returncode == code, again
        assert bool(again.stdout) == bool(code)


@pytest.mark.nightly
def test_bug_of_an_earlier_run_is_tried_again(tmp_path: Path) -> None:
    bugs = tmp_path / "cv" / "bugs"
    bugs.mkdir(parents=True)
    (bugs / "hang-00000000").write_bytes(b"once")
    (bugs / "hang-00000000.txt").write_text("a traceback")
    result = run("cv", MUTATION, tmp_path)
    assert (result.bugs, result.deaths) == ([], 0) and result.input_count >= 40
    assert (tmp_path / "cv" / "corpus" / "hang-00000000").read_bytes() == b"once"
