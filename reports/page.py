"""A page of a report, and all pages as one HTML file that needs nothing else."""

from __future__ import annotations

import base64
import functools
import hashlib
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from jinja2 import Environment, PackageLoader, StrictUndefined
from markupsafe import Markup

VERDICTS = ("VALID", "UNKNOWN", "INVALID")
DOCUMENT_BYTES_MAX = 2 << 20


@dataclass(frozen=True, slots=True, kw_only=True)
class Page:
    """One page: `key` is its fragment of the address, `group` the heading that it is listed under.

    `verdict` is one of `VERDICTS`, or empty for a page that judges nothing.
    """

    key: str
    group: str
    title: str
    verdict: str = ""
    body: Markup


def fill(template: str, **values: Any) -> Markup:
    """Return a template of this package with its gaps filled; all values but `Markup` are escaped."""
    return Markup(_environment().get_template(template).render(**values))


def as_document(title: str, pages: Sequence[Page]) -> str:
    """Return the pages as one HTML file, the first of them in front."""
    style, script = _source("style.css"), _source("script.js")
    groups: dict[str, list[Page]] = {}
    for page in pages:
        groups.setdefault(page.group, []).append(page)
    return str(
        fill(
            "document.html.j2",
            title=title,
            pages=pages,
            groups=groups,
            style=Markup(style),
            script=Markup(script),
            script_digest=_digest(script),
        )
    )


@functools.cache
def _environment() -> Environment:
    """Return the templates; a gap that nobody fills is an error of ours, and everything is escaped."""
    environment = Environment(
        loader=PackageLoader("reports"),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    environment.filters["thousands"] = "{:,}".format
    return environment


def _source(name: str) -> str:
    environment = _environment()
    assert environment.loader is not None
    return environment.loader.get_source(environment, name)[0]


def _digest(script: str) -> str:
    """Return what tells a browser that this script alone may run, whatever else got into the page."""
    return base64.b64encode(hashlib.sha256(script.encode()).digest()).decode()
