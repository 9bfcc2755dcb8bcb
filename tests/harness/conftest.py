"""What several folders of tests of the harness share."""

from collections.abc import Iterator

import pytest

from tornproof.harness.common.remembered_codecs import remembered_decoding


@pytest.fixture(scope="module")
def remembering() -> Iterator[None]:
    """Decode what is the same once for all tests of a module."""
    with remembered_decoding():
        yield
