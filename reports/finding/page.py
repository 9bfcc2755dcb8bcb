"""The page of a finding: the violation, its cause, the run, and the line that replays it."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Any

from markupsafe import Markup

from tornproof.harness.common.shell_word import shell_word
from tornproof.reports.finding.cause import cause_strip, prevented
from tornproof.reports.finding.damage_map import damage_maps
from tornproof.reports.finding.document import Explanation, FileBytes, explanation_of, prevention_of_program
from tornproof.reports.finding.narrative import Line, lines_of, lines_of_evidence, participants_of, shrinking_of
from tornproof.reports.finding.neighbour import side_by_side
from tornproof.reports.finding.space_time import space_time
from tornproof.reports.kit.byte_map import FINDING_STATES, Mark, byte_map, legend
from tornproof.reports.kit.evidence import evidence_list
from tornproof.reports.kit.json_fields import Fields, shortened
from tornproof.reports.kit.page import Page, fill

GROUP = "Findings"
FOLDED_MAX = 50
KNOWN_MAX = 5
TEXT_CHARACTERS_MAX = 1_200
TITLE_CHARACTERS_MAX = 240
PREVENTED = ("It does not happen when", "None of ")
CRASHES = ("kill", "power")
SHOWN_IN_FULL = ("narrative", "lanes", "files", "neighbour")
LONG_CHARACTERS = 160
_PLACE = re.compile(r"(?P<file>[^\s:]+): [^:]*? at byte (?P<offset>\d{1,15})\b")


def finding_page(document: Mapping[str, Any], *, file: str, key: str, folded: Sequence[str] = ()) -> Page:
    """Return the page of the finding in `file`; `folded` are the files of others that show the same defect.

    Raises ResultError for any other document.
    """
    fields = Fields(document, file=file)
    violated, sentence = fields.text("property"), fields.text("sentence")
    evidence = fields.inner("evidence")
    explanation = explanation_of(evidence)
    body = fill(
        "finding.html.j2",
        broken=shortened(violated if explanation is None else explanation.broken or violated, TEXT_CHARACTERS_MAX),
        is_long=len(sentence) > LONG_CHARACTERS,
        # The title says it, unless it is too long for one.
        sentence=shortened(sentence, TEXT_CHARACTERS_MAX) if len(sentence) > TITLE_CHARACTERS_MAX else "",
        known=[(each.text("name"), each.text("where")) for each in fields.inners("known", KNOWN_MAX)],
        facts=_facts(fields, explanation),
        file=file,
        command=f"tornproof replay {shell_word(file)}",
        explanation=explanation,
        cause=prevented(prevention_of_program(evidence)) if explanation is None else cause_strip(explanation),
        narrative=lines_of_evidence(evidence) if explanation is None else _narrative(explanation),
        diagram=_diagram(explanation),
        at_crash=explanation is not None and any(row.happens in CRASHES for row in explanation.rows),
        maps=damage_maps(fields, evidence) if explanation is None else _maps(explanation),
        participants=participants_of(fields.inner("test_case")) if "test_case" in fields else [],
        shrinking=shrinking_of(evidence.inner("shrunk")) if "shrunk" in evidence else [],
        nearest=_nearest(explanation),
        folded=list(folded[:FOLDED_MAX]),
        folded_left_out=max(0, len(folded) - FOLDED_MAX),
        evidence=evidence_list(_rest(evidence)),
    )
    title = f"{sentence[:1].upper()}{sentence[1:]}"
    return Page(key=key, group=GROUP, title=shortened(title, TITLE_CHARACTERS_MAX), verdict="INVALID", body=body)


def _rest(evidence: Fields) -> Mapping[str, Any]:
    """Return the evidence without what the page shows in full."""
    if "explanation" not in evidence:
        return evidence.document
    explanation = evidence.inner("explanation").document
    rest = {name: value for name, value in explanation.items() if name not in SHOWN_IN_FULL}
    return {**evidence.document, "explanation": rest}


def _facts(fields: Fields, explanation: Explanation | None) -> list[tuple[str, str]]:
    """Return further facts of the finding, as names with values."""
    test_case = fields.inner("test_case") if "test_case" in fields else None
    target = test_case.inner("target").text("name", "") if test_case is not None and "target" in test_case else ""
    steps = None if explanation is None else explanation.step_count
    facts = [
        ("Property", fields.text("property")),
        ("Clause", "" if explanation is None else explanation.clause),
        ("Found in phase", fields.text("phase")),
        ("Scenario", fields.text("scenario", "")),
        ("Protocol under test", target),
        ("Table", fields.text("table", "")),
        ("Calls in the run", "" if steps is None else f"{steps:,}"),
        ("Found by", f"tornproof {fields.text('tornproof')}" if "tornproof" in fields else ""),
    ]
    return [(name, shortened(value, TEXT_CHARACTERS_MAX)) for name, value in facts if value]


def _narrative(explanation: Explanation) -> list[Line]:
    """Return the sentences without those that are at the head of the page."""
    lines = lines_of(explanation.narrative)
    return [line for line in lines if line.lead != "Broken" and not line.text.startswith(PREVENTED)]


def _diagram(explanation: Explanation | None) -> Markup:
    return space_time(explanation.rows) if explanation is not None and explanation.rows else Markup()


def _maps(explanation: Explanation) -> Markup:
    """Return a legend and the maps of all files."""
    if not explanation.files:
        return Markup()
    used = {each.state for file in explanation.files for each in file.ranges}
    # Files that are completely durable come last.
    files = sorted(explanation.files, key=lambda file: all(each.state == "durable" for each in file.ranges))
    maps = Markup().join(_map(file, explanation) for file in files)
    return legend(FINDING_STATES, used) + maps


def _map(file: FileBytes, explanation: Explanation) -> Markup:
    """Return the map of a file, folded if nothing happened in it; what the error names is marked."""
    named = [
        Mark(start=each.start, end=each.end, label="named by the error")
        for each in file.ranges
        for match in _PLACE.finditer(explanation.seen)
        if match["file"] == file.file and each.start <= int(match["offset"]) < each.end
    ]
    read = [Mark(start=start, end=end, label=f"read by {explanation.client}") for start, end in file.read]
    is_quiet = not named and all(each.state == "durable" for each in file.ranges)
    return byte_map(
        file.file, file.size_bytes, file.ranges, marks=[*named, *read], coarse=file.coarse, is_folded=is_quiet
    )


def _nearest(explanation: Explanation | None) -> Markup:
    """Return both runs side by side, empty if the nearest one that passes has no lanes."""
    neighbour = None if explanation is None else explanation.neighbour
    if explanation is None or neighbour is None or not neighbour.rows:
        return Markup()
    return side_by_side(explanation.rows, neighbour.rows, shortened(neighbour.change, TEXT_CHARACTERS_MAX))
