"""Results as JUnit XML for continuous integration: a suite for each phase or table."""

from __future__ import annotations

import io
from collections.abc import Iterator, Mapping, Sequence

from junitparser import Error, Failure, JUnitXml, Skipped, TestCase, TestSuite

from tornproof.harness.common.shell_word import shell_word
from tornproof.reports.faults.trials import KEY as FAULTS_KEY
from tornproof.reports.folder import CAMPAIGN_KEY, FindingFile, Folder
from tornproof.reports.kit.dedupe import Fold, folded
from tornproof.reports.kit.json_fields import ResultError, printable
from tornproof.reports.kit.page import Page
from tornproof.reports.run.document import Listed, PhaseResult, Run
from tornproof.reports.table.fields import Compatibility, Partition, Problem, Verified, read_verified

NAME = "tornproof"
TEXT_CHARACTERS_MAX = 2_000
Result = Failure | Error | Skipped


def junit_of(folder: Folder, pages: Sequence[Page], damaged: Sequence[ResultError]) -> str:
    """Return the newest results of a folder as JUnit XML.

    Verdicts on campaigns are those of their pages; `damaged` are errors of unreadable results.
    """
    stems = {finding.stem: finding for finding in folder.findings}
    xml = JUnitXml(NAME)
    for run in folder.newest_runs:
        for suite in _run_suites(run, stems):
            xml.add_testsuite(suite)
    by_key = {page.key for page in pages}
    for table in folder.newest_tables:
        if table.key in by_key:
            verified = read_verified(table.document["verify"], file=table.file, path="verify")
            xml.add_testsuite(_table_suite(verified))
    for page in pages:
        if page.key == CAMPAIGN_KEY:
            xml.add_testsuite(_page_suite(page, folder.campaign_findings))
        elif page.key == FAULTS_KEY:
            xml.add_testsuite(_page_suite(page, ()))
    if not folder.runs and not folder.is_campaign and folder.findings:
        folds = folded(folder.findings)
        xml.add_testsuite(
            _suite("findings", [_case("findings", _title(each), _failure(each, stems)) for each in folds])
        )
    if damaged:
        errors = [_case("results", each.file, Error(_clean(str(each)), "unreadable")) for each in damaged]
        xml.add_testsuite(_suite("results that cannot be read", errors))
    written = io.BytesIO()
    xml.write(written)
    return written.getvalue().decode()


def _run_suites(run: Run, files: Mapping[str, FindingFile]) -> Iterator[TestSuite]:
    for phase in run.phases:
        yield _phase_suite(run, phase, files)
    names = {phase.name for phase in run.phases}
    cases = [
        _case("check", _title(fold), _failure(fold, files))
        for fold in folded(each for each in run.findings if each.phase not in names)
    ]
    if not run.phases:
        cases.append(_case("check", "verdict", Error("no phase was run", "UNKNOWN")))
    if cases:
        yield _suite(f"check {run.target}, {run.preset}", cases)


def _phase_suite(run: Run, phase: PhaseResult, files: Mapping[str, FindingFile]) -> TestSuite:
    """Return a phase's findings and test cases, and its verdict if there is no finding."""
    folds = folded(finding for finding in run.findings if finding.phase == phase.name)
    scenarios = {files[each.stem].scenario for fold in folds for each in fold.all if each.stem in files}
    classname = f"check.{phase.name}"
    cases = [_case(classname, _title(fold), _failure(fold, files)) for fold in folds]
    if not folds or phase.verdict == "UNKNOWN":
        cases.insert(0, _case(classname, f"verdict on {phase.name}", _of_verdict(phase)))
    for test_case in phase.test_cases:
        if test_case.name not in scenarios:
            case = _case(classname, test_case.name, None if test_case.explored else Skipped("nothing was explored"))
            ended = "to the end of its bound" if test_case.complete else "not to the end"
            case.system_out = _clean(f"explored {test_case.explored}, {ended}: {test_case.bound}")
            cases.append(case)
    cases[0].time = phase.seconds
    facts = {
        "explored": phase.explored,
        "complete": str(phase.complete).lower(),
        "bound": phase.bound,
        "controls": phase.controls,
        "note": phase.note,
        "seed": run.seed,
        "result": run.file,
        **{f"reached: {name}": count for name, count in phase.reached.items()},
        **{f"exposed: {name}": count for name, count in phase.exposures.items()},
    }
    return _suite(f"check {run.target}, {run.preset}: {phase.name}", cases, facts)


def _of_verdict(phase: PhaseResult) -> Result | None:
    if phase.verdict == "VALID":
        return None
    reason = phase.note or f"controls: {phase.controls}; {phase.bound}"
    if phase.verdict == "UNKNOWN":
        return Error(_clean(reason), "UNKNOWN")
    return Failure(_clean(f"INVALID, and no finding is listed: {reason}"), "INVALID")


def _table_suite(verified: Verified) -> TestSuite:
    """Return a table's verdict by partition; native ones without problems are skipped, as values are not looked at."""
    cases = [_case("verify", "_txn and _meta", _of_problems(verified.problems))]
    cases += [_case("verify", partition.name, _of_partition(partition)) for partition in verified.partitions]
    if verified.compatibility is not None:
        cases.append(_case("verify", f"as {verified.compatibility.preset}", _of_compatibility(verified.compatibility)))
    return _suite(f"verify {verified.table}", cases, {"version": verified.version, **verified.counts})


def _of_partition(partition: Partition) -> Result | None:
    if partition.is_native and not partition.problems:
        return Skipped(_clean(f"native: looked at only {partition.looked_at}"))
    return _of_problems(partition.problems)


def _of_problems(problems: Sequence[Problem]) -> Failure | None:
    if not problems:
        return None
    sentences = [
        f"{each.file}: {each.field}{'' if each.offset_bytes is None else f' at byte {each.offset_bytes}'}: "
        f"expected {each.expected}, found {each.actual}"
        for each in problems
    ]
    return _with_text(Failure(_clean(sentences[0]), "damaged"), sentences)


def _of_compatibility(compatibility: Compatibility) -> Failure | None:
    return None if compatibility.can_continue else Failure(_clean(compatibility.reason), "cannot continue")


def _page_suite(page: Page, findings: Sequence[FindingFile]) -> TestSuite:
    """Return a suite with the verdict of the page of a campaign or of planted faults, and its findings."""
    files = {each.stem: each for each in findings}
    cases = [_case(page.key, _title(fold), _failure(fold, files)) for fold in folded(findings)]
    result: Result | None = None
    if page.verdict == "UNKNOWN":
        result = Error("UNKNOWN, see the report", "UNKNOWN")
    elif page.verdict == "INVALID" and not cases:
        result = Failure("INVALID, see the report", "INVALID")
    if result is not None or not cases:
        cases.insert(0, _case(page.key, f"verdict on {page.title}", result))
    return _suite(page.title, cases)


def _title(fold: Fold[Listed] | Fold[FindingFile]) -> str:
    return f"{fold.first.violated} [{fold.first.stem}]"


def _failure(fold: Fold[Listed] | Fold[FindingFile], files: Mapping[str, FindingFile]) -> Failure:
    """Return a failure with the replay line of each finding."""
    lines = []
    for each in fold.all:
        lines.append(each.sentence)
        known = files.get(each.stem)
        lines.append(f"  replay: tornproof replay {shell_word(known.file if known else each.file)}")
    more = f" (and {len(fold.others)} like it)" if fold.others else ""
    return _with_text(Failure(_clean(fold.first.sentence) + more, _clean(fold.first.violated)), lines)


def _with_text(failure: Failure, lines: Sequence[str]) -> Failure:
    failure.text = "\n".join(map(_clean, lines))
    return failure


def _case(classname: str, name: str, result: Result | None) -> TestCase:
    case = TestCase(_clean(name), _clean(f"{NAME}.{classname}"), 0.0)
    if result is not None:
        case.result = [result]
    return case


def _suite(name: str, cases: Sequence[TestCase], facts: Mapping[str, object] | None = None) -> TestSuite:
    suite = TestSuite(_clean(name))
    # Some readers require properties before cases.
    for fact, value in (facts or {}).items():
        suite.add_property(_clean(fact), _clean(str(value)))
    suite.add_testcases(list(cases))
    return suite


def _clean(text: str) -> str:
    """Return text that XML can contain: no control characters and no lone surrogates."""
    return printable(text, TEXT_CHARACTERS_MAX)
