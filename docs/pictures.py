"""Takes the pictures of the known defects' pages in docs/images/known/, with an installed Chromium.

    .venv/bin/python docs/pictures.py [NAME...]

Pictures show a page as a laptop does: the verdict, the cause, and the beginning of the playback.
"""

from __future__ import annotations

import io
import json
import shutil
import sys
from pathlib import Path

from PIL import Image
from playwright.sync_api import sync_playwright

from tornproof.cli.findings import finding_document
from tornproof.harness.mutation.known import KNOWN, KnownDefect, find_defect
from tornproof.harness.mutation.known_document import picture_of
from tornproof.reports.finding.page import finding_page
from tornproof.reports.kit.page import as_document

WIDTH, HEIGHT = 1280, 1500
COLOURS = 96
DOCS = Path(__file__).parent


def main() -> None:
    """Take the pictures of those that are named, or of all."""
    wanted = set(sys.argv[1:])
    program = shutil.which("chromium") or shutil.which("google-chrome")
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=program, args=["--no-sandbox", "--disable-dev-shm-usage"])
        page = browser.new_page(viewport={"width": WIDTH, "height": HEIGHT})
        for defect in KNOWN:
            if wanted and defect.name not in wanted:
                continue
            page.set_content(page_of(defect))
            target = DOCS / picture_of(defect)
            target.parent.mkdir(parents=True, exist_ok=True)
            picture = Image.open(io.BytesIO(page.screenshot()))
            picture.convert("RGB").quantize(COLOURS, dither=Image.Dither.NONE).save(target, optimize=True)
            print(f"{target.name}: {target.stat().st_size:,} bytes", flush=True)
        browser.close()


def page_of(defect: KnownDefect) -> str:
    """Return a report of nothing but the defect's finding, as its file would have it."""
    document = json.loads(json.dumps(finding_document(find_defect(defect), "new table", {})))
    file = f"tornproof-findings/{Path(picture_of(defect)).stem}.json"
    return as_document(defect.name, [finding_page(document, file=file, key="finding")])


if __name__ == "__main__":
    main()
