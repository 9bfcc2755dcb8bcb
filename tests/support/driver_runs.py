"""A driver of Spark as a process of its own, which knows no code but what its arguments name."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

import quick_java

SECONDS_MAX = 3600  # ends what hangs, and no busy machine


def run_driver(script: str | Path, folder: Path, *arguments: object) -> subprocess.CompletedProcess[str]:
    """Run a copy of a script in a folder, where all that it leaves is; its executors start as quickly."""
    environment = {name: value for name, value in os.environ.items() if name != "PYTHONPATH"}
    return subprocess.run(
        [sys.executable, shutil.copy(script, folder), *map(str, arguments)],
        cwd=folder,
        env={
            **environment,
            "TMPDIR": str(folder),
            quick_java.VARIABLE: f'{quick_java.OPTIONS} "-Dspark.executor.extraJavaOptions={quick_java.OPTIONS}"',
        },
        capture_output=True,
        text=True,
        timeout=SECONDS_MAX,
        check=False,
    )
