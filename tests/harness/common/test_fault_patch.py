"""A replaced function is replaced inside its block and nowhere else."""

import importlib
from contextlib import ExitStack

import pytest

import tornproof.impl.pm.chain
from tornproof.harness.common.patch import blind_to_metadata, not_noticed, replaced

LOCATION = "tornproof.impl.pm.chain:check_checksum"


def substitute(*_: object, **__: object) -> None: ...


def another(*_: object, **__: object) -> None: ...


def test_the_substitute_is_called_inside_the_block_only() -> None:
    original = tornproof.impl.pm.chain.check_checksum
    with replaced(LOCATION, substitute):
        assert tornproof.impl.pm.chain.check_checksum is substitute
    assert tornproof.impl.pm.chain.check_checksum is original


def test_the_original_comes_back_after_an_exception() -> None:
    original = tornproof.impl.pm.chain.check_checksum
    with pytest.raises(KeyError, match="inside"), replaced(LOCATION, substitute):
        raise KeyError("inside")
    assert tornproof.impl.pm.chain.check_checksum is original


def test_nested_patches_of_one_location_are_removed_in_order() -> None:
    original = tornproof.impl.pm.chain.check_checksum
    with replaced(LOCATION, substitute):
        with replaced(LOCATION, another):
            assert tornproof.impl.pm.chain.check_checksum is another
        assert tornproof.impl.pm.chain.check_checksum is substitute
    assert tornproof.impl.pm.chain.check_checksum is original


@pytest.mark.parametrize("later", [another, substitute])
def test_blocks_that_end_in_the_order_in_which_they_began_leave_the_original(later: object) -> None:
    """Those of two threads do so, and what the first one had put there stayed for the rest of the process."""
    original = tornproof.impl.pm.chain.check_checksum
    first, second = ExitStack(), ExitStack()
    first.enter_context(replaced(LOCATION, substitute))
    second.enter_context(replaced(LOCATION, later))
    first.close()
    assert tornproof.impl.pm.chain.check_checksum is later
    second.close()
    assert tornproof.impl.pm.chain.check_checksum is original


@pytest.mark.parametrize(
    "location",
    ["tornproof.impl.pm.chain:no_such_name", "tornproof.impl.pm.no_such_module:check", "tornproof.impl.pm.chain"],
)
def test_a_location_that_does_not_exist_is_rejected(location: str) -> None:
    with pytest.raises((AttributeError, ImportError)), replaced(location, substitute):
        raise AssertionError("the block must not run")


def test_the_blind_reader_checks_metadata_again_after_an_exception() -> None:
    verify = importlib.import_module("tornproof.impl.verify.verify")
    originals = tornproof.impl.pm.chain.check_checksum, verify.compare_footer
    with pytest.raises(KeyError, match="inside"), blind_to_metadata():
        now = tornproof.impl.pm.chain.check_checksum, verify.compare_footer
        assert not set(now) & set(originals)
        raise KeyError("inside")
    assert (tornproof.impl.pm.chain.check_checksum, verify.compare_footer) == originals


def test_of_substitutes_those_are_named_that_no_case_notices() -> None:
    def problem_of(number: int) -> str | None:
        is_replaced = tornproof.impl.pm.chain.check_checksum is substitute
        return "replaced" if is_replaced and number == 2 else None

    controls = ("one that is seen", LOCATION, substitute), ("one that is not", LOCATION, another)
    assert [*not_noticed(controls, problem_of, (1, 2))] == ["one that is not: not noticed"]
    assert [*not_noticed(controls, problem_of, (1,))] == [f"{name}: not noticed" for name, _, _ in controls]


def test_a_mistake_of_which_other_words_must_be_said_is_not_noticed() -> None:
    module = "tornproof.harness.common.patch"
    problem_of = {1: None, 2: "other rows are read"}.get
    told = [("rows", f"{module}:math", None, "other rows"), ("locks", f"{module}:math", None, "a lock is left")]
    assert [*not_noticed(told, problem_of, (1, 2))] == ["locks: not noticed"]
