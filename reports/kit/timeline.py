"""What happened, as sentences that begin with one word each: let, then, because, however."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import NamedTuple

from tornproof.reports.kit.json_fields import Fields, shortened

LINES_MAX = 60
CHARACTERS_MAX = 1_200
_HOWEVER = re.compile(r"; however, ")
_LEAD = re.compile(r"(Broken|Let|Then|Because|However|Nearest run that passes)\b[:,]? (.*)", re.DOTALL)
_OF_EVIDENCE = ("let", "then", "because", "however")


class Line(NamedTuple):
    """A sentence without the word that it begins with."""

    lead: str
    text: str


def lines_of(sentences: Sequence[str]) -> list[Line]:
    """Return sentences as lines; what stands behind "however" is a line of its own."""
    lines = []
    for sentence in sentences[:LINES_MAX]:
        first, *others = _HOWEVER.split(shortened(sentence, CHARACTERS_MAX))
        match = _LEAD.fullmatch(first)
        lines.append(Line(match[1], match[2]) if match else Line("", first))
        lines += [Line("However", other) for other in others]
    if len(sentences) > LINES_MAX:
        lines.append(Line("", f"{len(sentences) - LINES_MAX:,} more sentences are left out."))
    return lines


def lines_of_evidence(evidence: Fields) -> list[Line]:
    """Return what evidence of another kind tells by such words; raises ResultError where that is no text."""
    return [
        Line(word.capitalize(), shortened(evidence.text(word), CHARACTERS_MAX))
        for word in _OF_EVIDENCE
        if word in evidence
    ]
