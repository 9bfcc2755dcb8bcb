"""Handling of signals that end a run: it stops, prints one line, and leaves no temporary files.

`entry.py` imports this first, so it imports little. The guard (`guard.py`) reads what is written here into the folder
of the run.
"""

from __future__ import annotations

import os
import signal
import sys
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from types import FrameType
from typing import TypeAlias

SIGNALS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)
TO_REMOVE, SENTENCE, SAID = "remove", "sentence", "said"
"""Files in the folder of a run: patterns of partial outputs, what is saved, and a mark that the end was reported."""
SIGNAL_BASE = 128
"""Shells add this to the number of the signal that ended a process."""

Handler: TypeAlias = Callable[[int, FrameType | None], None]
_folder: Path | None = None
_sentence = ""
_received = 0


def ending_signals() -> tuple[signal.Signals, ...]:
    """Return the signals that end a run; SIGHUP does not under nohup.

    Shells without job control start background processes with SIGINT ignored, but it is handled all the same.
    """
    is_kept = signal.getsignal(signal.SIGHUP) is signal.SIG_IGN
    return SIGNALS[:-1] if is_kept else SIGNALS


def handle(handler: Handler) -> None:
    """Set the handler of the signals that end a run."""
    for number in ending_signals():
        signal.signal(number, handler)


def end_at_once(number: int, frame: FrameType | None) -> None:
    """Handle a signal before there is anything to clean up."""
    with suppress(OSError):
        os.write(2, f"tornproof: {sentence()}\n".encode())
    os._exit(SIGNAL_BASE + number)


def raise_once(number: int, frame: FrameType | None) -> None:
    """Raise KeyboardInterrupt for the first signal; later ones do not disturb the clean-up."""
    global _received
    if _received:
        return
    _received = number
    _silence_others()
    raise KeyboardInterrupt


def ignore(number: int, frame: FrameType | None) -> None:
    """Ignore a signal after the result was printed."""


def received() -> int:
    """Return the signal that interrupted this run, or 0.

    Any exception after it is due to the interrupt: a library may turn KeyboardInterrupt into another one.
    """
    return _received


def use_folder(folder: Path) -> None:
    """Set the folder of this run."""
    global _folder
    _folder = folder


def say_if_interrupted(what: str) -> None:
    """Set what to print if this run is interrupted: what is saved, and how to resume."""
    global _sentence
    _sentence = what
    _note(SENTENCE, what, "w")


def remove_at_end(directory: Path, pattern: str) -> None:
    """Have the guard remove the files in a directory that match a pattern when the run has ended, even by SIGKILL.

    Escape file names with `glob.escape`.
    """
    _note(TO_REMOVE, f"{directory.absolute()}\0{pattern}\0", "a")


def has_said() -> None:
    """Note that the interrupt was reported."""
    _note(SAID, "", "w")


def sentence() -> str:
    """Return what to print about the interrupt."""
    return f"interrupted: {_sentence}" if _sentence else "interrupted"


def _note(name: str, text: str, mode: str) -> None:
    if _folder is not None:
        with suppress(OSError), (_folder / name).open(mode, encoding="utf-8", errors="surrogateescape") as file:
            file.write(text)


def _silence_others() -> None:
    """Keep tracebacks of the interrupt in threads, destructors and logs from the terminal."""
    sys.unraisablehook = lambda unraisable: None
    # Imported here, because every run would pay for them before it handles signals.
    import logging
    import threading

    threading.excepthook = lambda arguments: None
    logging.disable(logging.CRITICAL)
