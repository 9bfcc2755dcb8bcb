"""Minimized inputs in which fuzzing once found a bug."""

import json
import subprocess
import sys
from pathlib import Path

import fuzz_run
import pytest
from command_line import TIMEOUT_SECONDS
from fuzz_inputs import FACTS, joined

REGRESSIONS = {
    "an_array_of_16_million_empty_lists_took_600_MB": ("raw_arrays", b"\x01\x02\xff\xff\xff" + bytes(5)),
    "empty_lists_in_32_dimensions_would_have_taken_4_GB": (
        "raw_arrays",
        b"\x1f\x20\xff\xff\xff\0" + 30 * b"\1\0\0\0" + bytes(4),
    ),
    "four_billion_nulls_of_no_bytes_took_569_MB": (
        "chunk",
        joined(FACTS.pack(-1, 7, 0, 0, 0, 0, (1 << 32) - 1, (1 << 32) - 1, 1), b"", b"", b""),
    ),
    "a_condition_of_a_million_characters_took_12_seconds": ("predicate", b"\0" + 149_000 * b"l=1 OR " + b"l=1"),
}


# Each input is tried as `fuzz_run.py TARGET --input FILE` does, but all in one process: to start one takes longest.
TRY_ALL = """
import json, pathlib, sys
import fuzz_run
for path in map(pathlib.Path, sys.argv[1:]):
    bugs = fuzz_run.run_one(path.parent.name, path.read_bytes())
    print(json.dumps([path.name, [[bug.name, bug.report] for bug in bugs]]))
"""


@pytest.fixture(scope="module")
def bugs(tmp_path_factory: pytest.TempPathFactory) -> dict[str, list[list[str]]]:
    """What each input shows."""
    folder, paths = tmp_path_factory.mktemp("inputs"), []
    for name, (target, content) in REGRESSIONS.items():
        path = folder / target / name
        path.parent.mkdir(exist_ok=True)
        path.write_bytes(content)
        paths.append(path)
    done = subprocess.run(
        [sys.executable, "-c", TRY_ALL, *map(str, paths)],
        cwd=Path(fuzz_run.__file__).parent,
        capture_output=True,
        text=True,
        timeout=TIMEOUT_SECONDS,
        check=True,
    )
    return dict(json.loads(line) for line in done.stdout.splitlines())


@pytest.mark.parametrize("name", REGRESSIONS)
def test_input_that_showed_a_bug_once_shows_it_no_more(bugs: dict[str, list[list[str]]], name: str) -> None:
    assert bugs[name] == []
