"""What consoles print: text as it is, but for control characters."""

import io
import os
import subprocess
import sys

import pytest

from tornproof.cli.console import VisibleConsole, result_grid
from tornproof.cli.output import visible
from tornproof.harness.common.shell_word import shell_word


def test_brackets_and_colons_in_names_are_no_markup_and_no_emoji() -> None:
    # A table named `:x:` was shown as a cross, and one named `[red]x[/red]` as a red x.
    out = io.StringIO()
    console = VisibleConsole(file=out, width=80, force_terminal=True)
    grid = result_grid("[bold]table", wraps=("table",))
    grid.add_row(":x:[red]x[/red]")
    console.print(":x:[red]x[/red] and 7")
    console.print(grid)
    printed = out.getvalue()
    assert printed.count(":x:[red]x[/red]") == 2
    assert "[bold]table" in printed
    assert printed.startswith(":x:[red]x[/red] and 7\n")


@pytest.mark.parametrize("name", ["t", "a b'c", "-c", "c\nx", "c\udcffab", "\u202etable", "a\\b\t'"])
def test_a_path_in_a_next_step_is_what_a_shell_makes_of_it_as_it_is_printed(name: str) -> None:
    """A line break was printed as two characters within quotes, and a leading hyphen was an option."""
    word = visible(shell_word(name))
    ran = subprocess.run(["bash", "-c", f"printf %s {word}"], capture_output=True, check=True)
    assert ran.stdout.removeprefix(b"./") == os.fsencode(name) and not ran.stdout.startswith(b"-")


@pytest.mark.skipif(not os.path.exists("/dev/full"), reason="needs a file that is always full")  # noqa: PTH110
def test_an_error_that_cannot_be_printed_keeps_its_exit_code() -> None:
    with open("/dev/full", "wb") as full:  # noqa: PTH123
        command = [sys.executable, "-m", "tornproof", "verify", "/nonexistent"]
        assert subprocess.run(command, stderr=full, check=False).returncode == 2
