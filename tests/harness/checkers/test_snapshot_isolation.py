"""The judge of histories: a pair of a bad and a good history for every rule, and a slow judge that must agree."""

import dataclasses
import itertools
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import pyarrow as pa
import pytest
from brute_force_history import in_order
from depth import nightly
from history_cases import at_the_ends, numbered, small_cases
from hypothesis import given, settings
from hypothesis import strategies as st

from tornproof.harness.checkers import recorded, snapshot_isolation
from tornproof.harness.checkers.rules import RULES
from tornproof.harness.checkers.snapshot_isolation import EXAMPLES_MAX, judge
from tornproof.harness.common.history import SCHEMA, Event, EventKind, to_arrow
from tornproof.harness.common.verdict import Verdict

EXCUSED = "busy"
VERBS = {
    "starts": EventKind.COMMIT_START,
    "acknowledges": EventKind.COMMIT_ACKNOWLEDGED,
    "fails": EventKind.COMMIT_FAILED,
    "reads": EventKind.READ_START,
    "sees": EventKind.READ_END,
    "refused": EventKind.READ_FAILED,
    "pins": EventKind.PIN,
    "unpins": EventKind.UNPIN,
    "killed": EventKind.KILLED,
    "recovers": EventKind.RECOVERED,
}


def history(text: str) -> list[Event]:
    """Read one event a line: client, verb, version or reason, digest; a line that begins with & is at the same time."""
    events, time_ns = [], 0
    for line in text.strip().splitlines():
        same_time, (client, verb, *rest) = line.strip().startswith("&"), line.strip(" &").split()
        time_ns += 0 if same_time else 10
        has_version = bool(rest) and verb != "refused"
        event = Event(
            process="supervisor" if verb == "killed" else client,
            sequence=0,
            client=client,
            kind=VERBS[verb],
            time_ns=time_ns,
            version=int(rest[0]) if has_version else None,
            digest=rest[1] if len(rest) > 1 else None,
            details=rest[0] if verb == "refused" and rest else "",
        )
        events.append(event)
    return numbered(events)


@dataclass(frozen=True, kw_only=True)
class Pair:
    kind: str
    bad: str
    good: str
    seen_survives: bool = True


PAIRS = {
    "a version that nobody wrote": Pair(
        kind="unknown_version",
        bad="w recovers 0 a\n r reads\n r sees 1 b",
        good="w recovers 0 a\n r reads\n r sees 0 a",
    ),
    "a version older than the first one": Pair(
        kind="unknown_version",
        bad="r reads\n r sees 0 a\n w recovers 1 b",
        good="r reads\n r sees 1 b\n w recovers 1 b",
    ),
    "a recovered version that nobody wrote": Pair(
        kind="unknown_version",
        bad="w starts 1 b\n w killed\n w recovers 0 a",
        good="w starts 1 b\n w killed\n w recovers 0",
    ),
    "a mixture of versions": Pair(
        kind="torn_content",
        bad="w recovers 0 a\n r reads\n r sees 0 b",
        good="w recovers 0 b\n r reads\n r sees 0 b",
    ),
    "a recovered mixture": Pair(
        kind="torn_content",
        bad="w starts 1 a\n w killed\n w recovers 1 b",
        good="w starts 1 a\n w killed\n w recovers 1 a",
    ),
    "old rows under a new number": Pair(
        kind="content_of_another_version",
        bad="w recovers 0 a\n w starts 1 b\n r reads\n r sees 1 a",
        good="w recovers 0 a\n w starts 1 a\n r reads\n r sees 1 a",
    ),
    "a read before the commit started": Pair(
        kind="future_read",
        bad="w recovers 0 a\n r reads\n r sees 1 b\n w starts 1 b",
        good="w recovers 0 a\n r reads\n r sees 1 b\n & w starts 1 b",
    ),
    "a read during the commit": Pair(
        kind="future_read",
        bad="w recovers 0 a\n r reads\n r sees 1 b\n w starts 1 b\n w acknowledges 1",
        good="w recovers 0 a\n r reads\n w starts 1 b\n r sees 1 b\n w acknowledges 1",
    ),
    "a read before a commit that a power cut lost": Pair(
        kind="future_read",
        bad="w recovers 0 a\n r reads\n r sees 1 b\n w starts 1 b\n w killed\n w recovers 0",
        good="w recovers 0 a\n r reads\n w starts 1 b\n r sees 1 b\n w killed\n w recovers 0",
        seen_survives=False,
    ),
    "a version that was seen and then lost by a kill": Pair(
        kind="seen_version_lost",
        bad="w recovers 0 a\n w starts 1 b\n r reads\n r sees 1 b\n w killed\n w recovers 0",
        good="w recovers 0 a\n w starts 1 b\n r reads\n r sees 1 b\n w killed\n w recovers 1",
    ),
    "a lost version that comes again with its content": Pair(
        kind="seen_version_lost",
        bad="w starts 1 b\n r reads\n r sees 1 b\n w killed\n w recovers 0\n w starts 1 b\n w acknowledges 1",
        good="w starts 1 b\n r reads\n w killed\n w recovers 0\n w starts 1 b\n r sees 1 b\n w acknowledges 1",
    ),
    "a version that was lost by a power cut and read after it": Pair(
        kind="seen_version_lost",
        bad="w recovers 0 a\n w starts 1 b\n w killed\n w recovers 0\n r reads\n r sees 1 b",
        good="w recovers 0 a\n w starts 1 b\n r reads\n r sees 1 b\n w killed\n w recovers 0",
        seen_survives=False,
    ),
    "a version that was lost by a power cut and read at its end": Pair(
        kind="seen_version_lost",
        bad="w recovers 0 a\n w starts 1 b\n w killed\n w recovers 0\n r reads\n r sees 1 b",
        good="w recovers 0 a\n w starts 1 b\n w killed\n w recovers 0\n & r reads\n r sees 1 b",
        seen_survives=False,
    ),
    "a version that was lost by two power cuts": Pair(
        kind="seen_version_lost",
        bad="w starts 1 b\n w killed\n w recovers 0\n w starts 1 b\n w killed\n w recovers 0\n r reads\n r sees 1 b",
        good="w starts 1 b\n w killed\n w recovers 0\n w starts 1 b\n r reads\n r sees 1 b\n w killed\n w recovers 0",
        seen_survives=False,
    ),
    "a lost version number that is used again": Pair(
        kind="seen_version_lost",
        bad="w starts 1 b\n r reads\n r sees 1 b\n w killed\n w recovers 0\n w starts 1 c",
        good="w starts 1 b\n r reads\n w killed\n w recovers 0\n w starts 1 c\n r sees 1 c",
    ),
    "one version with two contents": Pair(
        kind="two_contents",
        bad="w starts 1 b\n r reads\n r sees 1 b\n w fails\n w starts 1 c",
        good="w starts 1 b\n r reads\n r sees 1 b\n w fails\n w recovers 1\n w starts 2 c",
    ),
    "one version with two contents and a power cut": Pair(
        kind="two_contents",
        bad="w starts 1 b\n r reads\n r sees 1 b\n w fails\n w starts 1 c\n w killed\n w recovers 0",
        good="w starts 1 b\n r reads\n r sees 1 b\n w fails\n w recovers 0\n w starts 1 c\n w killed\n w recovers 0",
        seen_survives=False,
    ),
    "an acknowledged commit that a later reader misses": Pair(
        kind="stale_read",
        bad="w recovers 0 a\n w starts 1 b\n w acknowledges 1\n r reads\n r sees 0 a",
        good="w recovers 0 a\n w starts 1 b\n r reads\n w acknowledges 1\n r sees 0 a",
    ),
    "an acknowledgement at the very time of the start": Pair(
        kind="stale_read",
        bad="w recovers 0 a\n w starts 1 b\n w acknowledges 1\n r reads\n r sees 0 a",
        good="w recovers 0 a\n w starts 1 b\n w acknowledges 1\n & r reads\n r sees 0 a",
    ),
    "a recovered version that a later reader misses": Pair(
        kind="stale_read",
        bad="w recovers 0 a\n w starts 1 b\n w killed\n w recovers 1\n r reads\n r sees 0 a",
        good="w recovers 0 a\n w starts 1 b\n w killed\n w recovers 0\n r reads\n r sees 0 a",
    ),
    "a new snapshot that is pinned too old": Pair(
        kind="stale_read",
        bad="w recovers 0 a\n w starts 1 b\n w acknowledges 1\n r reads\n r pins 0\n r sees 0 a",
        good="w recovers 0 a\n w starts 1 b\n r reads\n r pins 0\n w acknowledges 1\n r sees 0 a",
    ),
    "an old snapshot that is read on after its pin": Pair(
        kind="stale_read",
        bad="w recovers 0 a\n r reads\n r pins 0\n r sees 0 a\n r unpins\n"
        "w starts 1 b\n w acknowledges 1\n r reads\n r sees 0 a",
        good="w recovers 0 a\n r reads\n r pins 0\n r sees 0 a\n"
        "w starts 1 b\n w acknowledges 1\n r reads\n r sees 0 a\n r unpins",
    ),
    "a version that another reader had seen": Pair(
        kind="seen_version_missed",
        bad="w recovers 1 a\n w starts 2 b\n a reads\n a sees 2 b\n b reads\n b sees 1 a\n w acknowledges 2",
        good="w recovers 1 a\n w starts 2 b\n a reads\n a sees 2 b\n b reads\n b sees 2 b\n w acknowledges 2",
    ),
    "readers that overlap": Pair(
        kind="seen_version_missed",
        bad="w recovers 0 a\n w starts 1 b\n p reads\n p sees 1 b\n q reads\n q sees 1 b\n r reads\n r sees 0 a",
        good="w recovers 0 a\n w starts 1 b\n p reads\n q reads\n r reads\n p sees 1 b\n q sees 0 a\n r sees 1 b",
    ),
    "a read that begins at the time at which another ends": Pair(
        kind="seen_version_missed",
        bad="w recovers 1 a\n w starts 2 b\n a reads\n a sees 2 b\n b reads\n b sees 1 a",
        good="w recovers 1 a\n w starts 2 b\n a reads\n a sees 2 b\n & b reads\n b sees 1 a",
    ),
    "an acknowledgement between two readers": Pair(
        kind="stale_read",
        bad="w recovers 1 a\n w starts 2 b\n a reads\n a sees 2 b\n w acknowledges 2\n b reads\n b sees 1 a",
        good="w recovers 1 a\n w starts 2 b\n b reads\n a reads\n a sees 2 b\n w acknowledges 2\n b sees 1 a",
    ),
    "a version that is acknowledged at the time at which a reader sees it": Pair(
        kind="stale_read",
        bad="w recovers 1 a\n w starts 2 b\n a reads\n a sees 2 b\n & w acknowledges 2\n b reads\n b sees 1 a",
        good="w recovers 1 a\n w starts 2 b\n a reads\n a sees 2 b\n & w acknowledges 2\n & b reads\n b sees 1 a",
    ),
    "a version that a dead reader had seen": Pair(
        kind="seen_version_missed",
        bad="w recovers 0 a\n w starts 1 b\n r reads\n r sees 1 b\n r killed\n r reads\n r sees 0 a",
        good="w recovers 0 a\n w starts 1 b\n r reads\n r killed\n r reads\n r sees 0 a",
    ),
    "a version that a failed read may have seen": Pair(
        kind="seen_version_missed",
        bad="w recovers 0 a\n w starts 1 b\n q reads\n q sees 1 b\n r reads\n r sees 0 a",
        good=f"w recovers 0 a\n w starts 1 b\n q reads\n q refused {EXCUSED}\n r reads\n r sees 0 a",
    ),
    "a snapshot that is pinned older than what another reader saw": Pair(
        kind="seen_version_missed",
        bad="w recovers 0 a\n w starts 1 b\n q reads\n q sees 1 b\n r reads\n r pins 0\n r sees 0 a",
        good="w recovers 0 a\n r reads\n r pins 0\n r sees 0 a\n"
        "w starts 1 b\n q reads\n q sees 1 b\n r reads\n r sees 0 a",
    ),
    "a version that was seen in a pinned snapshot": Pair(
        kind="seen_version_missed",
        bad="w recovers 0 a\n w starts 1 b\n q reads\n q pins 1\n q sees 1 b\n r reads\n r sees 0 a",
        good="w recovers 0 a\n w starts 1 b\n q reads\n q pins 1\n r reads\n q sees 1 b\n r sees 0 a",
    ),
    "a version that was seen, lost by a power cut and committed again": Pair(
        kind="seen_version_missed",
        bad="w starts 1 a\n w acknowledges 1\n w starts 2 b\n q reads\n q sees 2 b\n w killed\n w recovers 1\n"
        "w starts 2 b\n q reads\n q sees 2 b\n r reads\n r sees 1 a",
        good="w starts 1 a\n w acknowledges 1\n w starts 2 b\n q reads\n q sees 2 b\n w killed\n w recovers 1\n"
        "w starts 2 b\n r reads\n r sees 1 a",
        seen_survives=False,
    ),
    "a version that was seen and then lost by a power cut": Pair(
        kind="seen_version_missed",
        bad="w recovers 0 a\n w starts 1 b\n q reads\n q sees 1 b\n r reads\n r sees 0 a\n w killed\n w recovers 1",
        good="w recovers 0 a\n w starts 1 b\n q reads\n q sees 1 b\n r reads\n r sees 0 a\n w killed\n w recovers 0",
        seen_survives=False,
    ),
    "a reader that goes back": Pair(
        kind="went_back",
        bad="w recovers 0 a\n w starts 1 b\n r reads\n r sees 1 b\n r reads\n r sees 0 a",
        good="w recovers 0 a\n w starts 1 b\n r reads\n q reads\n r sees 1 b\n q sees 0 a",
    ),
    "a reader that goes back within one time": Pair(
        kind="went_back",
        bad="w recovers 0 a\n w starts 1 b\n r reads\n r sees 1 b\n & r reads\n r sees 0 a",
        good="w recovers 0 a\n w starts 1 b\n q reads\n q sees 1 b\n & r reads\n r sees 0 a",
    ),
    "a reader that lives on": Pair(
        kind="went_back",
        bad="w recovers 0 a\n w starts 1 b\n r reads\n r sees 1 b\n w killed\n w recovers 0\n"
        "q killed\n r reads\n r sees 0 a",
        good="w recovers 0 a\n w starts 1 b\n r reads\n r sees 1 b\n w killed\n w recovers 0\n"
        "r killed\n r reads\n r sees 0 a",
        seen_survives=False,
    ),
    "a pinned snapshot that moves": Pair(
        kind="pin_moved",
        bad="w recovers 0 a\n w starts 1 b\n r reads\n r pins 0\n r sees 1 b",
        good="w recovers 0 a\n w starts 1 b\n r reads\n r pins 1\n r sees 1 b",
    ),
    "a pinned snapshot that moves when it is read again": Pair(
        kind="pin_moved",
        bad="w recovers 0 a\n w starts 1 b\n r reads\n r pins 0\n r sees 0 a\n r reads\n r sees 1 b",
        good="w recovers 0 a\n w starts 1 b\n r reads\n r pins 0\n r sees 0 a\n r unpins\n r reads\n r sees 1 b",
    ),
    "a pinned snapshot that cannot be read": Pair(
        kind="pinned_read_refused",
        bad=f"w recovers 0 a\n q reads\n q sees 0 a\n r reads\n r pins 0\n r refused {EXCUSED}",
        good=f"w recovers 0 a\n q reads\n q sees 0 a\n r reads\n r refused {EXCUSED}",
    ),
    "a pinned snapshot that cannot be read, for a reason that excuses nothing": Pair(
        kind="pinned_read_refused",
        bad="w recovers 0 a\n q reads\n q sees 0 a\n r reads\n r pins 0\n r refused short",
        good="w recovers 0 a\n q reads\n q sees 0 a\n r reads\n r pins 0\n r sees 0 a",
    ),
    "a pin that died with its reader": Pair(
        kind="pinned_read_refused",
        bad=f"w recovers 0 a\n r reads\n r pins 0\n r sees 0 a\n r reads\n r refused {EXCUSED}",
        good=f"w recovers 0 a\n r reads\n r pins 0\n r sees 0 a\n r killed\n r reads\n r refused {EXCUSED}",
    ),
    "a refused read": Pair(
        kind="refused_read",
        bad="w recovers 0 a\n q reads\n q sees 0 a\n r reads\n r refused short",
        good=f"w recovers 0 a\n q reads\n q sees 0 a\n r reads\n r refused {EXCUSED}",
    ),
    "a read that fails without a reason": Pair(
        kind="refused_read",
        bad="w recovers 0 a\n q reads\n q sees 0 a\n r reads\n r refused",
        good="w recovers 0 a\n q reads\n q sees 0 a\n r reads\n r killed",
    ),
    "an acknowledged commit that recovery loses": Pair(
        kind="acknowledged_version_lost",
        bad="w recovers 0 a\n w starts 1 b\n w acknowledges 1\n w recovers 0 a",
        good="w recovers 0 a\n w starts 1 b\n w fails\n w recovers 0 a",
    ),
    "a recovery that finds less than the one before": Pair(
        kind="acknowledged_version_lost",
        bad="w starts 1 b\n w fails\n w recovers 1\n w recovers 0",
        good="w starts 1 b\n w fails\n w recovers 1\n w recovers 1",
    ),
    "a recovery that finds less than the history began with": Pair(
        kind="acknowledged_version_lost",
        bad="w recovers 1 a\n w recovers 0",
        good="w recovers 1 a\n w recovers 1",
    ),
    "a recovery that finds less than the first version": Pair(
        kind="acknowledged_version_lost",
        bad="w starts 1 b\n w fails\n w recovers -1",
        good="w starts 1 b\n w fails\n w recovers 0",
    ),
    "a recovery that finds a commit that never started": Pair(
        kind="recovered_too_new",
        bad="w recovers 0 a\n w recovers 1",
        good="w recovers 0 a\n w starts 1 b\n w fails\n w recovers 1",
    ),
    "a recovery that finds what the one before did not": Pair(
        kind="recovered_too_new",
        bad="w recovers 0 a\n w starts 1 b\n w killed\n w recovers 0\n w recovers 1",
        good="w recovers 0 a\n w starts 1 b\n w killed\n w recovers 1\n w recovers 1",
    ),
    "a version number that is left out": Pair(
        kind="version_not_next",
        bad="w recovers 0 a\n w starts 2 b\n r reads\n r sees 0 a",
        good="w recovers 0 a\n w starts 1 b\n r reads\n r sees 0 a",
    ),
    "a version number that is left out and then used": Pair(
        kind="version_not_next",
        bad="w recovers 0 a\n w starts 2 c\n w fails\n w starts 1 b\n r reads\n r sees 1 b",
        good="w recovers 0 a\n w starts 1 c\n w fails\n w starts 1 b\n r reads\n r sees 1 b",
    ),
    "an acknowledged version number that is used again": Pair(
        kind="version_not_next",
        bad="w starts 1 b\n w acknowledges 1\n w starts 1 c\n r reads\n r sees 1 c",
        good="w starts 1 b\n w fails\n w starts 1 c\n r reads\n r sees 1 c",
    ),
    "a commit that returns another number and the one after it": Pair(
        kind="acknowledged_as_another",
        bad="w recovers 0 a\n w starts 1 b\n w acknowledges 2\n w starts 2 c\n r reads\n r sees 2 c",
        good="w recovers 0 a\n w starts 1 b\n w acknowledges 1\n w starts 2 c\n r reads\n r sees 2 c",
    ),
    "a commit that returns another number": Pair(
        kind="acknowledged_as_another",
        bad="w recovers 0 a\n w starts 1 b\n w acknowledges 2\n r reads\n r sees 1 b",
        good="w recovers 0 a\n w starts 1 b\n w acknowledges 1\n r reads\n r sees 1 b",
    ),
}

each_pair = pytest.mark.parametrize("pair", PAIRS.values(), ids=PAIRS)


def verdict_of(events: Sequence[Event], *, seen_survives: bool = True) -> snapshot_isolation.Judgement:
    return judge(to_arrow(events), excused=[EXCUSED], seen_survives=seen_survives)


@each_pair
def test_the_bad_history_of_a_pair_is_rejected_for_one_reason(pair: Pair) -> None:
    judgement = verdict_of(history(pair.bad), seen_survives=pair.seen_survives)
    assert (judgement.verdict, judgement.counts) == (Verdict.INVALID, {pair.kind: 1})


@each_pair
def test_the_good_history_of_a_pair_is_accepted(pair: Pair) -> None:
    judgement = verdict_of(history(pair.good), seen_survives=pair.seen_survives)
    assert (judgement.verdict, judgement.anomalies, judgement.counts) == (Verdict.VALID, (), {})


@each_pair
def test_without_its_rule_the_bad_history_is_not_noticed(pair: Pair, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delitem(RULES, pair.kind)
    assert verdict_of(history(pair.bad), seen_survives=pair.seen_survives).verdict is Verdict.VALID


@each_pair
def test_the_slow_judge_agrees_on_both_histories_of_a_pair(pair: Pair) -> None:
    assert slow_verdict(history(pair.bad), seen_survives=pair.seen_survives) is Verdict.INVALID
    assert slow_verdict(history(pair.good), seen_survives=pair.seen_survives) is Verdict.VALID


def test_every_rule_has_a_pair() -> None:
    assert {pair.kind for pair in PAIRS.values()} == set(RULES)


MALFORMED = {
    "": "nothing was read and nothing recovered",
    "w recovers 0 a": "nothing was read and nothing recovered",
    f"w recovers 0 a\n r reads\n r refused {EXCUSED}": "nothing was read and nothing recovered",
    "r sees 0 a": "event 0 of process r (read_end of r) has no start",
    "w recovers 0 a\n q reads\n r sees 0 a": "event 0 of process r (read_end of r) has no start",
    "r refused": "(read_failed of r) has no start",
    "r reads\n r reads": "(read_start of r) stands inside of a read of this client",
    "r reads\n r killed\n r sees 0 a": "(read_end of r) has no start",
    "r pins 0": "(pin of r) stands outside of a read",
    "q reads\n r pins 0": "(pin of r) stands outside of a read",
    "r reads\n r pins 0\n r pins 0": "(pin of r) is a second pin of this client",
    "r unpins": "(unpin of r) has no pin",
    "r reads\n r pins 0\n r unpins": "(unpin of r) stands inside of a read",
    "r reads\n r pins 0\n r killed\n r unpins": "(unpin of r) has no pin",
    "w acknowledges 1": "(commit_acknowledged of w) has no start",
    "w starts 1 a\n w acknowledges 1\n w acknowledges 1": "(commit_acknowledged of w) has no start",
    "w starts 1 a\n v acknowledges 1": "(commit_acknowledged of v) has no start",
    "w starts 1 a\n v fails": "(commit_failed of v) has no start",
    "w starts 1 a\n w fails\n w fails": "(commit_failed of w) has no start",
    "w starts 1 a\n w starts 2 b": "(commit_start of w) stands inside of another commit",
    "w starts 1 a\n v starts 2 b": "(commit_start of v) stands inside of another commit",
    "w starts 1 a\n w recovers 1": "(recovered of w) stands inside of a commit",
    "w starts 1 a\n w killed\n v starts 2 b": "(commit_start of v) follows the death of the writer without a recovery",
    "w starts 1 a\n w acknowledges 1\n w killed\n v starts 2 b": "(commit_start of v) follows the death of the writer",
    "w recovers 0 a\n w killed\n w starts 1 b": "(commit_start of w) follows the death of the writer",
    "w recovers 0": "(recovered of w) is the first of all, so it needs the digest",
    "w starts 1": "(commit_start of w) has no digest",
    "w starts": "(commit_start of w) has no version",
    "w starts 1 a\n w acknowledges": "(commit_acknowledged of w) has no version",
    "r reads\n r sees 1": "(read_end of r) has no digest",
    "r reads\n r sees": "(read_end of r) has no version",
    "r reads\n r pins": "(pin of r) has no version",
    "w recovers": "(recovered of w) has no version",
}


@pytest.mark.parametrize(("text", "reason"), MALFORMED.items())
def test_a_history_that_cannot_be_judged_is_unknown_and_says_why(text: str, reason: str) -> None:
    judgement = verdict_of(history(text))
    assert judgement.verdict is Verdict.UNKNOWN
    assert reason in judgement.reason
    assert slow_verdict(history(text)) is Verdict.UNKNOWN


@pytest.mark.parametrize(
    ("column", "value", "reason"),
    [
        ("time_ns", [10, 30, 20], "event 1 of process r (read_end of r) is earlier than the one before it"),
        ("sequence", [0, 0, 2], "event 2 of process r (read_end of r) is not the next one"),
        ("sequence", [0, 0, 0], "is not the next one of its process"),
        ("sequence", [0, 1, 2], "event 1 of process r (read_start of r) is not the next one"),
        ("kind", ["recovered", "read_start", "dance"], "an event is of an unknown kind"),
        ("kind", ["recovered", "read_start", None], "an event has no kind"),
        ("client", ["w", "r", None], "an event has no client"),
        ("time_ns", [10, 20, None], "an event has no time_ns"),
    ],
)
def test_events_that_are_missing_or_out_of_order_are_unknown(column: str, value: list[object], reason: str) -> None:
    good = to_arrow(history("w recovers 0 a\n r reads\n r sees 0 a"))
    assert judge(good).verdict is Verdict.VALID
    index = SCHEMA.get_field_index(column)
    judgement = judge(good.set_column(index, column, pa.array(value, SCHEMA.field(index).type)))
    assert judgement.verdict is Verdict.UNKNOWN
    assert reason in judgement.reason
    assert judgement.denominators == {"events": 3}


@each_pair
def test_the_order_of_rows_and_the_chunks_of_the_table_do_not_matter(pair: Pair) -> None:
    for text in (pair.bad, pair.good):
        table = to_arrow(history(text))
        backwards = pa.concat_tables([table.slice(index, 1) for index in reversed(range(len(table)))])
        assert judge(backwards, excused=[EXCUSED]) == judge(table, excused=[EXCUSED])


@pytest.mark.parametrize(
    ("text", "verdict"),
    [
        pytest.param("w recovers 0 a\n r reads\n & r sees 0 a", Verdict.VALID, id="of one process"),
        pytest.param(
            "a starts 1 x\n a acknowledges 1\n & b starts 2 y\n r reads\n r sees 1 x", Verdict.VALID, id="a, b"
        ),
        pytest.param(
            "b starts 1 x\n b acknowledges 1\n & a starts 2 y\n r reads\n r sees 1 x", Verdict.VALID, id="b, a"
        ),
    ],
)
def test_events_of_one_time_are_in_the_order_in_which_they_can_have_happened(text: str, verdict: Verdict) -> None:
    table = to_arrow(history(text))
    assert judge(table).verdict is verdict
    assert judge(table.take(list(reversed(range(len(table)))))) == judge(table)
    assert slow_verdict(history(text)) is verdict


TIES = {
    "a start and the death": "w recovers 0 a\n w starts 1 b\n & w killed\n v recovers 1 b\n r reads\n r sees 1 b",
    "a death and a recovery": "w recovers 0 a\n w starts 1 b\n w killed\n & v recovers 0 a\n v starts 1 c",
    "a start, the death, a recovery and a start": "w recovers 0 a\n w starts 1 b\n & w killed\n & v recovers 1 b\n"
    " & v starts 2 c\n v acknowledges 2\n r reads\n r sees 2 c",
    "an acknowledgement and a start": "w starts 1 x\n w acknowledges 1\n & v starts 2 y\n r reads\n r sees 1 x",
    "an acknowledgement and the death": "w recovers 0 a\n w starts 1 b\n w acknowledges 1\n & w killed\n"
    " v recovers 1 b",
    "the end of a read and the death": "w recovers 0 a\n r reads\n r sees 0 a\n & r killed",
    "the start of a read and the death": "w recovers 0 a\n r reads\n & r killed\n r reads\n r sees 0 a",
    "a pin and the death": "w recovers 0 a\n r reads\n r pins 0\n & r killed\n r reads\n r sees 0 a",
}


@pytest.mark.parametrize("text", TIES.values(), ids=TIES)
def test_neither_names_of_processes_nor_the_order_of_rows_decide_what_was_first_at_one_time(text: str) -> None:
    # A death was ordered by the name of the process that recorded it, so that a commit was in vain or never ended.
    events = history(text)
    names = list(dict.fromkeys(event.process for event in events))
    expected = verdict_of(events)
    assert expected.verdict is Verdict.VALID
    for renamed in itertools.permutations(names):
        new = dict(zip(names, renamed, strict=True))
        others = [dataclasses.replace(event, process=new[event.process]) for event in reversed(events)]
        assert (verdict_of(others), slow_verdict(others)) == (expected, Verdict.VALID)


def test_a_death_is_that_of_its_reader_in_whatever_order_readers_appear() -> None:
    reads = {name: f"{name} reads\n {name} sees 0 a" for name in "pqr"}
    reads["q"] = f"q reads\n q killed\n {reads['q']}"
    for order in itertools.permutations(reads):
        events = history("\n".join(["w recovers 0 a", *map(reads.__getitem__, order)]))
        assert verdict_of(events).verdict is slow_verdict(events) is Verdict.VALID


def test_times_and_versions_at_the_ends_of_their_range_change_no_judgement() -> None:
    """A version of 2^63 - 1 that was seen was unknown to the judge."""
    cases = small_cases(120)
    found = [judge(to_arrow(at_the_ends(case, number).events), excused=[EXCUSED]) for number, case in enumerate(cases)]
    expected = [judge(to_arrow(case.events), excused=[EXCUSED]) for case in cases]
    assert [(each.verdict, each.counts) for each in found] == [(each.verdict, each.counts) for each in expected]


def test_a_failed_read_counts_even_where_nothing_else_was_observed() -> None:
    judgement = verdict_of(history("w recovers 0 a\n r reads\n r refused short"))
    assert (judgement.verdict, judgement.reason) == (Verdict.INVALID, "")


def test_an_anomaly_has_a_sentence_and_its_events() -> None:
    events = history(PAIRS["an acknowledged commit that a later reader misses"].bad)
    (anomaly,) = verdict_of(events).anomalies
    assert anomaly.kind == "stale_read"
    assert anomaly.sentence == "r read version 0 although version 1 was there before it began"
    assert anomaly.events == tuple(to_arrow([events[index] for index in (3, 4, 2)]).to_pylist())


def test_an_anomaly_between_readers_names_the_one_that_first_saw_the_newest_version() -> None:
    text = """w recovers 0 a
    w starts 1 b
    p reads
    p sees 1 b
    w acknowledges 1
    w starts 2 c
    w fails
    w recovers 2
    w starts 3 d
    r reads
    q reads
    q sees 3 d
    & r sees 3 d
    p reads
    p sees 2 c"""
    events = history(text)
    (anomaly,) = verdict_of(events).anomalies
    assert anomaly.sentence == "p read version 2 although q had read version 3 before it began"
    assert anomaly.events == tuple(to_arrow([events[index] for index in (13, 14, 11)]).to_pylist())


@each_pair
def test_the_sentence_of_an_anomaly_is_complete(pair: Pair) -> None:
    (anomaly,) = verdict_of(history(pair.bad), seen_survives=pair.seen_survives).anomalies
    assert len({(event["process"], event["sequence"]) for event in anomaly.events}) == len(anomaly.events) > 0
    assert "None" not in anomaly.sentence
    assert "{" not in anomaly.sentence


def test_anomalies_are_all_counted_and_the_first_ones_shown() -> None:
    judgement = verdict_of(history("w recovers 0 a\n" + "r reads\n r sees 0 b\n q reads\n q sees 0 b\n" * EXAMPLES_MAX))
    assert judgement.counts == {"torn_content": 2 * EXAMPLES_MAX}
    times = [anomaly.events[0]["time_ns"] for anomaly in judgement.anomalies]
    assert times == [10 + 20 * count for count in range(1, EXAMPLES_MAX + 1)]


def test_what_was_checked_is_counted() -> None:
    text = f"""w recovers 0 a
    w starts 1 b
    w acknowledges 1
    r reads
    r pins 1
    r sees 1 b
    r reads
    r sees 1 b
    q reads
    q refused {EXCUSED}
    w starts 2 c
    w fails
    w starts 2 d
    w killed
    v recovers 2 d"""
    assert verdict_of(history(text)).denominators == {
        "events": 15,
        "reads": 2,
        "refused_reads": 1,
        "reads_of_older_snapshots": 1,
        "readers": 2,
        "commits": 3,
        "acknowledged_commits": 1,
        "failed_commits": 1,
        "pins": 1,
        "kills": 1,
        "recoveries": 1,
    }


def test_the_judge_and_the_schema_name_the_same_kinds() -> None:
    assert list(EventKind) == list(recorded.KINDS)


# The slow judge: every rule again, as a sentence over all events, tried with every outcome of every commit.


@dataclass(frozen=True)
class Try:
    position: int
    version: int
    digest: str | None
    time_ns: float
    acknowledged: bool = False


@dataclass(frozen=True)
class SlowRead:
    start: int
    end: int
    pin: int | None
    session: tuple[str, int]


class NonsenseError(Exception):
    pass


def require(truth: bool) -> None:
    if not truth:
        raise NonsenseError


def slow_verdict(events: Sequence[Event], *, seen_survives: bool = True) -> Verdict:
    events = in_order(events)
    try:
        check_processes(events)
        reads, tries = slow_reads(events), slow_tries(events)
    except NonsenseError:
        return Verdict.UNKNOWN
    good = slow_reads_are_good(events, reads, tries) and any(
        outcome_is_good(events, reads, tries, set(itertools.compress(tries, kept)), seen_survives)
        for kept in itertools.product([True, False], repeat=len(tries))
    )
    recoveries = [
        event for event in events if event.kind is EventKind.RECOVERED and tries[0].position != events.index(event)
    ]
    successful = [read for read in reads if events[read.end].kind is EventKind.READ_END]
    if good and not recoveries and not successful:
        return Verdict.UNKNOWN
    return Verdict.VALID if good else Verdict.INVALID


def check_processes(events: Sequence[Event]) -> None:
    for process in {event.process for event in events}:
        own = sorted((event for event in events if event.process == process), key=lambda event: event.sequence)
        require([event.sequence for event in own] == list(range(len(own))))
        require([event.time_ns for event in own] == sorted(event.time_ns for event in own))
    for event in events:
        if event.kind in {EventKind.COMMIT_START, EventKind.READ_END}:
            require(event.digest is not None)
        if event.kind in {
            EventKind.COMMIT_START,
            EventKind.COMMIT_ACKNOWLEDGED,
            EventKind.READ_END,
            EventKind.PIN,
            EventKind.RECOVERED,
        }:
            require(event.version is not None)


def slow_reads(events: Sequence[Event]) -> list[SlowRead]:
    """Run a small automaton for every client."""
    reads = []
    for client in {event.client for event in events}:
        start: int | None = None
        pin: int | None = None
        session = 0
        for position, event in enumerate(events):
            if event.client != client:
                continue
            match event.kind:
                case EventKind.READ_START:
                    require(start is None)
                    start = position
                case EventKind.READ_END | EventKind.READ_FAILED:
                    if start is None:
                        raise NonsenseError
                    reads.append(SlowRead(start, position, pin, (client, session)))
                    start = None
                case EventKind.PIN:
                    require(start is not None and pin is None)
                    pin = position
                case EventKind.UNPIN:
                    require(start is None and pin is not None)
                    pin = None
                case EventKind.KILLED:
                    start, pin, session = None, None, session + 1
    return reads


def slow_tries(events: Sequence[Event]) -> list[Try]:
    """Return the attempts, including the version before the first of them."""
    tries: list[Try] = []
    current: tuple[str, int] | None = None
    writer, must_recover = "", False
    for position, event in enumerate(events):
        match event.kind:
            case EventKind.COMMIT_START:
                require(current is None and not must_recover)
                assert event.version is not None
                if not tries:
                    tries.append(Try(-1, event.version - 1, None, float("-inf"), acknowledged=True))
                tries.append(Try(position, event.version, event.digest, event.time_ns))
                current, writer = (event.client, len(tries) - 1), event.client
            case EventKind.COMMIT_ACKNOWLEDGED | EventKind.COMMIT_FAILED:
                if current is None:
                    raise NonsenseError
                require(current[0] == event.client)
                if event.kind is EventKind.COMMIT_ACKNOWLEDGED:
                    tries[current[1]] = dataclasses.replace(tries[current[1]], acknowledged=True)
                current = None
            case EventKind.RECOVERED:
                require(current is None and (bool(tries) or event.digest is not None))
                assert event.version is not None
                if not tries:
                    tries.append(Try(position, event.version, event.digest, float("-inf"), acknowledged=True))
                writer, must_recover = event.client, False
            case EventKind.KILLED if tries and event.client == writer:
                current, must_recover = None, True
    return tries


def settled_by(events: Sequence[Event], tries: Sequence[Try]) -> Iterator[tuple[int, int]]:
    """Yield the acknowledgements and recoveries with their versions, which must stay."""
    for position, event in enumerate(events):
        if event.kind is EventKind.RECOVERED:
            assert event.version is not None
            yield position, event.version
        if event.kind is EventKind.COMMIT_ACKNOWLEDGED:
            yield (
                position,
                max((each for each in tries if each.position < position), key=lambda each: each.position).version,
            )


def version_at(events: Sequence[Event], position: int) -> int:
    version = events[position].version
    assert version is not None
    return version


def slow_reads_are_good(events: Sequence[Event], reads: Sequence[SlowRead], tries: Sequence[Try]) -> bool:
    settled = list(settled_by(events, tries))
    failed = [read for read in reads if events[read.end].kind is EventKind.READ_FAILED]
    successful = [read for read in reads if read not in failed]
    return (
        all(read.pin is None and events[read.end].details == EXCUSED for read in failed)
        and all(read.pin is None or version_at(events, read.end) == version_at(events, read.pin) for read in successful)
        and all(
            version_at(events, read.end) >= version
            for read in successful
            for position, version in settled
            if read.pin is None or read.pin > read.start
            if events[position].time_ns < events[read.start].time_ns
        )
        and all(
            version_at(events, first.end) <= version_at(events, second.end)
            for first, second in itertools.permutations(successful, 2)
            if first.session == second.session and first.end < second.end
        )
        and all(
            events[position].version == version
            for position, version in settled
            if events[position].kind is EventKind.COMMIT_ACKNOWLEDGED
        )
        and all(
            each.version == 1 + max([(-1, tries[0].version), *(item for item in settled if item[0] < each.position)])[1]
            for each in tries[1:]
        )
    )


def outcome_is_good(
    events: Sequence[Event], reads: Sequence[SlowRead], tries: Sequence[Try], kept: set[Try], seen_survives: bool
) -> bool:
    """Return whether exactly the attempts `kept` may have been committed and have stayed."""
    recoveries = [
        position
        for position, event in enumerate(events)
        if event.kind is EventKind.RECOVERED and position != tries[0].position
    ]

    successful = [read for read in reads if events[read.end].kind is EventKind.READ_END]

    def may_have_been_seen(each: Try, position: int) -> bool:
        event = events[position]
        return (each.version, each.digest) == (event.version, event.digest) and each.time_ns <= event.time_ns

    def is_visible(position: int, since_ns: int) -> bool:
        return any(
            may_have_been_seen(each, position)
            and (each in kept or (not seen_survives and was_lost_after(each, since_ns)))
            for each in tries
        )

    def saw_what_stays(read: SlowRead) -> bool:
        return any(each in kept and may_have_been_seen(each, read.end) for each in tries)

    def was_lost_after(lost: Try, since_ns: int) -> bool:
        again = min(
            (each.position for each in tries if each.version == lost.version and each.position > lost.position),
            default=len(events),
        )
        losses = [
            position
            for position in recoveries
            if lost.position < position and version_at(events, position) < lost.version
        ]
        return bool(losses) and losses[0] < again and since_ns <= events[losses[0]].time_ns

    return (
        all(each in kept for each in tries if each.acknowledged)
        and all(
            first.version < second.version for first in kept for second in tries if first.position < second.position
        )
        and all(
            max(each.version for each in kept if each.position < position) == version_at(events, position)
            for position in recoveries
        )
        and all(
            events[position].digest is None or is_visible(position, events[position].time_ns) for position in recoveries
        )
        and all(is_visible(read.end, events[read.start].time_ns) for read in successful)
        and all(
            version_at(events, first.end) <= version_at(events, second.end)
            for first, second in itertools.permutations(successful, 2)
            if events[first.end].time_ns < events[second.start].time_ns
            if (second.pin is None or second.pin > second.start) and saw_what_stays(first)
        )
    )


class Table:
    """A correct table: it does what is possible of the actions, and records what happened."""

    def __init__(self) -> None:
        self.lines = ["w recovers 0 a"]
        self.visible = (0, "a")
        self.started: tuple[int, str] | None = None
        self.must_recover = False
        self.before: dict[str, tuple[int, str]] = {}
        self.pinned: dict[str, tuple[int, str]] = {}

    def do(self, action: str, reader: str, digest: str) -> None:
        getattr(self, action)(reader, digest)

    def start(self, _: str, digest: str) -> None:
        if self.started is None and not self.must_recover:
            self.started = (self.visible[0] + 1, digest)
            self.lines.append(f"w starts {self.started[0]} {digest}")

    def store(self, *_: str) -> None:
        self.visible = self.started or self.visible

    def acknowledge(self, *_: str) -> None:
        if self.started is not None:
            self.lines.append(f"w acknowledges {self.started[0]}")
            self.visible, self.started = self.started, None

    def fail(self, *_: str) -> None:
        if self.started is not None:
            self.lines.append("w fails")
            self.must_recover = self.visible == self.started
            self.started = None

    def kill_writer(self, *_: str) -> None:
        self.lines.append("w killed")
        self.started, self.must_recover = None, True

    def recover(self, _: str, digest: str) -> None:
        if self.started is None:
            self.must_recover = False
            self.lines.append(f"w recovers {self.visible[0]} {self.visible[1] if digest == 'b' else ''}")

    def read(self, reader: str, _: str) -> None:
        if reader not in self.before:
            self.before[reader] = self.visible
            self.lines.append(f"{reader} reads")

    def pin(self, reader: str, _: str) -> None:
        if reader in self.before and reader not in self.pinned:
            self.pinned[reader] = self.visible
            self.lines.append(f"{reader} pins {self.visible[0]}")

    def see(self, reader: str, digest: str) -> None:
        if reader in self.before:
            before = self.before.pop(reader)
            version, content = self.pinned.get(reader) or (before if digest == "b" else self.visible)
            self.lines.append(f"{reader} sees {version} {content}")

    def reject(self, reader: str, _: str) -> None:
        if reader in self.before and reader not in self.pinned:
            del self.before[reader]
            self.lines.append(f"{reader} refused {EXCUSED}")

    def unpin(self, reader: str, _: str) -> None:
        if reader in self.pinned and reader not in self.before:
            del self.pinned[reader]
            self.lines.append(f"{reader} unpins")

    def kill_reader(self, reader: str, _: str) -> None:
        self.before.pop(reader, None)
        self.pinned.pop(reader, None)
        self.lines.append(f"{reader} killed")


ACTIONS = [
    *("start", "start", "store", "store", "acknowledge", "acknowledge", "fail", "kill_writer", "recover", "recover"),
    *("read", "read", "read", "see", "see", "see", "pin", "unpin", "reject", "kill_reader"),
]
OPERATIONS = st.tuples(st.sampled_from(ACTIONS), st.sampled_from("rq"), st.sampled_from("bc"))
CHANGES = st.tuples(
    st.sampled_from(["version", "digest", "kind", "client", "time", "delete", "swap", "repeat"]),
    st.integers(0, 30),
    st.integers(0, 9),
)


def correct_history(operations: Sequence[tuple[str, str, str]]) -> list[Event]:
    table = Table()
    for operation in operations:
        table.do(*operation)
    return history("\n".join(table.lines))


def changed(events: list[Event], what: str, index: int, amount: int) -> list[Event]:
    """Change one event; the numbers of a process stay complete and its times in order."""
    position = index % len(events)
    before, event, after = events[:position], events[position], events[position + 1 :]
    match what:
        case "version" if event.version is not None:
            event = dataclasses.replace(event, version=event.version + (1 if amount % 2 else -1))
        case "digest" if event.digest is not None:
            event = dataclasses.replace(event, digest="abcd"[amount % 4])
        case "kind":
            event = dataclasses.replace(event, kind=list(EventKind)[amount])
        case "client":
            event = dataclasses.replace(event, client="wrq"[amount % 3])
        case "time" if before:
            event = dataclasses.replace(event, time_ns=before[-1].time_ns)
        case "delete":
            return numbered(before + after) or events
        case "swap" if after:
            other = after[0]
            swapped = [
                dataclasses.replace(other, time_ns=event.time_ns),
                dataclasses.replace(event, time_ns=other.time_ns),
            ]
            return numbered(before + swapped + after[1:])
        case "repeat":
            return numbered([*before, event, event, *after])
    return numbered([*before, event, *after])


@settings(max_examples=50)
@given(operations=st.lists(OPERATIONS, min_size=8, max_size=30))
def test_both_judges_accept_the_histories_of_a_correct_table(operations: list[tuple[str, str, str]]) -> None:
    events = correct_history(operations)
    assert slow_verdict(events) is verdict_of(events).verdict
    assert verdict_of(events).verdict in {Verdict.VALID, Verdict.UNKNOWN}
    assert (verdict_of(events).verdict is Verdict.VALID) == any(
        event.kind is EventKind.READ_END or (event.kind is EventKind.RECOVERED and index > 0)
        for index, event in enumerate(events)
    )


@pytest.mark.parametrize(("example_count", "least"), [(120, 10), nightly(600, 50)])
def test_both_judges_agree_on_changed_histories_of_every_verdict(example_count: int, least: int) -> None:
    verdicts: Counter[Verdict] = Counter()

    @settings(max_examples=example_count)
    @given(
        operations=st.lists(OPERATIONS, min_size=8, max_size=30),
        changes=st.lists(CHANGES, min_size=1, max_size=3),
        seen_survives=st.booleans(),
    )
    def agree(operations: list[tuple[str, str, str]], changes: list[tuple[str, int, int]], seen_survives: bool) -> None:
        events = correct_history(operations)
        for change in changes:
            events = changed(events, *change)
        verdict = verdict_of(events, seen_survives=seen_survives).verdict
        verdicts[verdict] += 1
        assert slow_verdict(events, seen_survives=seen_survives) is verdict

    agree()
    assert min(verdicts[verdict] for verdict in Verdict) > least
