"""What is said of an exception that nobody expected."""

import pytest

from tornproof.harness.common.unexpected import unexpected


@pytest.mark.parametrize(
    "error",
    [
        ImportError("libarrow.so.2600: failed to map segment from shared object"),
        ImportError("libgomp.so.1: cannot allocate memory in static TLS block"),
        MemoryError("Out of memory while compressing data"),
    ],
)
def test_too_little_memory_is_not_called_a_defect(error: BaseException) -> None:
    """With a limit on its addresses (`ulimit -v`) every command said that it was one."""
    assert unexpected(error).startswith("there is not enough memory, or a limit of it is too low (ulimit -v): ")
    assert str(error) in unexpected(error)


@pytest.mark.parametrize("error", [ZeroDivisionError("division by zero"), ModuleNotFoundError("No module named 'x'")])
def test_other_exceptions_are_defects(error: BaseException) -> None:
    assert unexpected(error) == f"this is a defect of tornproof, not an answer: {type(error).__name__}: {error}"
