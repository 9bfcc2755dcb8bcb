"""Structs of Thrift are decoded in each form; decoders and encoders that do something else are noticed."""

from __future__ import annotations

import pytest
from replayed import first_that_replays

from tornproof.harness.common.patch import replaced
from tornproof.harness.explorers.roundtrip.parquet.thrift_forms import number, signed, thrift_forms, varint
from tornproof.impl.parquet import thrift


def test_each_form_is_decoded_and_others_are_noticed() -> None:
    kinds = {each.kind for each in thrift_forms()}
    assert kinds == {"numbers", "ids", "plain values", "lists", "maps", "levels", "rejections"}
    assert len({each.content for each in thrift_forms()}) > len(thrift_forms()) // 2


def test_numbers_are_spelled_as_the_protocol_says() -> None:
    assert [signed(each) for each in (0, -1, 1, -2, 2)] == [0, 1, 2, 3, 4]
    assert varint(300) == b"\xac\x02" and varint(1, 3) == b"\x81\x80\x00"
    assert number(-1)(0) == (b"\x01", -1) and number(5, 2)(9) == (b"\x8a\x00", thrift.Padded(5, 2))


@pytest.mark.parametrize(
    ("location", "broken"),
    [
        ("VARINT_LENGTH_MAX_BYTES", 9),
        ("FIXED_SIZES_BYTES", {7: 8, 13: 8}),
        ("LONG_COUNT", 14),
        ("zigzag", lambda value: value << 1 if value > 0 else ~(value << 1)),
    ],
)
def test_another_protocol_is_noticed_and_its_findings_replay(location: str, broken: object) -> None:
    first_that_replays("wire", replaced(f"tornproof.impl.parquet.thrift:{location}", broken))
