"""The jobs on Spark: the judge, Spark SQL and the brute force agree on all histories, and so do slices in workers."""

import json
from collections import Counter
from collections.abc import Mapping
from dataclasses import replace
from decimal import Decimal
from fnmatch import fnmatch
from pathlib import Path
from typing import Any, NoReturn

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from brute_force_history import brute_force
from depth import nightly
from history_cases import EXCUSED, ORDER, Case, all_cases, at_the_ends, correct_history, planted_history, small_cases
from pyspark.sql import SparkSession

from tornproof.harness.checkers.recorded import EVENT_SCHEMA
from tornproof.harness.checkers.snapshot_isolation import judge
from tornproof.harness.common.history import Event, to_arrow
from tornproof.harness.common.verdict import Verdict
from tornproof.impl.errors import UsageError
from tornproof.pipeline.files import Location
from tornproof.pipeline.history import groups, job, sql
from tornproof.pipeline.history.check import Terms, check_files, reason_of
from tornproof.pipeline.history.events import UnreadableEventsError, plan_slices, read_slice, read_with_keys
from tornproof.pipeline.history.frame import events_frame
from tornproof.pipeline.history.groups import by_history, name_by
from tornproof.pipeline.history.job import ONLY, Comparison, check_dataset, open_dataset
from tornproof.pipeline.history.sql import ask_sql
from tornproof.pipeline.spark.tasks import folded

TERMS = Terms(excused=(EXCUSED,))


def named(case: Case) -> pa.Table:
    return to_arrow(case.events).append_column("name", pa.repeat(case.name, len(case.events)))


def write_dataset(cases: list[Case], directory: Path) -> Path:
    """Write histories with the events of each in two files."""
    events = pa.concat_tables([named(case) for case in cases])
    for part in range(2):
        pq.write_table(events.take(list(range(part, len(events), 2))), directory / f"{part}.parquet")
    return directory


@pytest.mark.parametrize(
    ("one_of", "small_count", "with_sql", "least"),
    [
        # Spark takes longer for SQL of any histories than for all else.
        pytest.param(17, 20, False, 60, id="some"),
        nightly(17, 20, True, 60, id="some, and SQL"),
        nightly(1, 2_000, True, 2_800, id="all, and SQL"),
    ],
)
def test_judge_and_sql_and_brute_force_agree_on_all_histories(
    spark: SparkSession, tmp_path: Path, one_of: int, small_count: int, with_sql: bool, least: int
) -> None:
    cases = [*all_cases()[::one_of], *small_cases(small_count)]
    assert {case.planted for case in cases} == {case.planted for case in all_cases()}
    (tmp_path / "events").mkdir()
    dataset = open_dataset([write_dataset(cases, tmp_path / "events")])
    report = check_dataset(spark, dataset, terms=TERMS, with_sql=with_sql, out=tmp_path / "out")
    assert report.sql == (Comparison() if with_sql else None)
    rows = pq.read_table(tmp_path / "out").to_pylist()
    judgements = {row["history"]: (row["verdict"], dict(row["counts"])) for row in rows}
    assert len(rows) == len(judgements) == report.judged.history_count == len(cases) >= least
    for case in cases:
        found = brute_force(case.events, excused=[EXCUSED])
        judgement = judgements[json.dumps({"name": case.name}, separators=(",", ":"))]
        assert judgement == (found.verdict, found.counts), case.name
    only_order_count = sum(counts.keys() == {ORDER} for _, counts in judgements.values())
    assert only_order_count > len(cases) // 50


@pytest.mark.parametrize("with_sql", [False, nightly(True)], ids=["judge", "judge and SQL"])
def test_the_driver_keeps_the_worst_histories_and_sql_without_hints_says_the_same(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, with_sql: bool
) -> None:
    monkeypatch.setattr(sql, "BROADCAST_EVENTS_MAX", 0)
    monkeypatch.setattr(groups, "HISTORIES_SHOWN_MAX", 3)
    cases = all_cases()[::70]
    (tmp_path / "events").mkdir()
    dataset = open_dataset([write_dataset(cases, tmp_path / "events")])
    report = check_dataset(spark, dataset, terms=TERMS, with_sql=with_sql, out=tmp_path / "out")
    assert report.sql == (Comparison() if with_sql else None)
    found = {case.name: brute_force(case.events, excused=[EXCUSED]) for case in cases}
    verdicts = Counter(each.verdict for each in found.values())
    assert {verdict.name: count for verdict, count in report.judged.verdicts.items()} == verdicts
    assert report.judged.history_count == len(cases) > len(report.judgements) == 3
    invalid = sorted(
        json.dumps({"name": name}, separators=(",", ":")) for name in found if found[name].verdict == "INVALID"
    )
    assert list(report.judgements) == invalid[:3]
    assert report.counts == sum((Counter(each.counts) for each in found.values()), Counter())
    rows = pq.read_table(tmp_path / "out").to_pylist()
    assert {json.loads(row["history"])["name"]: row["verdict"] for row in rows} == {
        name: each.verdict for name, each in found.items()
    }


@pytest.mark.parametrize("killed_at", ["a judgement", "a move"])
def test_a_run_that_was_killed_leaves_no_dataset_and_the_next_one_a_whole_one(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, killed_at: str
) -> None:
    """It left files of some histories in a directory that looked finished, and was refused ever after."""
    (tmp_path / "events").mkdir()
    cases = all_cases()[::300]
    dataset, out = open_dataset([write_dataset(cases, tmp_path / "events")]), tmp_path / "out"
    unfinished = out / groups.UNFINISHED
    with monkeypatch.context() as patched:
        if killed_at == "a judgement":
            patched.setattr(groups, "folded", lambda frame: [*folded(frame), None])
        else:
            patched.setattr(Location, "move_to", None)
        assert check_dataset(spark, dataset, terms=TERMS, out=out).verdict is Verdict.UNKNOWN
    assert list(out.iterdir()) == [unfinished]
    (left, *_) = unfinished.glob(f"*/{groups.PARTS}")
    left.with_name(f".{left.name}.0.partial").touch()
    if killed_at == "a move":
        left.rename(out / "part-9999999.parquet")

    assert len(check_dataset(spark, dataset, terms=TERMS, out=out).judgements) == len(cases)
    assert all(fnmatch(file.name, groups.PARTS) for file in out.iterdir())
    assert pq.read_table(out).num_rows == len(cases)
    with pytest.raises(UsageError, match="is there already"):
        check_dataset(spark, dataset, terms=TERMS, out=out)


@pytest.mark.parametrize("name", ["notes.txt", "sub/part-0000000.parquet"])
def test_files_of_somebody_else_are_never_removed(spark: SparkSession, tmp_path: Path, name: str) -> None:
    (tmp_path / "events").mkdir()
    dataset, out = open_dataset([write_dataset(all_cases()[:1], tmp_path / "events")]), tmp_path / "out"
    for file in (out / groups.UNFINISHED / "0" / "part-0000000.parquet", out / name):
        file.parent.mkdir(parents=True, exist_ok=True)
        file.touch()
    with pytest.raises(UsageError, match="is there already"):
        check_dataset(spark, dataset, terms=TERMS, out=out)
    assert (out / name).exists()


@pytest.mark.nightly
def test_sql_agrees_on_histories_at_the_ends_of_64_bits(spark: SparkSession, tmp_path: Path) -> None:
    """One of them made the whole job fail, so that there was no judgement on the others."""
    cases = [*all_cases()[::17], *small_cases(60)]
    lowest = min(event.version for event in cases[0].events if event.version is not None) + (1 << 63)
    without = [
        replace(each, version=None if each.version is None else each.version - lowest) for each in cases[0].events
    ]
    cases = [at_the_ends(case, number) for number, case in enumerate(cases)] + [Case("lowest", tuple(without), None)]
    dataset = open_dataset([write_dataset(cases, tmp_path)])
    report = check_dataset(spark, dataset, terms=TERMS, with_sql=True)
    assert report.sql == Comparison() and report.judged.history_count == len(cases)
    assert report.judgements['{"name":"lowest"}'].reason.endswith("has no version")


def test_sql_computes_with_the_ends_of_64_bits(spark: SparkSession) -> None:
    """Spark rejects a sum or difference beyond them, and with it all histories."""
    lowest, highest = -(1 << 63), (1 << 63) - 1
    writers = {
        "high": [("recovered", lowest, highest), ("commit_start", highest, 1)],
        "low": [("commit_start", 0, lowest)],
    }
    rows = [
        {"process": "w", "sequence": number, "client": "w", "kind": kind, "time_ns": time_ns, "version": version}
        for events in writers.values()
        for number, (kind, time_ns, version) in enumerate(events)
    ]
    names = [name for name, events in writers.items() for _ in events]
    table = pa.Table.from_pylist(rows, EVENT_SCHEMA).append_column("history", pa.array(names))
    parts = {"events": "SELECT * FROM {events}", **sql.WRITER_PARTS}
    parts |= {name: sql.PARTS[name] for name in ("extents", "writer_counts")}
    of_bucket = f"{sql.BUCKET.format('until_ns')} - {sql.BUCKET.format('since_ns')} AS buckets"
    whole = f"SELECT history, version_not_next, {of_bucket} FROM extents JOIN writer_counts USING (history)"
    found = spark.sql(sql._statement(parts, whole), events=spark.createDataFrame(table)).collect()
    assert sorted(map(tuple, found)) == [("high", 1, 2), ("low", 0, 0)]


def test_the_judgements_stay_where_sql_fails(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """One history on which it failed hid the verdicts on all others."""
    cases = [all_cases()[0], next(case for case in all_cases() if case.planted == "torn_content")]
    monkeypatch.setattr(job, "answers_frame", sql_that_fails)
    report = check_dataset(spark, open_dataset([write_dataset(cases, tmp_path)]), terms=TERMS, with_sql=True)
    assert report.verdict is Verdict.UNKNOWN and report.judged.verdict is Verdict.INVALID
    assert report.judged.history_count == 2 and report.counts["torn_content"]
    assert report.sql == Comparison(failure="ValueError: too far apart")


def sql_that_fails(*given: object, **terms: object) -> NoReturn:
    raise ValueError("too far apart")


@pytest.mark.nightly
def test_sql_and_brute_force_agree_where_a_power_cut_may_lose_what_was_seen(
    spark: SparkSession, tmp_path: Path
) -> None:
    cases = [*all_cases(), *small_cases(2_000)]
    frame = spark.read.parquet(str(write_dataset(cases, tmp_path))).withColumnRenamed("name", "history")
    answers = ask_sql(frame, excused=[EXCUSED], seen_survives=False)
    for case in cases:
        found = brute_force(case.events, excused=[EXCUSED], seen_survives=False)
        assert (answers[case.name].verdict, answers[case.name].counts) == (found.verdict, found.counts), case.name


def write(events: list[Event], path: Path, *, order: str, rows: int = 7) -> Path:
    table = to_arrow(events)
    table = table.take(list(range(len(table)))[::-1]) if order == "backwards" else table.sort_by(order)
    pq.write_table(table, path, row_group_size=rows)
    return path


@pytest.mark.parametrize(
    ("order", "kind"),
    [nightly("time_ns", "went_back"), nightly("process", "went_back"), ("backwards", "went_back"), ("process", ORDER)],
)
def test_one_history_in_slices_of_workers_is_judged_as_a_whole(
    spark: SparkSession, tmp_path: Path, order: str, kind: str
) -> None:
    events = next(events for seed in range(8_000, 8_100) if (events := planted_history(kind, seed)))
    path = write(events, tmp_path / "events.parquet", order=order)
    checked = check_files(spark, [path], terms=TERMS, slice_events=20)
    assert checked.judgement == judge(to_arrow(events), excused=[EXCUSED])
    assert kind in checked.judgement.counts
    assert checked.slice_count >= 3
    assert checked.worker_peak_bytes > 0


@pytest.mark.nightly
def test_events_that_stand_mixed_up_are_sorted_first(spark: SparkSession, tmp_path: Path) -> None:
    events = correct_history(7)
    table = to_arrow(events)
    mixed = table.take([*range(0, len(table), 3), *range(1, len(table), 3), *range(2, len(table), 3)])
    pq.write_table(mixed, tmp_path / "events.parquet", row_group_size=10)
    checked = check_files(spark, [tmp_path / "events.parquet"], terms=TERMS, slice_events=10, scratch=tmp_path)
    assert checked.judgement == judge(table, excused=[EXCUSED])
    assert list(tmp_path.iterdir()) == [tmp_path / "events.parquet"]


def test_a_missing_event_is_unknown_and_never_valid(spark: SparkSession, tmp_path: Path) -> None:
    events = correct_history(7)
    path = write([event for event in events if event != events[20]], tmp_path / "events.parquet", order="process")
    judgement = check_files(spark, [path], terms=TERMS, slice_events=20).judgement
    assert judgement.verdict is Verdict.UNKNOWN
    assert "an event is missing or twice there" in judgement.reason


def of_integers(of: pa.DataType, *numbers: int) -> pa.Array:
    return pa.array(numbers, pa.int32() if of.bit_width == 32 else pa.int64()).cast(of)


SUMMER_TIME_ENDS_SECONDS = 1_698_541_200
KEYS = {
    "microseconds": of_integers(pa.timestamp("us"), 1, 2),
    "microseconds of UTC": of_integers(pa.timestamp("us", "UTC"), 1, 2),
    "an hour that comes twice": of_integers(
        pa.timestamp("us", "UTC"), *(10**6 * (SUMMER_TIME_ENDS_SECONDS + at) for at in (-1800, 1800))
    ),
    "milliseconds": of_integers(pa.timestamp("ms"), 1, 2),
    "nanoseconds": of_integers(pa.timestamp("ns"), 1, 2),
    "nanoseconds of UTC": of_integers(pa.timestamp("ns", "UTC"), 1, 2),
    "times of day": of_integers(pa.time64("ns"), 1, 2),
    "times of day in milliseconds": of_integers(pa.time32("ms"), 1, 2),
    "durations": of_integers(pa.duration("us"), 1, 2),
    "durations in nanoseconds": of_integers(pa.duration("ns"), 1, 2),
    "dates": of_integers(pa.date32(), -719_529, -719_163),
    "categories": pa.array(["a", "b"]).dictionary_encode(),
    "categories that are numbers": pa.array([1, 2]).dictionary_encode(),
    "large text": pa.array(["a", "b"], pa.large_string()),
    "text in views": pa.array(["a", "b"], pa.string_view()),
    "null and its name": pa.array([None, "null"]),
    "null and no text": pa.array([None, ""]),
    "bytes": pa.array([b"\xff", b"\xfe"]),
    "bytes in views": pa.array([b"\xff", b"\xfe"], pa.binary_view()),
    "bytes of one length": pa.array([b"\xff", b"\xfe"], pa.binary(1)),
    "decimals": pa.array([Decimal("1.1"), Decimal("1.11")], pa.decimal128(38, 2)),
    "decimals of 64 bits": pa.array([Decimal("1.1"), Decimal("1.11")], pa.decimal64(10, 2)),
    "decimals of 256 bits": pa.array([Decimal("1.1"), Decimal("1.11")], pa.decimal256(50, 2)),
    "unsigned": pa.array([1, (1 << 64) - 1], pa.uint64()),
    "half": pa.array([1.0, 1.5], pa.float32()).cast(pa.float16()),
    "double": pa.array([0.1, 0.1 + 2**-56]),
    "not a number": pa.array([float("nan"), None]),
}
"""Two keys of each type that are as close to each other as can be."""


def test_different_keys_of_any_type_are_different_histories(spark: SparkSession, tmp_path: Path) -> None:
    """Times were cut to milliseconds, so that several sound histories were one that is not."""
    events = to_arrow(correct_history(7)[:2])
    pq.write_table(pa.table([*events.columns, *KEYS.values()], [*events.column_names, *KEYS]), tmp_path / "0.parquet")
    dataset = open_dataset([tmp_path])
    slices, _ = plan_slices(dataset.files, 10)
    frame = events_frame(spark, slices, dataset.keys, dataset.below)
    zone = spark.conf.get("spark.sql.session.timeZone")
    assert zone is not None
    try:
        spark.conf.set("spark.sql.session.timeZone", "Europe/Berlin")
        one, other = frame.select(*(name_by({name: name}).alias(name) for name in KEYS)).collect()
    finally:
        spark.conf.set("spark.sql.session.timeZone", zone)
    assert [name for name in KEYS if one[name] == other[name]] == []


def test_keys_may_have_names_that_spark_cannot_tell_apart_or_does_not_take(spark: SparkSession, tmp_path: Path) -> None:
    """Such histories were UNKNOWN."""
    names = ("k", "K", "Version", "a.b`c", "history")
    events = to_arrow(correct_history(7)[:1])
    pq.write_table(
        pa.table([*events.columns, *([name] for name in names)], [*events.column_names, *names]), tmp_path / "a.parquet"
    )
    dataset = open_dataset([tmp_path])
    frame = events_frame(spark, plan_slices(dataset.files, 10)[0], dataset.keys, dataset.below)
    (row,) = by_history(frame, list(dataset.keys)).collect()
    assert json.loads(row.history) == {name: name for name in names}
    assert (row.process, row.version) == (events["process"][0].as_py(), events["version"][0].as_py())


def keys_of(folder: Path, files: Mapping[str, pa.Array | None]) -> dict[str, list[Any]]:
    """Write events with the key `k`, or without, and return it by file as Spark gets it."""
    for name, keys in files.items():
        events = to_arrow(correct_history(7)[: 1 if keys is None else len(keys)])
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        pq.write_table(events if keys is None else events.append_column("k", keys), folder / name)
    dataset = open_dataset([folder])
    slices, _ = plan_slices(dataset.files, 1)
    return {
        str(row_groups[0][0]).removeprefix(f"{folder}/"): read_with_keys(row_groups, dataset.keys, dataset.below)[
            "k"
        ].to_pylist()
        for row_groups in slices
    }


@pytest.mark.parametrize(
    ("one", "other", "expected"),
    [
        (pa.array([1 << 40]), pa.array([1], pa.int32()), ([1 << 40], [1])),
        (pa.array([1], pa.uint32()), pa.array([-1], pa.int8()), ([1], [-1])),
        (pa.array([(1 << 64) - 1], pa.uint64()), pa.array([-1]), (["18446744073709551615"], ["-1"])),
        (pa.array(["x"]), pa.nulls(1), (["x"], [None])),
        (pa.nulls(1), pa.nulls(1), ([None], [None])),
        (pa.array([1]), None, ([1], [None])),
        (pa.array([[1]]), None, ([[1]], [None])),
        (pa.array([[1]]), pa.nulls(1), ([[1]], [None])),
        (pa.array([1], pa.int32()), pa.array([1.5, 1.0]), ([1.0], [1.5, 1.0])),
        (
            pa.array([1 << 53, (1 << 53) + 1, None]),
            pa.array([2.0**53, 1e-7, -0.0]),
            (["9007199254740992", "9007199254740993", None], ["9007199254740992", "0.0000001", "0"]),
        ),
        (pa.array([0.1], pa.float32()), pa.array([0.1]), ([0.10000000149011612], [0.1])),
        (pa.array(["x", "01"]), pa.array([1]), (["x", "01"], ["1"])),
        (pa.array(["nan", "100"]), pa.array([float("nan"), 100.0]), (["nan", "100"], ["NaN", "100"])),
        (pa.array([Decimal("1.10"), Decimal("100.00")]), pa.array([100]), (["1.1", "100"], ["100"])),
        (pa.array(["a"]).dictionary_encode(), pa.array(["b"], pa.string_view()), (["a"], ["b"])),
        (pa.array([True]), pa.array(["x"]), (["true"], ["x"])),
        (
            of_integers(pa.timestamp("ms", "Europe/Berlin"), 1),
            of_integers(pa.timestamp("ns", "UTC"), 1_000_000, 1_000_001),
            (["1970-01-01 00:00:00.001000000Z"], ["1970-01-01 00:00:00.001000000Z", "1970-01-01 00:00:00.001000001Z"]),
        ),
        (
            # The year 2400, which nanoseconds of 64 bits do not reach.
            of_integers(pa.timestamp("us"), 0, 13_569_465_600_000_000),
            of_integers(pa.timestamp("ns"), 0),
            (
                ["1970-01-01 00:00:00.000000000", "2400-01-01 00:00:00.000000000"],
                ["1970-01-01 00:00:00.000000000"],
            ),
        ),
        (
            of_integers(pa.duration("s"), 1, 1 << 60),
            of_integers(pa.duration("ns"), 1_000_000_000),
            (["1000000000", f"{10**9 << 60}"], ["1000000000"]),
        ),
        (
            of_integers(pa.timestamp("s", "Europe/Berlin"), 1),
            pa.array(["1970-01-01 00:00:01.000000000Z"]),
            (["1970-01-01 00:00:01.000000000Z"], ["1970-01-01 00:00:01.000000000Z"]),
        ),
    ],
    ids=lambda given: str(getattr(given, "type", "")),
)
def test_keys_whose_types_differ_between_files_are_equal_if_their_values_are(
    tmp_path: Path, one: pa.Array, other: pa.Array | None, expected: tuple[list[Any], list[Any]]
) -> None:
    """The type of the last file was that of all, so that files in another order, or without a key, were UNKNOWN."""
    for number, files in enumerate(({"a": one, "b": other}, {"b": one, "a": other})):
        found = keys_of(tmp_path / str(number), {f"{name}.parquet": keys for name, keys in files.items()})
        assert [found[f"{name}.parquet"] for name in files] == list(expected)


def test_keys_in_names_of_some_directories_are_null_or_columns_in_others(tmp_path: Path) -> None:
    files = {"k=7/a.parquet": None, "b.parquet": None, "j=1/c.parquet": pa.array([7])}
    assert keys_of(tmp_path / "numbers", files) == {"k=7/a.parquet": [7], "b.parquet": [None], "j=1/c.parquet": [7]}
    texts = {"k=none/a.parquet": None, "c.parquet": pa.array([7])}
    assert keys_of(tmp_path / "texts", texts) == {"k=none/a.parquet": ["none"], "c.parquet": ["7"]}


@pytest.mark.parametrize(
    ("given", "expected"),
    [
        (["events/k=*"], [{"k": "1"}, {"k": "1", "j": "5"}, {"k": "2"}]),
        (["events/k=*/*.parquet", "events/k=1/j=5"], [{"k": "1"}, {"k": "1", "j": "5"}, {"k": "2"}]),
        (["events", "events/k=1", "events/k=1/j=5"], [{"k": "1"}, {"k": "1", "j": "5"}, {"k": "2"}]),
        (["events/k=1/j=5", "other"], [{"k": "1", "j": "5"}, {}]),
        (["events/k=1/*"], [{}, {"j": "5"}]),
        (["events/k=1/j=5", "events/k=1/j=5/a.parquet"], [{}]),
        (["events/k=1/j=5/"], [{}]),
        (["events/k=1/b.parquet"], [{}]),
        (["far=1/deep", "far=2/deep"], [{}, {}]),
        (["client=1", "events/k=2"], None),
        (["client=1"], [{}]),
    ],
    ids=lambda each: " ".join(each) if isinstance(each, list) and isinstance(each[0], str) else "",
)
def test_several_paths_are_told_apart_by_their_last_names_as_below_the_directory_of_them_all(
    tmp_path: Path, given: list[str], expected: list[dict[str, str]] | None
) -> None:
    """The histories of `events/k=*` were taken for one, which was UNKNOWN."""
    names = (
        "events/k=1/j=5/a",
        "events/k=1/b",
        "events/k=2/c",
        "other/d",
        "far=1/deep/e",
        "far=2/deep/f",
        "client=1/g",
    )
    for name in names:
        path = tmp_path / f"{name}.parquet"
        path.parent.mkdir(parents=True, exist_ok=True)
        pq.write_table(to_arrow(correct_history(7)[:1]), path)
    paths = [path for pattern in given for path in sorted(tmp_path.glob(pattern))]
    if expected is None:
        with pytest.raises(UnreadableEventsError, match="the directory client=… is called like a column of events"):
            open_dataset(paths)
    else:
        dataset = open_dataset(paths)
        assert [dataset.below[file] for file in sorted(dataset.files)] == expected
        assert set(dataset.keys) == {key for keys in expected for key in keys}


@pytest.mark.parametrize(
    ("files", "words"),
    [
        ({"k=1/client=x/a.parquet": None}, "the directory client=… is called like a column of events"),
        (
            {"a.parquet": pa.array([[1]]), "b.parquet": pa.array(["x"])},
            "the key k has other types in other files: list<element: int64>, string",
        ),
        *(
            (
                {"a.parquet": pa.array([b"\xff"], of), "b.parquet": pa.array([1])},
                f"the key k has other types in other files: {stored}, int64",
            )
            for of, stored in [
                (pa.binary(), "binary"),
                (pa.large_binary(), "large_binary"),
                (pa.binary_view(), "binary_view"),
                (pa.binary(1), r"fixed_size_binary\[1\]"),
            ]
        ),
    ],
)
def test_keys_that_cannot_be_told_apart_are_rejected_in_words(
    tmp_path: Path, files: dict[str, pa.Array | None], words: str
) -> None:
    with pytest.raises(UnreadableEventsError, match=words):
        keys_of(tmp_path, files)


def with_damaged_pages(directory: Path) -> Path:
    path = write(correct_history(7), directory / "events.parquet", order="process", rows=100)
    content = bytearray(path.read_bytes())
    content[4:400] = bytes(396)
    path.write_bytes(content)
    return path


def test_a_file_with_damaged_pages_is_named(tmp_path: Path) -> None:
    """The reason for UNKNOWN was an error of Arrow that named no file, and was called a failure of the checker."""
    path = with_damaged_pages(tmp_path)
    (slice_,), _ = plan_slices([Location(str(path))], 1_000)
    for read in (read_slice, lambda row_groups: read_with_keys(row_groups, {}, {})):
        with pytest.raises(UnreadableEventsError, match=f"^{path}: is not a readable Parquet file: ") as caught:
            read(slice_)
        assert reason_of(caught.value) == str(caught.value)


def test_what_a_worker_cannot_read_is_unknown(spark: SparkSession, tmp_path: Path) -> None:
    (tmp_path / "run=1").mkdir()
    path = with_damaged_pages(tmp_path / "run=1")
    for given, reason in ((path, ""), (tmp_path, "the job failed: PythonException: ")):
        report = check_dataset(spark, open_dataset([given]), terms=TERMS)
        assert report.verdict is Verdict.UNKNOWN
        words = f"{path}: is not a readable Parquet file: "
        assert report.judgements[ONLY].reason.startswith(reason) and words in report.judgements[ONLY].reason
