"""A run as a value: a default policy, and the ordered decisions that differ from it.

By default each process runs to its end, in the order of the process group; no call fails, nothing crashes, and all that
was written is on disk. A decision is keyed by the name of a step (docs/how-it-works.md).
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable
from dataclasses import dataclass, replace
from typing import Any, TypeAlias

from tornproof.harness.counterexamples.step_names import END, Step
from tornproof.harness.simulator.filesystem.intercept import CallKind
from tornproof.impl.storage.interface import StorageReason


@dataclass(frozen=True, slots=True)
class Switch:
    """Before that step, process `to` runs instead, until its end or its next decision."""

    at: Step
    to: str


@dataclass(frozen=True, slots=True)
class Fail:
    """That call fails; a sync that fails brings nothing to the disk, or some of its blocks.

    `written` says which, as the JSON of a choice of blocks in its shortest form.
    """

    at: Step
    reason: StorageReason
    written: str = ""


@dataclass(frozen=True, slots=True)
class Kill:
    """The writer dies before that step, and its next session begins; readers live on."""

    at: Step


@dataclass(frozen=True, slots=True)
class PowerCut:
    """All processes die before that step; the disk keeps what a persistence model allows.

    `choice` says which of the allowed disks, as JSON in its shortest form.
    """

    at: Step
    model: str
    choice: str


Deviation: TypeAlias = Switch | Fail | Kill | PowerCut


@dataclass(frozen=True, slots=True)
class DecisionLog:
    """All decisions of a run that differ from the default policy."""

    deviations: tuple[Deviation, ...] = ()

    def __str__(self) -> str:
        """Write a line for each decision."""
        return "\n".join(map(text_of, self.deviations))

    @classmethod
    def parse(cls, text: str) -> DecisionLog:
        """Read what `str` wrote; raises ValueError."""
        return cls(tuple(parse_deviation(line) for line in text.splitlines() if line))

    def document(self) -> list[dict[str, Any]]:
        """Return the JSON form."""
        return [_document_of(deviation) for deviation in self.deviations]

    @classmethod
    def of_document(cls, document: Iterable[dict[str, Any]]) -> DecisionLog:
        """Read the JSON form; raises KeyError, TypeError, ValueError for what is none."""
        return cls(tuple(_deviation_of(each) for each in document))

    @property
    def crash_count(self) -> int:
        """How many kills and power cuts there are."""
        return sum(isinstance(each, Kill | PowerCut) for each in self.deviations)

    @property
    def switch_count(self) -> int:
        """How often another process runs than the policy says."""
        return sum(isinstance(each, Switch) for each in self.deviations)


_STEP_KEYS = ("client", "operation", "call", "file", "occurrence")
"""How finding files name the fields of a step."""


def shortest(document: Any) -> str:
    """Return plain data as JSON without spaces."""
    return json.dumps(document, separators=(",", ":"))


def moved_to(deviation: Deviation, at: Step) -> Deviation:
    """Return the same decision at another step."""
    return replace(deviation, at=at)


_PLAIN = re.compile(r"[\w./+\-]+")
_PROCESS = r"[a-z]+(?: \d+)?(?:\.\d+)?"
_KINDS = "|".join(re.escape(kind) for kind in sorted(CallKind, key=len, reverse=True))
_LINE = re.compile(
    rf"(?P<process>{_PROCESS})@(?:{END}|(?P<operation>[a-z]+(?: [a-z]+)?(?: \d+)?): "
    rf'(?P<call>{_KINDS})(?: (?P<file>[\w./+\-]+|"(?:[^"\\]|\\.)*"))? #(?P<occurrence>\d+)) '
    rf"(?P<what>-> |fails: |is killed|loses power: )(?P<rest>.*)"
)


def step_text(step: Step) -> str:
    """Return a step as a line of a log writes it."""
    if step.operation == END:
        return f"{step.process}@{END}"
    file = step.file if not step.file or _PLAIN.fullmatch(step.file) else json.dumps(step.file)
    return f"{step.process}@{step.operation}: {step.call}{file and ' '}{file} #{step.occurrence}"


def text_of(deviation: Deviation) -> str:
    """Return a decision as one line."""
    at = step_text(deviation.at)
    match deviation:
        case Switch(to=to):
            return f"{at} -> {to}"
        case Fail(reason=reason, written=written):
            return f"{at} fails: {reason.name} {written}".rstrip()
        case Kill():
            return f"{at} is killed"
        case PowerCut(model=model, choice=choice):
            return f"{at} loses power: {model} {choice}"


def parse_deviation(line: str) -> Deviation:
    """Read a line back; raises ValueError."""
    found = _LINE.fullmatch(line)
    if found is None:
        raise ValueError(f"no decision: {line!r}")
    at, rest = _parsed_step(found), found["rest"]
    match found["what"].strip():
        case "->" if re.fullmatch(_PROCESS, rest):
            return Switch(at, rest)
        case "fails:":
            name, _, written = rest.partition(" ")
            return Fail(at, _reason(name), written and shortest(json.loads(written)))
        case "is killed" if not rest:
            return Kill(at)
        case "->" | "is killed":
            raise ValueError(f"no decision: {line!r}")
    model, _, choice = rest.partition(" ")
    return PowerCut(at, model, shortest(json.loads(choice)))


def _parsed_step(found: re.Match[str]) -> Step:
    if found["call"] is None:
        return Step(found["process"], END)
    file = found["file"] or ""
    return Step(
        found["process"],
        found["operation"],
        found["call"],
        json.loads(file) if file.startswith('"') else file,
        int(found["occurrence"]),
    )


def _reason(name: str) -> StorageReason:
    if name not in StorageReason.__members__:
        raise ValueError(f"no reason for a failed call: {name!r}")
    return StorageReason[name]


def _document_of(deviation: Deviation) -> dict[str, Any]:
    kind = type(deviation).__name__.lower()
    document: dict[str, Any] = {"kind": kind, "at": dict(zip(_STEP_KEYS, deviation.at, strict=True))}
    match deviation:
        case Switch(to=to):
            document["to"] = to
        case Fail(reason=reason, written=written):
            document |= {"reason": reason.name} | ({"written": json.loads(written)} if written else {})
        case PowerCut(model=model, choice=choice):
            document |= {"model": model, "choice": json.loads(choice)}
    return document


def _deviation_of(document: dict[str, Any]) -> Deviation:
    step = document["at"]
    process, operation, call, file = (str(step[key]) for key in _STEP_KEYS[:4])
    at = Step(process, operation, call, file, int(step["occurrence"]))
    match document["kind"]:
        case "switch":
            return Switch(at, str(document["to"]))
        case "fail":
            written = shortest(document["written"]) if "written" in document else ""
            return Fail(at, _reason(str(document["reason"])), written)
        case "kill":
            return Kill(at)
        case "powercut":
            return PowerCut(at, str(document["model"]), shortest(document["choice"]))
        case kind:
            raise ValueError(f"no decision of kind {kind!r}")
