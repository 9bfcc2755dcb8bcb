"""The sums of a campaign's directory as a document for its page, whatever the directory lacks."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import asdict
from typing import Any

from tornproof.impl.errors import StorageError
from tornproof.pipeline.campaign.behaviours import BEHAVIOURS_MAX, Behaviours
from tornproof.pipeline.campaign.job import SPEC_FILE
from tornproof.pipeline.campaign.result_files import ResultFile, result_files
from tornproof.pipeline.campaign.tally import Seen, Tally, tally_of
from tornproof.pipeline.files import Location


def directory_sums(out: Location) -> dict[str, Any]:
    """Return the sums of all results that there are; those that cannot be read are named. Raises StorageError."""
    ours = _groups_that_are_no_controls(out)
    files = result_files(out)
    sums = tally_of(files, lambda group: group not in ours, Seen(), keeps_going=True)
    return sums_document(sums, files)


def sums_document(sums: Tally, files: Sequence[ResultFile] | None = None) -> dict[str, Any]:
    """Return sums as a document; without `files`, those of all tasks are there."""
    numbers = range(sums.task_counts.total()) if files is None else [file.number for file in files]
    return {
        "tasks": dict(sums.task_counts),
        "tasks_until": max(numbers, default=-1) + 1,
        "tasks_missing": max(numbers, default=-1) + 1 - len(numbers),
        "verdicts": [[*key, count] for key, count in sums.verdicts.items()],
        "injected_faults": dict(sums.injected_faults),
        "reached": dict(sums.reached),
        # Runs without a model are fault-free.
        "crash_points": [
            [point.step, point.injected_fault, point.model, point.disk, count]
            for point, count in sums.crash_points.items()
            if point.model and not point.is_control
        ],
        "cells": [{"cell": list(cell), **asdict(runs)} for cell, runs in sums.cells.items()],
        "signatures": [
            {
                "stem": f"campaign-{signature.digest()}",
                "property": signature.property,
                "sentence": found.sentence,
                "cell": list(found.cell),
                "seed": found.seed,
                "run_count": found.run_count,
            }
            for signature, found in sums.signatures.items()
        ],
        "behaviours": _trend(sums.behaviours),
        "outcomes": _trend(sums.outcomes),
        "behaviours_max": BEHAVIOURS_MAX if sums.behaviours.is_full else None,
        "group_starts": list(sums.group_starts.values()),
        "errors": sums.errors,
        "problems": sums.problems,
        "problem_count": sums.problem_count,
        "step_count": sums.step_count,
        "event_count": sums.event_count,
    }


def _trend(behaviours: Behaviours) -> list[dict[str, int]]:
    return [point._asdict() for point in behaviours.trend()] if behaviours.run_count else []


def _groups_that_are_no_controls(out: Location) -> frozenset[str]:
    """Return the groups of the spec without controls; the page says what is wrong with a spec that is none."""
    try:
        groups = json.loads((out / SPEC_FILE).read_bytes())["spec"]["groups"]
        return frozenset(group["name"] for group in groups if not group.get("control", False))
    except (StorageError, ValueError, KeyError, TypeError, AttributeError, RecursionError):
        return frozenset()
