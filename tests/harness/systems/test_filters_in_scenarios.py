"""Scenarios whose tables have bloom filters: where these lie, and that every commit keeps and adds some."""

from dataclasses import replace

import pytest
from bloom_filters import filters_on

from tornproof.harness.common.remembered_codecs import remembered_encoder
from tornproof.harness.counterexamples.encoded_groups import EncoderMemory
from tornproof.harness.simulator.filesystem.memory import MemoryStorage
from tornproof.harness.systems.scenario import load_scenario
from tornproof.harness.systems.scenario_case import case_of
from tornproof.harness.systems.table import TableTarget
from tornproof.impl.chunk.row_group_encoder import encode_row_group
from tornproof.impl.table.partition import resolve_partition
from tornproof.impl.table.table import open_table
from tornproof.impl.verify.pages import missing_values
from tornproof.impl.verify.verify import verify_table
from tornproof.impl.write.partition_change import RowGroupEncoder


@pytest.mark.parametrize("encode", [encode_row_group, remembered_encoder(), EncoderMemory(encode_row_group)])
@pytest.mark.parametrize(("name", "is_external"), [("filters-in-pm", False), ("filters-in-data", True)])
def test_all_row_groups_of_the_scenario_have_filters(name: str, is_external: bool, encode: RowGroupEncoder) -> None:
    target = replace(TableTarget(), encode=encode)
    case = case_of(load_scenario(name), target)
    assert case.start is not None
    storage = MemoryStorage.of(case.start)
    counts = []
    for operation in (None, *case.operations):
        if operation is not None:
            with target.open_writer(storage, case.path) as writer:
                writer.commit(operation)
        found = list(filters_on(case.path, storage))
        counts.append(len(found))
        assert all(each.bitset and missing_values(each.stored, each.bitset) == 0 for each in found)
        table = open_table(storage, case.path)
        assert verify_table(table).sound
        for partition in table.transaction().partitions:
            metadata = resolve_partition(table.files_of(partition), partition).metadata
            assert metadata.header.blooms_external is is_external
    assert counts == [4, 6, 8]
