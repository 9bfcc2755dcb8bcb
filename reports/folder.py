"""A folder of results: its runs, findings, tables and campaign, and files that are none of these."""

from __future__ import annotations

import itertools
import re
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from tornproof.reports.campaign.files import CAMPAIGN_FILE
from tornproof.reports.faults.trials import TRIALS_FILE
from tornproof.reports.kit.json_fields import Fields, ResultError, read_document
from tornproof.reports.kit.page import as_key
from tornproof.reports.run.document import Run, run_of

RUNS, FINDINGS, TABLES = "runs", "findings", "tables"
FINDING_FOLDERS = (FINDINGS, "tornproof-findings")
"""The second is the default directory of `check`."""
CAMPAIGN_KEY = "campaign"
"""The key of a campaign's page."""
CAMPAIGN_PREFIX = "campaign-"
FINDING_FORMATS = (1, 2, 3, 4)
_RUN_FILE = re.compile(r"run-(\d{4,9})\.json")


@dataclass(frozen=True, slots=True, kw_only=True)
class FindingFile:
    """A finding's file; its document is read again for its page, because it may be large."""

    path: Path
    file: str
    stem: str
    key: str
    violated: str
    phase: str
    sentence: str
    scenario: str


@dataclass(frozen=True, slots=True, kw_only=True)
class TableDocument:
    """What `verify` and `inspect` said of a table; two with one `identity` are of the same table."""

    file: str
    key: str
    table: str
    identity: str
    document: dict[str, Any]


@dataclass(slots=True, kw_only=True)
class Folder:
    """The contents of a folder, each list in order, the newest last.

    `trials` is the file of trials of planted faults, if there is one. `damaged` has the errors of unreadable results,
    `foreign` files that are not results, `keys` those of all pages.
    """

    directory: Path
    runs: list[Run] = field(default_factory=list)
    findings: list[FindingFile] = field(default_factory=list)
    tables: list[TableDocument] = field(default_factory=list)
    is_campaign: bool = False
    trials: Path | None = None
    damaged: list[ResultError] = field(default_factory=list)
    foreign: list[str] = field(default_factory=list)
    keys: set[str] = field(default_factory=set)

    @property
    def is_empty(self) -> bool:
        """Whether there is nothing to make a page from."""
        return not (self.runs or self.findings or self.tables or self.is_campaign or self.trials)

    @property
    def campaign_findings(self) -> list[FindingFile]:
        """The findings of the campaign, if the folder is a campaign's directory."""
        return [each for each in self.findings if self.is_campaign and each.stem.startswith(CAMPAIGN_PREFIX)]

    @property
    def newest_runs(self) -> list[Run]:
        """The newest run of each table and preset, the newest first; an abandoned run only if there is no other."""
        newest: dict[tuple[str, str], Run] = {}
        abandoned = [run for run in self.runs if run.is_abandoned]
        others = [run for run in self.runs if not run.is_abandoned]
        for run in reversed([*abandoned, *others]):
            newest.setdefault(run.series, run)
        return list(newest.values())

    @property
    def newest_tables(self) -> list[TableDocument]:
        """The newest document of each table."""
        return list({table.identity: table for table in self.tables}.values())


def results_in(directory: Path) -> Folder:
    """Return the contents of a folder; raises ResultError if it is not a folder."""
    if not directory.is_dir():
        actual = "a file" if directory.exists() else "nothing of this name"
        raise ResultError(file=str(directory), field="the folder", expected="a folder of results", actual=actual)
    trials = directory / TRIALS_FILE
    folder = Folder(directory=directory, trials=trials if trials.is_file() else None)
    for path in _json_files(directory):
        _take(folder, path, _add_by_content)
    for path in sorted(_json_files(directory / RUNS), key=_run_order):
        _take(folder, path, _add_run if _RUN_FILE.fullmatch(path.name) else _add_foreign)
    for name in FINDING_FOLDERS:
        for path in _json_files(directory / name):
            _take(folder, path, _add_finding)
    for path in _json_files(directory / TABLES):
        _take(folder, path, _add_table)
    return folder


def next_run_number(directory: Path) -> int:
    """Return the number of the next run in a folder."""
    matches = [_RUN_FILE.fullmatch(path.name) for path in _json_files(directory / RUNS)]
    return 1 + max((int(match[1]) for match in matches if match), default=0)


def run_file(number: int) -> str:
    """Return the name of a run's file."""
    return f"{RUNS}/run-{number:04}.json"


def _json_files(directory: Path) -> list[Path]:
    """Return the JSON files of a folder by name, none if it does not exist; hidden ones are unfinished."""
    try:
        paths = sorted(directory.iterdir())
    except FileNotFoundError:
        return []
    except OSError as error:
        actual = error.strerror or str(error)
        raise ResultError(file=str(directory), field="the folder", expected="a folder", actual=actual) from error
    return [path for path in paths if path.name.endswith(".json") and not path.name.startswith(".")]


def _run_order(path: Path) -> tuple[int, str]:
    match = _RUN_FILE.fullmatch(path.name)
    return (int(match[1]) if match else 0, path.name)


def _take(folder: Folder, path: Path, add: Callable[[Folder, Path, Any], None]) -> None:
    """Add a file to the folder; an error is recorded."""
    try:
        add(folder, path, read_document(path))
    except ResultError as error:
        folder.damaged.append(error)


def _add_by_content(folder: Folder, path: Path, document: Any) -> None:
    """Add a document whose directory does not say what it is."""
    match document:
        case {"phases": _, "findings": _}:
            _add_run(folder, path, document)
        case {"partitions": _, "sound": _}:
            whole = {"format": 1, "verify": document, "inspections": {}, "left_out": 0}
            _add_table(folder, path, whole)
        case {"evidence": _, "sentence": _}:
            _add_finding(folder, path, document)
        case {"spec": _, "digest": _} if path.name == CAMPAIGN_FILE:
            folder.is_campaign = True
        case {"result_hash": _, "verdict": _} if path.with_name(CAMPAIGN_FILE).is_file():
            # The campaign's page shows it.
            pass
        case {"report": _, "junit": _}:
            # An earlier report on this folder.
            pass
        case _:
            _add_foreign(folder, path, document)


def _add_run(folder: Folder, path: Path, document: Any) -> None:
    match = _RUN_FILE.fullmatch(path.name)
    name = f"run {int(match[1])}" if match else path.stem
    key = _new_key(folder, path.stem) if match else _new_key(folder, "run", path.stem)
    folder.runs.append(run_of(document, file=str(path), name=name, key=key))


def _add_finding(folder: Folder, path: Path, document: Any) -> None:
    fields = Fields(document, file=str(path))
    fields.demand_format(*FINDING_FORMATS)
    # Findings without a decision log have the scenario in the evidence.
    evidence = fields.inner("evidence").document
    scenario = fields.document.get("scenario") or evidence.get("scenario")
    folder.findings.append(
        fields.record(
            FindingFile,
            path=path,
            file=str(path),
            stem=path.stem,
            key=_new_key(folder, "finding", path.stem),
            violated=fields.text("property"),
            scenario=scenario if isinstance(scenario, str) else "",
        )
    )


def _add_table(folder: Folder, path: Path, document: Any) -> None:
    verified = Fields(document, file=str(path)).inner("verify")
    key = _new_key(folder, "table", str(len(folder.tables) + 1))
    table = verified.text("table")
    # Documents of earlier releases have the path as it was typed, and a file in `tables` for each table.
    identity = verified.text("path", str(path) if path.parent == folder.directory / TABLES else table)
    folder.tables.append(TableDocument(file=str(path), key=key, table=table, identity=identity, document=document))


def _add_foreign(folder: Folder, path: Path, document: Any) -> None:
    folder.foreign.append(str(path))


def _new_key(folder: Folder, *words: str) -> str:
    """Return a key for a page from words, unique in the folder."""
    keys = itertools.chain([as_key(*words)], (as_key(*words, str(number)) for number in itertools.count(2)))
    key = next(key for key in keys if key not in folder.keys)
    folder.keys.add(key)
    return key
