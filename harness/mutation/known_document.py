"""The page of known defects, which is written by this and by nobody else."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from tornproof.harness.common.markdown import markdown_table
from tornproof.harness.common.verdict import Finding
from tornproof.harness.counterexamples.replay import is_simulated
from tornproof.harness.counterexamples.words import sentences
from tornproof.harness.mutation.known import KNOWN, KnownDefect, shown, size_of

HEAD = """# Known defects, and the smallest findings that show them

Each of these is planted into our tables, or is what a preset says of a released server. The explorer that `tornproof
check` runs finds it on the scenario, and its finding is made small: operations, crashes and turns of clients that the
wrong answer takes. It is an answer that is wrong each time, and not just a step against a rule. A test finds them all,
sees each again ten times of ten, and sees nothing where the defect is not there. This page is written by
`python -m tornproof.harness.mutation.known_document`.

"""
COLUMNS = ("defect", "from", "property that is broken", "explorer", "scenario", "operations", "crashes", "switches")
Shown = Iterable[tuple[KnownDefect, Finding]]


def document(findings: Shown) -> str:
    """Return the page: a table of all, then each in words."""
    findings = tuple(findings)
    return HEAD + "\n".join([*table(findings), *(line for each in findings for line in _narrative(*each))]) + "\n"


def table(findings: Shown) -> list[str]:
    """Return the lines of the table."""
    return markdown_table(COLUMNS, (_cells(*each) for each in findings)).splitlines()


def _cells(defect: KnownDefect, finding: Finding) -> tuple[str, ...]:
    explorer = " ".join([defect.explorer, *defect.models])
    return defect.name, defect.source, finding.property, explorer, f"`{defect.scenario}`", *map(str, size_of(finding))


def picture_of(defect: KnownDefect) -> str:
    """Return where the picture of its page in a report is, seen from docs/."""
    words = "".join(letter if letter.isalnum() or letter in ".-" else " " for letter in defect.name).split()
    return f"images/known/{'-'.join(words).lower()}.png"


def _narrative(defect: KnownDefect, finding: Finding) -> Iterator[str]:
    yield from ("", f"## {defect.name[0].upper()}{defect.name[1:]}", "")
    evidence = finding.evidence
    reported = sentences(finding.property, evidence) if is_simulated(evidence) else _execution(finding)
    yield from (f"- {sentence}" for sentence in reported)
    yield from ("", f"[Its page in a report]({picture_of(defect)})")


def _execution(finding: Finding) -> list[str]:
    """Return what a finding of the memory explorer tells."""
    evidence = finding.evidence
    settled = f" after {evidence['settled_count']} commits" if evidence["settled_count"] else ""
    return [
        f"Broken: {finding.property}.",
        f"Let {evidence['let']}{settled}, under {evidence['model']}.",
        f"Then {evidence['then']}.",
        f"Because {evidence['because']}.",
    ]


if __name__ == "__main__":
    print(document((defect, shown(defect)) for defect in KNOWN), end="")
