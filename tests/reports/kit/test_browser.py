"""The house of the reports in a real browser; `open_report` fails a test on any error, dialog or request in there."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from markupsafe import Markup

from tornproof.reports.kit.page import Page, as_document

if TYPE_CHECKING:
    from playwright.sync_api import Page as BrowserPage

Opener = Callable[..., "BrowserPage"]


def wait_shown(page: BrowserPage, key: str) -> None:
    """Wait until one page alone is shown; a browser tells of a new fragment some time after the click on it."""
    page.locator(f"article.page#{key}").wait_for()
    assert page.locator("article.page:visible").count() == 1


def spoken(page: BrowserPage) -> str:
    return page.locator("[data-playback-text]:visible").inner_text()


@pytest.mark.nightly
def test_one_page_is_shown_and_links_history_and_addresses_lead_to_the_others(
    every_part: str, open_report: Opener
) -> None:
    page = open_report(every_part)
    wait_shown(page, "run-0001")
    page.locator("nav.pages").get_by_text("Nothing yet").click()
    wait_shown(page, "campaign")
    assert page.locator("nav.pages [aria-current=page]").inner_text().endswith("Nothing yet")
    assert page.title().startswith("Nothing yet")
    assert page.evaluate("document.activeElement.id") == "campaign-title"
    page.go_back()
    wait_shown(page, "run-0001")
    for address, key in [("campaign", "campaign"), ("hostile-title", "hostile"), ("no%such-page", "run-0001")]:
        page.goto(f"{page.url.partition('#')[0]}#{address}")
        page.reload()
        wait_shown(page, key)


@pytest.mark.nightly
def test_all_pages_stand_below_each_other_without_script(every_part: str, open_report: Opener) -> None:
    page = open_report(every_part, javascript=False)
    assert page.locator("article.page:visible").count() == 3
    assert page.locator("[data-step]:visible").count() == 6
    assert page.locator("button:visible").count() == 0


def test_tab_reaches_every_page_and_enter_opens_it(every_part: str, open_report: Opener) -> None:
    page = open_report(every_part)
    page.keyboard.press("Tab")
    assert page.locator(".skip:focus").inner_text() == "Skip to the page"
    assert page.locator(".skip").evaluate("link => link.getBoundingClientRect().top >= 0")
    for _ in range(4):
        page.keyboard.press("Tab")
    assert page.locator(":focus").get_attribute("href") == "#campaign"
    page.keyboard.press("Enter")
    wait_shown(page, "campaign")


def test_tab_leaves_the_document_in_the_end(every_part: str, open_report: Opener) -> None:
    page = open_report(every_part)
    focused = []
    for _ in range(60):
        page.keyboard.press("Tab")
        focused.append(
            page.evaluate("document.activeElement === document.body ? '' : document.activeElement.outerHTML")
        )
        if not focused[-1]:
            break
    assert focused[-1] == "", "the focus never leaves"
    assert len(set(focused)) == len(focused), "the focus goes in circles"


def test_arrow_keys_step_through_a_playback(every_part: str, open_report: Opener) -> None:
    page = open_report(every_part)
    assert spoken(page) == "Step 2 of 3: a sentence"
    for key, number in [
        ("ArrowLeft", 1),
        ("ArrowLeft", 1),
        ("End", 3),
        ("ArrowRight", 3),
        ("Home", 1),
        ("ArrowRight", 2),
    ]:
        page.keyboard.press(key)
        assert spoken(page).startswith(f"Step {number} of 3: "), key
    page.keyboard.press("ArrowLeft")
    assert spoken(page) == "Step 1 of 3: The writer writes Rows of"
    assert page.locator("#run-0001 [aria-current=step]").inner_text() == "write"
    assert page.locator("#hostile .is-past").count() == 1, "another page's playback stays where it is"


def test_what_belongs_to_a_step_is_marked_while_it_is_current(every_part: str, open_report: Opener) -> None:
    page = open_report(every_part)
    marks = page.locator("#run-0001 :is([data-at-step], [data-from-step])")
    seen = []
    for key in ("Home", "ArrowRight", "ArrowRight"):
        page.keyboard.press(key)
        seen.append([mark.get_attribute("class") or "" for mark in marks.all()])
    assert seen == [["is-at-step", ""], ["", "is-from-step"], ["is-at-step", "is-from-step"]]


def test_arrow_keys_are_left_to_those_who_write_or_scroll(every_part: str, open_report: Opener) -> None:
    page = open_report(every_part, width=390)
    page.evaluate("document.querySelector('article').insertAdjacentHTML('beforeend', '<input id=written>')")
    page.focus("#written")
    page.keyboard.press("ArrowRight")
    page.keyboard.press("Control+ArrowRight")
    wide = page.locator("#run-0001 .scroll")
    wide.evaluate("wide => { wide.style.width = '9rem'; }")
    wide.focus()
    page.keyboard.press("ArrowRight")
    assert spoken(page) == "Step 2 of 3: a sentence"
    wide.evaluate("wide => { wide.style.width = '60rem'; }")
    page.keyboard.press("ArrowRight")
    assert spoken(page) == "Step 3 of 3: power cut", "there is nothing to scroll"


def test_buttons_and_clicks_step_through_a_playback(every_part: str, open_report: Opener) -> None:
    page = open_report(every_part)
    for name, number in [("First", 1), ("Next", 2), ("Last", 3), ("Previous", 2)]:
        page.get_by_role("button", name=name, exact=True).click()
        assert spoken(page).startswith(f"Step {number} of 3"), name
    page.locator("#run-0001 [data-step]").nth(2).click()
    assert spoken(page) == "Step 3 of 3: power cut"


@pytest.mark.nightly
def test_play_goes_to_the_end_and_pause_stops_it(every_part: str, open_report: Opener) -> None:
    page = open_report(every_part, alone=True)
    page.clock.install(time=0)
    # Only the test moves the clock.
    page.clock.pause_at(1)
    page.get_by_role("button", name="Play", exact=True).click()
    page.clock.run_for(1600)
    assert spoken(page).startswith("Step 3 of 3")
    page.clock.run_for(1600)
    page.get_by_role("button", name="Play", exact=True).click()
    assert spoken(page).startswith("Step 1 of 3")
    page.get_by_role("button", name="Pause", exact=True).click()
    page.clock.run_for(60_000)
    assert spoken(page).startswith("Step 1 of 3")


@pytest.mark.parametrize("has_clipboard", [True, False])
def test_the_copy_button_copies_exactly_the_line(
    every_part: str, hostile: str, open_report: Opener, has_clipboard: bool
) -> None:
    page = open_report(every_part, "hostile")
    if not has_clipboard:
        page.evaluate("() => { navigator.clipboard.writeText = () => Promise.reject(new Error('refused')); }")
    page.get_by_role("button", name="Copy").click()
    page.get_by_role("button", name="Copied").wait_for()
    page.evaluate("document.querySelector('#hostile').insertAdjacentHTML('beforeend', '<textarea></textarea>')")
    page.focus("textarea")
    page.keyboard.press("Control+v")
    assert page.locator("textarea").input_value() == f"tornproof replay 'a  b' --name={hostile}"
    assert page.get_by_role("status").inner_text() == "The line is copied."


def test_hostile_names_are_shown_as_text(every_part: str, hostile: str, open_report: Opener) -> None:
    page = open_report(every_part, "hostile")
    assert page.locator("#hostile-title").inner_text() == hostile
    assert page.locator("#hostile caption").inner_text() == hostile
    assert page.locator("#hostile svg text", has_text=hostile).count() == 2
    assert page.locator("script").count() == 1
    assert page.locator("img, [onfocus], [onerror]").count() == 0


def test_script_that_got_into_a_page_does_not_run(
    open_report: Opener, browser_problems: Callable[[BrowserPage], list[str]]
) -> None:
    # Nothing unescaped gets in, but if it did, the page's policy would still hold it back.
    attack = Markup('<script>document.title = "run"</script><img src=x onerror=\'document.title = "run"\'>')
    page = open_report(as_document("Attack", [Page(key="attack", group="Attack", title="Attack", body=attack)]))
    assert page.title() == "Attack · Attack"
    problems = "\n".join(browser_problems(page))
    assert "script" in problems
    assert "inline event handler" in problems


def test_what_goes_wrong_in_the_browser_does_not_go_unseen(
    open_report: Opener, browser_problems: Callable[[BrowserPage], list[str]]
) -> None:
    page = open_report(
        "<script>console.error('said'); alert('asked'); setTimeout(() => { throw Error('thrown'); })</script>"
    )
    page.evaluate("new Promise(done => setTimeout(done)).then(() => fetch('http://127.0.0.1:9/')).catch(() => {})")
    problems = "\n".join(browser_problems(page))
    for sign in ("console: said", "dialog: asked", "thrown", "request: http://127.0.0.1:9/"):
        assert sign in problems
    assert browser_problems(page) == []


@pytest.mark.parametrize("theme", ["light", "dark"])
def test_the_theme_follows_the_system_until_somebody_asks_for_the_other(
    every_part: str, open_report: Opener, theme: str
) -> None:
    page = open_report(every_part, theme=theme)
    backgrounds = {"light": "rgb(255, 255, 255)", "dark": "rgb(20, 24, 29)"}
    other = {"light": "dark", "dark": "light"}[theme]
    background = "getComputedStyle(document.body).backgroundColor"
    assert page.evaluate(background) == backgrounds[theme]
    page.get_by_role("button", name=other.capitalize(), exact=True).click()
    assert page.evaluate(background) == backgrounds[other]
    page.get_by_role("button", name=theme.capitalize(), exact=True).click()
    assert page.evaluate(background) == backgrounds[theme]


def test_paper_is_white_and_holds_the_page_alone(every_part: str, open_report: Opener) -> None:
    page = open_report(every_part, theme="dark")
    page.emulate_media(media="print", color_scheme="dark")
    assert page.evaluate("getComputedStyle(document.body).backgroundColor") == "rgb(255, 255, 255)"
    wait_shown(page, "run-0001")
    assert page.locator("button:visible, nav:visible").count() == 0


@pytest.mark.parametrize("key", ["run-0001", "hostile"])
def test_no_page_is_wider_than_the_screen(every_part: str, open_report: Opener, key: str) -> None:
    page = open_report(every_part, key)
    for width in (1280, 390, 320):
        page.set_viewport_size({"width": width, "height": 844})
        assert page.evaluate("document.documentElement.scrollWidth") <= width


def test_a_phone_shows_the_page_before_the_list_of_pages(every_part: str, open_report: Opener) -> None:
    page = open_report(every_part, width=390)
    links = page.locator("nav.pages a")
    assert not links.first.is_visible()
    page.locator("nav.pages summary").click()
    links.last.click()
    wait_shown(page, "campaign")
    assert not links.first.is_visible()


@pytest.mark.parametrize(("theme", "width"), [("light", 390), ("dark", 1280)])
def test_axe_finds_nothing_serious(
    every_part: str,
    open_report: Opener,
    axe_violations: Callable[[BrowserPage], list[str]],
    theme: str,
    width: int,
) -> None:
    page = open_report(every_part, "hostile", theme=theme, width=width)
    assert axe_violations(page) == []


def test_axe_finds_what_is_wrong(open_report: Opener, axe_violations: Callable[[BrowserPage], list[str]]) -> None:
    page = open_report(
        "<!DOCTYPE html><title>Twin</title><p style='color: #bbb; background: #fff'>Pale</p><button></button>"
    )
    found = " ".join(axe_violations(page))
    for rule in ("button-name", "color-contrast", "html-has-lang"):
        assert rule in found


@pytest.mark.nightly
def test_opening_lays_out_the_page_in_front_and_none_of_the_others(open_report: Opener) -> None:
    table = Markup("<table>") + Markup("<tr><td>one</td><td>two</td></tr>") * 200 + Markup("</table>")
    pages = [Page(key=f"run-{number}", group="Runs", title=f"Run {number}", body=table) for number in range(40)]
    # What another page in the same process has laid out would count, too.
    page = open_report(as_document("Many", pages), alone=True)
    assert laid_out(page) < 200 * len(pages)
    page.evaluate("document.querySelectorAll('article').forEach(page => { page.hidden = false; })")
    page.add_style_tag(content=".page { content-visibility: visible !important; }")
    page.locator("body").bounding_box()
    assert laid_out(page) > 200 * len(pages), "what is counted is not what is laid out"


def laid_out(page: BrowserPage) -> int:
    session = page.context.new_cdp_session(page)
    session.send("Performance.enable")
    return int(
        next(m["value"] for m in session.send("Performance.getMetrics")["metrics"] if m["name"] == "LayoutObjects")
    )


def test_a_missing_browser_is_told_and_fails_where_one_is_needed(
    find_browser: Callable[[], str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.delenv("TORNPROOF_NEEDS_BROWSER", raising=False)
    with pytest.raises(
        pytest.skip.Exception, match="no browser: none of chromium, chromium-browser, google-chrome is on PATH"
    ):
        find_browser()
    monkeypatch.setenv("TORNPROOF_NEEDS_BROWSER", "1")
    with pytest.raises(
        pytest.fail.Exception, match="no browser: none of chromium, chromium-browser, google-chrome is on PATH"
    ):
        find_browser()
    (tmp_path / "chromium").touch(mode=0o755)
    assert find_browser() == str(tmp_path / "chromium")
