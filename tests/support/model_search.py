"""A breadth-first search of the model's protocol: every state once, and the shortest way to what is not allowed."""

from collections import deque
from typing import Any, NamedTuple

from tornproof.model.protocol import State, steps
from tornproof.model.trace import Known, NoBehaviourError, follow


class Searched(NamedTuple):
    """How many states were reached, whether these are all, and the shortest way to a violation, with its reason."""

    state_count: int
    is_done: bool
    way: tuple[str, ...] = ()
    reason: str = ""


def search(
    begin: State, without: frozenset[str] = frozenset(), *, pins: bool = False, states_max: int = 1 << 40
) -> Searched:
    """Search until a report is not allowed, or `states_max` states were reached; states are told apart by 64 bits."""
    known = Known()
    # The way to a state is a linked list: the way to the state before it, and the last step.
    pending: deque[tuple[State, Known, Any]] = deque([(begin, known, None)])
    seen = {hash((begin.identity(), known))}
    while pending:
        state, known, way = pending.popleft()
        for following, label, events in steps(state, without, pins=pins):
            now = known
            try:
                for event in events:
                    now = follow(now, event)
            except NoBehaviourError as error:
                return Searched(len(seen), False, (*_steps_of(way), label), str(error))
            key = hash((following.identity(), now))
            if key not in seen:
                if len(seen) >= states_max:
                    return Searched(len(seen), False)
                seen.add(key)
                pending.append((following, now, (way, label)))
    return Searched(len(seen), True)


def _steps_of(way: Any) -> tuple[str, ...]:
    labels = []
    while way is not None:
        way, label = way
        labels.append(label)
    return tuple(reversed(labels))
