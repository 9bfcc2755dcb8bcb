"""`tornproof barriers`: which syncs a commit needs, found by trying all sets of them under every persistence model."""

from __future__ import annotations

from typing import Annotated

import typer
from rich.table import Table

from tornproof.cli.console import result_console
from tornproof.cli.output import ExitCode, JsonOption, check_outputs, standard_output, write_json
from tornproof.cli.progress import progress_bar
from tornproof.harness.explorers.barriers.document import document, markdown
from tornproof.harness.explorers.barriers.explorer import ALL, Outcome, explore_barriers
from tornproof.impl.errors import UsageError


def barriers(
    as_markdown: Annotated[bool, typer.Option("--markdown", help="Print docs/guarantees.md instead.")] = False,
    json_target: JsonOption = None,
) -> int:
    """Find out which barriers F1 to F6 a commit needs: all 64 sets, under every model of what a crash may leave."""
    if as_markdown and json_target == "-":
        raise UsageError("--markdown and --json - both ask for standard output")
    check_outputs(json_target)
    with progress_bar() as progress:
        task = progress.add_task("sets of barriers", total=None)
        outcomes = explore_barriers(on_progress=lambda done, total: progress.update(task, completed=done, total=total))
    write_json(document(outcomes), json_target)
    if as_markdown:
        standard_output().write(markdown(outcomes))
    else:
        result_console(json_target).print(_table(outcomes))
    is_hardened_safe = all(outcome.is_safe for outcome in outcomes if outcome.barriers == ALL)
    return ExitCode.VALID if is_hardened_safe else ExitCode.INVALID


def _table(outcomes: list[Outcome]) -> Table:
    table = Table(title="Smallest sets of barriers under which nothing acknowledged is lost")
    for title in ("model", "smallest safe sets", "safe sets", "explored", "stands for"):
        table.add_column(title, overflow="fold")
    for model in document(outcomes)["models"]:
        mine = [outcome for outcome in outcomes if outcome.model.name == model["name"] and outcome.is_safe]
        table.add_row(
            model["name"],
            "; ".join(" ".join(names) or "none" for names in model["minimal_safe_sets"]) or "no set",
            f"{model['safe_set_count']} of {model['set_count']}",
            "completely" if all(outcome.is_complete for outcome in mine) else "a sample",
            model["stands_for"],
        )
    return table
