"""A process as a tree: its next call depends on the answers that it got, and on nothing else.

The code under test runs in a greenlet, once for each history of answers. After that its calls are known, and taking the
same way again costs a dictionary lookup per call, whatever the code computes in between.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable, Hashable
from contextlib import nullcontext
from dataclasses import dataclass
from typing import Any, TypeAlias

from greenlet import GreenletExit, getcurrent, greenlet

from tornproof.harness.common.system import TARGET_ERRORS
from tornproof.harness.simulator.filesystem.file_state import PAGE_BYTES, in_pages
from tornproof.harness.simulator.filesystem.intercept import (
    CHANGES,
    NOBODY,
    READ_ONLY_CALLS,
    Call,
    CallKind,
    InterceptedStorage,
    without_numbers,
)
from tornproof.harness.simulator.filesystem.intercept import Answer as StorageAnswer
from tornproof.harness.simulator.filesystem.kernel import (
    Answer,
    BusError,
    CallRejectedError,
    Effect,
    Kernel,
    Rejected,
    given,
)
from tornproof.harness.simulator.filesystem.kernel_calls import EFFECTS
from tornproof.harness.simulator.filesystem.step_bound import (
    CLOCK_TICK_SECONDS,
    IDLE_SECONDS,
    CallCount,
    EndlessError,
)
from tornproof.impl.storage.interface import File, Storage

LIVE_COUNT_MAX = 64
READ = "read"
"""The kind of the mark that announces a read."""
FROM_MEMORY = Call(kind=CallKind.CLOCK, path="before it answers from memory")
"""The call of a read that makes no other: it accesses nothing, and the read may be taken to begin there."""
_FIRST_READS = READ_ONLY_CALLS - {CallKind.LOAD_FENCE, CallKind.STORE_FENCE, CallKind.UNMAP} | {
    CallKind.OPEN_FOR_WRITING,
    CallKind.VIEW,
}


class NotDeterministicError(Exception):
    """A process acted differently after the same answers, so what was explored of it proves nothing."""


@dataclass(frozen=True, slots=True)
class Mark:
    """Something that a process reports between two calls."""

    kind: str
    value: Hashable = None


Say: TypeAlias = Callable[[str, Hashable], None]
Body: TypeAlias = Callable[[Storage, Say], None]


class Node:
    """A state of a process before `call`, or at its end if that is None, with its marks since the last call.

    `outcome` is "" unless it ended with an exception, or was ended because it `is_endless`. `begins` says that `call`
    is the first access to a file since a read was announced, or `FROM_MEMORY`, so that the read may be taken to begin
    here. `slept` says that the process slept right before `call`, `may_wait` that since then it has only repeated what
    it did before, and `is_waiting` that `call` waits for others. Beside others, a process `goes_on` if it neither waits
    nor only repeats itself.
    """

    __slots__ = (
        "answer",
        "awaits",
        "begins",
        "call",
        "changes",
        "children",
        "depth",
        "effect",
        "goes_on",
        "is_endless",
        "is_waiting",
        "marks",
        "may_wait",
        "number",
        "outcome",
        "parent",
        "reports",
        "slept",
    )

    def __init__(
        self,
        number: int,
        parent: Node | None,
        answer: Answer,
        call: Call | None,
        marks: tuple[Mark, ...],
        outcome: str = "",
        *,
        slept: bool = False,
        may_wait: bool = False,
        is_endless: bool = False,
        is_repeating: bool = False,
    ) -> None:
        self.number = number
        self.parent = parent
        self.answer = answer
        self.call = call
        self.marks = marks
        self.outcome = outcome
        self.reports = bool(marks or outcome)
        self.slept = slept
        self.may_wait = may_wait
        self.is_endless = is_endless
        self.is_waiting = call is not None and call.kind is CallKind.SLEEP
        self.goes_on = call is not None and not self.is_waiting and not is_repeating
        self.depth: int = 0 if parent is None else parent.depth + 1
        self.effect: Effect | None = None if call is None else EFFECTS[call.kind]
        self.changes = call is not None and call.kind in CHANGES
        is_awaited = parent is not None and parent.awaits and not parent.begins
        self.awaits: bool = is_awaited or (bool(marks) and any(mark.kind == READ for mark in marks))
        self.begins: bool = self.awaits and call is not None and call.kind in _FIRST_READS
        self.children: dict[Any, Node] = {}

    def make_call(self, kernel: Kernel, session: int) -> Answer:
        """Make the call for a session on a kernel, and return its answer."""
        assert self.effect is not None and self.call is not None
        try:
            return self.effect(kernel, session, self.call)
        except CallRejectedError as rejected:
            return Rejected(rejected.reason)

    def __repr__(self) -> str:
        return f"Node({self.number}, {self.call})"


DEAD = Node(-1, None, None, None, ())
"""The state of a process that was killed."""


class _Run:
    """A greenlet that waits for the answer to a call."""

    def __init__(self, body: Body) -> None:
        self.marks: list[Mark] = []
        self._greenlet = greenlet(self._main)
        self.storage = _ProcessStorage(getcurrent())
        self._body = body
        self.outcome = ""
        self.is_endless = False
        self.call: Call | None = None
        self._take(self._greenlet.switch())

    def _main(self) -> None:
        try:
            self._body(self.storage, self._say)
        except BusError as error:
            self.outcome = f"bus error: {error}"
        except EndlessError as error:
            self.outcome, self.is_endless = str(error), True
        except TARGET_ERRORS as error:
            self.outcome = f"{type(error).__name__}: {error}"

    def _say(self, kind: str, value: Hashable = None) -> None:
        self.storage.forget_rounds()
        if kind == READ:
            self.storage.is_read_awaited = True
        else:
            self.storage.begin_read()
        self.marks.append(Mark(kind, value))

    def _take(self, call: Call | None) -> None:
        self.call = None if self._greenlet.dead else call

    def answer(self, answer: Answer) -> None:
        self.marks = []
        self._take(self._greenlet.switch(answer))

    def end(self) -> None:
        if not self._greenlet.dead:
            self.storage.is_over = True
            self._greenlet.throw()


class Process:
    """All that is known so far of what a body does."""

    def __init__(self, name: str, body: Body) -> None:
        """Run the body up to its first call."""
        self.name = name
        self._body = body
        self._live: OrderedDict[int, _Run] = OrderedDict()
        self.node_count = 0
        """How many different states were seen."""
        self.run_count = 1
        """How often the body was started."""
        self.root = self._node(None, None, _Run(body))

    def advance(self, node: Node, answer: Answer) -> Node:
        """Return the state after a call was answered; runs the body if this answer is new here."""
        child = node.children.get(answer)
        return self._explored(node, answer) if child is None else child

    def close(self) -> None:
        """End all greenlets."""
        for run in self._live.values():
            run.end()
        self._live.clear()

    def _explored(self, node: Node, answer: Answer) -> Node:
        run = self._live.pop(node.number, None) or self._again(node)
        run.answer(answer)
        child = node.children[answer] = self._node(node, answer, run)
        return child

    def _node(self, parent: Node | None, answer: Answer, run: _Run) -> Node:
        node = Node(
            self.node_count,
            parent,
            answer,
            run.call,
            tuple(run.marks),
            run.outcome,
            slept=run.storage.slept,
            may_wait=run.storage.is_same_round,
            is_endless=run.is_endless,
            is_repeating=run.storage.calls.is_repeating,
        )
        self.node_count += 1
        if run.call is not None:
            self._live[node.number] = run
            if len(self._live) > LIVE_COUNT_MAX:
                self._live.popitem(last=False)[1].end()
        return node

    def _again(self, node: Node) -> _Run:
        """Run the body up to a known state."""
        path: list[Node] = []
        while node.parent is not None:
            path.append(node)
            node = node.parent
        run = _Run(self._body)
        self.run_count += 1
        _check_same(self.name, node, run)
        for later in reversed(path):
            run.answer(later.answer)
            _check_same(self.name, later, run)
        return run


def _check_same(name: str, node: Node, run: _Run) -> None:
    if (run.call, tuple(run.marks), run.outcome) != (node.call, node.marks, node.outcome):
        error = NotDeterministicError(f"after the same {node.depth} answers, {name} did something else than before")
        error.add_note(f"now {run.call} {run.marks} {run.outcome!r}")
        error.add_note(f"before {node.call} {list(node.marks)} {node.outcome!r}")
        raise error


_Round: TypeAlias = list[tuple[Call, Any]]
"""The calls of a process between two sleeps, each with its answer."""


class _ProcessStorage(InterceptedStorage):
    """The storage of a simulated process: every call waits until the simulator answers it.

    A range that crosses pages is one call for each page. Each process has its own clock, which moves when it sleeps or
    looks at it. Sleeping is a call only for a process that has just repeated a round of calls and seen nothing new: it
    waits until another process changes what it looked at. If only time can pass, its calls are answered as before.
    """

    def __init__(self, hub: Any) -> None:
        super().__init__(NOBODY)
        self.is_over = self.slept = self.is_same_round = self.is_read_awaited = False
        self.calls = CallCount()
        self._hub = hub
        self._now_seconds = 0.0
        self._round: _Round = []
        self._round_before: _Round = []
        self._is_idle = False

    def intercept(self, call: Call, run: Callable[[], StorageAnswer]) -> StorageAnswer:
        self.calls.add(call)
        if call.kind in _PAGED_CALLS:
            return self._in_pages(call)  # type: ignore[no-any-return]
        answer: Any = self._ask(call)
        if call.kind is CallKind.VIEW:
            answer = nullcontext(memoryview(answer))
        elif call.kind in _OPENINGS:
            answer = NOBODY
        return answer  # type: ignore[no-any-return]

    def intercept_write(self, file: File, call: Call, run: Callable[[], None]) -> None:
        self.calls.add(call)
        start, end = call.offset_bytes, call.offset_bytes + call.size_bytes
        for first, stop in in_pages(start, end) if call.content else ():
            content = call.content[first - start : stop - start]
            is_whole = (first, stop) == (start, end)
            self._ask(call if is_whole else call._replace(offset_bytes=first, size_bytes=stop - first, content=content))

    def mapped_by(self, path: str) -> tuple[str, ...]:
        return ()  # processes outside of the simulation do not exist

    def monotonic_seconds(self) -> float:
        self.calls.add(Call(kind=CallKind.CLOCK, path=""))
        self._now_seconds += self.calls.lasting_seconds(CLOCK_TICK_SECONDS)
        return self._now_seconds

    def sleep_seconds(self, duration_seconds: float) -> None:
        sleep = Call(kind=CallKind.SLEEP, path="")
        self.calls.add(sleep)
        self._now_seconds += self.calls.lasting_seconds(duration_seconds)
        if not (self.is_same_round and len(self._round) == len(self._round_before)):
            self._end_idling()
        elif not self._is_idle:
            self._is_idle = not self._switch(sleep)
            self._now_seconds += IDLE_SECONDS * self._is_idle
        self._round_before, self._round = self._round, []
        self.is_same_round = bool(self._round_before)
        self.slept = True

    def forget_rounds(self) -> None:
        """Begin anew, because the process has got somewhere."""
        self._end_idling()
        self._round_before = []
        self.is_same_round = False

    def begin_read(self) -> None:
        """Let a read that was announced, and ends without an access to a file, begin at a step of its own.

        Else it would come together with the last step before it, and could never be stale.
        """
        if self.is_read_awaited:
            self._switch(FROM_MEMORY)

    def _ask(self, call: Call) -> Any:
        answer = self._repeated(call) if self._is_idle else self._switch(call)
        self._round.append((call, answer))
        if self.is_same_round:
            before = self._round_before[len(self._round) - 1 :][:1]
            self.is_same_round = bool(before) and _is_same((call, answer), before[0])
        return given(call, answer)

    def _switch(self, call: Call) -> Any:
        if self.is_over:
            raise GreenletExit
        self.is_read_awaited &= call.kind not in _FIRST_READS
        answer = self._hub.switch(call)
        self.slept = False
        return answer

    def _repeated(self, call: Call) -> Any:
        """Answer a call as in the round before; one that differs ends the idling."""
        before = self._round_before[len(self._round) :][:1]
        if before and _is_same((call, before[0][1]), before[0]):
            return before[0][1]
        self._end_idling()
        return self._switch(call)

    def _end_idling(self) -> None:
        """Make the calls of an incomplete round, which were answered without the simulator."""
        if self._is_idle:
            self._is_idle = False
            for call, _ in self._round:
                self._switch(call)

    def _in_pages(self, call: Call) -> Any:
        start, end = call.offset_bytes, call.offset_bytes + call.size_bytes
        if end <= (start // PAGE_BYTES + 1) * PAGE_BYTES:
            return self._ask(call)
        parts: list[bytes] = []
        for first, stop in in_pages(start, end):
            parts.append(self._ask(call._replace(offset_bytes=first, size_bytes=stop - first)))
            if len(parts[-1]) < stop - first:
                break
        return b"".join(parts)


_OPENINGS = frozenset({CallKind.OPEN_FOR_READING, CallKind.OPEN_FOR_WRITING, CallKind.MAP})
_PAGED_CALLS = frozenset({CallKind.PREAD, CallKind.READ_MAPPED})


def _is_same(one: tuple[Call, Any], other: tuple[Call, Any]) -> bool:
    return one[1] == other[1] and without_numbers(one[0]) == without_numbers(other[0])
