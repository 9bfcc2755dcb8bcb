"""All that is wrong with a table is reported; verifications that leave some out are noticed."""

from __future__ import annotations

import pytest
from replayed import kinds_that_replay

from tornproof.harness.common.patch import replaced


@pytest.mark.parametrize(
    ("location", "broken", "kind"),
    [
        ("verify.verify:PROBLEMS_PER_PARTITION", 0, {"filters", "together"}),
        ("verify.pages:missing_values", lambda *_: 0, {"filters"}),
        ("verify.table_files:CODE_UNIT_BYTES", 1, {"names"}),
    ],
)
def test_verifications_that_leave_some_out_are_noticed(location: str, broken: object, kind: set[str]) -> None:
    assert kinds_that_replay("verified", replaced(f"tornproof.impl.{location}", broken)) == kind
