"""Pruning never loses a row, whatever sound statistics and bloom filters are; planted mistakes in it are noticed."""

import inspect
import sys
from collections.abc import Callable
from types import ModuleType

import pruning_cases as pc
import pytest
from depth import nightly, sampled
from hypothesis import HealthCheck, Phase, given, seed, settings
from hypothesis import strategies as st

from tornproof.impl.pm import statistics
from tornproof.impl.query import pruning
from tornproof.impl.query.predicate import matching, truth

MayMatch = Callable[..., bool]


@st.composite
def asked(draw: st.DrawFn, kind: str | None = None, leaves_max: int = 3) -> tuple[pc.Case, pc.Condition]:
    case = draw(pc.cases(kind))
    return case, draw(pc.conditions(case, leaves_max=leaves_max))


def loses_a_row(case: pc.Case, condition: pc.Condition, may_match: MayMatch) -> bool:
    """Whether a row group is left out although the condition is true of one of its rows."""
    kept = may_match(pc.predicate_of(condition), case.header, case.block, bitset_of=case.bitsets.get)
    return not kept and True in pc.answers_of(condition, case)


@pytest.mark.parametrize("example_count", [30, nightly(1000)])
def test_no_row_is_lost_and_each_row_is_judged_as_python_does(example_count: int) -> None:
    settings(max_examples=example_count)(given(asked())(judge_as_python_does))()


def judge_as_python_does(pair: tuple[pc.Case, pc.Condition]) -> None:
    case, condition = pair
    assert not loses_a_row(case, condition, pruning.may_match)
    made = pc.predicate_of(condition)
    expected = pc.answers_of(condition, case)
    assert truth(made, case.arrays).to_pylist() == expected
    assert matching(made, case.arrays).to_pylist() == [answer is True for answer in expected]


def mutant_of(module: ModuleType, old: str, new: str) -> ModuleType:
    """Return a copy of a module with one mistake."""
    source = inspect.getsource(module)
    assert source.count(old) == 1, old
    mutant = ModuleType(f"{module.__name__}_mutant")
    # Dataclasses look their module up by its name.
    sys.modules[mutant.__name__] = mutant
    exec(compile(source.replace(old, new), str(module.__file__), "exec"), mutant.__dict__)
    return mutant


# Where a search begins that comes to these mistakes, by what is replaced, among its first examples.
EARLY_SEEDS = {
    "frozenset({TypeTag.INT, TypeTag.LONG})": 12,
    "if in_order(column, low, high) else (None, None)": 1,
    "math.isnan(bound)": 7,
    "UNSIGNED_TAGS = frozenset({TypeTag.CHAR, TypeTag.IPV4})": 8,
    "(facts.may_have_missing and facts.missing in values)": 1,
    "return value * MILLISECONDS_PER_DAY": 1,
    "divmod(value, MILLISECONDS_PER_DAY)": 1,
}


def notices(may_match: MayMatch, kind: str, leaves_max: int = 1, start: int | None = None) -> bool:
    """Whether a row is lost in one of some thousand examples; `start` is the seed, if chance may not choose one."""

    class RowLostError(Exception):
        pass

    @settings(max_examples=6000, phases=[Phase.generate], database=None, suppress_health_check=list(HealthCheck))
    @given(asked(kind, leaves_max))
    def search(pair: tuple[pc.Case, pc.Condition]) -> None:
        if loses_a_row(*pair, may_match):
            raise RowLostError

    try:
        (search if start is None else seed(start)(search))()
    except RowLostError:
        return True
    return False


@pytest.mark.parametrize(
    ("old", "new", "kind"),
    sampled(
        2,
        [
            ("return bool(left < right)", "return bool(left <= right)", "int"),
            ("(not may_be_equal and not _less(nearest, farthest))", "not _less(nearest, farthest)", "int"),
            ("isinstance(predicate, And) is wanted", "isinstance(predicate, And)", "int"),
            ("self._against(part, not wanted, group)", "self._against(part, wanted, group)", "int"),
            ("((0.0, -0.0) if value == 0 else (value,))", "(value,)", "double"),
            ("(facts.may_have_missing and facts.missing in values)", "False", "short"),
            ("if self.missing is None or not self.may_have_missing:", "if True:", "byte"),
            (
                "self.bound(is_low=True) == value == self.bound(is_low=False)",
                "value == self.bound(is_low=False)",
                "int",
            ),
            ("and chunk.null_count != 0", "and bool(chunk.null_count)", "int"),
            ("chunk.null_count == chunk.num_values", "chunk.null_count in (None, chunk.num_values)", "int"),
            ("if not wanted and is_float:", "if False:", "double"),
            ('"big", signed=True),)', '"little", signed=True),)', "decimal64"),
            ('LONG256_BYTES, "little") if', 'LONG256_BYTES, "big") if', "long256"),
            ("may_have_others or self.missing is not None", "may_have_others", "byte"),
            ("divmod(value, MILLISECONDS_PER_DAY)", "(value, 0)", "date in days"),
        ],
    ),
)
def test_mistake_in_pruning_is_noticed(old: str, new: str, kind: str) -> None:
    may_match = mutant_of(pruning, old, new).may_match
    assert notices(may_match, kind, leaves_max=3 if "And" in old else 1, start=EARLY_SEEDS.get(old))


@pytest.mark.parametrize(
    ("old", "new", "kind"),
    sampled(
        2,
        [
            ("UNSIGNED_TAGS = frozenset({TypeTag.CHAR, TypeTag.IPV4})", "UNSIGNED_TAGS = frozenset()", "ipv4"),
            ("frozenset({TypeTag.INT, TypeTag.LONG})", "frozenset()", "long"),
            ("math.isnan(bound)", "False", "double"),
            ("if in_order(column, low, high) else (None, None)", "", "int"),
            ("return value * MILLISECONDS_PER_DAY", "return value", "date in days"),
            ('int.from_bytes(raw, "big", signed=True)', 'int.from_bytes(raw, "big")', "decimal128"),
            ('int.from_bytes(raw, "big", signed=True)', 'int.from_bytes(raw, "little", signed=True)', "decimal256"),
        ],
    ),
)
def test_mistake_in_reading_statistics_is_noticed(
    old: str, new: str, kind: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(pruning, "proven_bounds", mutant_of(statistics, old, new).proven_bounds)
    assert notices(pruning.may_match, kind, start=EARLY_SEEDS.get(old))
