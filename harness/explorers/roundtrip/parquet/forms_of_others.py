"""Whether files with footers that other programs write, but pyarrow does not, are the same in another form, and back.

What is asked of a file in another form is in `forms.py`; the footers are those of `model_based/other_footers.py`.
"""

from __future__ import annotations

import functools
import itertools
from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from tornproof.harness.common.patch import Controls, not_noticed
from tornproof.harness.common.whose_error import needed
from tornproof.harness.explorers.model_based.other_footers import (
    CHUNK_FACTS,
    FOOTERS,
    SCHEMA,
    STATISTICS,
    Change,
    with_footer,
    within,
)
from tornproof.harness.explorers.roundtrip.forms import (
    FORMS,
    PROPERTY,
    Form,
    Original,
    difference,
    few_numbers,
    in_form,
    opened,
)
from tornproof.impl.chunk.duplicates import ChunkForm
from tornproof.impl.extension.bounds import Bound
from tornproof.impl.extension.point import HeaderForm
from tornproof.impl.layout.parquet import FooterForm
from tornproof.impl.parquet.thrift import Field, Items, Kind, Struct, with_fields, without

__all__ = ["PROPERTY", "failed_controls", "forms_of_others", "problem_of"]

PATH_IN_SCHEMA, INDEX_PAGE_OFFSET, LOGICAL_TYPE = 3, 10, 10
"""Fields of a chunk's facts, and of an element of the schema."""
UNSURE, SURE = "bounds that may be cut", (7, 8)
"""Bounds without the fields of statistics that say whether they are values."""
SOME = (
    (FooterForm.PRIVATE, ChunkForm.OLD),
    (FooterForm.FINAL, ChunkForm.OLD),
    (FooterForm.THRIFT, ChunkForm.ALP),
    (FooterForm.THRIFT, ChunkForm.ALP_ALONE),
)
"""Forms that have all that others have, too."""
NONE = Items(Kind.BINARY, ())
CHANGES: Mapping[str, Change] = {
    **FOOTERS,
    "no paths": within(CHUNK_FACTS, lambda facts: with_fields(facts, Field(PATH_IN_SCHEMA, Kind.LIST, NONE))),
    "older annotations alone": within(SCHEMA, lambda element: without(element, LOGICAL_TYPE)),
    UNSURE: within(STATISTICS, lambda statistics: without(statistics, *SURE)),
    "offsets of index pages": within(
        CHUNK_FACTS, lambda facts: with_fields(facts, Field(INDEX_PAGE_OFFSET, Kind.I64, 4))
    ),
    "a field twice": within(CHUNK_FACTS, lambda facts: Struct((*facts.fields, facts.fields[-1]))),
}


@dataclass(frozen=True, slots=True, kw_only=True)
class FormOfOthers:
    """A footer of others, and the form into which its file is changed."""

    kind: str
    form: Form

    @property
    def name(self) -> str:
        """It in words."""
        return f"a file with a footer that has {self.kind}, in the form {self.form.name}"


@functools.cache
def forms_of_others() -> tuple[FormOfOthers, ...]:
    """Return each footer in some forms, always in the same order."""
    forms = [each for each in FORMS if each.header is HeaderForm.PLAIN and (each.footer, each.chunks) in SOME]
    return tuple(FormOfOthers(kind=kind, form=form) for kind in CHANGES for form in forms)


def problem_of(case: FormOfOthers) -> str | None:
    """Say what is different in the file's other form; None if nothing is."""
    original, form = _original(case.kind), case.form
    if case.kind == UNSURE and form.footer is not FooterForm.THRIFT and _has_sure_bounds(original, form):
        return "a bound that may be cut is said to be a value"
    return difference(original, form)


def failed_controls() -> Iterator[str]:
    """Yield what is not noticed of changes that see no padded number, and take all bounds for values."""
    of_bounds: Controls = (
        (
            "all bounds are values",
            "tornproof.impl.extension.chunks:Bound",
            lambda value, _: Bound(value, True),
            "a value",
        ),
    )
    yield from not_noticed(of_bounds, problem_of, [each for each in forms_of_others() if each.kind == UNSURE])
    controls: Controls = (
        ("padded numbers are not seen", "tornproof.impl.extension.chunks:unpadded", lambda value: value),
        ("padded offsets stay", "tornproof.impl.migrate.chunk_form:without_padding", lambda footer: footer),
    )
    yield from not_noticed(controls, problem_of, [each for each in forms_of_others() if each.kind == "wide numbers"])


def _has_sure_bounds(original: Original, form: Form) -> bool:
    """Return whether the FlatBuffers of the other form say of a bound that it is a value."""
    footer = opened(in_form(original.content, form.footer, form.chunks, form.header))
    places = itertools.product(range(len(footer.decoded().row_groups)), range(len(footer.decoded().leaves)))
    bounds = [bound for place in places for bound in footer.chunk(*place).bounds[:2] if bound is not None]
    needed(bool(bounds), "the numbers have no bounds")
    # A length that is not negative says that all bytes are there.
    return any(bound.length >= 0 for bound in bounds)


@functools.cache
def _original(kind: str) -> Original:
    return Original(with_footer(few_numbers(), CHANGES[kind]))
