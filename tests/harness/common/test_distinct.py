"""Cases are distinct by their names and by all that they have, as it is written."""

import math
from typing import NamedTuple

from tornproof.harness.common.distinct import distinct


class Case(NamedTuple):
    name: str
    value: float


def test_the_first_of_equal_cases_stays_in_its_place_and_what_only_compares_as_equal_does_too() -> None:
    first, negative, other, nan = Case("a", 0.0), Case("a", -0.0), Case("b", 0.0), Case("a", math.nan)
    found = distinct(iter((first, negative, other, nan, Case("a", 0.0), Case("a", math.nan))))
    assert [repr(each) for each in found] == [repr(each) for each in (first, negative, other, nan)]
    assert found[0] is first
