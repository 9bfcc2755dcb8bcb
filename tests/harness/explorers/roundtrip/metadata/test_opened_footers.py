"""Damaged footers are reported, or others open them; a verification that thinks of nobody else is found."""

from __future__ import annotations

from typing import Any

import pytest
from replayed import first_that_replays

from tornproof.harness.common.patch import wrapped
from tornproof.harness.explorers.roundtrip.metadata import opened_footers as module
from tornproof.harness.explorers.roundtrip.metadata.opened_footers import failed_controls, opened_footers


def test_each_byte_of_the_footer_is_flipped_and_the_file_is_sound_without() -> None:
    bits = [each.bit for each in opened_footers()]
    assert sorted({bit // 8 for bit in bits}) == [*range(bits[0] // 8, bits[-1] // 8 + 1)]
    assert not module._reports(module._image().files[module._path()])
    assert [len(column) for column in module._rows(module._image().files[module._path()])] == [2] * len(module.COLUMNS)


def unlooked(_: Any) -> Any:
    return lambda *_, **__: None


def test_a_verification_that_thinks_of_nobody_else_is_found_and_replays() -> None:
    first_that_replays("opened", wrapped("tornproof.impl.verify.verify:check_for_others", unlooked))


def test_a_blind_look_is_noticed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "problem_of", lambda _: None)
    assert len([*failed_controls()]) == 3
