"""`tornproof report DIR`: the results in a folder as one HTML page, and as JUnit XML for CI."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer
from rich.text import Text

from tornproof.cli.check_report import STYLES
from tornproof.cli.console import result_console
from tornproof.cli.output import ExitCode, JsonOption, check_outputs, write_json
from tornproof.cli.report_writing import HTML, JUNIT, write_report
from tornproof.harness.common.verdict import Verdict
from tornproof.pipeline.files import Location, local_path, location_of

if TYPE_CHECKING:
    from tornproof.reports.site import Site


def report(
    directory: Annotated[
        Location,
        typer.Argument(
            parser=location_of, metavar="DIR", help="Results of check, verify or campaign; also s3:// and hdfs://."
        ),
    ],
    out: Annotated[
        Path | None, typer.Option(metavar="FILE", help="Where the page goes; DIR/report.html by default.")
    ] = None,
    junit: Annotated[
        Path | None, typer.Option(metavar="FILE", help="Where the JUnit XML goes; DIR/junit.xml by default.")
    ] = None,
    json_target: JsonOption = None,
) -> int:
    """Write report.html and junit.xml from the results in a folder; the exit code is the verdict of the newest ones."""
    folder = local_path(directory)
    if folder is not None and folder.is_dir():
        check_outputs(out or folder / HTML, junit or folder / JUNIT, json_target)
    else:
        check_outputs(out, junit, json_target)
    written = write_report(directory, html=out, junit=junit)
    site, console = written.site, result_console(json_target)
    try:
        write_json(_document(str(out or directory / HTML), str(junit or directory / JUNIT), site), json_target)
    finally:
        written.print(console, with_summary=True)
    verdict = Verdict[site.verdict]
    console.print(Text.assemble(f"{directory}: ", (verdict.name, STYLES[verdict])))
    return ExitCode[verdict.name]


def _document(html: str, junit: str, site: Site) -> dict[str, Any]:
    """Return the JSON form of a report."""
    return {
        "format": 1,
        "report": html,
        "junit": junit,
        "verdict": site.verdict,
        "pages": [
            {"key": page.key, "group": page.group, "title": page.title, "verdict": page.verdict} for page in site.pages
        ],
        "findings": [
            {
                "file": fold.first.file,
                "property": fold.first.violated,
                "phase": fold.first.phase,
                "sentence": fold.first.sentence,
                "alike": [other.file for other in fold.others],
            }
            for fold in site.findings
        ],
        "notices": list(site.notices),
    }
