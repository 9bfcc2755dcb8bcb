"""What programs of the state machine start from."""

from __future__ import annotations

import pytest

from tornproof.harness.explorers.model_based.rows import Rows
from tornproof.harness.explorers.model_based.start import INTERVAL_COUNT, prepare
from tornproof.harness.explorers.roundtrip.writing.kills import table_of_rows
from tornproof.harness.systems.workload import FIRST_TIME

DAY = 86_400_000_000


def test_duplicates_close_the_interval_that_has_them_and_no_other(monkeypatch: pytest.MonkeyPatch) -> None:
    image = table_of_rows("table", [(FIRST_TIME, 1), (FIRST_TIME + DAY, 2), (FIRST_TIME + DAY, 3)])
    every = prepare(image, "table").intervals
    assert len(every) == INTERVAL_COUNT
    monkeypatch.setattr(Rows, "has_duplicates", lambda _, rows: len(rows) > 1)
    assert prepare(image, "table").intervals == every[1:]
    monkeypatch.setattr(Rows, "has_duplicates", lambda _, rows: len(rows) > 2)
    assert prepare(image, "table").intervals == every
