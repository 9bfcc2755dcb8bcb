"""Scenarios whose tables have bloom filters: where these lie, and that every commit keeps and adds some."""

from __future__ import annotations

from dataclasses import replace

import pytest
from bloom_filters import filters_on

from harness.disk.memory import MemoryStorage
from harness.explore.stateful_memo import remembered_encoder
from harness.findings.encoded_groups import EncoderMemory
from harness.scenario import load_scenario
from harness.scenario_situation import situation_of
from harness.targets.table import TableTarget
from impl.bloom_check import missing_values
from impl.parquet.encoded import encode_row_group
from impl.partition import resolve_partition
from impl.partition_change import RowGroupEncoder
from impl.table import open_table
from impl.verify import verify_table


@pytest.mark.parametrize("encode", [encode_row_group, remembered_encoder(), EncoderMemory(encode_row_group)])
@pytest.mark.parametrize(("name", "is_external"), [("filters-in-pm", False), ("filters-in-data", True)])
def test_all_row_groups_of_the_scenario_have_filters(name: str, is_external: bool, encode: RowGroupEncoder) -> None:
    target = replace(TableTarget(), encode=encode)
    situation = situation_of(load_scenario(name), target)
    assert situation.start is not None
    storage = MemoryStorage.of(situation.start)
    counts = []
    for operation in (None, *situation.operations):
        if operation is not None:
            with target.open_writer(storage, situation.path) as writer:
                writer.commit(operation)
        found = list(filters_on(situation.path, storage))
        counts.append(len(found))
        assert all(each.bitset and missing_values(each.stored, each.bitset) == 0 for each in found)
        table = open_table(storage, situation.path)
        assert verify_table(table).sound
        for partition in table.transaction().partitions:
            metadata = resolve_partition(table.files_of(partition), partition).metadata
            assert metadata.header.blooms_external is is_external
    assert counts == [4, 6, 8]
