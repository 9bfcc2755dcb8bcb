"""All that is wrong with a table is reported; verifications that leave some out are noticed."""

from __future__ import annotations

import pytest
from replayed import replayed

from tornproof.harness.common.patch import replaced
from tornproof.harness.common.verdict import Verdict
from tornproof.harness.explorers.roundtrip.explorer import findings_of
from tornproof.harness.explorers.roundtrip.metadata.verified_tables import (
    verified_tables,
)
from tornproof.harness.explorers.roundtrip.parts import VERIFIED_TABLES


@pytest.mark.parametrize(
    ("location", "broken", "kind"),
    [
        ("verify.verify:PROBLEMS_PER_PARTITION", 0, {"filters", "together"}),
        ("verify.pages:missing_values", lambda *_: 0, {"filters"}),
        ("verify.table_files:CODE_UNIT_BYTES", 1, {"names"}),
    ],
)
def test_verifications_that_leave_some_out_are_noticed(location: str, broken: object, kind: set[str]) -> None:
    with replaced(f"tornproof.impl.{location}", broken):
        findings = [*findings_of(VERIFIED_TABLES)]
        assert {verified_tables()[each.evidence["verified"]].kind for each in findings} == kind
        assert replayed(findings) == {Verdict.INVALID}
    assert replayed(findings) == {Verdict.VALID}
