"""Numbers in the evidence of a finding, whose file may be from anywhere: another number would be another run."""

from __future__ import annotations


def integer_of(value: object) -> int:
    """Return an integer; raises ValueError for what is none, such as a fraction, a text or a truth value."""
    if type(value) is not int:
        raise ValueError(f"expected an integer, found {value!r}")
    return value


def count_of(value: object) -> int:
    """Return a number of things, or of one of them; raises ValueError for what is none, or negative."""
    if (count := integer_of(value)) < 0:
        raise ValueError(f"expected a count, found {count}")
    return count
