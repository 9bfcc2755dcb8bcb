"""Pages of a report, and all pages as one self-contained HTML file."""

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
    """One page: `key` is its URL fragment (see `as_key`), `group` its heading in the list of pages.

    `verdict` is one of `VERDICTS`, or empty for a page without a verdict; `complete` says whether it is that of a whole
    bound, and not of a sample.
    """

    key: str
    group: str
    title: str
    verdict: str = ""
    complete: bool = True
    body: Markup

    def __post_init__(self) -> None:
        assert _KEY.fullmatch(self.key), f"{self.key!r} is no key; as_key makes one"
        assert self.verdict in ("", *VERDICTS), self.verdict


def as_key(*words: str) -> str:
    """Return the words as a page's key, which is safe in a URL and unique for the words."""
    plain = "-".join(words)
    if _KEY.fullmatch(plain):
        return plain
    digest = hashlib.sha256(plain.encode(errors="surrogatepass")).hexdigest()[:8]
    return "-".join([*re.findall(r"[A-Za-z0-9]+", plain), digest])


def worst(verdicts: Iterable[str]) -> str:
    """Return the worst verdict; UNKNOWN if there are none, because nothing was explored."""
    return max(verdicts, key=VERDICTS.index, default="UNKNOWN")


def fill(template: str, **values: Any) -> Markup:
    """Render a template of this package; all values except `Markup` are escaped."""
    return Markup(templates().get_template(template).render(**values))


def as_document(title: str, pages: Sequence[Page]) -> str:
    """Return the pages as one HTML file, the first one shown."""
    style = _joined(".css")
    # A block each, so that names of scripts do not clash.
    script = _joined(".js", before="{\n", after="}\n")
    groups: dict[str, list[Page]] = {}
    for page in pages:
        groups.setdefault(page.group, []).append(page)
    document = fill(
        "document.html.j2",
        title=title,
        # In the order of the list of pages, so that "next" is the next in the list.
        pages=[page for members in groups.values() for page in members],
        groups=groups,
        style=Markup(style),
        script=Markup(script),
        script_digest=_digest(script),
    )
    # JSON and file names can contain lone surrogates, which UTF-8 cannot encode.
    return _LONE_SURROGATE.sub("\ufffd", document)


def fits(document: str) -> bool:
    """Return whether a document is no larger than `DOCUMENT_BYTES_MAX`."""
    return len(document.encode()) <= DOCUMENT_BYTES_MAX


@functools.cache
def templates() -> Environment:
    """Return the templates; an undefined variable is an error, and everything is escaped."""
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
    """Return a size for people: exact if short, else in the largest unit with a whole part."""
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
    """Return all templates of that suffix as one text: the common one first, those of pages by name."""
    environment = templates()
    assert environment.loader is not None
    own = {".css": "style.css", ".js": "script.js"}[suffix]
    names = [own, *(name for name in environment.list_templates() if name.endswith(suffix) and name != own)]
    joined = "".join(f"{before}{environment.loader.get_source(environment, name)[0]}\n{after}" for name in names)
    assert "</" not in joined, "a style or script that ends its own element"
    return joined


def _digest(script: str) -> str:
    """Return the hash for the content security policy, with which browsers run only this script."""
    return base64.b64encode(hashlib.sha256(script.encode()).digest()).decode()
