"""The oracle of the history check: the rules of docs/history.md again, in Spark SQL alone.

It shares nothing with the checker that it is compared with, not even names of kinds. Events are ordered by time,
`turn`, process and sequence, because names of processes say nothing about what was first; a statement counts for each
history contradictory events and the anomalies of each kind.
"""

from __future__ import annotations

import json
import re
from collections.abc import Collection, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

WRITER_PARTS = {
    # Within one time, what ends a commit comes first, then starts, deaths, and recoveries with what follows them.
    "in_turn": """
        SELECT *, greatest(if(kind = 'killed', 2, 0),
                           max(CASE kind WHEN 'commit_start' THEN 1 WHEN 'recovered' THEN 3 ELSE 0 END)
                             OVER (PARTITION BY history, process, time_ns ORDER BY sequence)) AS turn
        FROM events WHERE kind IN ('commit_start', 'commit_acknowledged', 'commit_failed', 'recovered', 'killed')
    """,
    # The writer's events in one order. A kill is the writer's if its client was the last to commit or recover.
    "writer_events": """
        SELECT *, last(CASE WHEN kind IN ('commit_start', 'recovered') THEN client END, true)
                    OVER (PARTITION BY history ORDER BY time_ns, turn, process, sequence
                          ROWS BETWEEN UNBOUNDED PRECEDING AND 1 PRECEDING) AS writer
        FROM in_turn
    """,
    "writing": """
        SELECT history, kind, client, version, digest, time_ns,
               row_number() OVER so_far AS place,
               lag(kind) OVER so_far AS kind_before,
               lag(client) OVER so_far AS client_before,
               last(CASE WHEN kind = 'commit_start' THEN version END, true) OVER so_far AS attempted
        FROM writer_events WHERE kind != 'killed' OR client = writer
        WINDOW so_far AS (PARTITION BY history ORDER BY time_ns, turn, process, sequence)
    """,
    # A version number follows what was last acknowledged or recovered, and at first what the first event says.
    "settling": """
        SELECT *,
               CASE kind WHEN 'recovered' THEN version WHEN 'commit_acknowledged' THEN attempted END AS settles,
               count(CASE WHEN kind IN ('recovered', 'commit_start') THEN 1 END) OVER before > 0 AS has_begun
        FROM writing
        WINDOW before AS (PARTITION BY history ORDER BY place ROWS BETWEEN UNBOUNDED PRECEDING AND 1 PRECEDING)
    """,
    "sessions": """
        SELECT *, coalesce(settled_before, try_subtract(first_version, 1)) AS floor,
               max(CASE WHEN kind = 'commit_start' THEN version END)
                 OVER (PARTITION BY history, settle_count ORDER BY place) AS ceiling
        FROM (SELECT *,
                     last(settles, true) OVER before AS settled_before,
                     count(settles) OVER before AS settle_count,
                     first(version) OVER (PARTITION BY history ORDER BY place) AS first_version
              FROM settling
              WINDOW before AS (PARTITION BY history ORDER BY place ROWS BETWEEN UNBOUNDED PRECEDING AND 1 PRECEDING))
    """,
}
"""The writer's part: from the events."""

BROADCAST_EVENTS_MAX = 1_000_000
"""Up to so many events of writers each executor gets all of them; a hint would be obeyed whatever their number."""
_HINT = re.compile(r"/\*\+.*?\*/")
ANSWER = "answer"
BUCKET = "greatest(since_ns, least({}, until_ns)) DIV width_ns"
"""Only divided, because Spark refuses to subtract times that are more than 2^63 apart, and with them all histories."""
PARTS = {
    "losses": "SELECT history, place, time_ns, version FROM sessions WHERE kind = 'recovered' AND has_begun",
    "started": """
        SELECT history, place, version, digest,
               CASE WHEN kind = 'commit_start' THEN time_ns END AS start_ns,
               lead(place) OVER (PARTITION BY history, version ORDER BY place) AS again
        FROM sessions WHERE kind = 'commit_start' OR (kind = 'recovered' AND NOT has_begun)
    """,
    # An attempt is gone from the first recovery to an older version on, or from the next attempt at the same version.
    "attempts": """
        SELECT started.history, started.version, started.digest, started.place, started.start_ns, started.again,
               min(struct(losses.place AS place, losses.time_ns AS time_ns)) AS loss
        FROM started LEFT JOIN losses
          ON started.history = losses.history AND losses.place > started.place AND losses.version < started.version
        GROUP BY ALL
    """,
    "versions": """
        SELECT history, version,
               collect_list(struct(digest, start_ns,
                                   (again IS NOT NULL OR loss.place IS NOT NULL) AS is_gone,
                                   (loss.place IS NOT NULL AND (again IS NULL OR loss.place < again)) AS is_lost,
                                   loss.time_ns AS lost_ns)) AS attempts
        FROM attempts GROUP BY history, version
    """,
    "contents": "SELECT DISTINCT history, digest FROM attempts",
    # When a version was acknowledged or recovered, and when a read first ended that saw the content that stayed.
    "shown": """
        SELECT history, time_ns, settles AS settled, NULL AS witnessed FROM sessions WHERE settles IS NOT NULL
        UNION ALL
        SELECT /*+ BROADCAST(versions) */ events.history, min(events.time_ns), NULL, events.version
        FROM events JOIN versions ON events.history = versions.history AND events.version = versions.version
        WHERE kind = 'read_end' AND exists(attempts, one -> one.digest = events.digest AND NOT one.is_gone
                                                            AND coalesce(one.start_ns <= events.time_ns, true))
        GROUP BY events.history, events.version
    """,
    # The oldest versions that a new read may see, by time interval. Times are put into as many buckets as there are
    # events of the writer, so that a read joins its own by equality.
    "extents": """
        SELECT history, min(time_ns) AS since_ns, max(time_ns) AS until_ns,
               greatest(1, max(time_ns) DIV count(*) - min(time_ns) DIV count(*)) AS width_ns
        FROM sessions GROUP BY history
    """,
    "due": """
        SELECT history, time_ns AS from_ns, settled, witnessed,
               lead(time_ns) OVER (PARTITION BY history ORDER BY time_ns) AS to_ns, since_ns, until_ns, width_ns
        FROM (SELECT history, time_ns,
                     max(max(settled)) OVER (PARTITION BY history ORDER BY time_ns) AS settled,
                     max(max(witnessed)) OVER (PARTITION BY history ORDER BY time_ns) AS witnessed
              FROM shown GROUP BY history, time_ns)
        JOIN extents USING (history)
    """,
    "due_by_bucket": f"""
        SELECT history, from_ns, to_ns, settled AS due_version, witnessed AS witnessed_version,
               explode(sequence({BUCKET.format("from_ns")}, {BUCKET.format("coalesce(to_ns, until_ns)")})) AS bucket
        FROM due
    """,
    # Within one time, the death of a client comes after what other processes recorded of it.
    "reading": """
        SELECT *, max(kind = 'killed') OVER (PARTITION BY history, client, process, time_ns ORDER BY sequence) AS turn
        FROM events WHERE kind IN ('read_start', 'read_end', 'read_failed', 'pin', 'unpin', 'killed')
    """,
    # The events of each client, with the last one before of each kind: read start or end, pin, version read.
    "readers": """
        SELECT *,
               last(CASE WHEN kind IN ('read_start', 'read_end', 'read_failed', 'killed')
                         THEN struct(kind, time_ns, process, sequence) END, true) OVER before AS bracket,
               last(CASE WHEN kind IN ('pin', 'unpin', 'killed')
                         THEN struct(kind, version, time_ns, process, sequence) END, true) OVER before AS pinned,
               last(CASE WHEN kind IN ('read_end', 'killed') THEN struct(kind, version) END, true) OVER before AS seen
        FROM reading
        WINDOW before AS (PARTITION BY history, client ORDER BY time_ns, turn, process, sequence
                          ROWS BETWEEN UNBOUNDED PRECEDING AND 1 PRECEDING)
    """,
    "steps": """
        SELECT history, kind, version, digest, time_ns, details, client,
               coalesce(bracket.kind = 'read_start', false) AS in_read,
               coalesce(pinned.kind = 'pin', false) AS has_pin,
               pinned.version AS pinned_version,
               coalesce(pinned.kind = 'pin', false)
                 AND struct(pinned.time_ns, pinned.process, pinned.sequence)
                   < struct(bracket.time_ns, bracket.process, bracket.sequence) AS of_older_snapshot,
               CASE WHEN seen.kind = 'read_end' THEN seen.version END AS seen_version,
               bracket.time_ns AS start_ns
        FROM readers
    """,
    # A recovery that says what it found observes, too, except the one at the start of the history.
    "observations": """
        SELECT history, kind, version, digest, time_ns, details, client, in_read, has_pin, pinned_version,
               of_older_snapshot, seen_version, start_ns
        FROM steps
        UNION ALL
        SELECT history, kind, version, digest, time_ns, '', client, false, false, NULL, false, NULL, time_ns
        FROM sessions WHERE kind = 'recovered' AND has_begun AND digest IS NOT NULL
    """,
    "explained": """
        SELECT /*+ BROADCAST(versions), BROADCAST(contents) */ observations.*,
               CASE WHEN kind NOT IN ('read_end', 'recovered') THEN NULL
                    WHEN versions.attempts IS NULL THEN 'unknown_version'
                    WHEN exists(versions.attempts, one -> one.digest = observations.digest AND NOT one.is_gone
                                AND coalesce(one.start_ns <= time_ns, true)) THEN NULL
                    WHEN NOT exists(versions.attempts, one -> one.digest = observations.digest)
                         THEN if(contents.digest IS NULL, 'torn_content', 'content_of_another_version')
                    WHEN NOT exists(versions.attempts, one -> one.digest = observations.digest AND one.is_gone
                                    AND coalesce(one.start_ns <= time_ns, true)) THEN 'future_read'
                    WHEN NOT exists(versions.attempts, one -> one.digest = observations.digest AND one.is_lost
                                    AND coalesce(one.start_ns <= time_ns, true)) THEN 'two_contents'
                    WHEN :seen_survives OR start_ns > array_max(transform(
                           filter(versions.attempts, one -> one.digest = observations.digest AND one.is_lost
                                  AND coalesce(one.start_ns <= time_ns, true)), one -> one.lost_ns))
                         THEN 'seen_version_lost'
               END AS complaint
        FROM observations
        LEFT JOIN versions ON observations.history = versions.history AND observations.version = versions.version
                              AND observations.kind IN ('read_end', 'recovered')
        LEFT JOIN contents ON observations.history = contents.history AND observations.digest = contents.digest
    """,
    "judged": f"""
        SELECT /*+ BROADCAST(extents), BROADCAST(due_by_bucket) */ explained.*, due_version, witnessed_version
        FROM explained LEFT JOIN extents ON explained.history = extents.history
        LEFT JOIN due_by_bucket
          ON explained.history = due_by_bucket.history AND explained.kind = 'read_end'
             AND {BUCKET.format("start_ns")} = bucket
             AND from_ns < start_ns AND start_ns <= coalesce(to_ns, start_ns)
    """,
    "reader_counts": """
        SELECT history,
               count_if(CASE kind WHEN 'read_start' THEN in_read
                                  WHEN 'pin' THEN NOT in_read OR has_pin
                                  WHEN 'unpin' THEN in_read OR NOT has_pin
                                  WHEN 'recovered' THEN false
                                  WHEN 'killed' THEN false
                                  ELSE NOT in_read END) AS senseless,
               count_if(kind = 'read_end') AS reads,
               count_if(kind = 'read_failed') AS refused_reads,
               size(collect_set(CASE WHEN kind IN ('read_end', 'read_failed') THEN client END)) AS readers,
               count_if(complaint = 'unknown_version') AS unknown_version,
               count_if(complaint = 'torn_content') AS torn_content,
               count_if(complaint = 'content_of_another_version') AS content_of_another_version,
               count_if(complaint = 'future_read') AS future_read,
               count_if(complaint = 'seen_version_lost') AS seen_version_lost,
               count_if(complaint = 'two_contents') AS two_contents,
               count_if(kind = 'read_end' AND NOT of_older_snapshot AND version < due_version) AS stale_read,
               count_if(kind = 'read_end' AND NOT of_older_snapshot AND version < witnessed_version
                        AND version >= coalesce(due_version, version)
                        AND version >= coalesce(seen_version, version)) AS seen_version_missed,
               count_if(kind = 'read_end' AND version < seen_version) AS went_back,
               count_if(kind = 'read_end' AND has_pin AND version != pinned_version) AS pin_moved,
               count_if(kind = 'read_failed' AND has_pin) AS pinned_read_refused,
               count_if(kind = 'read_failed' AND NOT has_pin
                        AND NOT array_contains(from_json(:excused, 'array<string>'), details)) AS refused_read
        FROM judged GROUP BY history
    """,
    "writer_counts": """
        SELECT history,
               count_if(CASE kind WHEN 'commit_start' THEN kind_before IN ('commit_start', 'killed')
                                  WHEN 'recovered' THEN kind_before = 'commit_start'
                                                        OR (NOT has_begun AND digest IS NULL)
                                  WHEN 'killed' THEN false
                                  ELSE coalesce(kind_before != 'commit_start' OR client != client_before, true)
                             END) AS senseless,
               count_if(kind = 'recovered' AND has_begun) AS recoveries,
               count_if(kind = 'commit_start' AND has_begun AND NOT version <=> try_add(floor, 1)) AS version_not_next,
               count_if(kind = 'commit_acknowledged' AND version != attempted) AS acknowledged_as_another,
               count_if(kind = 'recovered' AND has_begun AND version < floor) AS acknowledged_version_lost,
               count_if(kind = 'recovered' AND has_begun AND version > greatest(floor, ceiling)) AS recovered_too_new
        FROM sessions GROUP BY history
    """,
    # Each process numbers its events from 0 in time order; and each event has the fields of its kind.
    "event_counts": """
        SELECT history, count(*) AS events,
               count_if(kind = 'commit_start') AS commits,
               coalesce(count_if(sequence != place OR time_ns < time_before OR process IS NULL OR client IS NULL
                 OR details IS NULL OR time_ns IS NULL OR sequence IS NULL OR kind IS NULL
                 OR kind NOT IN ('commit_start', 'commit_acknowledged', 'commit_failed', 'read_start', 'read_end',
                                 'read_failed', 'pin', 'unpin', 'killed', 'recovered')
                 OR (nullif(version, -9223372036854775808) IS NULL
                     AND kind IN ('commit_start', 'commit_acknowledged', 'read_end', 'pin', 'recovered'))
                 OR (digest IS NULL AND kind IN ('commit_start', 'read_end'))), 0) AS senseless
        FROM (SELECT *, row_number() OVER own - 1 AS place, lag(time_ns) OVER own AS time_before
              FROM events WINDOW own AS (PARTITION BY history, process ORDER BY sequence))
        GROUP BY history
    """,
}
"""The readers' part: from the events and `sessions`."""

ANOMALIES = (
    *("unknown_version", "torn_content", "content_of_another_version", "future_read", "seen_version_lost"),
    *("two_contents", "stale_read", "seen_version_missed", "went_back", "pin_moved", "pinned_read_refused"),
    *("refused_read", "acknowledged_version_lost", "recovered_too_new", "version_not_next", "acknowledged_as_another"),
)
WHOLE = """
    SELECT history, events, coalesce(commits, 0) AS commits, coalesce(reads, 0) AS reads,
           coalesce(refused_reads, 0) AS refused_reads, coalesce(readers, 0) AS readers,
           coalesce(recoveries, 0) AS recoveries,
           event_counts.senseless + coalesce(reader_counts.senseless, 0)
             + coalesce(writer_counts.senseless, 0) AS senseless,
           {anomalies}
    FROM event_counts LEFT JOIN reader_counts USING (history) LEFT JOIN writer_counts USING (history)
"""


@dataclass(frozen=True, slots=True, kw_only=True)
class Answer:
    """What SQL says of a history: a verdict, the anomalies of each kind, and what was examined."""

    verdict: str
    counts: dict[str, int]
    denominators: dict[str, int]


def ask_sql(events: DataFrame, *, excused: Collection[str] = (), seen_survives: bool = True) -> dict[str, Answer]:
    """Return what SQL says of each of a few histories; `events` have a column `history`."""
    with answers_frame(events, excused=excused, seen_survives=seen_survives) as answers:
        rows = answers.toArrow().to_pylist()
    return {row["history"]: answer_of(json.loads(row[ANSWER])) for row in rows}


@contextmanager
def answers_frame(
    events: DataFrame, *, excused: Collection[str] = (), seen_survives: bool = True
) -> Iterator[DataFrame]:
    """Yield what SQL says of each history, as a JSON object; `events` have a column `history`."""
    names = ", ".join(f"coalesce({name}, 0) AS {name}" for name in ANOMALIES)
    terms = {"excused": json.dumps(sorted(excused)), "seen_survives": seen_survives}
    spark = events.sparkSession
    given = {"events": "SELECT * FROM {events}"}
    sessions = spark.sql(_statement({**given, **WRITER_PARTS}, "SELECT * FROM sessions"), events=events).cache()
    try:
        parts = {**given, "sessions": "SELECT * FROM {sessions}", **PARTS}
        if sessions.count() > BROADCAST_EVENTS_MAX:
            parts = {name: _HINT.sub("", text) for name, text in parts.items()}
        statement = _statement(parts, WHOLE.replace("{anomalies}", names))
        answers = spark.sql(statement, args=terms, events=events, sessions=sessions)
        yield answers.selectExpr("history", f"to_json(struct(*)) AS {ANSWER}")
    finally:
        sessions.unpersist()


def _statement(parts: Mapping[str, str], whole: str) -> str:
    """Return a statement with its parts as common table expressions."""
    return "WITH " + ",\n".join(f"{name} AS ({text})" for name, text in parts.items()) + whole


def answer_of(row: Mapping[str, int]) -> Answer:
    """Return the verdict that follows from the counts of SQL."""
    counts = {name: row[name] for name in ANOMALIES if row[name]}
    looked_at = ("events", "commits", "reads", "refused_reads", "readers", "recoveries")
    denominators = {name: row[name] for name in looked_at}
    if row["senseless"]:
        return Answer(verdict="UNKNOWN", counts={}, denominators={"events": row["events"]})
    is_vacuous = not counts and row["reads"] == row["recoveries"] == 0
    verdict = "INVALID" if counts else "UNKNOWN" if is_vacuous else "VALID"
    return Answer(verdict=verdict, counts=counts, denominators=denominators)
