"""Stand-ins for what worker processes run, importable by them: each kills its process at a certain task."""

from __future__ import annotations

import os
import signal

from harness.explore.damage import Tally, _judge_in_worker
from harness.explore.damage_plan import Task

judge_in_worker = _judge_in_worker


def die_at_cuts(task: Task) -> Tally:
    """Judge flips; at the first task of cuts die as a bus error would have it."""
    if task.cuts:
        os.kill(os.getpid(), signal.SIGKILL)
    return judge_in_worker(task)


def exit_at_once(task: Task) -> Tally:
    """Leave without a word, whatever the task."""
    os._exit(0)
