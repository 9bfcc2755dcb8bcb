"""Folders of results: a command adds its result, and a report shows all results of the folder.

The packages that reports need are imported only when one is written, so that other commands start faster.
"""

from __future__ import annotations

import os
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer
from rich.console import Console

from tornproof.cli import interruption
from tornproof.cli.output import check_outputs, make_folder, replacing, write_json
from tornproof.impl.errors import UsageError

if TYPE_CHECKING:
    from tornproof.pipeline.files import Location
    from tornproof.reports.site import Site

ReportOption = Annotated[
    Path | None,
    typer.Option("--report", metavar="DIR", help="Add the result to this folder, and rewrite its report.html."),
]

PACKAGES = ("jinja2", "junitparser", "markupsafe", "matplotlib")
"""The packages of the extra `reports`."""
HTML, JUNIT = "report.html", "junit.xml"
FINDINGS_OF_REPORT = "findings"
DOCUMENT_BYTES_MAX = 64 << 20
"""Larger documents of a directory elsewhere are left there."""


def demand_packages() -> None:
    """Raise UsageError if a package that reports need is missing."""
    missing = [name for name in PACKAGES if find_spec(name) is None]
    if missing:
        raise UsageError(f"a report needs {', '.join(missing)}: pip install 'tornproof[reports]'")


def prepare_outputs(report: Path | None, *files: str | Path | None, findings: Path | None = None) -> None:
    """Raise UsageError, before minutes are wasted, if an output has no place; make the folder of the report."""
    pages = () if report is None else (report / HTML, report / JUNIT)
    check_outputs(*files, *pages, folder=report, other_folders=[findings])
    if report is not None:
        demand_packages()
        make_folder(report)


def add_run(document: dict[str, Any], report: Path | None) -> Written | None:
    """Add the result of a check to a folder of results, if there is one, and write its report; raises UsageError."""
    if report is None:
        return None
    save_run(document, report)
    return write_report(report)


def save_run(document: dict[str, Any], directory: Path) -> Path:
    """Add the result of a check to a folder as its newest run, and return the file; raises UsageError.

    It refers to its findings by their files in the folder.
    """
    from tornproof.reports.folder import RUNS, next_run_number, run_file

    make_folder(directory / RUNS)
    findings = [each | {"file": f"{FINDINGS_OF_REPORT}/{Path(each['file']).name}"} for each in document["findings"]]
    number = next_run_number(directory)
    # A check that is killed must leave no number without a whole document.
    whole = directory / RUNS / f".{os.getpid()}.json"
    interruption.remove_at_end(whole.parent, whole.name)
    try:
        write_json(document | {"findings": findings}, str(whole))
        while True:
            path = directory / run_file(number)
            try:
                _give_name(whole, path)
            except FileExistsError:
                # Another check may finish at the same time.
                number += 1
            except OSError as error:
                raise UsageError(f"{path}: cannot write: {error.strerror or error}") from error
            else:
                return path
    finally:
        whole.unlink(missing_ok=True)


def _give_name(file: Path, path: Path) -> None:
    """Give a file a name that no other has; raises FileExistsError if one has it."""
    try:
        os.link(file, path)
    except FileExistsError:
        raise
    except OSError:
        # There are file systems without hard links.
        path.touch(exist_ok=False)
        file.replace(path)


@dataclass(frozen=True, slots=True, kw_only=True)
class Written:
    """A report that was written, and where."""

    site: Site
    html: Location
    junit: Location

    def print(self, console: Console, *, with_summary: bool = False) -> None:
        """Print where it is and what it leaves out; a command that has printed its own result needs no summary."""
        from tornproof.reports.terminal import print_notices, print_summary

        if with_summary:
            print_summary(console, self.site)
        print_notices(console, self.site)
        console.print(f"report: {self.html} (for CI: {self.junit})", soft_wrap=True)


def write_report(
    directory: Path | Location,
    *,
    html: Path | None = None,
    junit: Path | None = None,
    sums: Callable[[Path], Any] | None = None,
) -> Written:
    """Write the report on a folder, and return it; raises UsageError.

    HTML and JUnit XML go into the folder unless other paths are given. A command that has the sums of a campaign hands
    them over.
    """
    demand_packages()
    from tornproof.harness.counterexamples.older_words import in_present_words
    from tornproof.pipeline.campaign.directory import directory_sums
    from tornproof.pipeline.files import location_of
    from tornproof.reports.kit.json_fields import ResultError
    from tornproof.reports.site import site_of

    there = location_of(directory)
    with _at_hand(there) as folder:
        try:
            site = site_of(folder, translate=in_present_words, sums=sums or (lambda _: directory_sums(there)))
        except ResultError as error:
            raise UsageError(str(error).replace(str(folder), str(directory))) from error
    targets = location_of(html or there / HTML), location_of(junit or there / JUNIT)
    for target, text in zip(targets, (site.html, site.junit), strict=True):
        if target.is_local:
            with replacing(target.local) as partial:
                partial.write_text(text, encoding="utf-8")
        else:
            target.write_bytes(text.encode())
    return Written(site=site, html=targets[0], junit=targets[1])


@contextmanager
def _at_hand(directory: Location) -> Iterator[Path]:
    """Yield a folder of this machine with the documents of a directory, itself if it is local.

    The results and events of tasks stay where they are; no page shows more of them than their sums.
    """
    if directory.is_local:
        yield directory.local
        return
    with tempfile.TemporaryDirectory(prefix="tornproof-report-") as name:
        for file, size_bytes in directory.files_below():
            below = file.relative_to(directory)
            if file.name.endswith(".json") and size_bytes <= DOCUMENT_BYTES_MAX:
                target = Path(name, below)
                target.parent.mkdir(parents=True, exist_ok=True)
                target.write_bytes(file.read_bytes())
        yield Path(name)
