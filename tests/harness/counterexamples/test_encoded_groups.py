"""Row groups that a finding keeps come back as they were encoded."""

from typing import Any

import pyarrow as pa
from msgspec.structs import replace

from tornproof.harness.counterexamples.encoded_groups import EncoderMemory
from tornproof.impl.chunk.row_group_encoder import EncodedRowGroup, encode_row_group


def cutting(*arguments: Any, **settings: Any) -> EncodedRowGroup:
    """Encode as an encoder that cuts the lower bounds."""
    group = encode_row_group(*arguments, **settings)
    cut = (each.minimum and replace(each.minimum, exact=False) for each in group.chunks)
    return replace(group, chunks=tuple(replace(each, minimum=low) for each, low in zip(group.chunks, cut, strict=True)))


def test_row_groups_come_back_with_exact_bounds_and_with_cut_ones_and_without() -> None:
    table = pa.table({"text": [b"a", b"b"], "none": pa.array([None, None], pa.int32())})
    memory = EncoderMemory(cutting)
    first = memory(table, bounds={})
    again = EncoderMemory.of_document(memory.document(), encode_row_group)
    again(table, bounds={})
    assert again.document() == memory.document()
    assert [each.minimum and each.minimum.exact for each in first.chunks] == [False, None]
    assert first.chunks[0].maximum and first.chunks[0].maximum.exact
