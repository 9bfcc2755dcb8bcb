"""What a run does when a signal asks it to end: it stops, says so in one line, and leaves nothing behind.

`entry.py` imports this before all else, so it imports next to nothing. The guard (`guard.py`) reads what is written
here into the folder of the run.
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
"""Files in the folder of a run: patterns of partial outputs, what is saved, and that the end was told already."""
SIGNAL_BASE = 128
"""What shells add to the number of a signal that ended a process."""

Handler: TypeAlias = Callable[[int, FrameType | None], None]
_folder: Path | None = None
_sentence = ""
_received = 0


def ending_signals() -> tuple[signal.Signals, ...]:
    """Return the signals that end a run; the end of a terminal does not where nohup is to keep it from that.

    Shells without job control start what is in the background with SIGINT ignored, but whoever sends it means it.
    """
    is_kept = signal.getsignal(signal.SIGHUP) is signal.SIG_IGN
    return SIGNALS[:-1] if is_kept else SIGNALS


def handle(handler: Handler) -> None:
    """Let a function handle the signals that end a run."""
    for number in ending_signals():
        signal.signal(number, handler)


def end_at_once(number: int, frame: FrameType | None) -> None:
    """Handle a signal while there is nothing yet to clean up."""
    with suppress(OSError):
        os.write(2, f"tornproof: {sentence()}\n".encode())
    os._exit(SIGNAL_BASE + number)


def raise_once(number: int, frame: FrameType | None) -> None:
    """Handle the first signal by KeyboardInterrupt; nothing disturbs what is cleaned up then."""
    global _received
    if _received:
        return
    _received = number
    _silence_others()
    raise KeyboardInterrupt


def ignore(number: int, frame: FrameType | None) -> None:
    """Handle a signal that comes when the answer is out: it stands."""


def received() -> int:
    """Return the signal that interrupted this run, or 0.

    Whatever is raised from then on is of the interrupt: a library may make another exception of it.
    """
    return _received


def use_folder(folder: Path) -> None:
    """Name the folder of this run."""
    global _folder
    _folder = folder


def say_if_interrupted(what: str) -> None:
    """Keep what an interrupt has to say of this run: what is saved, and how it goes on."""
    global _sentence
    _sentence = what
    _note(SENTENCE, what, "w")


def remove_at_end(position: Path, pattern: str) -> None:
    """Have the files in a folder that match a pattern removed when the run has ended in whatever way, even by SIGKILL.

    What a pattern takes for special is escaped by `glob.escape`.
    """
    _note(TO_REMOVE, f"{position.absolute()}\0{pattern}\0", "a")


def has_said() -> None:
    """Note that whoever waits has been told of the interrupt."""
    _note(SAID, "", "w")


def sentence() -> str:
    """Return what is said of the interrupt."""
    return f"interrupted: {_sentence}" if _sentence else "interrupted"


def _note(name: str, text: str, mode: str) -> None:
    if _folder is not None:
        with suppress(OSError), (_folder / name).open(mode, encoding="utf-8", errors="surrogateescape") as file:
            file.write(text)


def _silence_others() -> None:
    """Keep traces of the interrupt in threads, destructors and logs from the terminal."""
    sys.unraisablehook = lambda unraisable: None
    # At the top they would cost every run what they cost to import, before a signal is taken care of.
    import logging
    import threading

    threading.excepthook = lambda arguments: None
    logging.disable(logging.CRITICAL)
