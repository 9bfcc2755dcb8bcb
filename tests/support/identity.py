"""Short keys of worlds, equal for worlds that can go on in the same ways."""

import struct

from tornproof.harness.simulator.process.world import World


class Identities:
    """Numbers the parts of worlds; keys from different objects cannot be compared."""

    def __init__(self) -> None:
        """Start without numbers."""
        self._numbers: dict[object, int] = {}

    def of(self, world: World) -> bytes:
        """Return the key of a world; observations are not in it, as they are judged already."""
        kernel, number = world.kernel, self._number
        files = frozenset((file, number(state)) for file, state in kernel.files.items())
        names = frozenset((directory, frozenset(entries.items())) for directory, entries in kernel.directories.items())
        parts = (
            id(world.process_group),
            number(files),
            number((names, kernel.entry_changes)),
            number((frozenset(kernel.handles.items()), frozenset(kernel.mappings.items()), kernel.leases)),
            number((frozenset(item for item in kernel.locks.items() if item[1]), frozenset(kernel.numbers.items()))),
            number(world.progress._replace(observations=())),
            number(frozenset(world.watches.items())),
            *(node.number for node in world.nodes),
        )
        return struct.pack(f"<{len(parts)}Q", *parts)

    def _number(self, part: object) -> int:
        return self._numbers.setdefault(part, len(self._numbers))
