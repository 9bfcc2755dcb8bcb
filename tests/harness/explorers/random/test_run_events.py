"""What a recorded run says of an observation distinguishes all that a reader of one version can see."""

from dataclasses import replace

from tornproof.harness.explorers.random.run_events import digest_of
from tornproof.harness.systems.table_readers import Seen


def test_observations_that_differ_in_directories_rows_or_values_have_other_digests() -> None:
    seen = Seen(version=1, names=("2024-01-01.1",), row_count=2, digest="ab")
    others = [replace(seen, names=("2024-01-01.2",)), replace(seen, row_count=3), replace(seen, digest="ba")]
    assert len({digest_of(each) for each in (seen, *others)}) == 4
    assert digest_of(replace(seen, version=2)) == digest_of(seen)
