"""Ways to run the command line in tests: in a process of its own each time, or forked from one that is warm already.

A warm run costs a hundredth of a cold one and goes through the same `main`; the warm one says how much memory was in
use at most. Both end what hangs.
"""

import json
import os
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from typer.testing import CliRunner

from tornproof.cli.output import visible

ROOT = Path(__file__).parents[2]
SERVER = Path(__file__).with_name("warm_server.py")
TIMEOUT_SECONDS = 900


@dataclass(frozen=True, kw_only=True)
class Run:
    """What a run of the command line left: a negative code is the signal that ended it."""

    code: int
    out: str
    err: str
    peak_bytes: int = 0

    @property
    def document(self) -> Any:
        """Standard output as JSON."""
        return json.loads(self.out)


def environment() -> dict[str, str]:
    """The environment of a run: the packages of this checkout, a terminal of no particular kind or width."""
    kept = {name: value for name, value in os.environ.items() if name not in ("COLUMNS", "TORNPROOF_TRACEBACK")}
    return {**kept, "PYTHONPATH": str(ROOT / "src")}


def cold_run(*arguments: object, folder: Path | None = None, stdout: int = subprocess.PIPE) -> Run:
    """Run `python -m tornproof` as a shell would, in `folder`."""
    done = subprocess.run(
        [sys.executable, "-m", "tornproof", *map(str, arguments)],
        stdin=subprocess.DEVNULL,
        stdout=stdout,
        stderr=subprocess.PIPE,
        cwd=folder,
        env=environment(),
        timeout=TIMEOUT_SECONDS,
        check=False,
        encoding="utf-8",
        errors="surrogateescape",
    )
    return Run(code=done.returncode, out=done.stdout or "", err=done.stderr)


def run_here(*arguments: object) -> Run:
    """Run the command line in this process, which may have patched it; what goes wrong in it is raised."""
    from tornproof.cli.app import app

    result = CliRunner().invoke(app, list(map(str, arguments)), standalone_mode=False)
    if result.exception is not None:
        raise result.exception
    return Run(code=result.return_value, out=result.stdout, err=result.stderr)


class WarmRunner:
    """Runs `main` in children of a process that has everything imported."""

    def __init__(self, server: subprocess.Popen[str], folder: Path) -> None:
        """Talk to a running server; outputs go through files in `folder`."""
        self._server = server
        self._folder = folder

    def __call__(
        self,
        *arguments: object,
        user: int | None = None,
        timeout_seconds: float = TIMEOUT_SECONDS,
        folder: Path | None = None,
    ) -> Run:
        """Run with these arguments, as another `user` if one is given (which only root can ask for)."""
        out, err = self._folder / "out", self._folder / "err"
        request = {
            "arguments": list(map(str, arguments)),
            "out": str(out),
            "err": str(err),
            "user": user,
            "folder": str(folder or self._folder),
            "timeout_seconds": timeout_seconds,
        }
        assert self._server.stdin is not None and self._server.stdout is not None
        print(json.dumps(request), file=self._server.stdin, flush=True)
        answer = json.loads(self._server.stdout.readline())
        return Run(out=_text(out), err=_text(err), **answer)


@contextmanager
def warm_runner(*body: str, variables: Mapping[str, str] | None = None) -> Iterator[WarmRunner]:
    """Start a server for as long as the block runs: of the command line, or of another `program` that it knows."""
    with tempfile.TemporaryDirectory(prefix="tornproof-") as name:
        folder = Path(name)
        # A child that has given up being root must be able to write its outputs.
        folder.chmod(0o777)
        with subprocess.Popen(
            [sys.executable, str(SERVER), *body],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            env={**environment(), **(variables or {})},
            text=True,
        ) as server:
            try:
                yield WarmRunner(server, folder)
            finally:
                assert server.stdin is not None
                server.stdin.close()


def _text(path: Path) -> str:
    return path.read_bytes().decode("utf-8", "surrogateescape")


def sentence_of(run: Run) -> str:
    """Return the one clear sentence that a run which ended without an answer must have left on standard error."""
    assert run.err.startswith("tornproof: "), run
    assert run.err.count("\n") == 1 and run.err.endswith("\n"), run
    assert "defect" not in run.err and "Traceback" not in run.err + run.out, run
    assert visible(run.err, kept="\n") == run.err, run
    return run.err.removeprefix("tornproof: ").strip()
