"""What consoles print: text as it is, but for control characters."""

import io

from tornproof.cli.console import VisibleConsole, result_grid


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
