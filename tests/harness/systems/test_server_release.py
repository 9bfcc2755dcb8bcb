import struct
import zipfile
from pathlib import Path

import interop_run
import pytest

from tornproof.harness.systems.server import release as releases
from tornproof.harness.systems.server.maven import class_path_of
from tornproof.harness.systems.server.release import (
    MAIN_FILE,
    Release,
    UnavailableError,
    find_release,
    java_needed,
    java_version,
    release_of,
    version_numbers,
    version_of,
)


def class_file(java: int) -> bytes:
    return b"\xca\xfe\xba\xbe" + struct.pack(">HH", 0, 44 + java)


def server_archive(folder: Path, java: int = 17) -> Path:
    archive = folder / "server.jar"
    with zipfile.ZipFile(archive, "w") as entries:
        entries.writestr(MAIN_FILE, class_file(java))
        entries.writestr("META-INF/MANIFEST.MF", "Manifest-Version: 1.0\r\nImplementation-Version: 9.3.4\r\n")
    return archive


def program(folder: Path, name: str, script: str) -> Path:
    file = folder / name
    file.write_text(f"#!/bin/sh\n{script}\n")
    file.chmod(0o755)
    return file


@pytest.fixture
def java_17(tmp_path: Path) -> dict[str, str]:
    (tmp_path / "bin").mkdir()
    program(tmp_path / "bin", "java", "echo '    java.specification.version = 17' >&2")
    return {"JAVA_HOME": str(tmp_path), "PATH": str(tmp_path / "nowhere")}


@pytest.mark.parametrize("java", [8, 17, 25])
def test_a_class_tells_the_java_that_it_needs(java: int) -> None:
    assert java_needed(class_file(java)) == java


@pytest.mark.parametrize(
    ("version", "has_pm"),
    [("9.3.4", False), ("9.4.0", True), ("9.4.2-SNAPSHOT", True), ("10.0", True), ("own build", True), ("6.2", False)],
)
def test_releases_write_pm_from_9_4_0_on(version: str, has_pm: bool) -> None:
    assert Release(version=version, classpath="", java="java", java_version=17).writes_pm is has_pm


def test_a_version_that_is_no_number_has_none() -> None:
    assert version_numbers("own build") == ()


def test_the_archive_of_a_server_tells_its_version(tmp_path: Path) -> None:
    assert version_of(server_archive(tmp_path), own=False) == "9.3.4"
    assert version_of(tmp_path, own=True) == "own build"


def test_a_build_of_ones_own_is_found_with_a_java_that_is_new_enough(tmp_path: Path, java_17: dict[str, str]) -> None:
    release = find_release({**java_17, "QUESTDB_CLASSPATH": str(server_archive(tmp_path))})
    assert (release.version, release.java_version) == ("9.3.4 (own build)", 17)


def test_a_java_that_is_too_old_is_rejected_in_words(
    tmp_path: Path, java_17: dict[str, str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(releases, "candidate_javas", lambda _: iter([str(tmp_path / "bin" / "java")]))
    with pytest.raises(UnavailableError, match="needs Java 25 or newer, and there is only Java 17"):
        find_release({**java_17, "QUESTDB_CLASSPATH": str(server_archive(tmp_path, java=25))})


def test_a_class_path_without_a_server_is_rejected(tmp_path: Path, java_17: dict[str, str]) -> None:
    with pytest.raises(UnavailableError, match="is not in the class path"):
        find_release({**java_17, "QUESTDB_CLASSPATH": str(tmp_path)})


def test_what_maven_resolves_is_the_class_path(tmp_path: Path) -> None:
    script = 'for option; do case "$option" in -Dmdep.outputFile=*) echo a.jar:b.jar > "${option#*=}";; esac; done'
    program(tmp_path, "mvn", script)
    assert class_path_of(["org.questdb:questdb:9.3.4"], {"PATH": str(tmp_path)}) == "a.jar:b.jar"


def test_the_first_error_of_maven_is_the_reason(tmp_path: Path) -> None:
    errors = r"printf '[INFO] x\n\033[0m[ERROR] it is not there\n[ERROR] \n[ERROR] more\n'"
    program(tmp_path, "mvn", f"{errors}; exit 1")
    sentence = r"cannot resolve org\.questdb:questdb:9\.4\.2: it is not there; a build of one's own is named by"
    with pytest.raises(UnavailableError, match=sentence) as raised:
        release_of("9.4.2", {"PATH": str(tmp_path)})
    assert raised.value.was_asked_for


def test_a_java_or_a_maven_may_write_bytes_that_are_no_text(tmp_path: Path, java_17: dict[str, str]) -> None:
    """Names of folders in another encoding ended in a traceback."""
    program(tmp_path / "bin", "java", r"printf 'user.dir = caf\351\njava.specification.version = 17\n' >&2")
    assert java_version(str(tmp_path / "bin" / "java")) == 17
    program(tmp_path, "mvn", r"printf '[ERROR] caf\351\n'; exit 1")
    with pytest.raises(UnavailableError, match=r"cannot resolve .*: caf\\xe9;"):
        release_of("9.4.2", {"PATH": str(tmp_path)})


def test_without_maven_the_run_is_skipped_aloud(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("QUESTDB_CLASSPATH", "QUESTDB_VERSION"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("PATH", str(tmp_path))
    assert interop_run.main([]) == 0
    assert capsys.readouterr().out.startswith("interop: skipped: there is no Maven (mvn) on PATH")


def test_a_release_that_was_asked_for_and_is_not_there_is_an_error(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("QUESTDB_CLASSPATH", raising=False)
    monkeypatch.setenv("QUESTDB_VERSION", "9.4.2")
    monkeypatch.setenv("PATH", str(tmp_path))
    assert interop_run.main([]) == 2
    assert "skipped" in capsys.readouterr().out
