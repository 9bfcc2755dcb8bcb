"""What the tests of pages share: a real browser, what went wrong in it, and a document that has every part."""

from __future__ import annotations

import os
import shutil
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from command_line import TIMEOUT_SECONDS
from markupsafe import Markup

from tornproof.reports.kit.byte_map import FINDING_STATES, legend
from tornproof.reports.kit.page import Page, as_document, templates
from tornproof.reports.kit.plots import plot

if TYPE_CHECKING:
    from matplotlib.figure import Figure
    from playwright.sync_api import Browser, BrowserContext, ConsoleMessage, Dialog, Error, Request
    from playwright.sync_api import Page as BrowserPage

HANG_MILLISECONDS = 1000 * TIMEOUT_SECONDS
BROWSERS = ("chromium", "chromium-browser", "google-chrome")
EVERY_PART = """
{% import "parts.html.j2" as parts %}
{{ parts.facts([("Schedules run", 12345 | thousands), (name, text)]) }}
<p>{{ text }} with <code>{{ name }}</code>, <kbd>Home</kbd> and <a href="#campaign">a page</a>.</p>
<h3>Lines to copy</h3>
{{ parts.command("tornproof replay 'a  b' --name=" ~ name) }}
<h3>Playback</h3>
<div data-playback>
{{ parts.playback_bar() }}
<ol>
<li data-step data-text="The writer writes {{ name }}">write</li>
<li data-step data-step-start>{{ text }}</li>
<li data-step>power cut</li>
</ol>
</div>
<p data-at-step="1 3">At the ends</p>
<p data-from-step="2">Later</p>
<h3>States of bytes</h3>
{{ legend }}
<div class="columns"><div class="card"><h4>Card</h4><p class="faint">Faint text.</p></div>
<div class="note"><p>A note with <a href="#run-0001">a link</a>.</p></div></div>
{% call parts.scroll("Table of " ~ name) %}
<table><caption>{{ name }}</caption>
<thead><tr><th scope="col">Name</th><th scope="col" class="number">Count</th><th scope="col">Text</th></tr></thead>
<tbody>{% for state in states %}<tr><th scope="row">{{ state }}</th><td class="number">{{ 10 ** loop.index }}</td>
<td>{{ name * 2 }}</td></tr>{% endfor %}</tbody></table>
{% endcall %}
<figure>{{ plot }}<figcaption>{{ text }}</figcaption></figure>
"""


@pytest.fixture(scope="session")
def find_browser() -> Callable[[], str]:
    """Function that returns the path of an installed Chromium; without one it skips the test and says so."""

    def find_browser() -> str:
        browser = next(filter(None, map(shutil.which, BROWSERS)), None)
        if browser is None:
            reason = f"no browser: none of {', '.join(BROWSERS)} is on PATH"
            if os.environ.get("TORNPROOF_NEEDS_BROWSER"):
                pytest.fail(f"{reason}, and TORNPROOF_NEEDS_BROWSER asks for one")
            pytest.skip(reason)
        return browser

    return find_browser


@pytest.fixture(scope="session")
def browser(find_browser: Callable[[], str]) -> Iterator[Browser]:
    """An installed Chromium, one for all tests of a worker."""
    executable = find_browser()
    from playwright.sync_api import sync_playwright

    with sync_playwright() as playwright:
        # Chromium refuses to sandbox what root starts, and containers give it little shared memory.
        browser = playwright.chromium.launch(
            executable_path=executable, args=["--no-sandbox", "--disable-dev-shm-usage"]
        )
        yield browser
        browser.close()


@pytest.fixture(scope="session")
def _shared_context(browser: Browser) -> Iterator[BrowserContext]:
    """A context for all pages that need none of their own: to make one takes longer than most tests."""
    context = browser.new_context()
    context.set_default_timeout(HANG_MILLISECONDS)
    yield context
    context.close()


@pytest.fixture(scope="session")
def _free_pages() -> list[BrowserPage]:
    """Open pages that no test uses now: the next one goes on with them, which takes less than a new one."""
    return []


@pytest.fixture
def _watched() -> dict[BrowserPage, list[str]]:
    """What went wrong on each open page."""
    return {}


@pytest.fixture
def open_report(
    browser: Browser,
    _shared_context: BrowserContext,
    _free_pages: list[BrowserPage],
    tmp_path: Path,
    _watched: dict[BrowserPage, list[str]],
) -> Iterator[Callable[..., BrowserPage]]:
    """Function that opens a document as a file in the browser; the test fails if anything goes wrong in there.

    A page without script has a context of its own, and so has one that is `alone`: a test may set its clock, or count.
    """
    own: list[BrowserContext] = []
    endings: list[Callable[[], None]] = []

    def open_report(
        html: str,
        key: str = "",
        *,
        theme: Any = "light",
        width: int = 1280,
        javascript: bool = True,
        alone: bool = False,
    ) -> BrowserPage:
        file = tmp_path / f"report-{len(_watched)}.html"
        file.write_text(html, encoding="utf-8")
        if alone or not javascript:
            own.append(browser.new_context(java_script_enabled=javascript))
            own[-1].set_default_timeout(HANG_MILLISECONDS)
            page = own[-1].new_page()
        else:
            page = _free_pages.pop() if _free_pages else _shared_context.new_page()
        page.set_viewport_size({"width": width, "height": 844})
        page.emulate_media(media="null", color_scheme=theme)
        _watched[page] = []
        endings.append(_watch(page, file.as_uri(), _watched[page]))
        page.goto(file.as_uri() + (f"#{key}" if key else ""))
        return page

    yield open_report
    problems = [problem for page, noted in _watched.items() for problem in _taken(page, noted)]
    for end in endings:
        end()
    _free_pages.extend(page for page in _watched if page.context == _shared_context)
    for context in own:
        context.close()
    assert not problems


@pytest.fixture
def browser_problems(_watched: dict[BrowserPage, list[str]]) -> Callable[[BrowserPage], list[str]]:
    """Function that returns what went wrong on a page so far, and forgets it."""
    return lambda page: _taken(page, _watched[page])


@pytest.fixture
def axe_violations() -> Callable[[BrowserPage], list[str]]:
    """Function that returns what axe-core finds serious or critical on a page, a line each."""

    def axe_violations(page: BrowserPage) -> list[str]:
        from axe_playwright_python.sync_playwright import Axe  # type: ignore[import-untyped]

        return [
            f"{violation['id']}: {node['target']}: {violation['help']}"
            for violation in Axe().run(page).response["violations"]
            if violation["impact"] in ("serious", "critical")
            for node in violation["nodes"]
        ]

    return axe_violations


@pytest.fixture(scope="session")
def hostile() -> str:
    """A name that runs script wherever it is taken for markup."""
    return (
        "</script><script>alert(1)</script>\"><img src=x onerror=alert(2)>' onfocus=alert(3) javascript:alert(4) {{ 5"
    )


@pytest.fixture(scope="session")
def every_part(hostile: str) -> str:
    """A document with every part of the house, whose second page is hostile wherever it can be."""
    pages = [
        Page(key="run-0001", group="Runs", title="Run 1", verdict="VALID", body=_body("Rows of", "a sentence")),
        Page(key="hostile", group=hostile, title=hostile, verdict="INVALID", body=_body(hostile, hostile)),
        Page(key="campaign", group="Campaign", title="Nothing yet", verdict="UNKNOWN", body=Markup("<p>Empty.</p>")),
    ]
    return as_document(f"Every part of {hostile}", pages)


def _body(name: str, text: str) -> Markup:
    def draw(figure: Figure) -> None:
        axes = figure.subplots()
        axes.bar(["one", name], [1, 2])
        axes.set_title(text)

    states = ("durable", "kept", "lost", "torn", "damaged", "written", "spare")
    template = templates().from_string(EVERY_PART)
    drawn, looks = plot(draw, title=f"Plot of {name}"), legend(FINDING_STATES, FINDING_STATES)
    return Markup(template.render(name=name, text=text, states=states, plot=drawn, legend=looks))


def _watch(page: BrowserPage, address: str, problems: list[str]) -> Callable[[], None]:
    """Note what must not happen on a page: messages, errors, dialogs, and requests for anything but itself.

    Returns a function that ends it.
    """

    def console(message: ConsoleMessage) -> None:
        if message.type in ("error", "warning"):
            problems.append(f"console: {message.text}")

    def dialog(dialog: Dialog) -> None:
        problems.append(f"dialog: {dialog.message}")
        dialog.dismiss()

    def request(request: Request) -> None:
        if request.url.partition("#")[0] != address:
            problems.append(f"request: {request.url}")

    def error(error: Error) -> None:
        problems.append(f"error: {error}")

    listeners: dict[Any, Callable[[Any], None]] = {
        "console": console,
        "dialog": dialog,
        "request": request,
        "pageerror": error,
    }
    for event, listener in listeners.items():
        page.on(event, listener)

    def end() -> None:
        for event, listener in listeners.items():
            page.remove_listener(event, listener)

    return end


def _taken(page: BrowserPage, problems: list[str]) -> list[str]:
    # What the page has told before it answers is here when the answer is.
    page.title()
    taken, problems[:] = problems[:], []
    return taken
