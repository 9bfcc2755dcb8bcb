"""Options of a writer are in its files; what is left out is a finding that replays, and a blind look is noticed."""

from __future__ import annotations

from typing import Any

import pytest
from depth import sampled
from msgspec.structs import replace
from replayed import all_that_replay, replayed

from tornproof.harness.common.new_tables import TIME
from tornproof.harness.common.patch import wrapped
from tornproof.harness.common.verdict import Verdict
from tornproof.harness.explorers.roundtrip.explorer import findings_of
from tornproof.harness.explorers.roundtrip.parquet import written_options
from tornproof.harness.explorers.roundtrip.parquet.written_options import (
    LEVELS,
    Asked,
    asked,
    failed_controls,
    problem_of,
    wrong,
)
from tornproof.harness.explorers.roundtrip.parts import part_of
from tornproof.impl.parquet.encode_options import ColumnOptions, EncodeOptions, Encoding
from tornproof.impl.parquet.fields import Codec


def effect_of(each: Asked) -> object:
    """Return what options say of each column and of a file, with what is left to a default."""
    options = each.options
    encoding = replace(options.encoding, codec=Codec.LZ4_RAW, level=None, statistics=True, columns={})
    columns = {
        name: (
            encoding_of(options.encoding, name),
            options.encoding.codec_of(name),
            options.encoding.has_statistics(name) or name == TIME,
        )
        for name in each.columns
    }
    return each.columns, each.is_large, columns, replace(options, encoding=encoding)


def encoding_of(options: EncodeOptions, name: str) -> Encoding | None:
    return options.columns.get(name, ColumnOptions()).encoding


def test_each_option_is_another_one_but_the_default_codec() -> None:
    """Bounds of one column alone were asked for with those of all others, which is the default."""
    effects: list[object] = []
    again = set()
    for each in asked():
        effect = effect_of(each)
        again |= {each.name} if effect in effects else set()
        effects.append(effect)
    assert again == {"the codec LZ4"} and len(effects) > 12
    refused = [each.settings for each in wrong()]
    assert not any(settings in refused[:number] for number, settings in enumerate(refused))


def test_bounds_of_all_columns_and_of_one_are_asked_for_in_every_way() -> None:
    encodings = [each.options.encoding for each in asked()]
    ways = {(every.statistics, every.columns.get("v", ColumnOptions()).statistics) for every in encodings}
    assert ways >= {(True, None), (False, None), (True, False), (False, True)}


@pytest.mark.nightly
@pytest.mark.parametrize(
    ("setting", "value", "names"),
    sampled(
        1,
        [
            ("write_page_checksum", False, {each.name for each in asked() if each.options.encoding.page_checksums}),
            ("write_page_index", True, {"no page index"}),
            (
                "compression",
                "zstd",
                {each.name for each in asked()} - {"the codec ZSTD", "the highest level of a codec"},
            ),
            # Symbols always have one.
            (
                "use_dictionary",
                [],
                {each.name for each in asked() if "key" in each.columns} | {"long texts in a dictionary"},
            ),
            ("dictionary_pagesize_limit", 1 << 20, {"long texts in a dictionary"}),
            ("data_page_size", 1 << 20, {"long texts in pages of few bytes"}),
        ],
    ),
)
def test_a_writer_that_forgets_an_option_is_found_and_replays(
    setting: str, value: Any, names: set[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    every = EncodeOptions.of_pyarrow
    monkeypatch.setattr(EncodeOptions, "of_pyarrow", lambda *own: {**every(*own), setting: value})
    findings = [*findings_of(part_of("asked"))]
    assert {asked()[each.evidence["asked"]].name for each in findings} == names
    assert replayed(findings) == {Verdict.INVALID}
    monkeypatch.undo()
    assert replayed(findings) == {Verdict.VALID}


@pytest.mark.nightly
def test_a_writer_that_takes_no_options_is_found() -> None:
    with wrapped("tornproof.impl.write.partition_change:encode_options", lambda _: lambda *_: None):
        found = {asked()[each.evidence["asked"]].name for each in findings_of(part_of("asked"))}
    default = EncodeOptions()
    assert found == {each.name for each in asked() if each.settings.get("encoding", default) != default} - {
        "the codec LZ4",
        "all that can be in PLAIN",
    }


@pytest.mark.nightly
def test_a_column_with_the_level_of_another_codec_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    def level_of_all(own: EncodeOptions, name: str) -> tuple[Codec, int | None]:
        asked = own.columns.get(name, ColumnOptions())
        return asked.codec or own.codec, own.level if asked.level is None else asked.level

    monkeypatch.setattr(EncodeOptions, "codec_of", level_of_all)
    found = [each.sentence for each in findings_of(part_of("asked"))]
    assert any("the codec GZIP at level 6, and others of single columns" in each for each in found)


def test_a_look_at_nothing_is_noticed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(written_options, "_differences", lambda *_: iter(()))
    assert next(failed_controls()) == f"{asked()[0].name}: a file with other options was not noticed"


@pytest.mark.parametrize("place", ["partition_change", "partition_build"])
def test_options_that_no_file_can_have_are_refused_and_a_writer_that_takes_them_is_found(place: str) -> None:
    assert [(each.name, problem) for each in wrong() if (problem := problem_of(each))] == []
    findings = all_that_replay(
        "wrong", wrapped(f"tornproof.impl.write.{place}:check_options", lambda _: lambda *_: None)
    )
    assert {wrong()[each.evidence["wrong"]].name for each in findings} >= {
        "no bounds of the timestamp",
        "a filter of booleans",
        "column name in DELTA_BINARY_PACKED",
    }


def test_a_writer_that_refuses_everything_is_noticed() -> None:
    with wrapped("tornproof.impl.write.writer_options:_problems", lambda _: lambda options: ["no"]):
        assert "what is accepted counts as refused" in list(failed_controls())


def test_columns_with_a_codec_of_their_own_have_each_level_and_none() -> None:
    for each in asked():
        if "and others of single columns" in each.name:
            encoding = each.options.encoding
            own = {(column.codec, column.level) for column in encoding.columns.values() if column.codec is not None}
            assert own >= {(codec, None) for codec, _ in own}
            assert {codec for codec, level in own if level is not None} == {*LEVELS}
