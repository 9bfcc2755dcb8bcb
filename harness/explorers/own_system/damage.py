"""Damage of the files that a target of the user's own wrote: rejected, harmless, an older state, or a wrong one.

A damage is a flipped bit, a file cut off, or a block that is zeroed, as it was some commits before, or what belongs
elsewhere. It is judged by what a reader sees, and by what it sees after the writer was opened on the damage.
"""

from __future__ import annotations

import enum
from collections import Counter
from collections.abc import Hashable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import islice
from typing import Any, NamedTuple

from tornproof.harness.common.system import Field, Target, label_of
from tornproof.harness.common.verdict import Finding, HasTime, Phase, Verdict, always, shown
from tornproof.harness.explorers.corruption.blocks import BLOCK_BYTES, BLOCKS_MAX, misdirected, stale, zeroed
from tornproof.harness.explorers.corruption.plan import (
    BITS_IN_BYTE,
    Cut,
    Damage,
    Flip,
    Kind,
    damage_of,
    evidence_of,
    is_inside,
)
from tornproof.harness.explorers.kills.sessions import Violation, orderly
from tornproof.harness.simulator.filesystem.image import DiskImage
from tornproof.harness.simulator.filesystem.memory import MemoryStorage
from tornproof.harness.simulator.filesystem.step_bound import STEP_BOUND
from tornproof.harness.simulator.process.case import NotExplorableError
from tornproof.harness.simulator.process.observer import Property
from tornproof.harness.systems.toy_checks import BLOCK_BYTES as TOY_BLOCK_BYTES
from tornproof.harness.systems.toy_checks import (
    CHECKSUM,
    LENGTH,
    POSITION,
    VERSION,
    ZEROS,
    Blocks,
    Panics,
    RepairsBlindly,
    Spins,
)

PHASE = "damage"
PROPERTY = "damage is never read as a wrong answer"
KINDS = (Kind.FLIP, Kind.CUT, Kind.ZEROED_BLOCK, Kind.STALE_BLOCK, Kind.MISDIRECTED_BLOCK)


class Outcome(enum.StrEnum):
    """What damage led to."""

    REJECTED = "rejected"
    HARMLESS = "harmless"
    OLDER = "older states"
    SILENT = "silent"


class Result(NamedTuple):
    """The outcome of a damage; of a silent one, the property that is violated, and how."""

    outcome: Outcome
    violated: str = ""
    sentence: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Run:
    """What a target wrote: the files before each commit and after the last one, the newest first, and what is read."""

    target: Target
    path: str
    images: tuple[DiskImage, ...]
    states: tuple[Hashable, ...]
    contents: Mapping[str, bytes]
    """The files to damage, by their names below the target's path."""
    fields: Mapping[str, tuple[Field, ...]]
    allows_older: bool = True

    @classmethod
    def of(cls, target: Target, operations: Sequence[Any], *, path: str, allows_older: bool = True) -> Run:
        """Commit the operations where nothing fails; raises NotExplorableError."""
        storage = MemoryStorage().bounded()
        try:
            with orderly(target, None, "the run without damage"):
                target.create(storage, path)
                images, states = [storage.image()], [target.read(storage.copy(), path)]
                with target.open_writer(storage, path) as writer:
                    for operation in operations:
                        writer.commit(operation)
                        images.append(storage.image())
                        states.append(target.read(storage.copy(), path))
                images[-1] = storage.image()
        except Violation as violation:
            raise NotExplorableError(violation.reason) from violation
        contents = _contents(images[-1], path)
        return cls(
            target=target,
            path=path,
            images=tuple(images[::-1]),
            states=tuple(states[::-1]),
            contents=contents,
            allows_older=allows_older,
            fields={file: tuple(target.fields(file, content)) for file, content in contents.items()},
        )

    def label(self, damage: Damage) -> str:
        """Return the field that a damage hits first, "" where none is named."""
        return label_of(self.fields[damage.file], damage.offset_bytes)

    def damages(self, kind: Kind, sizes: Sequence[int] = BLOCK_BYTES) -> Iterator[Damage]:
        """Yield all damages of a kind, file by file."""
        contents, older = self.contents, [_contents(image, self.path) for image in self.images[1:]]
        for file, content in contents.items():
            match kind:
                case Kind.FLIP:
                    yield from (Flip(file, bit) for bit in range(BITS_IN_BYTE * len(content)))
                case Kind.CUT:
                    yield from (Cut(file, size_bytes) for size_bytes in range(len(content)))
                case Kind.ZEROED_BLOCK:
                    yield from zeroed(contents, file, sizes, BLOCKS_MAX)
                case Kind.STALE_BLOCK:
                    yield from stale(contents, file, sizes, BLOCKS_MAX, older)
                case Kind.MISDIRECTED_BLOCK:
                    yield from misdirected(contents, file, sizes, BLOCKS_MAX)

    def judge(self, damage: Damage) -> Result:
        """Return what a reader sees of a damage, and after the writer was opened on it; the worse one counts."""
        image = self.images[0]
        for file in {file for file, *_ in damage.ranges}:
            image = image.with_file(f"{self.path}/{file}", damage.apply(self.contents[file], file))
        try:
            read = self._read(MemoryStorage.of(image), "a reader")
            return read if read.outcome is Outcome.SILENT else self._reopened(MemoryStorage.of(image)) or read
        except Violation as violation:
            return Result(Outcome.SILENT, violation.violated, violation.reason)

    def _read(self, storage: MemoryStorage, who: str) -> Result:
        """Return what a reader sees; raises Violation where its end is neither an answer nor a rejection."""
        with orderly(self.target, None, who):
            try:
                seen = self.target.read(storage.bounded(), self.path)
            except self.target.rejections:
                return Result(Outcome.REJECTED)
        if seen not in self.states:
            return Result(Outcome.SILENT, PROPERTY, f"{who} sees {shown(seen)}, which no commit left")
        commits_back = self.states.index(seen)
        if not commits_back:
            return Result(Outcome.HARMLESS)
        sentence = f"{who} sees the state before the last {commits_back} commits"
        return Result(Outcome.OLDER) if self.allows_older else Result(Outcome.SILENT, PROPERTY, sentence)

    def _reopened(self, storage: MemoryStorage) -> Result | None:
        """Return what is wrong after the writer was opened on the damage, None if nothing is; raises Violation."""
        with orderly(self.target, None, "a writer that is opened"):
            try:
                with self.target.open_writer(storage.bounded(), self.path):
                    pass
            except self.target.rejections:
                return None
        result = self._read(storage, "a reader after the writer was opened")
        return result if result.outcome is Outcome.SILENT else None


def _contents(image: DiskImage, path: str) -> dict[str, bytes]:
    start = f"{path}/"
    return {name.removeprefix(start): content for name, content in image.files.items() if name.startswith(start)}


def explore_damage(run: Run, *, cases: int, has_time: HasTime = always) -> Phase:
    """Try every damage of the files of the last state, or of a kind with more than its share of `cases` every n-th."""
    outcomes: Counter[Outcome] = Counter()
    tried: Counter[Kind] = Counter()
    totals = Counter({kind: sum(1 for _ in run.damages(kind)) for kind in KINDS})
    found: dict[tuple[Kind, str, str, str], Finding] = {}
    for kind in KINDS:
        # An odd step meets each of the eight bits of a byte.
        step = max(1, -(-totals[kind] * len(KINDS) // cases)) | 1
        for damage in islice(run.damages(kind), 0, None, step):
            if not has_time():
                break
            result = run.judge(damage)
            outcomes[result.outcome] += 1
            tried[kind] += 1
            if result.outcome is Outcome.SILENT:
                signature = kind, damage.file, run.label(damage), result.violated
                found.setdefault(signature, _finding(run, damage, result))
    bounds = [f"{tried[kind]} of {totals[kind]} {kind}" for kind in KINDS]
    phase = Phase(
        name=PHASE,
        explored=tried.total(),
        complete=tried == totals,
        bound=f"{len(run.contents)} files of {sum(map(len, run.contents.values()))} bytes after "
        f"{len(run.images) - 1} commits: {', '.join(bounds)}; {STEP_BOUND}",
        verdict=Verdict.INVALID if found else Verdict.VALID,
        counts={outcome.value: outcomes[outcome] for outcome in Outcome} | {kind.value: tried[kind] for kind in KINDS},
        findings=tuple(found.values()),
    )
    return phase.doubted("" if run.contents else "the target left no file").with_controls(failed_controls())


def _finding(run: Run, damage: Damage, result: Result) -> Finding:
    label = run.label(damage)
    hit = f" ({label})" if label else ""
    return Finding(
        property=result.violated,
        phase=PHASE,
        sentence=f"With {damage}{hit}, {result.sentence}.",
        evidence={"target": run.target.name} | evidence_of(damage, label),
    )


def replay_damage(run: Run, finding: Finding) -> Verdict:
    """Return INVALID when the damage violates the same property again, VALID when it violates none, else UNKNOWN."""
    try:
        damage = damage_of(finding.evidence)
    except (KeyError, TypeError, ValueError):
        return Verdict.UNKNOWN
    if not is_inside(damage, {file: len(content) for file, content in run.contents.items()}):
        return Verdict.UNKNOWN
    violated = run.judge(damage).violated
    return finding.verdict_of([violated] if violated else [])


# Controls


CONTROLS: tuple[tuple[Target, Kind, str], ...] = (
    (Blocks("does not compare checksums", without=CHECKSUM), Kind.FLIP, PROPERTY),
    (Blocks("trusts a short file", without=LENGTH), Kind.CUT, PROPERTY),
    (Blocks("trusts zeros", without=ZEROS), Kind.ZEROED_BLOCK, PROPERTY),
    (Blocks("does not compare versions", without=VERSION), Kind.STALE_BLOCK, PROPERTY),
    (Blocks("does not compare positions", without=POSITION), Kind.MISDIRECTED_BLOCK, PROPERTY),
    (Panics("panics"), Kind.FLIP, Property.DISORDERLY),
    (Spins("spins"), Kind.CUT, Property.ENDS),
    (RepairsBlindly("repairs blindly"), Kind.CUT, PROPERTY),
)
"""Toys, the kind of damage that shows what is wrong with them, and the property that is then violated."""
CONTROL_STEP = 41
"""Every so many bits are flipped, and every so many lengths tried."""


def failed_controls() -> list[str]:
    """Describe each toy whose damage was not noticed, and what was found wrong with the one that checks everything."""
    failures = [
        f"the toy that {toy.name!r} was not detected: {violated}"
        for toy, kind, violated in CONTROLS
        if not any(result.violated == violated for result in _results(toy, kind))
    ]
    false = next((result for kind in KINDS for result in _results(Blocks(), kind) if result.violated), None)
    return failures if false is None else [*failures, f"the sound toy was said to be broken: {false.sentence}"]


def _results(toy: Target, kind: Kind) -> Iterator[Result]:
    run = Run.of(toy, [b"one", b"twos", b"threes"], path="toy")
    step = CONTROL_STEP if kind in (Kind.FLIP, Kind.CUT) else 1
    return map(run.judge, islice(run.damages(kind, (TOY_BLOCK_BYTES,)), 0, None, step))
