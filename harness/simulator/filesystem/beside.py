"""A storage before whose calls another process acts."""

from __future__ import annotations

from collections.abc import Callable

from tornproof.harness.simulator.filesystem.intercept import Answer, Call, InterceptedStorage
from tornproof.impl.storage.interface import Storage


class BesideStorage(InterceptedStorage):
    """A process that notes its calls, and before which another acts once: `acted_at` is the number of the call, from 0.

    The other is asked before each call from the first on that may be one, until it has acted.
    """

    def __init__(
        self,
        inner: Storage,
        act: Callable[[], bool] = lambda: False,
        *,
        first: int = 0,
        may_act: Callable[[Call], bool] = lambda _: True,
    ) -> None:
        """Ask `act`, which returns whether it has acted."""
        super().__init__(inner)
        self.calls: list[Call] = []
        self.acted_at: int | None = None
        self._act, self._first, self._may_act = act, first, may_act

    def intercept(self, call: Call, run: Callable[[], Answer]) -> Answer:
        """Let the other act if it may, and make the call."""
        number = len(self.calls)
        self.calls.append(call)
        if self.acted_at is None and number >= self._first and self._may_act(call) and self._act():
            self.acted_at = number
        return run()
