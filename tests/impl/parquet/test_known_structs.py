"""A footer that is decoded with what is known of an earlier one is what it is without."""

import random
from pathlib import Path

import golden_data
import pytest
from damage import each_flipped
from depth import sampled
from parquet_files import footer_bytes

from tornproof.impl.errors import ProblemError
from tornproof.impl.parquet import thrift
from tornproof.impl.parquet.footer import ParquetFooter, decode_footer
from tornproof.impl.parquet.thrift import Known

FILES = golden_data.files("tables/9.4.2/*/table/*/data.parquet")
CASES_OF_A_FILE = 120


def outcome_of(content: bytes, at: int, known: Known | None, node_count_max: int) -> ParquetFooter | str:
    try:
        return decode_footer(content, file="data.parquet", offset_bytes=at, known=known, node_count_max=node_count_max)
    except ProblemError as error:
        return f"{type(error).__name__}: {error}"


def changed(content: bytes, generator: random.Random) -> bytes:
    """One to three edits: a bit flipped, a byte set, bytes left out, bytes put in, an end."""
    edited = bytearray(content)
    for _ in range(generator.choice((1, 1, 1, 2, 3))):
        at = generator.randrange(len(edited))
        match generator.choice(("flip", "flip", "flip", "set", "out", "in", "end")):
            case "flip":
                edited[at] ^= 1 << generator.randrange(8)
            case "set":
                edited[at] = generator.randrange(256)
            case "out":
                del edited[at : at + generator.randrange(1, 9)]
            case "in":
                start = generator.randrange(len(edited))
                edited[at:at] = edited[start : start + generator.randrange(1, 200)]
            case "end":
                del edited[at:]
        if not edited:
            break
    return bytes(edited)


@pytest.mark.parametrize("name", sampled(6, FILES))
def test_known_structs_change_nothing(questdb_data: Path, name: str) -> None:
    content, at = footer_bytes((questdb_data / name).read_bytes())
    generator = random.Random(name)
    known = Known()
    sound = outcome_of(content, at, known, thrift.NODE_COUNT_MAX)
    assert isinstance(sound, ParquetFooter)
    node_count = sum(nodes for _, _, nodes in known.structs.values())
    outcomes = set()
    for _ in range(CASES_OF_A_FILE if len(content) < 20_000 else CASES_OF_A_FILE // 10):
        damaged = changed(content, generator)
        # Sometimes the limit is reached somewhere in what is known.
        node_count_max = generator.choice((thrift.NODE_COUNT_MAX, generator.randrange(2 * node_count)))
        plain = outcome_of(damaged, at, None, node_count_max)
        assert outcome_of(damaged, at, known, node_count_max) == plain
        outcomes.add(type(plain))
    assert str in outcomes, "no case was rejected"
    assert outcome_of(content, at, known, thrift.NODE_COUNT_MAX) == sound


def test_what_is_known_is_taken_and_not_decoded(monkeypatch: pytest.MonkeyPatch, questdb_data: Path) -> None:
    content, at = footer_bytes((questdb_data / "tables/9.4.2/chain/table/2024-01-01.1/data.parquet").read_bytes())
    known = Known()
    first = outcome_of(content, at, known, thrift.NODE_COUNT_MAX)
    decoded: list[int] = []
    decode_struct = thrift._Decoder.struct

    def counted(decoder: thrift._Decoder, position: int, depth: int) -> object:
        decoded.append(position)
        return decode_struct(decoder, position, depth)

    monkeypatch.setattr(thrift._Decoder, "struct", counted)
    again = outcome_of(content, at, known, thrift.NODE_COUNT_MAX)
    assert isinstance(first, ParquetFooter) and isinstance(again, ParquetFooter)
    assert decoded == [0]
    assert [*map(id, again.row_groups)] == [*map(id, first.row_groups)]
    assert known.structs


def test_only_the_first_that_is_whole_is_remembered(questdb_data: Path) -> None:
    content, at = footer_bytes((questdb_data / "tables/9.4.2/chain/table/2024-01-01.1/data.parquet").read_bytes())
    known = Known()
    outcome_of(content, at, known, thrift.NODE_COUNT_MAX)
    before = dict(known.structs)
    for damaged in each_flipped(content, 11):
        outcome_of(damaged, at, known, thrift.NODE_COUNT_MAX)
    assert known.structs == before
