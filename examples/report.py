"""Write a report of the handwritten digits: one HTML file that works offline.

Run ``python examples/report.py --output out``, and open ``out/digits.html`` in a browser. With Chromium and
``--pictures docs/images`` (``pip install playwright``; the browser is named by the environment variable CHROMIUM, or
found on the path) it also takes the pictures of the page that the documentation shows.
"""

from __future__ import annotations

import argparse
import os
import shutil
from pathlib import Path

import heatsketch as hs

# A software renderer, so that it draws on machines without a graphics card too.
BROWSER_OPTIONS = ["--no-sandbox", "--headless=new", "--use-angle=swiftshader", "--enable-unsafe-swiftshader"]


def main(arguments: list[str] | None = None) -> None:
    """Fit, write, and take pictures on request."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--output", type=Path, default=Path("out"), metavar="DIR")
    parser.add_argument("--pictures", type=Path, metavar="DIR", help="take pictures of the page for the documentation")
    options = parser.parse_args(arguments)
    options.output.mkdir(parents=True, exist_ok=True)
    images, digits = hs.datasets.digits()
    model = hs.HeatSketch(random_state=0).fit(images)
    page = hs.write_report(
        model,
        options.output / "digits.html",
        names=[f"image {n}" for n in range(len(images))],
        columns={"digit": digits, "ink": images.mean(axis=1)},
        title="Handwritten digits",
    )
    print(f"{page}: {page.stat().st_size / 1e6:.1f} MB")
    if options.pictures is not None:
        take_pictures(page, options.pictures)


def take_pictures(page: Path, folder: Path) -> None:
    """Pictures of the page: its beginning, light, and the comparison of methods, dark."""
    from playwright.sync_api import sync_playwright  # noqa: PLC0415

    browser_path = os.environ.get("CHROMIUM") or shutil.which("chromium") or shutil.which("google-chrome")
    folder.mkdir(parents=True, exist_ok=True)
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=browser_path, args=BROWSER_OPTIONS)
        for theme in ("light", "dark"):
            tab = browser.new_page(viewport={"width": 1180, "height": 1080}, color_scheme=theme)
            tab.set_default_timeout(120_000)
            tab.goto(page.resolve().as_uri())
            tab.wait_for_selector("body[data-ready=yes]")
            shown = tab if theme == "light" else tab.locator("section:has(#lineup)")
            shown.screenshot(path=folder / f"report_{theme}.png")
        browser.close()


if __name__ == "__main__":
    main()
