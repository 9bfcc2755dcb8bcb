"""What is said of an exception that nobody expected."""

from __future__ import annotations

MEMORY_OF_A_LIBRARY = ("failed to map segment", "annot allocate memory")
"""Parts of what the system's loader says if there is none left for a library, which Python turns into ImportError."""


def unexpected(error: BaseException) -> str:
    """Say it in words: there was not enough memory, or it is a defect of ours."""
    text = f"{type(error).__name__}: {error}"
    is_of_library = isinstance(error, ImportError) and any(part in str(error) for part in MEMORY_OF_A_LIBRARY)
    if is_of_library or isinstance(error, MemoryError):
        return f"there is not enough memory, or a limit of it is too low (ulimit -v): {text}"
    return f"this is a defect of tornproof, not an answer: {text}"
