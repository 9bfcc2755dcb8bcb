"""What an explorer counted in a test is kept in tests/golden/phases, so that nothing is explored less without notice.

After a change that is meant to change the counts, `TORNPROOF_RECORD=1 make test` writes them anew, to be read again.
"""

from __future__ import annotations

import dataclasses
import json
import os
import re
from collections.abc import Callable
from pathlib import Path
from typing import TypeAlias

import pytest

from tornproof.harness.common.verdict import Phase

FOLDER = Path(__file__).parents[1] / "golden" / "phases"
RECORD = "TORNPROOF_RECORD"
LEFT_OUT = ("seconds", "cpu_seconds", "varying", "findings")


AsRecorded: TypeAlias = Callable[[Phase], None]


@pytest.fixture
def as_recorded(request: pytest.FixtureRequest) -> AsRecorded:
    """Return what demands that a phase has the counts, goals, bound and findings that it had before in this test."""
    file = FOLDER / f"{re.sub('[^0-9A-Za-z]+', '-', f'{request.path.stem} {request.node.name}').strip('-')}.json"

    def demand(phase: Phase) -> None:
        found = {name: each for name, each in dataclasses.asdict(phase).items() if name not in LEFT_OUT}
        found["findings"] = [f"{each.property}: {each.sentence}" for each in phase.findings]
        text = json.dumps(found, indent=1, ensure_ascii=False) + "\n"
        if os.environ.get(RECORD):
            FOLDER.mkdir(exist_ok=True)
            file.write_text(text, encoding="utf-8")
        assert json.loads(text) == json.loads(file.read_text(encoding="utf-8")), f"{RECORD}=1 writes {file.name} anew"

    return demand
