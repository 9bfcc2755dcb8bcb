"""What the end-to-end tests share: the command line, ready to run."""

from collections.abc import Iterator

import pytest
from command_line import WarmRunner, warm_runner


@pytest.fixture(scope="session")
def tornproof() -> Iterator[WarmRunner]:
    """The command line in children of one warm process."""
    with warm_runner() as runner:
        yield runner
