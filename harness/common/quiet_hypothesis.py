"""Hypothesis as the engine of an explorer: it chooses the cases by a seed, keeps no database, and prints nothing."""

from __future__ import annotations

import tempfile
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from hypothesis import HealthCheck, Phase, Verbosity, settings
from hypothesis.internal.conjecture import providers
from hypothesis.internal.constants_ast import Constants

from tornproof.harness.common.patch import replaced

LOADED_CONSTANTS = "hypothesis.internal.conjecture.providers:_get_local_constants"
HOME = "hypothesis.configuration:__hypothesis_home_directory"
_ONE_AT_A_TIME = threading.RLock()


def quiet_settings(examples_max: int, *, shrinks: bool, rules_max: int = 1) -> settings:
    """Return settings for at most so many examples of so many rules each, which depend on a seed alone."""
    return settings(
        max_examples=examples_max,
        stateful_step_count=rules_max,
        database=None,
        deadline=None,
        derandomize=False,
        print_blob=False,
        report_multiple_bugs=False,
        verbosity=Verbosity.quiet,
        phases=(Phase.generate, Phase.shrink) if shrinks else (Phase.generate,),
        # Examples are long and slow on purpose, and the counts show which rules were seldom possible.
        suppress_health_check=list(HealthCheck),
    )


@contextmanager
def by_seed_alone() -> Iterator[None]:
    """Make a seed give the same values in every process.

    By default Hypothesis also uses constants of the modules that happen to be loaded, and has no setting against that.
    """
    with replaced(LOADED_CONSTANTS, Constants):
        providers.CONSTANTS_CACHE.cache.clear()
        try:
            yield
        finally:
            providers.CONSTANTS_CACHE.cache.clear()


@contextmanager
def quiet_hypothesis() -> Iterator[None]:
    """Use the seed alone, and keep the files of Hypothesis out of the working directory; other threads wait.

    What is replaced is shared by all threads, and so is the random generator that Hypothesis seeds.
    """
    with (
        _ONE_AT_A_TIME,
        tempfile.TemporaryDirectory(prefix="hypothesis-") as home,
        by_seed_alone(),
        replaced(HOME, Path(home)),
    ):
        yield
