import pytest

from tornproof.harness.systems.server.client import Address, NoAnswerError, address_of, wait
from tornproof.impl.errors import UsageError


@pytest.mark.parametrize(
    ("url", "address"),
    [
        ("http://localhost", Address(host="localhost", port=9000)),
        ("https://db.example:443/", Address(host="db.example", port=443, is_encrypted=True)),
        ("http://[::1]:9001", Address(host="::1", port=9001)),
        ("http://gate/questdb/", Address(host="gate", port=9000, path="/questdb")),
    ],
)
def test_a_url_is_an_address(url: str, address: Address) -> None:
    assert address_of(url, {}) == address


def test_an_address_is_a_url_without_a_password() -> None:
    address = address_of("https://ada:s%40cret@[::1]:9001/questdb", {"QUESTDB_TOKEN": "unused"})
    assert str(address) == "https://[::1]:9001/questdb"
    assert address.headers == {"Authorization": "Basic YWRhOnNAY3JldA=="}


@pytest.mark.parametrize("url", ["http://", "file:///x", "http://host:port", "http://host?query=1", "http://[::1"])
def test_what_is_no_address_is_rejected(url: str) -> None:
    with pytest.raises(UsageError, match="--server: "):
        address_of(url, {})


def test_what_takes_too_long_is_said_as_it_is_at_the_end() -> None:
    state = ["at first"]

    def is_done() -> bool:
        state[0] = "at the end"
        return False

    with pytest.raises(NoAnswerError, match="at the end after 0 s"):
        wait(is_done, 0, lambda: state[0])
