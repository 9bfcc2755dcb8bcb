"""Planted faults are there inside of their block and nowhere else."""

from __future__ import annotations

import importlib

import pytest

import tornproof.impl.pm.chain
from tornproof.harness.common.patch import blind_to_metadata, replaced

POSITION = "tornproof.impl.pm.chain:check_checksum"


def substitute(*_: object, **__: object) -> None: ...


def another(*_: object, **__: object) -> None: ...


def test_the_substitute_stands_inside_the_block_only() -> None:
    original = tornproof.impl.pm.chain.check_checksum
    with replaced(POSITION, substitute):
        assert tornproof.impl.pm.chain.check_checksum is substitute
    assert tornproof.impl.pm.chain.check_checksum is original


def test_the_original_comes_back_after_an_exception() -> None:
    original = tornproof.impl.pm.chain.check_checksum
    with pytest.raises(KeyError, match="inside"), replaced(POSITION, substitute):
        raise KeyError("inside")
    assert tornproof.impl.pm.chain.check_checksum is original


def test_nested_patches_of_one_place_come_off_in_order() -> None:
    original = tornproof.impl.pm.chain.check_checksum
    with replaced(POSITION, substitute):
        with replaced(POSITION, another):
            assert tornproof.impl.pm.chain.check_checksum is another
        assert tornproof.impl.pm.chain.check_checksum is substitute
    assert tornproof.impl.pm.chain.check_checksum is original


@pytest.mark.parametrize(
    "position",
    ["tornproof.impl.pm.chain:no_such_name", "tornproof.impl.pm.no_such_module:check", "tornproof.impl.pm.chain"],
)
def test_a_place_that_does_not_exist_is_rejected(position: str) -> None:
    with pytest.raises((AttributeError, ImportError)), replaced(position, substitute):
        raise AssertionError("the block must not run")


def test_the_blind_reader_has_its_sight_back_after_an_exception() -> None:
    verify = importlib.import_module("tornproof.impl.verify.verify")
    originals = tornproof.impl.pm.chain.check_checksum, verify.compare_footer
    with pytest.raises(KeyError, match="inside"), blind_to_metadata():
        now = tornproof.impl.pm.chain.check_checksum, verify.compare_footer
        assert not set(now) & set(originals)
        raise KeyError("inside")
    assert (tornproof.impl.pm.chain.check_checksum, verify.compare_footer) == originals
