"""Frames of stacks in the words of a programmer: the function, and the line of its source where addr2line knows it."""

from __future__ import annotations

import re
import shutil
import subprocess
from collections import defaultdict
from collections.abc import Iterable, Sequence

import msgspec

from tornproof.harness.recording.steps import Step

ADDR2LINE = "addr2line"
NO_LINE = "??"
_OFFSET = re.compile(r"\+0x[0-9a-f]+$")


def with_lines(steps: Iterable[Step]) -> tuple[Step, ...]:
    """Return the steps with frames as `file: function at source:line`, or without what is not known."""
    steps = tuple(steps)
    addresses: defaultdict[str, dict[str, None]] = defaultdict(dict)
    for step in steps:
        for frame in step.stack:
            file, _, address = _parts(frame)
            addresses[file][address] = None
    lines = {file: dict(zip(of, _lines(file, tuple(of)), strict=True)) for file, of in addresses.items()}
    return tuple(
        msgspec.structs.replace(step, stack=tuple(_shown(frame, lines) for frame in step.stack)) if step.stack else step
        for step in steps
    )


def _parts(frame: str) -> tuple[str, str, str]:
    """Return the file, the function and the address of a frame.

    A function of C++ has its parameters in its name, with spaces, and an operator can have a plus.
    """
    file, _, rest = frame.rpartition(": ")
    function, _, address = rest.rpartition(" ")
    return file, _OFFSET.sub("", function), address.strip("[]")


def _lines(file: str, addresses: Sequence[str]) -> Sequence[str]:
    """Return the line of the source for each address, `??` where there is none."""
    if shutil.which(ADDR2LINE) is None:
        return [NO_LINE] * len(addresses)
    # An address is that of the return, so the call is before it.
    calls = [hex(int(address, 16) - 1) for address in addresses]
    command = [ADDR2LINE, f"--exe={file}", *calls]
    found = subprocess.run(command, capture_output=True, text=True, check=False, errors="replace").stdout.splitlines()
    return found if len(found) == len(addresses) else [NO_LINE] * len(addresses)


def _shown(frame: str, lines: dict[str, dict[str, str]]) -> str:
    file, function, address = _parts(frame)
    line = lines[file][address].rpartition("/")[2].partition(" ")[0]
    return f"{file.rpartition('/')[2]}: {function}" + ("" if line.startswith(NO_LINE) else f" at {line}")
