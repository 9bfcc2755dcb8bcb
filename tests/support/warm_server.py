"""Imports tornproof once, then forks for every line on standard input and runs `main` in the child.

With `pytest` as its argument it is that which runs, with all imported that our plugin for it takes, but not the plugin.
"""

import codecs
import contextlib
import gc
import importlib
import json
import os
import signal
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow as pa


def main() -> None:
    """Answer requests until standard input ends."""
    command = warm_pytest() if sys.argv[1:] == ["pytest"] else warm_command()
    gc.freeze()
    for line in sys.stdin:
        request = json.loads(line)
        child = os.fork()
        if child == 0:
            run(request, command)
        _, status, usage = os.wait4(child, 0)
        answer = {
            "code": os.waitstatus_to_exitcode(status),
            "peak_bytes": usage.ru_maxrss * (1 if sys.platform == "darwin" else 1024),
        }
        print(json.dumps(answer), flush=True)


def warm_command() -> Callable[[], object]:
    """Return the command line, warm."""
    from tornproof.cli.app import COMMANDS
    from tornproof.cli.app import main as command

    for name in COMMANDS:
        importlib.import_module(f"tornproof.cli.commands.{name}")
    # What is imported at first use would be imported by every child again, and not at all by one without rights.
    sys.argv = ["tornproof", "check", os.devnull, "--workers", "1"]
    with Path(os.devnull).open("w") as nothing, contextlib.redirect_stderr(nothing), contextlib.suppress(SystemExit):
        command()
    codecs.lookup("utf-16-le")
    pa.array([])  # imports pandas, where there is one
    return command


def warm_pytest() -> Callable[[], object]:
    """Return pytest, warm."""
    # Modules of this folder are nothing to those who use the plugin.
    del sys.path[0]
    import pytest

    for name in ("hypothesis.stateful", "tornproof.harness.explorers.own_system.machine", "tornproof.testing"):
        importlib.import_module(name)
    from tornproof.harness.explorers.kills.explorer import controls_of_run

    # Each child would explore them again.
    controls_of_run()
    return lambda: sys.exit(pytest.main())


def run(request: dict[str, Any], command: Callable[[], object]) -> None:
    """Be the command line: outputs into files, a limit of time, an exit code as Python gives one."""
    code: object = 70
    try:
        signal.setitimer(signal.ITIMER_REAL, request["timeout_seconds"])
        os.chdir(request["folder"])
        redirect(os.devnull, os.O_RDONLY, 0)
        redirect(request["out"], os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 1)
        redirect(request["err"], os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 2)
        if request["user"] is not None:
            os.setgroups([])
            os.setgid(request["user"])
            os.setuid(request["user"])
        sys.argv = ["tornproof", *request["arguments"]]
        command()
        code = 0
    except SystemExit as leaving:
        code = leaving.code
    except BaseException:
        import traceback

        traceback.print_exc()
        code = 1
    finally:
        sys.stdout.flush()
        sys.stderr.flush()
        os._exit(code if isinstance(code, int) else 0 if code is None else 1)


def redirect(path: str, flags: int, descriptor: int) -> None:
    """Put a file in the place of a standard stream."""
    opened = os.open(path, flags, 0o666)
    os.dup2(opened, descriptor)
    os.close(opened)


if __name__ == "__main__":
    main()
