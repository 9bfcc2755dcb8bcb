"""The points that the crash explorer visits: where a process is killed, and which calls of a commit fail."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any

from tornproof.harness.common.read_numbers import count_of
from tornproof.harness.common.verdict import nearest_first
from tornproof.harness.simulator.filesystem.faulty import FALLIBLE, GROWING, Fault
from tornproof.harness.simulator.filesystem.intercept import Call, CallKind
from tornproof.impl.storage.interface import StorageReason

EVERY_CALL = frozenset(CallKind)
WHOLE_BYTES = 1024
END_BYTES = 64
BLOCK_BYTES = 512
PAGE_BYTES = 4096
MANY_BYTES = 64 * 1024
SAMPLE_COUNT = 64


@dataclass(frozen=True, slots=True)
class Kill:
    """The process was killed after `step_count` steps and `cut_bytes` of the next one, a write.

    `before` has the kind and the file of that next step, None after the last one; it is not told in older evidence.
    """

    step_count: int
    cut_bytes: int
    before: tuple[str | None, ...] = ()

    @classmethod
    def of(cls, steps: Sequence[Call], step_count: int, cut_bytes: int) -> Kill:
        """Return the kill after so many of these steps."""
        following = steps[step_count : step_count + 1]
        return cls(step_count, cut_bytes, (following[0].kind.value, following[0].path) if following else (None, None))

    def places(self, steps: Sequence[Call], path: str) -> list[int]:
        """Return after how many of these steps of a target at `path` the next one is the same, the nearest first."""
        if not self.before:
            return [self.step_count]
        kind, file = self.before
        if kind is None:
            return [len(steps)]
        return places_of(Call(kind=CallKind(kind), path=str(file)), steps, path, self.step_count)


@dataclass(frozen=True, slots=True)
class Failure:
    """A call of the commit of an operation failed, or of an opening before it; operations count from 0."""

    operation: int
    fault: Fault
    call: Call

    def evidence(self) -> dict[str, Any]:
        """Return the JSON object from which `_failure_of` makes the same failure."""
        return {
            "operation": self.operation,
            "call": self.fault.at,
            "call_kind": self.call.kind.value,
            "path": self.call.path,
            "reason": self.fault.reason and self.fault.reason.value,
            "written_bytes": self.fault.written_bytes,
        }


@dataclass(frozen=True, slots=True)
class Origin:
    """How a disk came about: a kill or a failure, then kills in recoveries, or a failure in the `opening` after it."""

    kills: tuple[Kill, ...] = ()
    failure: Failure | None = None
    opening: Failure | None = None

    def then(self, kill: Kill) -> Origin:
        """Return this origin, followed by a kill in the recovery."""
        return Origin((*self.kills, kill), self.failure)

    @property
    def recovery_kill_count(self) -> int:
        """How many recoveries were killed."""
        return len(self.kills) - (self.failure is None)

    @property
    def is_inside_a_write(self) -> bool:
        """Whether the first kill tore a write."""
        return self.failure is None and bool(self.kills) and self.kills[0].cut_bytes > 0

    def evidence(self) -> dict[str, Any]:
        """Return the JSON object from which `origin_of` makes the same origin."""
        kills = [[kill.step_count, kill.cut_bytes, *kill.before] for kill in self.kills]
        evidence: dict[str, Any] = {"kills": kills}
        failures = (("failure", self.failure), ("opening", self.opening))
        return evidence | {name: failure.evidence() for name, failure in failures if failure is not None}


def places_of(call: Call, calls: Sequence[Call], path: str, near: int) -> list[int]:
    """Return where there is such a call, to the same file of a target that may have been in another place."""

    def is_like(each: Call) -> bool:
        below = each.path.removeprefix(path)
        return each.kind is call.kind and (call.path.endswith(below) if below else "/" not in call.path.strip("/"))

    return nearest_first((place for place, each in enumerate(calls) if is_like(each)), near)


def origin_of(evidence: dict[str, Any]) -> Origin:
    """Return the origin that the evidence describes; raises KeyError, TypeError, ValueError for invalid evidence."""
    kills = tuple(
        Kill(count_of(step_count), count_of(cut_bytes), tuple(before))
        for step_count, cut_bytes, *before in evidence["kills"]
    )
    failure = evidence.get("failure")
    if failure is None:
        first, *others = kills
        if "acknowledged" in evidence:
            first = replace(first, before=(evidence.get("step_kind"), evidence.get("path")))
        opening = evidence.get("opening")
        return Origin((first, *others), opening=None if opening is None else _failure_of(opening))
    return Origin(kills, _failure_of(failure))


def _failure_of(evidence: dict[str, Any]) -> Failure:
    fault = Fault(
        at=count_of(evidence["call"]),
        reason=StorageReason(evidence["reason"]),
        among=EVERY_CALL,
        written_bytes=count_of(evidence["written_bytes"]),
    )
    call = Call(kind=CallKind(evidence["call_kind"]), path=str(evidence["path"]))
    return Failure(count_of(evidence["operation"]), fault, call)


def border_cuts(step: Call) -> Sequence[int]:
    """Return the most likely lengths of a torn write: all of a short one, else those near its ends and blocks."""
    size_bytes = len(step.content)
    if size_bytes <= WHOLE_BYTES:
        return range(1, size_bytes)
    block_bytes = BLOCK_BYTES if size_bytes <= MANY_BYTES else PAGE_BYTES
    first_border = -(-step.offset_bytes // block_bytes) * block_bytes
    cuts = {*range(1, END_BYTES + 1), *range(size_bytes - END_BYTES, size_bytes)}
    for border in range(first_border, step.offset_bytes + size_bytes + 1, block_bytes):
        cuts.update(border - step.offset_bytes + near for near in (-1, 0, 1))
    return sorted(cut for cut in cuts if 0 < cut < size_bytes)


@dataclass(frozen=True, slots=True)
class Cuts:
    """The lengths at which writes tear: three of each, and every `nth` of all candidates."""

    nth: int = 1

    @classmethod
    def at_most(cls, cuts_max: int | None, steps: Sequence[Call]) -> Cuts:
        """Return about `cuts_max` cuts of these steps, or all."""
        count = sum(len(all_cuts(step)) for step in steps)
        return cls(1 if cuts_max is None else max(1, -(-count // max(1, cuts_max))))

    def of(self, step: Call) -> Sequence[int]:
        """Return the lengths at which one write tears."""
        return sorted({*few_cuts(step), *all_cuts(step)[:: self.nth]})

    def __str__(self) -> str:
        if self.nth == 1:
            return (
                f"writes cut at every length up to {WHOLE_BYTES} bytes, longer ones at the first and last {END_BYTES}, "
                f"around multiples of {BLOCK_BYTES} ({PAGE_BYTES} above {MANY_BYTES} bytes) and at {SAMPLE_COUNT} "
                "lengths between"
            )
        return f"writes cut after their first byte, in the middle, before their last, and at every {self.nth}th length"


def all_cuts(step: Call) -> Sequence[int]:
    """Return all candidate lengths of a torn write, ascending."""
    return sorted({*border_cuts(step), *sampled_cuts(step)})


def few_cuts(step: Call) -> Sequence[int]:
    """Return the lengths at which a write of recovery tears: after its first byte, in the middle, before its last."""
    size_bytes = len(step.content)
    return sorted(cut for cut in {1, size_bytes // 2, size_bytes - 1} if 0 < cut < size_bytes)


def sampled_cuts(step: Call) -> Sequence[int]:
    """Return evenly spaced lengths of a long write that are not in `border_cuts`."""
    size_bytes = len(step.content)
    if size_bytes <= WHOLE_BYTES:
        return ()
    even = {number * size_bytes // (SAMPLE_COUNT + 1) for number in range(1, SAMPLE_COUNT + 1)}
    return sorted(even.difference(border_cuts(step)))


@dataclass(frozen=True, slots=True)
class Failing:
    """The failing calls that are tried: every `nth` of those of a commit that fail alike."""

    nth: int = 1

    @classmethod
    def at_most(cls, calls_max: int | None, failures: Iterable[Failure]) -> Failing:
        """Return about `calls_max` of these failing calls, at least one of those that fail alike, or all."""
        if calls_max is None:
            return cls()
        return cls(max(1, -(-sum(1 for _ in failures) // max(1, calls_max))))

    def of(self, failures: Iterable[Failure]) -> Iterator[Failure]:
        """Yield those that are tried; with all calls of a kind to a file, a table of many columns has many alike."""
        alike: Counter[tuple[object, ...]] = Counter()
        for failure in failures:
            call, fault = failure.call, failure.fault
            key = failure.operation, call.kind, call.path, fault.reason, fault.written_bytes > 0
            if alike[key] % self.nth == 0:
                yield failure
            alike[key] += 1

    def __str__(self) -> str:
        if self.nth == 1:
            return "every call of a commit, and of an opening after a kill between steps, failing once"
        calls = "of the calls of a commit, and of an opening after a kill between steps"
        return f"{calls}, of the same kind to the same file, every {self.nth}th failing once"


def failures(operation: int, calls: Sequence[Call]) -> Iterator[Failure]:
    """Yield every way in which each of these calls may fail: input/output error, no space, part of a write."""
    for number, call in enumerate(calls):
        ways = [(StorageReason.INPUT_OUTPUT, 0)] if call.kind in FALLIBLE else []
        if call.kind in GROWING:
            ways.append((StorageReason.NO_SPACE, 0))
        if call.kind is CallKind.PWRITE:
            ways += [(StorageReason.NO_SPACE, written) for written in few_cuts(call)]
        for reason, written_bytes in ways:
            fault = Fault(at=number, reason=reason, among=EVERY_CALL, written_bytes=written_bytes)
            yield Failure(operation, fault, call)
