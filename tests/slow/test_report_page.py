"""The report in a browser: it draws, listens, stays offline, and shows markup as text."""

from __future__ import annotations

import os
import shutil
from importlib import import_module

import numpy as np
import pytest

import heatsketch as hs

N = 60
MARKS = ("neighbours", "marked")
EVIL = '<b>bold</b><img src=x onerror="window.broken=1"></script><script>window.broken=1</script>'


def _missing(reason):
    if os.environ.get("HEATSKETCH_REQUIRE_BROWSER"):
        pytest.fail(f"HEATSKETCH_REQUIRE_BROWSER is set, but {reason}")
    pytest.skip(reason)


@pytest.fixture(scope="module")
def browser():
    try:
        sync_playwright = import_module("playwright.sync_api").sync_playwright
    except ModuleNotFoundError:
        _missing("playwright is not installed")
    names = ("chromium", "chromium-browser", "google-chrome", "google-chrome-stable")
    found = os.environ.get("CHROMIUM") or next((path for name in names if (path := shutil.which(name))), None)
    if found is None:
        _missing("there is no Chromium: name one in the environment variable CHROMIUM")
    # A software renderer, so that pictures in 3-D need no graphics card.
    options = ["--no-sandbox", "--headless=new", "--use-angle=swiftshader", "--enable-unsafe-swiftshader"]
    with sync_playwright() as playwright:
        running = playwright.chromium.launch(executable_path=found, args=options)
        yield running
        running.close()


@pytest.fixture(scope="module")
def written(tmp_path_factory):
    folder = tmp_path_factory.mktemp("pages")
    X = hs.datasets.stretched_torus(N, random_state=0)
    model = hs.HeatSketch(2, power=4, bandwidth=1.0, random_state=0).fit(X)
    columns = {
        "number": np.where(np.arange(N) % 9 == 0, np.nan, np.arange(N) / 7.0),
        f"group {EVIL}": [["one", EVIL, None][i % 3] for i in range(N)],
    }
    names = [f"id-{i}" for i in range(N)]
    names[5] = EVIL
    common = {"names": names, "columns": columns, "title": f"A page {EVIL}"}
    hs.write_report(model, folder / "whole.html", **common)
    hs.write_report(model, folder / "cells.html", **common, max_points=40, methods=False)
    return folder


class Watched:
    """A page, with its errors and requests."""

    def __init__(self, browser, path, **options):
        self.context = browser.new_context(viewport={"width": 1100, "height": 900}, **options)
        self.page = self.context.new_page()
        self.page.set_default_timeout(60_000)
        self.errors, self.requests = [], []
        self.page.on("console", lambda said: self.errors.append(said.text) if said.type == "error" else None)
        self.page.on("pageerror", lambda error: self.errors.append(str(error)))
        self.page.on("request", lambda request: self.requests.append(request.url))
        self.page.goto(path.as_uri())
        self.page.wait_for_selector("body[data-ready=yes]")

    def data(self, what, plot="plot"):
        return self.page.evaluate(f"() => document.getElementById('{plot}').data.map(trace => {what})")

    def settle(self):
        # Two frames: one that draws, and one that shows it.
        self.page.evaluate("() => new Promise(done => requestAnimationFrame(() => requestAnimationFrame(done)))")


@pytest.fixture(scope="module")
def watched(browser, written):
    return Watched(browser, written / "whole.html")


@pytest.fixture(scope="module")
def page(watched):
    return watched.page


def _places(watched):
    return np.concatenate([list(x.values()) if isinstance(x, dict) else x for x in watched.data("Array.from(trace.x)")])


def test_all_parts_are_drawn(watched, page):
    for plot in ("plot", "lineup", "distances", "distortion", "entropy", "spectrum"):
        assert page.locator(f"#{plot} .main-svg").count() > 0, plot
    titles = page.evaluate("() => document.getElementById('lineup').layout.annotations.map(one => one.text)")
    assert [title.split("</b>")[0].removeprefix("<b>") for title in titles] == [
        "HeatSketch",
        "DiffusionMaps",
        "GaussianProcessEmbedding",
    ]
    assert all("log L" in title for title in titles)
    assert page.locator("#status").inner_text() == ""


def test_slider_changes_the_picture(watched, page):
    before, side = _places(watched), watched.data("trace.x[0]", "lineup")
    page.focus("#power")
    assert page.locator("#power-value").inner_text() == "4 (chosen)"
    page.keyboard.press("ArrowRight")
    watched.settle()
    assert page.locator("#power-value").inner_text() == "8"
    assert not np.allclose(before, _places(watched))
    assert watched.data("trace.x[0]", "lineup") != side
    page.keyboard.press("ArrowLeft")
    watched.settle()
    np.testing.assert_array_equal(_places(watched), before)


def test_colours_follow_the_column(watched, page):
    page.select_option("#colour", index=0)
    watched.settle()
    names = watched.data("trace.name")
    assert names == ["number", "missing"]
    assert watched.data("trace.marker.colorscale")[0] == "Viridis"
    page.select_option("#colour", index=1)
    watched.settle()
    assert len(set(watched.data("trace.marker.color"))) == 3
    assert len(set(watched.data("trace.marker.symbol"))) == 3
    assert watched.data("trace.name")[-1] == "missing"
    page.select_option("#colour", value="-1")
    watched.settle()
    assert len(watched.data("trace.name")) == 1


def test_hover_shows_the_id_and_markup_as_text(watched, page):
    page.select_option("#colour", index=1)
    watched.settle()
    page.locator("#plot").scroll_into_view_if_needed()
    curve, at = page.evaluate(
        """() => { for (const [curve, trace] of document.getElementById('plot').data.entries()) {
             const at = Array.from(trace.customdata).indexOf(5); if (at >= 0) return [curve, at]; } }"""
    )
    page.evaluate(f"() => Plotly.Fx.hover('plot', [{{curveNumber: {curve}, pointNumber: {at}}}])")
    shown = page.locator("#plot .hoverlayer .hovertext").first.text_content()
    assert EVIL in shown
    assert any(EVIL in text for text in page.locator("#plot .legendtext").all_text_contents())


def test_pointer_finds_a_point(watched, page):
    page.locator("#plot").scroll_into_view_if_needed()
    places = page.evaluate(
        """() => { const plot = document.getElementById('plot'), box = plot.getBoundingClientRect();
             const { xaxis, yaxis } = plot._fullLayout;
             return plot.data.flatMap(trace => Array.from(trace.x, (x, at) => [box.x + xaxis._offset + xaxis.d2p(x),
               box.y + yaxis._offset + yaxis.d2p(trace.y[at]), trace.customdata[at]])); }"""
    )
    at = np.array(places)[:, :2]
    apart = np.linalg.norm(at[:, None] - at[None], axis=2) + 1e9 * np.eye(N)
    x, y, point = places[int(np.argmax(apart.min(axis=1)))]  # the one that stands most alone
    page.mouse.move(x - 3, y)
    page.mouse.move(x, y)
    label = "document.querySelector('#plot .hoverlayer .hovertext')?.textContent"
    page.wait_for_function(f"() => {label}?.startsWith('id-{point}group')")
    assert page.evaluate(f"() => {label}").startswith(f"id-{point}group")


def test_search_marks_a_point_and_lists_its_neighbours(watched, page):
    page.fill("#search-id", "id-17")
    page.keyboard.press("Enter")
    watched.settle()
    assert watched.data("trace.name")[-2:] == ["neighbours", "marked"]
    assert watched.data("Array.from(trace.customdata)")[-1] == [17]
    rows = page.locator("#found tbody tr")
    assert rows.count() == 8
    cells = rows.first.locator("td").all_text_contents()
    low, high = (float(word) for word in cells[2].split(" to "))
    assert 0 <= low <= high
    distances = [float(text) for text in page.locator("#found tbody td:nth-child(2)").all_text_contents()]
    assert distances == sorted(distances)
    page.fill("#search-id", "nobody")
    page.keyboard.press("Enter")
    assert "No point is called “nobody”" in page.locator("#found").inner_text()
    page.click("#forget")
    assert page.locator("#found").inner_text() == ""


def test_view_in_space(watched, page):
    page.check("input[value=solid]")
    page.wait_for_selector("#plot .gl-container canvas")
    assert {*watched.data("trace.type")} == {"scatter3d"}
    assert sum(watched.data(f"{list(MARKS)}.includes(trace.name) ? 0 : trace.z.length")) == N
    page.focus("#plot")
    eye = "() => document.getElementById('plot')._fullLayout.scene.camera.eye.x"
    before = page.evaluate(eye)
    page.keyboard.press("ArrowRight")
    page.wait_for_function(f"before => ({eye})() !== before", arg=before)
    page.check("input[value=flat]")
    watched.settle()
    assert "scatter" in {*watched.data("trace.type")}


def test_light_and_dark(watched, page):
    ground = "() => getComputedStyle(document.body).backgroundColor"
    ink = "() => document.getElementById('plot').layout.font.color"
    light = page.evaluate(ground), page.evaluate(ink)
    page.emulate_media(color_scheme="dark")
    watched.settle()
    dark = page.evaluate(ground), page.evaluate(ink)
    assert dark[0] != light[0]
    assert dark[1] != light[1]
    page.select_option("#theme", "light")
    watched.settle()
    assert (page.evaluate(ground), page.evaluate(ink)) == light


def test_every_control_has_a_name_and_can_be_reached(page):
    assert (
        page.evaluate(
            """() => [...document.querySelectorAll('select, input, button')].filter(one => one.checkVisibility() &&
             !(one.labels && one.labels.length) && !one.textContent.trim() && !one.ariaLabel).length"""
        )
        == 0
    )
    page.focus("#theme")
    reached = set()
    for _ in range(20):
        page.keyboard.press("Tab")
        reached.add(page.evaluate("() => document.activeElement.id || document.activeElement.name"))
    assert {"view", "method", "colour", "power", "plot", "search-id"} <= reached


def test_markup_is_text_and_nothing_was_fetched(watched, page):
    assert page.locator("h1").inner_text() == f"A page {EVIL}"
    assert page.evaluate("() => window.broken") is None
    assert page.locator("img[onerror]").count() == 0
    assert watched.errors == []
    assert [url.split(":")[0] for url in watched.requests if not url.startswith(("data:", "blob:"))] == ["file"]


def test_many_points_are_drawn_in_cells(browser, written):
    watched = Watched(browser, written / "cells.html", color_scheme="dark")
    page = watched.page
    assert page.locator("html").get_attribute("data-theme") == "dark"
    assert watched.data("trace.type")[0] == "heatmap"
    assert f"All {N} points are drawn as cells" in page.locator(".notice").first.inner_text()
    words = watched.data("trace.text ? trace.text.flat().filter(text => text.includes('mean number')).length : 0")
    assert 0 < words[0] <= N
    before = watched.data("trace.z ? trace.z.flat() : []")[0]
    page.focus("#power")
    page.keyboard.press("ArrowRight")
    watched.settle()
    assert watched.data("trace.z ? trace.z.flat() : []")[0] != before
    page.select_option("#draw", "points")
    watched.settle()
    assert "heatmap" not in watched.data("trace.type")
    assert sum(watched.data("trace.x.length")) == 40
    page.select_option("#colour", index=1)
    page.select_option("#draw", "cells")
    watched.settle()
    assert any("most common" in text for text in watched.data("trace.text ? trace.text.flat().join('') : ''"))
    assert watched.errors == []
    watched.context.close()


def _cells(watched):
    """Side of a cell, number of points, cells with a label, and cells with a colour, in the part that is drawn."""
    return watched.page.evaluate(
        """() => { const { dx, z, text } = document.getElementById('plot').data[0];
             const words = text.flat().filter(one => one), painted = z.flat().filter(one => one !== null);
             const counts = words.map(one => Number(one.split(' ')[0].replaceAll(',', '')));
             return [dx, counts.reduce((sum, one) => sum + one, 0), words.length, painted.length]; }"""
    )


def _inside(watched, places):
    """How many of all points lie in the cells that are drawn, by their places in the picture, (n, 2)."""
    x0, y0, dx, columns, rows = watched.page.evaluate(
        """() => { const { x0, y0, dx, z } = document.getElementById('plot').data[0];
             return [x0, y0, dx, z[0].length, z.length]; }"""
    )
    low, high = np.array([x0, y0]) - dx / 2, np.array([x0, y0]) + dx * (np.array([columns, rows]) - 0.5)
    return int(((places >= low) & (places < high)).all(axis=1).sum())


def test_zooming_shows_finer_cells_of_the_same_points(browser, tmp_path):
    n = 3000
    rng = np.random.default_rng(0)
    X = np.vstack([rng.normal(size=(n - 600, 3)), 1e-2 * rng.normal(size=(600, 3))])
    model = hs.DiffusionMaps(2, bandwidth=1.0, power=4).fit(X)
    group = np.where(X[:, 0] > 0, "right", "left")
    columns = {"number": X[:, 0], "group": group}
    path = hs.write_report(model, tmp_path / "page.html", columns=columns, max_points=100, methods=False)
    Y = model.embedding_
    box = (Y.max(axis=0) + Y.min(axis=0)) / 2, np.ptp(Y, axis=0).max() / 2
    places = np.minimum((Y - box[0]) / box[1], 1 - 1e-12)
    watched = Watched(browser, path)
    page = watched.page
    page.locator("#plot").scroll_into_view_if_needed()
    side, count, cells, painted = _cells(watched)
    assert (side, count, cells) == (2 / 128, n, painted)
    page.focus("#plot")
    sides = [side]
    for _ in range(12):  # the points of the middle, by the keyboard
        page.keyboard.press("+")
        watched.settle()
        side, count, cells, painted = _cells(watched)
        assert count == _inside(watched, places)
        assert cells == painted
        sides.append(side)
    assert sides == sorted(sides, reverse=True)
    assert sides[-1] <= sides[0] / 8
    box = page.locator("#plot").bounding_box()
    page.mouse.move(box["x"] + box["width"] / 2, box["y"] + box["height"] / 2)
    for _ in range(16):  # a turn of the wheel changes the picture by a tenth
        page.mouse.wheel(0, 900)
    page.wait_for_function(f"() => document.getElementById('plot').data[0].dx > {sides[-1]}")
    watched.settle()
    assert _cells(watched)[1] == _inside(watched, places)
    page.select_option("#colour", index=1)
    watched.settle()
    words = watched.data("trace.text ? trace.text.flat().filter(text => text) : []")[0]
    assert words
    assert all("most common: left" in one or "most common: right" in one for one in words)
    side = _cells(watched)[0]
    for _ in range(2):
        page.locator("#plot [data-title='Zoom in']").click()
        watched.settle()
    assert _cells(watched)[0] < side
    assert _cells(watched)[1] == _inside(watched, places)
    page.focus("#plot")
    page.keyboard.press("0")
    watched.settle()
    assert _cells(watched)[:2] == [2 / 128, n]
    assert watched.errors == []
    watched.context.close()
