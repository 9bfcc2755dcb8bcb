"""Small histories for tests of the judges: correct ones, and ones with one event changed so that one rule must notice.

All are random with fixed seeds, so they are the same each time.
"""

import dataclasses
import functools
import itertools
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field

import numpy as np

from tornproof.harness.common.history import Event, EventKind

K = EventKind
EXCUSED = "busy"
READERS = ("ann", "bob", "cid")
STEPS = 60
INCOMPLETE = "incomplete"
ORDER = "seen_version_missed"
"""The anomaly between readers: one ends, another begins later and sees less."""


@dataclass(frozen=True)
class Case:
    """A history with the kind of anomaly that it must show: "" for a correct one, None where any verdict is possible.

    `INCOMPLETE` stands for a history that cannot be judged.
    """

    name: str
    events: tuple[Event, ...]
    planted: str | None


@dataclass
class Reader:
    started: bool = False
    pinned: tuple[int, str] | None = None
    lowest: tuple[int, str] = (0, "")


@dataclass
class World:
    """A table that is right, its writer and its readers; whoever's turn it is takes a step and writes it down."""

    draw: np.random.Generator
    events: list[Event] = field(default_factory=list)
    time_ns: int = 0
    visible: tuple[int, str] = (0, "d0")
    commit: tuple[int, str] | None = None
    must_recover: bool = False
    content_count: int = 0
    readers: dict[str, Reader] = field(default_factory=lambda: {name: Reader() for name in READERS})

    def chance(self, share: float) -> bool:
        return bool(self.draw.random() < share)

    def record(self, client: str, kind: EventKind, version: int | None = None, digest: str | None = None) -> None:
        process = "supervisor" if kind is K.KILLED else client
        # Names of processes decide the order of events of one time where nothing else does.
        may_be_now = bool(self.events) and self.events[-1].process <= process
        self.time_ns += 0 if may_be_now and self.chance(0.3) else 10
        details = EXCUSED if kind is K.READ_FAILED else ""
        event = Event(
            process=process,
            sequence=sum(each.process == process for each in self.events),
            client=client,
            kind=kind,
            time_ns=self.time_ns,
            version=version,
            digest=digest,
            details=details,
        )
        self.events.append(event)

    def write(self) -> None:
        if self.must_recover:
            self.record("writer", K.RECOVERED, self.visible[0], self.visible[1] if self.chance(0.6) else None)
            self.must_recover = False
        elif self.commit is None:
            self.content_count += 1
            self.commit = (self.visible[0] + 1, f"d{self.content_count}")
            self.record("writer", K.COMMIT_START, *self.commit)
        elif self.visible != self.commit and self.chance(0.3):
            # Readers see a version before its commit is acknowledged.
            self.visible = self.commit
        elif self.chance(0.75):
            self.visible = self.commit
            self.record("writer", K.COMMIT_ACKNOWLEDGED, self.commit[0])
            self.commit = None
        elif self.chance(0.5):
            self.record("writer", K.COMMIT_FAILED)
            self.must_recover = self.visible == self.commit
            self.commit = None
        else:
            if self.chance(0.4):
                self.visible = self.commit
            self.record("writer", K.KILLED)
            self.commit, self.must_recover = None, True

    def read(self, name: str) -> None:
        reader = self.readers[name]
        if not reader.started:
            if reader.pinned and self.chance(0.4):
                reader.pinned = None
                self.record(name, K.UNPIN)
            elif self.chance(0.05):
                self.readers[name] = Reader()
                self.record(name, K.KILLED)
            else:
                reader.started, reader.lowest = True, self.visible
                self.record(name, K.READ_START)
        elif reader.pinned is None and self.chance(0.3):
            reader.pinned = self.visible
            self.record(name, K.PIN, self.visible[0])
        elif reader.pinned is None and self.chance(0.1):
            reader.started = False
            self.record(name, K.READ_FAILED)
        else:
            reader.started = False
            self.record(name, K.READ_END, *self.answer(reader))

    def answer(self, reader: Reader) -> tuple[int, str]:
        return reader.pinned or (reader.lowest if self.chance(0.3) else self.visible)


@dataclass
class LooseWorld(World):
    """A world of slow commits in which a read may also see the version before the right one, or one not yet visible."""

    older: tuple[int, str] | None = None

    def write(self) -> None:
        if self.commit is not None and self.chance(0.7):
            return
        before = self.visible
        super().write()
        if self.visible != before:
            self.older = before

    def answer(self, reader: Reader) -> tuple[int, str]:
        wrong = [each for each in (self.older, self.commit) if each is not None]
        is_wrong = bool(wrong) and reader.pinned is None and self.chance(0.3)
        return wrong[int(self.draw.integers(len(wrong)))] if is_wrong else super().answer(reader)


def correct_history(seed: int) -> list[Event]:
    return run(World(draw=np.random.default_rng(seed)), STEPS)


def small_history(seed: int) -> list[Event]:
    """A short history in which some reads see another version than they should, with any verdict but seldom UNKNOWN."""
    draw = np.random.default_rng(1_000_000 + seed)
    return run(LooseWorld(draw=draw), int(draw.integers(10, 26)))


def run(world: World, step_count: int) -> list[Event]:
    if world.chance(0.8):
        world.record("writer", K.RECOVERED, 0, "d0")
    else:
        world.visible = (1, "d0")
        world.record("writer", K.COMMIT_START, *world.visible)
        world.record("writer", K.COMMIT_ACKNOWLEDGED, 1)
    for _ in range(step_count):
        if world.chance(0.35):
            world.write()
        else:
            world.read(READERS[int(world.draw.integers(len(READERS)))])
    return world.events


Change = Callable[[Sequence[Event], int], Iterator[Event]]
"""Yields what an event may be changed to so that the anomaly must show."""


def version_of(event: Event) -> int:
    assert event.version is not None
    return event.version


def starts(events: Sequence[Event]) -> list[int]:
    return [position for position, event in enumerate(events) if event.kind is K.COMMIT_START]


def own_before(events: Sequence[Event], position: int) -> list[Event]:
    """What the client did since it last died, the last event first."""
    own: list[Event] = []
    for event in reversed(events[:position]):
        if event.client == events[position].client:
            if event.kind is K.KILLED:
                break
            own.append(event)
    return own


def pin_of(events: Sequence[Event], position: int) -> Event | None:
    last = next((event for event in own_before(events, position) if event.kind in (K.PIN, K.UNPIN)), None)
    return last if last and last.kind is K.PIN else None


def start_of(events: Sequence[Event], position: int) -> Event:
    return next(event for event in own_before(events, position) if event.kind is K.READ_START)


def settled_before(events: Sequence[Event], time_ns: int) -> list[int]:
    kinds = (K.COMMIT_ACKNOWLEDGED, K.RECOVERED)
    return [version_of(event) for event in events if event.kind in kinds and event.time_ns < time_ns]


def acknowledged_contents(events: Sequence[Event]) -> dict[int, Event]:
    """The commits that were acknowledged, by version."""
    found = {}
    for position, event in enumerate(events):
        if event.kind is K.COMMIT_ACKNOWLEDGED:
            found[version_of(event)] = next(each for each in reversed(events[:position]) if each.kind is K.COMMIT_START)
    return found


def seeing(event: Event, commit: Event) -> Event:
    return dataclasses.replace(event, version=commit.version, digest=commit.digest)


def of_reads(change: Change) -> Change:
    def only_reads(events: Sequence[Event], position: int) -> Iterator[Event]:
        if events[position].kind is K.READ_END:
            yield from change(events, position)

    return only_reads


@of_reads
def unknown_version(events: Sequence[Event], position: int) -> Iterator[Event]:
    yield dataclasses.replace(events[position], version=1_000)


@of_reads
def torn_content(events: Sequence[Event], position: int) -> Iterator[Event]:
    if any(events[start].version == events[position].version for start in starts(events)):
        yield dataclasses.replace(events[position], digest="half")


@of_reads
def content_of_another_version(events: Sequence[Event], position: int) -> Iterator[Event]:
    if any(events[start].version == events[position].version for start in starts(events)):
        for start in starts(events):
            if events[start].version != events[position].version:
                yield dataclasses.replace(events[position], digest=events[start].digest)


@of_reads
def future_read(events: Sequence[Event], position: int) -> Iterator[Event]:
    for start in starts(events):
        if events[start].time_ns > events[position].time_ns:
            yield seeing(events[position], events[start])


@of_reads
def seen_version_lost(events: Sequence[Event], position: int) -> Iterator[Event]:
    for start in starts(events):
        after = events[start + 1 :]
        ending = next((event for event in after if event.kind in (K.COMMIT_START, K.RECOVERED)), None)
        is_lost = ending and ending.kind is K.RECOVERED and version_of(ending) < version_of(events[start])
        if is_lost and start < position:
            yield seeing(events[position], events[start])


@of_reads
def two_contents(events: Sequence[Event], position: int) -> Iterator[Event]:
    for start in starts(events):
        after = events[start + 1 :]
        ending = next((event for event in after if event.kind in (K.COMMIT_START, K.RECOVERED)), None)
        is_replaced = ending and ending.kind is K.COMMIT_START and ending.version == events[start].version
        if is_replaced and start < position:
            yield seeing(events[position], events[start])


@of_reads
def stale_read(events: Sequence[Event], position: int) -> Iterator[Event]:
    start, pin = start_of(events, position), pin_of(events, position)
    due = settled_before(events, start.time_ns)
    for version, commit in acknowledged_contents(events).items():
        if (pin is None or pin.sequence > start.sequence) and due and version < max(due):
            yield seeing(events[position], commit)


@of_reads
def seen_version_missed(events: Sequence[Event], position: int) -> Iterator[Event]:
    start, pin = start_of(events, position), pin_of(events, position)
    earlier = next((event for event in own_before(events, position) if event.kind is K.READ_END), None)
    least = [*settled_before(events, start.time_ns), *([version_of(earlier)] if earlier else [])]
    acknowledged = acknowledged_contents(events)
    shown = [
        version_of(event)
        for event in events
        if event.kind is K.READ_END and event.time_ns < start.time_ns and event.version in acknowledged
    ]
    for version, commit in acknowledged.items():
        is_below = any(version < other for other in shown) and all(version >= other for other in least)
        if is_below and (pin is None or pin.sequence > start.sequence):
            yield seeing(events[position], commit)


@of_reads
def went_back(events: Sequence[Event], position: int) -> Iterator[Event]:
    earlier = next((event for event in own_before(events, position) if event.kind is K.READ_END), None)
    for version, commit in acknowledged_contents(events).items():
        if earlier and version < version_of(earlier):
            yield seeing(events[position], commit)


@of_reads
def pin_moved(events: Sequence[Event], position: int) -> Iterator[Event]:
    pin = pin_of(events, position)
    for version, commit in acknowledged_contents(events).items():
        if pin and version != pin.version:
            yield seeing(events[position], commit)


@of_reads
def pinned_read_rejected(events: Sequence[Event], position: int) -> Iterator[Event]:
    if pin_of(events, position):
        yield dataclasses.replace(events[position], kind=K.READ_FAILED, version=None, digest=None, details=EXCUSED)


@of_reads
def rejected_read(events: Sequence[Event], position: int) -> Iterator[Event]:
    if not pin_of(events, position):
        yield dataclasses.replace(events[position], kind=K.READ_FAILED, version=None, digest=None, details="short")


def acknowledged_version_lost(events: Sequence[Event], position: int) -> Iterator[Event]:
    before = settled_before(events, events[position].time_ns)
    if events[position].kind is K.RECOVERED and before:
        yield dataclasses.replace(events[position], version=before[-1] - 1, digest=None)


def recovered_too_new(events: Sequence[Event], position: int) -> Iterator[Event]:
    if events[position].kind is K.RECOVERED and position > 0:
        yield dataclasses.replace(events[position], version=version_of(events[position]) + 2, digest=None)


def version_not_next(events: Sequence[Event], position: int) -> Iterator[Event]:
    if events[position].kind is K.COMMIT_START and position > 0:
        yield dataclasses.replace(events[position], version=version_of(events[position]) + 1)


def acknowledged_as_another(events: Sequence[Event], position: int) -> Iterator[Event]:
    if events[position].kind is K.COMMIT_ACKNOWLEDGED:
        yield dataclasses.replace(events[position], version=version_of(events[position]) + 1)


PLANTS: dict[str, Change] = {
    "unknown_version": unknown_version,
    "torn_content": torn_content,
    "content_of_another_version": content_of_another_version,
    "future_read": future_read,
    "seen_version_lost": seen_version_lost,
    "two_contents": two_contents,
    "stale_read": stale_read,
    ORDER: seen_version_missed,
    "went_back": went_back,
    "pin_moved": pin_moved,
    "pinned_read_refused": pinned_read_rejected,
    "refused_read": rejected_read,
    "acknowledged_version_lost": acknowledged_version_lost,
    "recovered_too_new": recovered_too_new,
    "version_not_next": version_not_next,
    "acknowledged_as_another": acknowledged_as_another,
}


def planted_history(kind: str, seed: int) -> list[Event] | None:
    """A correct history with one event changed, or None where no event can be changed to such an anomaly."""
    events = correct_history(seed)
    changes = [(position, event) for position in range(len(events)) for event in PLANTS[kind](events, position)]
    if not changes:
        return None
    position, event = changes[int(np.random.default_rng(seed).integers(len(changes)))]
    return [*events[:position], event, *events[position + 1 :]]


def mixed_history(seed: int) -> list[Event]:
    """A correct history in which a few events are changed, moved, left out or doubled, with any verdict."""
    draw = np.random.default_rng(seed)
    events = correct_history(seed)
    for _ in range(int(draw.integers(1, 3))):
        position = int(draw.integers(len(events)))
        event = events[position]
        match int(draw.integers(7)):
            case 0 if event.version is not None:
                event = dataclasses.replace(event, version=event.version + int(draw.integers(-2, 3)))
            case 1 if event.digest is not None:
                event = dataclasses.replace(event, digest=f"d{draw.integers(8)}")
            case 2:
                event = dataclasses.replace(event, kind=list(K)[int(draw.integers(len(K)))])
            case 3:
                event = dataclasses.replace(event, client=("writer", *READERS)[int(draw.integers(4))])
            case 4:
                event = dataclasses.replace(event, time_ns=event.time_ns + int(draw.integers(-30, 31)))
            case 5:
                events = numbered([*events[:position], *events[position + 1 :]])
                continue
            case _:
                events = numbered([*events[:position], event, *events[position:]])
                continue
        events[position] = event
    return events


def border_history(seed: int) -> list[Event] | None:
    """A correct history changed so that a read ends at the time at which the commit starts that it sees, or None."""
    events = correct_history(seed)
    for position, (read, commit) in enumerate(itertools.pairwise(events)):
        if read.kind is K.READ_END and commit.kind is K.COMMIT_START:
            events[position] = dataclasses.replace(seeing(read, commit), time_ns=commit.time_ns)
            return events
    return None


def numbered(events: Iterable[Event]) -> list[Event]:
    """Number the events of each process in their order."""
    counts: Counter[str] = Counter()
    result = []
    for event in events:
        result.append(dataclasses.replace(event, sequence=counts[event.process]))
        counts[event.process] += 1
    return result


def incomplete_history(seed: int) -> list[Event]:
    """A correct history of which one event is missing or doubled."""
    events = correct_history(seed)
    last = {event.process: position for position, event in enumerate(events)}
    inner = [position for position, event in enumerate(events) if position != last[event.process]]
    position = inner[int(np.random.default_rng(seed).integers(len(inner)))]
    return events[:position] + ([events[position]] * 2 if seed % 2 else []) + events[position + 1 :]


@functools.cache
def all_cases(*, right: int = 220, of_each_kind: int = 18, mixed: int = 150, incomplete: int = 40) -> list[Case]:
    cases = [Case(f"right {seed}", tuple(correct_history(seed)), "") for seed in range(right)]
    for number, kind in enumerate(PLANTS):
        seed, found = 1_000 * (number + 1), 0
        while found < of_each_kind:
            events = planted_history(kind, seed)
            if events is not None:
                cases.append(Case(f"{kind} {seed}", tuple(events), kind))
                found += 1
            seed += 1
    cases += [Case(f"mixed {seed}", tuple(mixed_history(seed)), None) for seed in range(100_000, 100_000 + mixed)]
    borders = [(seed, border_history(seed)) for seed in range(150_000, 150_000 + mixed)]
    cases += [Case(f"border {seed}", tuple(events), None) for seed, events in borders if events is not None]
    seeds = range(200_000, 200_000 + incomplete)
    return [*cases, *(Case(f"incomplete {seed}", tuple(incomplete_history(seed)), INCOMPLETE) for seed in seeds)]


def at_the_ends(case: Case, number: int) -> Case:
    """Return a history with times and versions at one end of 64 bits, the other or both, as `number` says.

    Their order is the same, and so is all that a judge may say. The lowest number of all stands for no version.
    """
    lowest, highest = -(1 << 63), (1 << 63) - 1
    times = sorted(event.time_ns for event in case.events)
    versions = [event.version for event in case.events if event.version is not None] or [0]
    up, down = highest - times[-1], lowest - times[0]
    split = times[(0, len(times) // 2, -1)[number % 3]]
    moved = (lowest + 1 - min(versions), 0, highest - max(versions))[number // 3 % 3]
    events = (
        dataclasses.replace(
            event,
            time_ns=event.time_ns + (up if event.time_ns > split else down),
            version=None if event.version is None else event.version + moved,
        )
        for event in case.events
    )
    return dataclasses.replace(case, events=tuple(events))


@functools.cache
def small_cases(count: int) -> list[Case]:
    return [Case(f"small {seed}", tuple(small_history(seed)), None) for seed in range(count)]
