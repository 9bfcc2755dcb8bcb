"""`tornproof replay FINDING`: reproduce a finding from its file."""

from __future__ import annotations

import tempfile
from collections.abc import Iterable, Sequence
from contextlib import chdir
from dataclasses import replace
from pathlib import Path
from typing import Annotated, Any

import typer

from tornproof.cli.console import result_console
from tornproof.cli.explanation_print import print_explanation
from tornproof.cli.findings import ANSWERS, load_finding, root_of
from tornproof.cli.output import ExitCode, JsonOption, check_outputs, write_json
from tornproof.cli.replay_file import is_of_test, read_replay, replay_test
from tornproof.harness.common.shell_word import shell_word
from tornproof.harness.common.verdict import Finding, Verdict
from tornproof.harness.counterexamples.case_document import with_present_actions
from tornproof.harness.counterexamples.replay import Replayed, is_simulated
from tornproof.harness.counterexamples.words import causes_of
from tornproof.harness.explorers.recorded.checker import Checker
from tornproof.harness.explorers.recorded.explorer import RecordedQuestion, check_one
from tornproof.harness.mutation.replay import replay_planted
from tornproof.harness.recording.steps import Trace
from tornproof.harness.recording.trace_file import digest_of, read_content, trace_of
from tornproof.harness.replay import replay_finding
from tornproof.harness.simulator.filesystem.image import DiskImage
from tornproof.impl.errors import UsageError
from tornproof.pipeline.files import Location, location_of

OTHER_ORDER = (
    "It happens with the writer's actions as the file has them. The writer does others now, or in another order, and "
    "the verdict is on that."
)


def replay(
    finding: Annotated[
        Location,
        typer.Argument(
            parser=location_of,
            metavar="FINDING",
            help="A finding file that check, campaign or a test wrote; also s3://.",
        ),
    ],
    json_target: JsonOption = None,
    run_checker: Annotated[
        bool, typer.Option(help="Run the checker that a finding of `power` names: a command of whoever wrote the file.")
    ] = False,
    verbose: Annotated[
        bool, typer.Option("--verbose", help="Show the calls themselves, and not what they do.")
    ] = False,
) -> int:
    """Reproduce a finding from its file: exit 1 if it happens again, 0 if not."""
    check_outputs(json_target)
    if finding.is_local and finding.local.exists() and not finding.local.is_file():
        raise UsageError(f"{finding}: not a regular file, as that of a finding is")
    if finding.is_local:
        return _replay(finding.local, finding, json_target, run_checker=run_checker, verbose=verbose)
    with tempfile.TemporaryDirectory(prefix="tornproof-finding-") as folder:
        file = Path(folder, finding.name)
        file.write_bytes(finding.read_bytes())
        return _replay(file, finding, json_target, run_checker=run_checker, verbose=verbose)


def _replay(file: Path, finding: Location, json_target: str | None, *, run_checker: bool, verbose: bool) -> int:
    """Reproduce the finding of a file of this machine, which was given as `finding`."""
    if is_of_test(file):
        return _of_test(file, json_target)
    found, image, path = load_finding(file)
    document = {"format": 1, "finding": str(finding), "sentence": found.sentence}
    if is_simulated(found.evidence):
        replayed = _as_it_is(found, replay_planted(found), image, path)
        document |= {"same_evidence": replayed.is_same, "note": replayed.note}
        if replayed.evidence:
            document["explanation"] = replayed.evidence["explanation"]
    elif "replay" in found.evidence:
        # A copy of a remote file lies anywhere.
        roots = [root_of(file) if finding.is_local else None, Path.cwd()]
        replayed = _of_recorded(found, roots, run_checker=run_checker)
    else:
        replayed = _as_it_is(found, Replayed(verdict=replay_finding(found, image, path)), image, path)
    write_json({**document, "verdict": replayed.verdict.name}, json_target)
    _print(found, replayed, str(finding), json_target, verbose=verbose)
    return ExitCode[replayed.verdict.name]


def _as_it_is(found: Finding, replayed: Replayed, image: DiskImage, path: str) -> Replayed:
    """Return the result with our writer as it is, if it happens with the order of actions that the file has."""
    if replayed.verdict is not Verdict.INVALID or "test_case" not in found.evidence:
        return replayed
    test_case = with_present_actions(found.evidence["test_case"])
    if test_case is None:
        return replayed
    verdict = replay_finding(replace(found, evidence={**found.evidence, "test_case": test_case}), image, path)
    return replace(replayed, verdict=verdict, note=OTHER_ORDER)


def _of_recorded(found: Finding, roots: Iterable[Path | None], *, run_checker: bool) -> Replayed:
    """Ask the checker again, or say how: a finding of an older release has only the line."""
    evidence = found.evidence
    if not run_checker or "check" not in evidence:
        hint = ", or run its checker by --run-checker" if "check" in evidence else ""
        return Replayed(verdict=Verdict.UNKNOWN, note=f"it needs its trace and its checker{hint}: {evidence['replay']}")
    try:
        return _asked_again(evidence, [root for root in dict.fromkeys(roots) if root is not None and root.is_dir()])
    except (KeyError, TypeError, ValueError, AttributeError) as error:
        raise UsageError(f"the finding lacks what a replay needs: {type(error).__name__}: {error}") from error


def _asked_again(evidence: dict[str, Any], roots: Sequence[Path]) -> Replayed:
    """Ask the checker in the first directory from which the path of the trace leads to it."""
    missing, others = [], []
    for root in roots:
        file = root / evidence["trace"]
        try:
            content = read_content(file)
        except UsageError as error:
            missing.append(str(error))
            continue
        if evidence.get("trace_digest", digest := digest_of(content)) == digest:
            # The words of the checker's command may be relative paths, too.
            with chdir(root):
                return _answer(evidence, trace_of(content, file))
        others.append(f"{file} is not the trace that it was found in")
    if not others:
        raise UsageError("; ".join(missing))
    return Replayed(verdict=Verdict.UNKNOWN, note="; ".join(others))


def _answer(evidence: dict[str, Any], trace: Trace) -> Replayed:
    checker = Checker(command=evidence["check"], seconds=float(evidence["check_seconds"]))
    checked = check_one(RecordedQuestion(trace=trace, checker=checker, states_max=1), evidence["state"])
    note = "" if checked.answer.accepts else checked.doubt or f"The checker: {checked.answer}."
    return Replayed(verdict=checked.verdict, note=note)


def _of_test(file: Path, json_target: str | None) -> int:
    replay = read_replay(file, str(file))
    verdict, output = replay_test(file, replay)
    write_json(
        {
            "format": 1,
            "finding": str(file),
            "sentence": replay.finding.sentence,
            "test": replay.test,
            "verdict": verdict.name,
        },
        json_target,
    )
    result_console(json_target).print(output, ANSWERS[verdict], sep="\n", soft_wrap=True)
    return ExitCode[verdict.name]


def _print(found: Finding, replayed: Replayed, file: str, json_target: str | None, *, verbose: bool) -> None:
    console = result_console(json_target)
    if not replayed.evidence:
        console.print(found.sentence)
        for cause in causes_of(found.evidence):
            console.print(f"Cause: {cause}.", soft_wrap=True)
    if replayed.evidence:
        print_explanation(console, found.property, replayed.evidence, verbose=verbose)
        console.print(f"Replay: tornproof replay {shell_word(file)}", soft_wrap=True)
        if not replayed.is_same:
            console.print("The run differs from the one in the file.")
    if replayed.note:
        console.print(replayed.note, soft_wrap=True)
    console.print(ANSWERS[replayed.verdict])
