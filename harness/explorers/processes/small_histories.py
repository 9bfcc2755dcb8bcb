"""One small history for each kind of anomaly: controls of the checker that judges what real processes recorded."""

from __future__ import annotations

from collections.abc import Iterator

from tornproof.harness.checkers.snapshot_isolation import judge
from tornproof.harness.common.history import Event, EventKind, to_arrow

# A line is a client, what happens to it, a version, and the content if it is not that of the version.
_OPENED = "writer recovered 0\n"
_STARTED = f"{_OPENED}writer commit_start 1\n"
_COMMITTED = f"{_STARTED}writer commit_acknowledged 1\n"
HISTORIES = {
    "unknown_version": f"{_OPENED}reader read_start\nreader read_end 7",
    "torn_content": f"{_OPENED}reader read_start\nreader read_end 0 torn",
    "content_of_another_version": f"{_COMMITTED}reader read_start\nreader read_end 1 0",
    "future_read": f"{_OPENED}reader read_start\nreader read_end 1\nwriter commit_start 1",
    "seen_version_lost": f"{_STARTED}reader read_start\nreader read_end 1\nwriter killed\nwriter recovered 0",
    "two_contents": f"{_STARTED}reader read_start\nreader read_end 1\nwriter commit_failed\n"
    "writer commit_start 1 other",
    "stale_read": f"{_COMMITTED}reader read_start\nreader read_end 0",
    "seen_version_missed": f"{_STARTED}other read_start\nother read_end 1\nreader read_start\nreader read_end 0",
    "went_back": f"{_STARTED}reader read_start\nreader read_end 1\nreader read_start\nreader read_end 0",
    "pin_moved": f"{_OPENED}reader read_start\nreader pin 0\nreader read_end 0\nwriter commit_start 1\n"
    "writer commit_acknowledged 1\nreader read_start\nreader read_end 1",
    "pinned_read_refused": f"{_OPENED}reader read_start\nreader pin 0\nreader read_end 0\nreader read_start\n"
    "reader read_failed",
    "refused_read": f"{_OPENED}reader read_start\nreader read_failed",
    "acknowledged_version_lost": f"{_COMMITTED}writer killed\nwriter recovered 0",
    "recovered_too_new": f"{_OPENED}writer killed\nwriter recovered 3",
    "version_not_next": f"{_OPENED}writer commit_start 5\nwriter commit_acknowledged 5",
    "acknowledged_as_another": f"{_STARTED}writer commit_acknowledged 2",
}
SOUND = (
    f"{_COMMITTED}reader read_start\nreader pin 1\nreader read_end 1\nreader unpin 1\nwriter killed\nwriter recovered 1"
)
_CONTENTS = frozenset({EventKind.COMMIT_START, EventKind.READ_END, EventKind.RECOVERED})


def wrongly_judged() -> Iterator[str]:
    """Yield in words each small history whose anomaly is not found, and the sound one if one is found in it."""
    for kind, lines in HISTORIES.items():
        if not judge(to_arrow([*_events(lines)])).counts.get(kind):
            yield f"a small history was not detected as {kind}"
    for kind in judge(to_arrow([*_events(SOUND)])).counts:
        yield f"a sound history was taken for {kind}"


def _events(lines: str) -> Iterator[Event]:
    sequences: dict[str, int] = {}
    for time_ns, line in enumerate(lines.splitlines()):
        client, name, *seen = line.split()
        kind = EventKind(name)
        # Another process records a death.
        process = f"parent of {client}" if kind is EventKind.KILLED else client
        sequences[process] = sequences.get(process, -1) + 1
        yield Event(
            process=process,
            sequence=sequences[process],
            client=client,
            kind=kind,
            time_ns=time_ns,
            version=int(seen[0]) if seen else None,
            digest=f"content {seen[-1]}" if kind in _CONTENTS else None,
        )
