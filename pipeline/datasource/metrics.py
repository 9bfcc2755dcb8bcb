"""What a query read and skipped, as files in a folder: Python data sources of Spark have no metrics."""

from __future__ import annotations

import json
import os
import tempfile
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tornproof.impl.query.pruning import Reason
from tornproof.impl.read.counters import ReadCounters
from tornproof.pipeline.datasource.plan import Plan, ReadRequest
from tornproof.pipeline.whole_file import whole_file

TASK_COUNTS = ("scanned_row_count", "returned_row_count", "read_bytes")


@dataclass(frozen=True, slots=True)
class PlanFile:
    """The file of one plan, and beside it one for each completed task; another attempt replaces it."""

    path: str

    def write_plan(self, request: ReadRequest, plan: Plan, task_count: int) -> None:
        """Write what the tasks will read, and what is left out and why."""
        counters = plan.counters
        _write(
            Path(self.path),
            {
                "format": 1,
                "table": request.path,
                "version": request.version,
                "columns": [column.name for column in request.columns],
                "tasks": task_count,
                "partitions": plan.partition_count,
                "partitions_left_out": plan.partitions_left_out,
                "row_groups": counters.row_group_count,
                "row_groups_read": len(plan.row_groups),
                "row_groups_left_out": {reason.value.replace(" ", "_"): counters.pruned[reason] for reason in Reason},
                "data_bytes": counters.data_bytes,
            },
        )

    def write_task(self, number: int, counters: ReadCounters) -> None:
        """Write what a task has read."""
        counts = {name: getattr(counters, name) for name in TASK_COUNTS}
        _write(Path(self.path).with_suffix(f".task-{number:05d}"), counts)


def new_plan_file(folder: str) -> PlanFile:
    """Create an empty file for a plan in a folder that all machines share, and the folder if needed."""
    Path(folder).mkdir(parents=True, exist_ok=True)
    handle, path = tempfile.mkstemp(prefix="plan-", suffix=".json", dir=folder)
    os.close(handle)
    return PlanFile(path)


def read_metrics(folder: str) -> list[dict[str, Any]]:
    """Return the metrics of each query whose option `metrics` was this folder, in the order of planning.

    Counts of row groups are those of the plan; `tasks_done`, `scanned_row_count`, `returned_row_count` and `read_bytes`
    those of the tasks that are complete.
    """
    plans = sorted((path for path in Path(folder).glob("plan-*.json")), key=lambda path: path.stat().st_mtime_ns)
    return [_with_tasks(path) for path in plans if path.stat().st_size]


def _with_tasks(path: Path) -> dict[str, Any]:
    plan: dict[str, Any] = json.loads(path.read_text())
    tasks = [json.loads(task.read_text()) for task in sorted(path.parent.glob(f"{path.stem}.task-*"))]
    sums = {name: sum(task[name] for task in tasks) for name in TASK_COUNTS}
    return {**plan, "tasks_done": len(tasks), **sums}


def _write(path: Path, content: dict[str, Any]) -> None:
    with whole_file(path) as file:
        file.write(json.dumps(content).encode())
