"""What a reader sees of a page of a report."""

import re
from html import unescape


def text_of(markup: str) -> str:
    """Return the text without its markup, as one line."""
    return " ".join(unescape(re.sub(r"<[^>]*>", " ", markup)).split())
