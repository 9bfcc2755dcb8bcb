"""What a killed commit left is gone after a recovery; one that keeps it is found, and blind looks are noticed."""

from __future__ import annotations

from typing import Any

import pytest
from replayed import first_that_replays

from tornproof.harness.common.patch import wrapped
from tornproof.harness.explorers.roundtrip.writing import offline_recoveries as module
from tornproof.harness.explorers.roundtrip.writing.offline_recoveries import (
    LEFT,
    RESTATED,
    failed_controls,
    offline_recoveries,
)
from tornproof.impl.errors import UnsupportedError


def test_the_metadata_grows_from_state_to_state() -> None:
    (path,) = (path for path in module._files(module._committed().files) if path.endswith("_pm"))
    images = (module._committed(), module._left(LEFT), module._left(RESTATED))
    sizes = [len(image.files[path]) for image in images]
    assert sizes[0] < sizes[1] < sizes[2]
    assert len({module._damaged(each).files[path] for each in offline_recoveries()}) == len(offline_recoveries()) == 24


def keeping(_: Any) -> Any:
    return lambda *_, **__: True


def test_a_recovery_that_keeps_dead_bytes_is_found_and_replays() -> None:
    findings = first_that_replays("offline", wrapped("tornproof.impl.repair.plan:_is_all_reached", keeping))
    assert "another one is" in findings[0].sentence


def test_a_search_that_ends_at_what_nobody_can_read_is_found() -> None:
    first_that_replays("offline", wrapped("tornproof.impl.repair.plan:decode_metadata", ending_at_the_unknown))


def ending_at_the_unknown(decode: Any) -> Any:
    def ending(*arguments: Any, **settings: Any) -> Any:
        try:
            return decode(*arguments, **settings)
        except UnsupportedError as error:
            raise NotImplementedError(error) from error

    return ending


def test_a_blind_look_is_noticed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "problem_of", lambda _: None)
    assert len([*failed_controls()]) == 4
