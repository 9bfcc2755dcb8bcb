"""`tornproof check [TABLE]`: explore what damage, kills, failing calls and readers beside a writer do to a copy."""

from __future__ import annotations

import os
import time
from pathlib import Path
from typing import Annotated

import typer

from harness.check import CheckSettings, PhaseName, capture_table, check_image, complaint_of
from harness.disk.image import DiskImage
from harness.explore.damage import COMPLETE_BYTES
from harness.verdict import worst
from harness.workload import MADE_PATH, made_image
from impl.operating_system import OperatingSystemStorage
from tornproof.check_report import check_document, print_check
from tornproof.findings import save_findings
from tornproof.output import ExitCode, JsonOption, progress_bar, result_console, write_json
from tornproof.steady import steadily


def check(
    table: Annotated[
        str | None,
        typer.Argument(help="Directory of a table, which is copied and never changed; else a small new one."),
    ] = None,
    seconds: Annotated[float, typer.Option(min=1, help="Time for the explorations.")] = 60.0,
    only: Annotated[list[PhaseName] | None, typer.Option(help="Run only this explorer; may be repeated.")] = None,
    seed: Annotated[int, typer.Option(min=0, help="Where chance starts, for the explorers that use it.")] = 0,
    bound: Annotated[
        int, typer.Option(min=1, metavar="BYTES", help="Try every bit of a data.parquet up to this size, else some.")
    ] = COMPLETE_BYTES,
    workers: Annotated[int, typer.Option(min=1, help="Processes that explore.")] = os.cpu_count() or 1,
    findings: Annotated[Path, typer.Option(metavar="DIR", help="Where findings are written, if there are any.")] = Path(
        "tornproof-findings"
    ),
    json_target: JsonOption = None,
) -> int:
    """Explore a table from a copy: flipped bits, commits beside readers, kills at every step, failing calls."""
    name, path, image = ("a small new table", MADE_PATH, made_image()) if table is None else _captured(table)
    settings = CheckSettings(
        seconds=seconds,
        workers=workers,
        complete_bytes=bound,
        seed=seed,
        phases=tuple(only or PhaseName),
    )
    with progress_bar() as progress:
        task = progress.add_task("copying", total=None)
        phases = list(
            check_image(
                image,
                path,
                settings,
                clock=time.monotonic,
                on_progress=lambda phase, done, total: progress.update(
                    task, description=phase, completed=done, total=total
                ),
            )
        )
    saved = save_findings(phases, name, path, image, findings)
    write_json(check_document(name, seed, phases, saved), json_target)
    print_check(result_console(json_target), name, phases, saved)
    return ExitCode[worst(phase.verdict for phase in phases).name]


def _captured(table: str) -> tuple[str, str, DiskImage]:
    storage = OperatingSystemStorage()
    # An image is keyed by plain text; POSIX lets a path keep two leading slashes.
    path = "/" + os.path.abspath(table).lstrip("/")  # noqa: PTH100
    image = steadily(storage, path, lambda: capture_table(storage, path), lambda copied: complaint_of(copied, path))
    return table, path, image
