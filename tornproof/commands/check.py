"""`tornproof check TABLE`: explore what damage can do to a table, on a copy in memory."""

from __future__ import annotations

import os
import time
from pathlib import Path
from typing import Annotated

import typer

from harness.check import CheckSettings, PhaseName, capture_table, check_image, complaint_of
from harness.explore.damage import COMPLETE_BYTES
from harness.verdict import worst
from impl.operating_system import OperatingSystemStorage
from tornproof.check_report import check_document, print_check
from tornproof.findings import save_findings
from tornproof.output import ExitCode, JsonOption, progress_bar, result_console, write_json
from tornproof.steady import steadily


def check(
    table: Annotated[str, typer.Argument(help="Directory of a table. It is copied into memory and never changed.")],
    seconds: Annotated[float, typer.Option(min=1, help="Time for the explorations.")] = 60.0,
    only: Annotated[list[PhaseName] | None, typer.Option(help="Run only this explorer; may be repeated.")] = None,
    bound: Annotated[
        int, typer.Option(min=1, metavar="BYTES", help="Try every bit of a data.parquet up to this size, else some.")
    ] = COMPLETE_BYTES,
    workers: Annotated[int, typer.Option(min=1, help="Processes that explore.")] = os.cpu_count() or 1,
    findings: Annotated[Path, typer.Option(metavar="DIR", help="Where findings are written, if there are any.")] = Path(
        "tornproof-findings"
    ),
    json_target: JsonOption = None,
) -> int:
    """Verify a real table, encode its metadata again, and try every flipped bit and every length of its files."""
    storage = OperatingSystemStorage()
    # An image is keyed by plain text; POSIX lets a path keep two leading slashes.
    path = "/" + os.path.abspath(table).lstrip("/")  # noqa: PTH100
    image = steadily(storage, path, lambda: capture_table(storage, path), lambda copied: complaint_of(copied, path))
    settings = CheckSettings(
        seconds=seconds,
        workers=workers,
        complete_bytes=bound,
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
    saved = save_findings(phases, table, path, image, findings)
    write_json(check_document(table, phases, saved), json_target)
    print_check(result_console(json_target), table, phases, saved)
    return ExitCode[worst(phase.verdict for phase in phases).name]
