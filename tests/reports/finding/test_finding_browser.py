"""A real finding in a real browser: its steps follow the keys, and the line that is copied from it reproduces it."""

import shlex
from collections.abc import Callable
from pathlib import Path
from typing import TypeAlias

from command_line import warm_runner
from playwright.sync_api import Page as BrowserPage

Opener: TypeAlias = Callable[..., BrowserPage]


def test_steps_follow_the_keys_and_the_copied_line_reproduces_the_finding(
    open_report: Opener, browser_problems: Callable[[BrowserPage], list[str]], tmp_path: Path
) -> None:
    with warm_runner() as tornproof:
        test_case = ("--preset", "questdb-9.4.2", "--scenario", "one-commit-one-reader", "--only", "schedules")
        run = tornproof("check", *test_case, "--report", "my out", "--json", "-", folder=tmp_path)
        assert run.code == 1
        stem = Path(run.document["findings"][0]["file"]).stem
        page = open_report((tmp_path / "my out/report.html").read_text(), f"finding-{stem}")
        spoken = page.locator(f"#finding-{stem} [data-playback-text]")
        page.keyboard.press("Home")
        assert spoken.inner_text().startswith("Step 1 of ")
        page.keyboard.press("ArrowRight")
        assert spoken.inner_text().startswith("Step 2 of ")
        page.get_by_role("button", name="Copy").click()
        page.get_by_role("button", name="Copied").wait_for()
        page.evaluate("document.querySelector('main').insertAdjacentHTML('beforeend', '<textarea></textarea>')")
        page.focus("textarea")
        page.keyboard.press("Control+v")
        line = page.locator("textarea").input_value()
        assert line == f"tornproof replay 'my out/findings/{stem}.json'"
        again = tornproof(*shlex.split(line)[1:], folder=tmp_path)
        assert again.code == 1 and again.out.rstrip().endswith("INVALID: it happens again")
    assert browser_problems(page) == []
