"""Inputs in which fuzzing found a bug once, as small as they could be made."""

from __future__ import annotations

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


@pytest.mark.parametrize("name", REGRESSIONS)
def test_input_that_showed_a_bug_once_shows_it_no_more(name: str, tmp_path: Path) -> None:
    target, content = REGRESSIONS[name]
    path = tmp_path / "input"
    path.write_bytes(content)
    line = [sys.executable, fuzz_run.__file__, target, "--input", str(path)]
    again = subprocess.run(line, capture_output=True, text=True, timeout=TIMEOUT_SECONDS, check=False)
    assert (again.returncode, again.stdout) == (0, ""), again
