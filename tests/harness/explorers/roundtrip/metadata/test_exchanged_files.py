"""Files of which the data.parquet is of another partition: sound in themselves, and noticed."""

import io

import pyarrow.parquet as pq

from tornproof.harness.explorers.roundtrip.metadata import exchanged_files
from tornproof.harness.explorers.roundtrip.metadata.exchanged_files import ORIGINS, problem_of


def test_each_partition_is_exchanged_and_nothing_is_wrong() -> None:
    cases = exchanged_files.exchanged_files()
    assert {case.table for case in cases} | {case.data for case in cases} == {*ORIGINS}
    assert [problem for case in cases[::5] if (problem := problem_of(case)) is not None] == []
    assert [*exchanged_files.failed_controls()] == []


def test_a_file_is_as_long_and_others_read_the_same_rows_from_it() -> None:
    for case in exchanged_files.exchanged_files():
        own, other = exchanged_files._halves_of(case.data), exchanged_files._halves_of(case.table)
        longer = b"".join(exchanged_files._lengthened(own, other))
        assert len(longer) == sum(map(len, other)) + exchanged_files.END.size
        usual = b"".join([*own, exchanged_files.END.pack(len(own[1]), b"PAR1")])
        assert pq.read_table(io.BytesIO(longer)).equals(pq.read_table(io.BytesIO(usual)))
