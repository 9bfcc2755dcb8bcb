"""What a part of *roundtrip* finds first, and what comes of it again."""

import functools
import sys
from collections.abc import Callable, Iterable
from contextlib import AbstractContextManager
from itertools import islice

from tornproof.harness.common.verdict import Finding, Verdict
from tornproof.harness.explorers.roundtrip.explorer import findings_of, replay_roundtrip
from tornproof.harness.explorers.roundtrip.parts import part_of
from tornproof.harness.simulator.filesystem.image import DiskImage

NO_TABLE = DiskImage.of_files({})
ROOM = "tornproof.harness.explorers.roundtrip"


def forget_what_was_made() -> None:
    """Have cases and their files made anew: a test that plants a mistake may have been the first to ask for them."""
    for name in [each for each in sys.modules if each.startswith(ROOM)]:
        for made in vars(sys.modules[name]).values():
            if isinstance(made, functools._lru_cache_wrapper):
                made.cache_clear()


def first_findings(key: str) -> list[Finding]:
    """Return the first finding, if there is one; the cases behind it would take as long as all others."""
    return [*islice(findings_of(part_of(key)), 1)]


def replayed(findings: Iterable[Finding]) -> set[Verdict]:
    """Return the verdicts of replaying findings that depend on no table."""
    return {replay_roundtrip(each, NO_TABLE, "/table") for each in findings}


def first_that_replays(key: str, mistake: AbstractContextManager[None]) -> list[Finding]:
    """Return what a part finds first of a mistake; it must replay until the mistake is gone."""
    return _that_replay(lambda: first_findings(key), mistake)


def all_that_replay(key: str, mistake: AbstractContextManager[None]) -> list[Finding]:
    """Return all that a part finds of a mistake; each finding must replay until the mistake is gone."""
    return _that_replay(lambda: [*findings_of(part_of(key))], mistake)


def kinds_that_replay(key: str, mistake: AbstractContextManager[None]) -> set[str]:
    """Return the kinds of what a part finds of a mistake; each finding must replay until the mistake is gone."""
    part = part_of(key)
    cases = part.cases()
    return {part.kind_of(cases[each.evidence[key]]) for each in all_that_replay(key, mistake)}


def _that_replay(find: Callable[[], list[Finding]], mistake: AbstractContextManager[None]) -> list[Finding]:
    with mistake:
        findings = find()
        assert replayed(findings) == {Verdict.INVALID}
    assert replayed(findings) == {Verdict.VALID}
    return findings
