"""What a report leaves out, and why."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

from markupsafe import escape

from tornproof.reports.kit.json_fields import ResultError, shortened
from tornproof.reports.kit.page import DOCUMENT_BYTES_MAX, Page, as_document, fill

GROUP = "Left out"
KEY = "left-out"
NAMES_SHOWN = 50
NAME_CHARACTERS_MAX = 200
RESERVED_BYTES = 256 << 10
"""Space for the page of omissions, in which each character may be an entity of six bytes."""
BYTES_AROUND_A_PAGE = 1_200


@dataclass(slots=True, kw_only=True)
class LeftOut:
    """Unreadable results, files that are not results, and results whose page would make the report too large."""

    damaged: list[ResultError]
    foreign: Sequence[str]
    without_page: list[str] = field(default_factory=list)

    def pages(self) -> list[Page]:
        """Return the page of omissions, if there are any."""
        if not (self.damaged or self.foreign or self.without_page):
            return []
        body = fill(
            "left_out.html.j2",
            left_out=self,
            shown=lambda names: [shortened(str(each), NAME_CHARACTERS_MAX) for each in names[:NAMES_SHOWN]],
            bytes_max=DOCUMENT_BYTES_MAX,
        )
        verdict = "UNKNOWN" if self.damaged else ""
        return [Page(key=KEY, group=GROUP, title="What is not in this report", verdict=verdict, body=body)]

    def notices(self) -> list[str]:
        """Return a sentence on each omission."""
        notices = [f"cannot be read: {each}" for each in self.damaged]
        notices += [f"is not a result of tornproof: {each}" for each in self.foreign]
        notices += [f"has no page, because the report would be too large: {each}" for each in self.without_page]
        return notices


class Room:
    """The remaining size of a report."""

    def __init__(self, title: str, left_out: LeftOut) -> None:
        """Start with an empty report of that title; omissions are noted in `left_out`."""
        self._bytes = DOCUMENT_BYTES_MAX - RESERVED_BYTES - len(as_document(title, []).encode())
        self._left_out = left_out

    def take(self, name: str, make: Callable[[], Page]) -> Page | None:
        """Return a page if it can be made and fits; once the report is full, none is made."""
        if self._bytes <= BYTES_AROUND_A_PAGE:
            self._left_out.without_page.append(name)
            return None
        page = self.made(make)
        return page if page is not None and self.admits(name, page) else None

    def made(self, make: Callable[[], Page]) -> Page | None:
        """Return a page if it can be made."""
        try:
            return make()
        except ResultError as error:
            self._left_out.damaged.append(error)
            return None

    def admits(self, name: str, page: Page) -> bool:
        """Return whether a page fits, and subtract its size."""
        # The title is also in the list of pages, and on the pages before and after.
        title_bytes = len(escape(page.title).encode(errors="surrogatepass"))
        size_bytes = len(page.body.encode(errors="surrogatepass")) + 4 * title_bytes + BYTES_AROUND_A_PAGE
        if size_bytes > self._bytes:
            self._left_out.without_page.append(name)
            return False
        self._bytes -= size_bytes
        return True
