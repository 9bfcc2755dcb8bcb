"""Which worlds have the same futures: each gets a short key, equal for equal worlds, by numbers of its parts."""

from __future__ import annotations

import struct

from tornproof.harness.simulator.process.world import World


class Identities:
    """The parts that were met so far and their numbers; keys of two of these objects mean nothing to each other."""

    def __init__(self) -> None:
        """Start with nothing met."""
        self._numbers: dict[object, int] = {}

    def of(self, world: World) -> bytes:
        """Return the key of a world; who saw what does not count, as it is judged and can no longer change anything."""
        kernel, number = world.kernel, self._number
        files = frozenset((position, number(state)) for position, state in kernel.files.items())
        names = frozenset((position, frozenset(entries.items())) for position, entries in kernel.directories.items())
        parts = (
            id(world.process_group),
            number(files),
            number((names, kernel.entry_changes)),
            number((frozenset(kernel.handles.items()), frozenset(kernel.mappings.items()), kernel.leases)),
            number((frozenset(item for item in kernel.locks.items() if item[1]), frozenset(kernel.numbers.items()))),
            number(world.progress._replace(observations=())),
            *(node.number for node in world.nodes),
        )
        return struct.pack(f"<{len(parts)}Q", *parts)

    def _number(self, part: object) -> int:
        return self._numbers.setdefault(part, len(self._numbers))
