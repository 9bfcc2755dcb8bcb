"""Faults that are planted into the processes of a run: each must be found, and by its own rule."""

from pathlib import Path

import pytest
from depth import nightly, sampled

from tornproof.harness.common.verdict import Verdict
from tornproof.harness.explorers.processes.explorer import explore_processes
from tornproof.harness.explorers.processes.messages import Patch

KILLS, READERS = 3, 2


@pytest.mark.parametrize("seed", [2, nightly(3), nightly(4)])
@pytest.mark.parametrize(
    ("location", "substitute", "client", "properties"),
    sampled(
        2,
        [
            pytest.param(
                "tornproof.impl.table.partition:resolve",
                "newest_footer",
                "reader",
                {"refused_read", "pinned_read_refused"},
                id="readers take the newest footer",
            ),
            pytest.param(
                "tornproof.impl.write.table_writer:purge",
                "purge_regardless",
                "writer",
                {"pinned_read_refused"},
                id="the purge ignores pins",
            ),
            pytest.param(
                "tornproof.impl.write.table_writer:execute",
                "version_first",
                "writer",
                {"refused_read", "pinned_read_refused", "a process ends when it is told to"},
                id="the version is stored before its files",
            ),
            pytest.param(
                "tornproof.impl.write.table_writer:recover_for_writing",
                "version_before",
                "writer",
                # After two kills without a commit between them, the version before the last one has no record.
                {
                    "acknowledged_version_lost",
                    "seen_version_lost",
                    "stale_read",
                    "went_back",
                    "a process ends when it is told to",
                },
                id="recovery goes back by a version",
            ),
            pytest.param(
                "tornproof.impl.write.partition_change:plan_merge",
                "forgotten_row_groups",
                "writer",
                {"torn_content"},
                id="a merge forgets row groups",
            ),
        ],
    ),
)
def test_a_planted_fault_is_found(
    location: str, substitute: str, client: str, properties: set[str], seed: int, tmp_path: Path
) -> None:
    patch = Patch(location=location, substitute=f"tornproof.harness.mutation.processes:{substitute}", client=client)
    phase = explore_processes(
        None, "/trades", directory=tmp_path, seed=seed, readers=READERS, kills=KILLS, patches=[patch]
    )
    assert phase.verdict is Verdict.INVALID, phase
    assert properties.intersection(finding.property for finding in phase.findings), phase.findings
