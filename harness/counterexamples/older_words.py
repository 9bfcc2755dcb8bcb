"""The words of older finding files, which loading translates into those of the present format."""

from __future__ import annotations

from typing import Any

FORMAT = 4
"""The format of the finding files that are written."""
OLDER_FORMATS = (1, 2, 3)
"""Format 1 has the files of the start, format 2 a test case and a decision log; formats 3 and 4 have either."""
_WORDS = {
    "situation": "test_case",
    "first_life": "first_session",
    "second_life": "second_session",
    "story": "narrative",
    "told": "description",
    "life": "session",
}
_PARENTS = ("evidence", "explanation", "origin", "situation")
_PHASES = {"drawn": "random"}


def in_present_words(document: Any) -> Any:
    """Return a finding of an older format in the words of the present one, and any other document as it is.

    Names of files and columns stay.
    """
    if not isinstance(document, dict) or document.get("format") not in OLDER_FORMATS:
        return document
    translated = _renamed(document)
    phase = translated.get("phase")
    return translated | {"format": FORMAT, "phase": _PHASES.get(phase, phase) if isinstance(phase, str) else phase}


def _renamed(document: dict[str, Any]) -> dict[str, Any]:
    """Return the keys in present words, also of the parts that have words of the format."""
    return {
        _WORDS.get(key, key): _renamed(value) if key in _PARENTS and isinstance(value, dict) else value
        for key, value in document.items()
    }
