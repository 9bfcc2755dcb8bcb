"""A server that died says of what."""

import signal
import subprocess
from pathlib import Path
from typing import Any, cast

import pyarrow as pa
import pytest

from tornproof.harness.systems.server.process import Server, _open_files

START = "2026-01-01 I server started"
FAILED = "2026-01-01 E could not open"
CRASHED = "#  SIGSEGV (0xb) at pc=0x0"


@pytest.mark.parametrize(
    ("lines", "words"),
    [
        ((START,), START),
        ((START, FAILED, START), FAILED),
        ((START, FAILED, "#", CRASHED, FAILED), CRASHED),
        (
            (FAILED, *(f"{FAILED} {number}" for number in range(3))),
            " / ".join(f"{FAILED} {number}" for number in range(3)),
        ),
    ],
)
def test_the_signal_of_which_java_died_comes_before_errors_and_these_before_all_else(
    tmp_path: Path, lines: tuple[str, ...], words: str
) -> None:
    server = Server(cast(Any, None), tmp_path)
    server.log.write_text("\n".join(lines))
    assert server.last_words() == words


def test_a_server_that_does_not_end_when_it_is_told_to_is_killed_once(tmp_path: Path) -> None:
    asked: list[str] = []

    class Lasting:
        def send_signal(self, by: signal.Signals) -> None:
            asked.append(by.name)

        def wait(self, seconds: float | None = None) -> None:
            asked.append("wait")
            if seconds is not None:
                raise subprocess.TimeoutExpired("java", seconds)

        def kill(self) -> None:
            asked.append("kill")

    server = Server(cast(Any, None), tmp_path)
    server.kill()
    server._process = cast(Any, Lasting())
    with pytest.raises(subprocess.TimeoutExpired):
        server.stop()
    server.kill()
    assert asked == ["SIGTERM", "wait", "kill", "wait"]


def test_a_file_that_is_only_mapped_is_open(tmp_path: Path) -> None:
    path = tmp_path / "mapped"
    path.write_bytes(bytes(10))
    # An mmap of Python keeps a descriptor; what was read of this one keeps the mapping alone.
    with pa.memory_map(str(path)) as file:
        mapped = file.read_buffer()
    assert path not in [each.resolve() for each in Path("/proc/self/fd").iterdir()]
    assert str(path) in _open_files(Path("/proc/self"))
    del mapped
    assert str(path) not in _open_files(Path("/proc/self"))
