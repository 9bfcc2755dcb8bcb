"""Words of the commands that are printed for people to repeat."""

from __future__ import annotations

import os
import shlex


def shell_word(text: str) -> str:
    """Return a path or a command as a word for a shell that is printed as it is, and is no option."""
    text = f"./{text}" if text.startswith("-") else text
    if text.isprintable():
        return shlex.quote(text)
    return f"$'{''.join(map(_escaped, text))}'"


def _escaped(character: str) -> str:
    if character.isascii() and character.isprintable() and character not in "'\\":
        return character
    return "".join(f"\\x{byte:02x}" for byte in os.fsencode(character))
