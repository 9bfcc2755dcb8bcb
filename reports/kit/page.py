"""A page of a report, and all pages as one HTML file that needs nothing else."""

from __future__ import annotations

import base64
import functools
import hashlib
import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

from jinja2 import Environment, PackageLoader, StrictUndefined
from markupsafe import Markup

VERDICTS = ("VALID", "UNKNOWN", "INVALID")
DOCUMENT_BYTES_MAX = 2 << 20
_KEY = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]*")
_LONE_SURROGATE = re.compile("[\ud800-\udfff]")


@dataclass(frozen=True, slots=True, kw_only=True)
class Page:
    """One page: `key` is its fragment of the address (see `as_key`), `group` the heading that it is listed under.

    `verdict` is one of `VERDICTS`, or empty for a page that judges nothing.
    """

    key: str
    group: str
    title: str
    verdict: str = ""
    body: Markup

    def __post_init__(self) -> None:
        assert _KEY.fullmatch(self.key), f"{self.key!r} is no key; as_key makes one"
        assert self.verdict in ("", *VERDICTS), self.verdict


def as_key(*words: str) -> str:
    """Return the words as a page's key, which is safe in an address and different for different words."""
    plain = "-".join(words)
    if _KEY.fullmatch(plain):
        return plain
    digest = hashlib.sha256(plain.encode(errors="surrogatepass")).hexdigest()[:8]
    return "-".join([*re.findall(r"[A-Za-z0-9]+", plain), digest])


def worst(verdicts: Iterable[str]) -> str:
    """Return the verdict on the whole; nothing at all is UNKNOWN, because nothing was explored."""
    return max(verdicts, key=VERDICTS.index, default="UNKNOWN")


def fill(template: str, **values: Any) -> Markup:
    """Return a template of this package with its gaps filled; all values but `Markup` are escaped."""
    return Markup(templates().get_template(template).render(**values))


def as_document(title: str, pages: Sequence[Page]) -> str:
    """Return the pages as one HTML file, the first of them in front."""
    style = _joined(".css")
    # A block each, so that names of one page's script do not clash with those of another.
    script = _joined(".js", before="{\n", after="}\n")
    groups: dict[str, list[Page]] = {}
    for page in pages:
        groups.setdefault(page.group, []).append(page)
    document = fill(
        "document.html.j2",
        title=title,
        # In the order in which they are listed, so that the next page is the next in the list.
        pages=[page for members in groups.values() for page in members],
        groups=groups,
        style=Markup(style),
        script=Markup(script),
        script_digest=_digest(script),
    )
    # JSON and file names can hold halves of characters, which no file in UTF-8 can.
    return _LONE_SURROGATE.sub("\ufffd", document)


def fits(document: str) -> bool:
    """Return whether a document is no larger than `DOCUMENT_BYTES_MAX`."""
    return len(document.encode()) <= DOCUMENT_BYTES_MAX


@functools.cache
def templates() -> Environment:
    """Return the templates; a gap that nobody fills is an error of ours, and everything is escaped."""
    environment = Environment(
        loader=PackageLoader("tornproof.reports.kit"),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    environment.filters["thousands"] = "{:,}".format
    environment.filters["bytes"] = _as_size
    return environment


def _as_size(size_bytes: int) -> str:
    """Return a size for people: exact while it is short, else in the largest unit that leaves a whole part."""
    size = float(size_bytes)
    if size < 10_000:
        return f"{size_bytes:,} {'byte' if size_bytes == 1 else 'bytes'}"
    for unit in ("KiB", "MiB", "GiB"):
        size /= 1024
        if size < 1000:
            return f"{size:.1f} {unit}"
    return f"{size / 1024:,.1f} TiB"


@functools.cache
def _joined(suffix: str, before: str = "", after: str = "") -> str:
    """Return all templates of that suffix as one text: the house's own first, those of the pages by name."""
    environment = templates()
    assert environment.loader is not None
    own = {".css": "style.css", ".js": "script.js"}[suffix]
    names = [own, *(name for name in environment.list_templates() if name.endswith(suffix) and name != own)]
    joined = "".join(f"{before}{environment.loader.get_source(environment, name)[0]}\n{after}" for name in names)
    assert "</" not in joined, "a style or script that ends its own element"
    return joined


def _digest(script: str) -> str:
    """Return what tells a browser that this script alone may run, whatever else got into the page."""
    return base64.b64encode(hashlib.sha256(script.encode()).digest()).decode()
