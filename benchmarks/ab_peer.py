"""The A/B defect in plain Python, explored by frontrun; run by its launcher, and printed as JSON."""

from __future__ import annotations

import json
import sys
import time

import frontrun

EXECUTIONS = 500


class Slots:
    """A version and two areas; the version says which one is valid."""

    def __init__(self) -> None:
        self.version = 0
        self.areas = [[0, 0], [0, 0]]
        self.seen: list[tuple[int, int]] = []


def commit_twice(slots: Slots) -> None:
    for version in (1, 2):
        area = slots.areas[version % 2]
        area[0] = version
        area[1] = version
        slots.version = version


def read_once(slots: Slots) -> None:
    area = slots.areas[slots.version % 2]
    slots.seen.append((area[0], area[1]))


def is_whole(slots: Slots) -> bool:
    return all(first == second for first, second in slots.seen)


def main() -> None:
    begin = time.process_time()
    result = frontrun.explore(
        Slots,
        [commit_twice, read_once],
        is_whole,
        max_executions=EXECUTIONS,
        stop_on_first=False,
        reproduce_on_failure=0,
    )
    seconds = time.process_time() - begin
    json.dump(
        {"schedules": result.num_explored, "seconds": seconds, "found": result.property_holds is False}, sys.stdout
    )


if __name__ == "__main__":
    main()
