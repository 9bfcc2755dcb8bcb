"""The two ways from lines to rows agree, and each line that is no row is told apart with its number and reason."""

import json
from typing import Any

import pyarrow as pa
import pytest
from depth import nightly
from hypothesis import given, settings
from hypothesis import strategies as st

from tornproof.pipeline.ingest import lines as archive_lines
from tornproof.pipeline.ingest.lines import LineReader, Taken
from tornproof.pipeline.ingest.schema import TYPES, ArchiveColumn, ArchiveSchema
from tornproof.pipeline.ingest.source import RAW_BYTES_KEPT, Block
from tornproof.pipeline.ingest.values import LineRejectedError, Reason, exact_row, micros_of, tree_of

TYPE_OF_KEY = {
    "b": "BOOLEAN",
    "y": "BYTE",
    "s": "SHORT",
    "i": "INT",
    "l": "LONG",
    "f": "FLOAT",
    "d": "DOUBLE",
    "v": "VARCHAR",
    "t": "TIMESTAMP",
    "a": "DOUBLE[]",
    "o.x": "LONG",
    "o.p.z": "VARCHAR",
}


def column(name: str, kind: str) -> ArchiveColumn:
    return ArchiveColumn(name=name.replace(".", "_"), keys=tuple(name.split(".")), type=TYPES[kind])


SCHEMA = ArchiveSchema(
    columns=(column("ts", "TIMESTAMP"), *(column(name, kind) for name, kind in TYPE_OF_KEY.items())), timestamp="ts"
)
SOUND = b'{"ts": 1704067200, "l": 1}'


def taken(*lines: bytes) -> Taken:
    return LineReader(SCHEMA).take(Block(first_line=1, text=b"\n".join(lines)))


def rows_of(outcome: Taken) -> list[dict[str, Any]]:
    return [row for table in outcome.tables for row in table.to_pylist()]


def only_reject(line: bytes) -> tuple[int, Reason]:
    """Return what becomes of a line among many sound ones."""
    outcome = taken(*[SOUND] * 100, line, *[SOUND] * 100)
    assert outcome.row_count == 200
    (reject,) = outcome.rejects
    assert reject.raw == line[:RAW_BYTES_KEPT]
    return reject.line, reject.reason


@pytest.mark.parametrize(
    ("line", "reason"),
    [
        (b"nonsense", Reason.NOT_JSON),
        (b'{"ts": 1704067200', Reason.NOT_JSON),
        (b'{"ts": 1704067200} {"ts": 1704067200}', Reason.NOT_JSON),
        (b'{"ts": 1704067200} null {"ts": 1704067200}', Reason.NOT_JSON),
        (b'{"ts": 1704067200, "d": NaN}', Reason.NOT_JSON),
        (b'{"ts": 1704067200, "d": -Infinity}', Reason.NOT_JSON),
        (b'{"ts": 1704067200, "v": "\t"}', Reason.NOT_JSON),
        (b'{"ts": 1704067200, "d": 01}', Reason.NOT_JSON),
        (b'{"ts": 1704067200, "a": ' + b"[" * 100_000 + b"]" * 100_000 + b"}", Reason.NOT_JSON),
        (b"null", Reason.NOT_OBJECT),
        (b"[]", Reason.NOT_OBJECT),
        (b'"text"', Reason.NOT_OBJECT),
        (b"1", Reason.NOT_OBJECT),
        (b"{}", Reason.NO_TIMESTAMP),
        (b'{"ts": null}', Reason.NO_TIMESTAMP),
        (b'{"ts": "yesterday"}', Reason.BAD_TIMESTAMP),
        (b'{"ts": true}', Reason.BAD_TIMESTAMP),
        (b'{"ts": -1}', Reason.BAD_TIMESTAMP),
        (b'{"ts": 1e300}', Reason.BAD_TIMESTAMP),
        (b'{"ts": 99999999999999999999}', Reason.BAD_TIMESTAMP),
        (b'{"ts": "1969-12-31T23:59:59Z"}', Reason.BAD_TIMESTAMP),
        (b'{"ts": 1704067200, "l": 1.5}', Reason.WRONG_TYPE),
        (b'{"ts": 1704067200, "l": 1.0}', Reason.WRONG_TYPE),
        (b'{"ts": 1704067200, "l": "1"}', Reason.WRONG_TYPE),
        (b'{"ts": 1704067200, "l": true}', Reason.WRONG_TYPE),
        (b'{"ts": 1704067200, "l": 9223372036854775808}', Reason.WRONG_TYPE),
        (b'{"ts": 1704067200, "y": 128}', Reason.WRONG_TYPE),
        (b'{"ts": 1704067200, "s": -32769}', Reason.WRONG_TYPE),
        (b'{"ts": 1704067200, "i": 2147483648}', Reason.WRONG_TYPE),
        (b'{"ts": 1704067200, "d": "1"}', Reason.WRONG_TYPE),
        (b'{"ts": 1704067200, "d": 1e999}', Reason.WRONG_TYPE),
        (b'{"ts": 1704067200, "d": ' + b"9" * 400 + b"}", Reason.WRONG_TYPE),
        (b'{"ts": 1704067200, "f": 1e39}', Reason.WRONG_TYPE),
        (b'{"ts": 1704067200, "b": 1}', Reason.WRONG_TYPE),
        (b'{"ts": 1704067200, "v": 1}', Reason.WRONG_TYPE),
        (b'{"ts": 1704067200, "v": "\\ud800"}', Reason.WRONG_TYPE),
        (b'{"ts": 1704067200, "t": "noon"}', Reason.WRONG_TYPE),
        (b'{"ts": 1704067200, "a": [1, "x"]}', Reason.WRONG_TYPE),
        (b'{"ts": 1704067200, "a": [[1]]}', Reason.WRONG_TYPE),
        (b'{"ts": 1704067200, "a": 1}', Reason.WRONG_TYPE),
        (b'{"ts": 1704067200, "o": 1}', Reason.WRONG_TYPE),
        (b'{"ts": 1704067200, "o": {"x": {}}}', Reason.WRONG_TYPE),
        (b'{"ts": 1704067200, "q": 1}', Reason.UNKNOWN_KEY),
        (b'{"ts": 1704067200, "o": {"q": 1}}', Reason.UNKNOWN_KEY),
        (b'{"ts": 1704067200, "q\\ud800": 1}', Reason.UNKNOWN_KEY),
        (b'{"ts": 1704067200, "l": 1, "l": 1}', Reason.KEY_TWICE),
        (b'{"ts": 1704067200, "v": "\xff"}', Reason.BAD_UTF8),
        (b'{"ts": 1704067200, "v": "\xed\xa0\x80"}', Reason.BAD_UTF8),
    ],
)
def test_a_bad_line_is_told_by_its_number_and_reason_and_those_around_it_are_kept(line: bytes, reason: Reason) -> None:
    assert only_reject(line) == (101, reason)


def test_a_line_that_is_too_long_is_rejected_and_one_that_just_fits_is_not(monkeypatch: pytest.MonkeyPatch) -> None:
    for module in ("tornproof.pipeline.ingest.lines", "tornproof.pipeline.ingest.values"):
        monkeypatch.setattr(f"{module}.LINE_BYTES_MAX", 64)
    fits, longer = (SOUND[:-1] + b" " * (size - len(SOUND)) + b"}" for size in (64, 65))
    assert taken(fits).row_count == 1
    assert only_reject(longer) == (101, Reason.TOO_LONG)


def test_blank_lines_and_both_kinds_of_line_ends_are_counted_and_keep_the_numbers() -> None:
    outcome = taken(SOUND + b"\r", b"", b"  \t\r", SOUND, b"bad\r", SOUND)
    assert (outcome.row_count, outcome.blank_count, [reject.line for reject in outcome.rejects]) == (3, 2, [5])


def test_an_object_over_two_lines_is_two_bad_lines() -> None:
    outcome = taken(SOUND, b'{"ts":', b"1704067200}", SOUND)
    assert (outcome.row_count, [reject.line for reject in outcome.rejects]) == (2, [2, 3])


def test_values_stand_in_their_columns_with_their_types() -> None:
    line = (
        b'{"o":{"p":{"z":"deep"},"x":7},"ts":"2024-01-01T00:00:00.5+01:00","b":true,"y":-128,"s":3,"i":4,"l":-5,'
        b'"f":0.5,"d":2,"v":"\\u00e9","t":1704067200123,"a":[1,null,2.5]}'
    )
    (row,) = rows_of(taken(line))
    assert {name: row[name] for name in ("b", "y", "s", "i", "l", "f", "d", "v", "a", "o_x", "o_p_z")} == {
        "b": True, "y": -128, "s": 3, "i": 4, "l": -5, "f": 0.5, "d": 2.0, "v": "é", "a": [1.0, None, 2.5],
        "o_x": 7, "o_p_z": "deep",
    }  # fmt: skip
    assert row["ts"].isoformat() == "2023-12-31T23:00:00.500000+00:00"
    assert row["t"].isoformat() == "2024-01-01T00:00:00.123000+00:00"


@pytest.mark.parametrize(("zero", "expected"), [("-0", "0.0"), ("-0.0", "-0.0"), ("-0e5", "-0.0"), ("0", "0.0")])
@pytest.mark.parametrize("beside", ["", "\t"], ids=["quick", "slow"])
def test_the_sign_of_zero_is_that_of_a_float_whatever_other_lines_are_like(
    zero: str, expected: str, beside: str
) -> None:
    """-0, an integer without a sign, became -0.0 unless a line near it was read the slow way."""
    line = f'{{"ts": 1704067200, "f": {zero}, "d": {zero}, "a": [{zero}], "l": 1}}'.encode()
    rows = rows_of(taken(line, b'{"ts": 1704067200, "v": "%s"}' % beside.encode()))
    assert [repr(number) for number in (rows[0]["f"], rows[0]["d"], *rows[0]["a"])] == [expected] * 3
    assert len(rows) == 1 + (not beside)


def test_what_a_frame_leaves_out_is_null_or_false_or_zero() -> None:
    for line in (b'{"ts": 1704067200}', b'{"ts": 1704067200, "b": null, "y": null, "l": null, "o": null}'):
        (row,) = rows_of(taken(line))
        assert (row["b"], row["y"], row["s"]) == (False, 0, 0)
        assert {row[name] for name in ("i", "l", "f", "d", "v", "t", "o_x", "o_p_z")} == {None}


def test_objects_and_lists_in_a_column_of_text_are_kept_as_json() -> None:
    first, second = rows_of(taken(b'{"ts": 1, "v": {"k": [1, "\xc3\xa9"]}}', b'{"ts": 1, "v": "plain"}'))
    assert (first["v"], second["v"]) == ('{"k":[1,"é"]}', "plain")


@pytest.mark.parametrize(
    ("value", "micros"),
    [
        ("2024-01-01", 1704067200_000000),
        ("2024-01-01 00:00:01", 1704067201_000000),
        ("2024-01-01T00:00:00Z", 1704067200_000000),
        ("2024-01-01T00:00:00.123456789Z", 1704067200_123456),
        ("2024-01-01T01:00:00+0100", 1704067200_000000),
        (0, 0),
        (1704067200, 1704067200_000000),
        (1704067200.25, 1704067200_250000),
        (1704067200123, 1704067200_123000),
        (1704067200123456, 1704067200_123456),
        (1704067200123456789, 1704067200_123456),
    ],
)
def test_times_are_texts_or_numbers_whose_size_tells_their_unit(value: Any, micros: int) -> None:
    assert micros_of(pa.array([value]), is_designated=True).to_pylist() == [micros]
    (row,) = rows_of(taken(json.dumps({"ts": value}).encode()))
    assert row["ts"].timestamp() * 1e6 == micros


@pytest.mark.parametrize(
    ("whole", "micros"),
    [
        (1700000000123456789, 1700000000_123456),
        (-1700000000123456789, -1700000000_123457),
        # Seven times ten to the thirteenth milliseconds, of which a float holds the microseconds to the sixteenth.
        (72057594037929, 72057594037_929000),
        (2**53 + 1, 2**53 + 1),
        (1700000000123, 1700000000_123000),
    ],
)
def test_a_whole_number_is_the_same_time_whichever_lines_are_beside_it(whole: int, micros: int) -> None:
    """Beside a time with a fraction it went through a float, so that nanoseconds were rounded and not cut."""
    beside, line = b'{"ts": 1, "t": 1700000000.5}', b'{"ts": 1, "t": %d}' % whole
    for lines in ((beside, line), (line, beside), (line,)):
        times = [time.value for table in taken(*lines).tables for time in table["t"]]
        assert times[lines.index(line)] == micros


TIMES = st.one_of(
    st.integers(0, 4 * 10**18),
    st.floats(0, 1e15),
    st.sampled_from(["2024-01-01T00:00:00Z", "2024-01-01", "2024-02-30", "x", "2024-01-01T00:00:00.1234567+02:00"]),
)
ODD = st.one_of(
    st.none(), st.booleans(), st.integers(-(2**70), 2**70), st.floats(), st.text(), st.lists(st.integers()),
    st.lists(st.text()), st.dictionaries(st.sampled_from(["x", "p", "q"]), st.integers()), TIMES,
)  # fmt: skip
FITTING = {
    "b": st.booleans(), "y": st.integers(-128, 127), "s": st.integers(-9, 9), "i": st.integers(-9, 9),
    "l": st.integers(-(2**63), 2**63 - 1), "f": st.floats(width=32), "d": st.floats() | st.integers(-(2**80), 2**80),
    "v": st.text(), "t": TIMES, "a": st.lists(st.floats() | st.none() | st.integers(-9, 9)),
    "o": st.fixed_dictionaries({}, optional={"x": st.integers(-9, 9), "p": st.fixed_dictionaries({"z": st.text()})}),
}  # fmt: skip


@st.composite
def frames(draw: st.DrawFn) -> bytes:
    frame = draw(st.fixed_dictionaries({"ts": TIMES}, optional=FITTING))
    if draw(st.integers(0, 3)) == 0:
        frame[draw(st.sampled_from([*TYPE_OF_KEY, "ts", "q", "o"]))] = draw(ODD)
    return json.dumps(frame, ensure_ascii=draw(st.booleans())).encode("utf-8", "surrogatepass")


def exactly(line: bytes) -> list[Any] | None:
    """Return a row as the slow way alone gives it."""
    try:
        values = exact_row(line, SCHEMA, tree_of(SCHEMA))
    except LineRejectedError:
        return None
    return [pa.array([value], field.type)[0] for value, field in zip(values, SCHEMA.arrow, strict=True)]


@pytest.mark.nightly
@pytest.mark.parametrize("example_count", [40, nightly(500)])
def test_the_quick_way_takes_lines_exactly_as_the_slow_one_would(example_count: int) -> None:
    settings(max_examples=example_count)(given(st.lists(frames(), min_size=1, max_size=4))(demand_the_same_rows))()


def demand_the_same_rows(lines: list[bytes]) -> None:
    expected = [exactly(line) for line in lines]
    for some, rows in [(lines, expected), *(([line], [row]) for line, row in zip(lines, expected, strict=True))]:
        outcome = taken(*some)
        found = [[column[0] for column in table.slice(at, 1)] for table in outcome.tables for at in range(len(table))]
        assert repr(found) == repr([row for row in rows if row is not None])
        assert [reject.line for reject in outcome.rejects] == [at for at, row in enumerate(rows, 1) if row is None]


def test_sound_lines_are_taken_the_quick_way(monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(*_: object) -> None:
        raise AssertionError("a sound line was taken slowly")

    monkeypatch.setattr(archive_lines, "exact_row", fail)
    line = b'{"ts":"2024-01-01T00:00:00Z","b":true,"y":1,"f":0.5,"d":2,"v":"\xc3\xa9","a":[1],"o":{"x":1},"t":17}'
    assert taken(line, line, b'{"ts":"2024-01-01T00:00:00.123456789Z"}').row_count == 3
    with pytest.raises(AssertionError, match="taken slowly"):
        taken(b"bad")
