"""A server that died says of what."""

from pathlib import Path
from typing import Any, cast

import pytest

from tornproof.harness.systems.server.process import Server

START = "2026-01-01 I server started"
FAILED = "2026-01-01 E could not open"
CRASHED = "#  SIGSEGV (0xb) at pc=0x0"


@pytest.mark.parametrize(
    ("lines", "words"),
    [
        ((START,), START),
        ((START, FAILED, START), FAILED),
        ((START, FAILED, "#", CRASHED, FAILED), CRASHED),
        (
            (FAILED, *(f"{FAILED} {number}" for number in range(3))),
            " / ".join(f"{FAILED} {number}" for number in range(3)),
        ),
    ],
)
def test_the_signal_of_which_java_died_comes_before_errors_and_these_before_all_else(
    tmp_path: Path, lines: tuple[str, ...], words: str
) -> None:
    server = Server(cast(Any, None), tmp_path)
    server.log.write_text("\n".join(lines))
    assert server.last_words() == words
