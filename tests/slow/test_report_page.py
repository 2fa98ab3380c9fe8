"""The report in a browser: controls by pointer and keyboard, layouts, print, and markup that is shown as text."""

from __future__ import annotations

import itertools
import os
import re
import shutil
from importlib import import_module

import numpy as np
import pytest

import heatsketch as hs

N = 60
PLOTS = ("plot", "lineup", "distances", "distortion", "entropy", "spectrum")
MARKS = ("neighbours", "marked")
EVIL = '<b>bold</b><img src=x onerror="window.broken=1"></script><script>window.broken=1</script>'
WIDTHS = (360, 390, 768, 1024, 1280)


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


def _clusters(k, n=600):
    """Points around k centres, and the names of their groups."""
    rng = np.random.default_rng(0)
    groups = np.arange(n) % k
    return 4.0 * rng.normal(size=(k, 5))[groups] + rng.normal(size=(n, 5)), [f"group {i} of them" for i in groups]


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
    for k in (12, 30):
        X, groups = _clusters(k)
        model = hs.HeatSketch(random_state=0).fit(X)
        hs.write_report(model, folder / f"{k}.html", columns={"a long name of a column " * 4: groups}, methods=False)
    return folder


class Watched:
    """A page, with its errors and requests."""

    def __init__(self, browser, path, width=1100, height=900, **options):
        # Without smooth scrolling, so that places on the screen hold.
        self.context = browser.new_context(
            viewport={"width": width, "height": height}, reduced_motion="reduce", **options
        )
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
        # Frames that draw, place labels, and show both.
        self.page.evaluate(
            "async () => { for (let i = 0; i < 3; i++) await new Promise(done => requestAnimationFrame(done)); }"
        )

    def close(self):
        assert self.errors == []
        self.context.close()


@pytest.fixture(scope="module")
def watched(browser, written):
    return Watched(browser, written / "whole.html")


@pytest.fixture(scope="module")
def page(watched):
    return watched.page


@pytest.fixture
def groups(browser, written):
    """A page of twelve groups."""
    watched = Watched(browser, written / "12.html")
    yield watched
    watched.close()


def _places(watched):
    return np.concatenate([list(x.values()) if isinstance(x, dict) else x for x in watched.data("Array.from(trace.x)")])


def _labels(watched):
    """Texts of the labels in the picture, and their boxes."""
    return watched.page.evaluate(
        """() => [...document.querySelectorAll('#plot .annotation')].map(one => {
             const { left, top, right, bottom } = one.querySelector('.annotation-text-g').getBoundingClientRect();
             return [one.textContent, [left, top, right, bottom]]; })"""
    )


def _overlap(a, b):
    return a[0] < b[2] and b[0] < a[2] and a[1] < b[3] and b[1] < a[3]


def _box(page, selector):
    found = page.locator(selector).bounding_box()
    return found["x"], found["y"], found["x"] + found["width"], found["y"] + found["height"]


class TestPictures:
    def test_all_parts_are_drawn(self, watched, page):
        page.click("#scales summary")
        page.wait_for_selector("#spectrum .main-svg")
        for plot in PLOTS:
            assert page.locator(f"#{plot} .main-svg").count() > 0, plot
        titles = page.evaluate("() => document.getElementById('lineup').layout.annotations.map(one => one.text)")
        assert [re.sub("<[^>]*>", "", title) for title in titles] == [
            "HeatSketch",
            "DiffusionMaps",
            "GaussianProcessEmbedding",
        ]
        assert page.locator("#status").inner_text() == ""
        page.click("#scales summary")

    def test_slider_changes_the_picture(self, watched, page):
        before = _places(watched)
        page.click("#more summary")
        page.focus("#power")
        assert page.locator("#power-value").inner_text() == "4 (chosen)"
        page.keyboard.press("ArrowRight")
        watched.settle()
        assert page.locator("#power-value").inner_text() == "8"
        assert not np.allclose(before, _places(watched))
        page.keyboard.press("ArrowLeft")
        watched.settle()
        np.testing.assert_array_equal(_places(watched), before)

    def test_other_method_is_drawn_at_the_chosen_time(self, watched, page):
        before = _places(watched)
        page.focus("#power")
        page.keyboard.press("ArrowRight")
        page.select_option("#method", label="DiffusionMaps")
        watched.settle()
        assert not np.allclose(before, _places(watched))
        assert page.locator("#power").is_disabled()
        assert page.locator("#power-value").inner_text() == "4 (chosen)"
        page.select_option("#method", label="HeatSketch")
        watched.settle()
        assert page.locator("#power").is_enabled()
        np.testing.assert_array_equal(_places(watched), before)

    def test_colours_follow_the_column(self, watched, page):
        page.select_option("#colour", index=0)
        watched.settle()
        assert set(watched.data("trace.name")) == {"number", "missing"}
        assert any(watched.data("!!trace.marker.colorscale"))
        page.select_option("#colour", index=1)
        watched.settle()
        assert len(set(watched.data("trace.marker.color"))) == 3
        assert len(set(watched.data("trace.marker.symbol"))) == 3
        assert watched.data("trace.name")[0] == "missing"  # below all others
        page.select_option("#colour", value="-1")
        watched.settle()
        assert len(watched.data("trace.name")) == 1

    def test_hover_shows_the_id_and_markup_as_text(self, watched, page):
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
        assert any(EVIL[:40] in text for text in page.locator("#legend").all_text_contents())

    def test_pointer_finds_a_point(self, watched, page):
        page.select_option("#colour", index=0)
        watched.settle()
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
        page.wait_for_function(f"() => {label}?.startsWith('id-{point}number')")
        page.mouse.down()
        page.mouse.up()
        page.wait_for_function(f"() => document.getElementById('found').textContent.includes('id-{point}')")
        page.click("#forget")

    def test_search_marks_a_point_and_lists_its_neighbours(self, watched, page):
        page.fill("#search-id", "id-17")
        page.keyboard.press("Enter")
        watched.settle()
        assert watched.data("trace.name")[-2:] == list(MARKS)
        assert watched.data("Array.from(trace.customdata)")[-1] == [17]
        rows = page.locator("#found tbody tr")
        assert rows.count() == 5
        low, high = map(float, rows.first.locator("td").nth(1).text_content().split(" to "))
        assert 0 <= low <= high
        distances = [float(text) for text in page.locator("#found tbody td:nth-child(2)").all_text_contents()]
        assert distances == sorted(distances)
        page.fill("#search-id", "nobody")
        page.keyboard.press("Enter")
        assert "nobody" in page.locator("#found").inner_text()
        page.fill("#search-id", "id-17")
        page.keyboard.press("Enter")
        page.click("#forget")
        assert page.locator("#found").inner_text() == ""
        assert page.locator("#forget").is_hidden()

    def test_view_in_space(self, watched, page):
        page.check("input[value=solid]")
        page.wait_for_selector("#plot .gl-container canvas")
        assert {*watched.data("trace.type")} == {"scatter3d"}
        assert sum(watched.data(f"{list(MARKS)}.includes(trace.name) ? 0 : trace.z.length")) == N
        eye = "() => document.getElementById('plot')._fullLayout.scene.camera.eye.x"
        before = page.evaluate(eye)
        page.focus("#plot")
        page.keyboard.press("ArrowRight")
        page.wait_for_function(f"before => ({eye})() !== before", arg=before)
        turned = page.evaluate(eye)
        page.click("#closer")
        page.wait_for_function(f"before => ({eye})() !== before", arg=turned)
        page.click("#whole")
        page.wait_for_function(f"before => ({eye})() === before", arg=before)
        page.check("input[value=flat]")
        watched.settle()
        assert "scatter" in {*watched.data("trace.type")}

    def test_picture_is_zoomed_and_saved(self, watched, page):
        wide = (
            "() => { const [low, high] = document.getElementById('plot')._fullLayout.xaxis.range; return high - low; }"
        )
        before = page.evaluate(wide)
        page.click("#closer")
        watched.settle()
        closer = page.evaluate(wide)
        assert closer < before
        page.select_option("#colour", index=1)  # what is drawn anew keeps its place
        watched.settle()
        assert page.evaluate(wide) == pytest.approx(closer)
        page.click("#whole")
        watched.settle()
        assert page.evaluate(wide) == pytest.approx(before)
        with page.expect_download() as download:
            page.click("#save")
        assert download.value.suggested_filename.endswith(".png")

    def test_wheel_scrolls_the_page_until_the_picture_is_clicked(self, watched, page):
        page.evaluate("() => { scrollTo({ top: 0, behavior: 'instant' }); document.activeElement.blur(); }")
        wide = "() => document.getElementById('plot')._fullLayout.xaxis.range[1]"
        before = page.evaluate(wide)
        left, top, right, bottom = _box(page, "#plot")
        page.mouse.move((left + right) / 2, min((top + bottom) / 2, 800))
        page.mouse.wheel(0, 100)
        page.wait_for_function("() => scrollY > 0")
        assert page.evaluate(wide) == before
        page.focus("#plot")
        page.mouse.wheel(0, 100)
        page.wait_for_function(f"before => ({wide})() !== before", arg=before)
        page.click("#whole")


class TestGroups:
    def test_switch_of_labels(self, groups):
        found = _labels(groups)
        assert len(found) == 12
        boxes = [box for _, box in found]
        assert not any(_overlap(a, b) for i, a in enumerate(boxes) for b in boxes[:i])
        left, top, right, bottom = _box(groups.page, "#plot")
        assert all(a >= left and b >= top and c <= right and d <= bottom for a, b, c, d in boxes)
        groups.page.uncheck("#labels")
        groups.settle()
        assert _labels(groups) == []
        groups.page.check("#labels")
        groups.settle()
        assert _labels(groups) == found

    def test_labels_stay_with_what_is_visible(self, groups):
        page = groups.page
        for _ in range(4):
            page.click("#closer")
            groups.settle()
        found = _labels(groups)
        assert len(found) < 12
        left, top, right, bottom = _box(page, "#plot")
        assert all(a >= left and b >= top and c <= right and d <= bottom for _, (a, b, c, d) in found)

    def test_groups_are_singled_out(self, groups):
        page = groups.page
        colours = groups.data("trace.marker.color")
        assert len(set(colours)) == 12
        page.click("#legend .groups button >> nth=2")
        groups.settle()
        assert page.locator("#legend [aria-pressed=true]").count() == 1
        assert len(set(groups.data("trace.marker.color"))) == 2
        assert [text for text, _ in _labels(groups)] == ["group 2 of them"]
        assert groups.data("trace.name")[-1] == "group 2 of them"  # above all others
        page.click("#all")
        groups.settle()
        assert groups.data("trace.marker.color") == colours

    def test_switch_of_trust(self, groups):
        page = groups.page
        page.check("#trust")
        groups.settle()
        counts = page.evaluate("() => Array.from(report.trust.counts)")
        expected = np.searchsorted([0.1, 0.5, 0.9], np.array(counts) / 15, side="right")
        sizes = dict(zip(groups.data("trace.name"), groups.data("trace.x.length"), strict=True))
        words = ["hardly any", "few", "most", "nearly all"]
        assert sizes == {words[level]: size for level, size in enumerate(np.bincount(expected)) if size}
        listed = page.locator("#legend li").all_text_contents()
        assert [text.split(",")[0] for text in listed] == words[::-1]
        page.click("#more summary")
        page.focus("#power")
        page.keyboard.press("ArrowLeft")  # a picture in which it was not measured
        groups.settle()
        assert len(groups.data("trace.name")) == 12
        page.keyboard.press("ArrowRight")
        groups.settle()
        assert set(groups.data("trace.name")) == set(sizes)
        page.uncheck("#trust")
        groups.settle()
        assert len(groups.data("trace.name")) == 12

    def test_small_groups_are_grey(self, browser, written):
        watched = Watched(browser, written / "30.html")
        names, colours = watched.data("trace.name"), watched.data("trace.marker.color")
        assert len(names) == len(set(colours)) == 21
        assert names[0].startswith("other")
        assert watched.page.locator("#legend li").count() == 21
        assert not any("other" in text for text, _ in _labels(watched))
        watched.close()


class TestLayout:
    @pytest.mark.parametrize("width", WIDTHS)
    @pytest.mark.parametrize("name", ["whole", "30"])
    def test_nothing_overlaps_or_is_cut_off(self, browser, written, name, width):
        watched = Watched(browser, written / f"{name}.html", width, 800)
        page = watched.page
        for details in page.locator("details > summary").all():
            details.click()
        assert page.evaluate("() => document.documentElement.scrollWidth") <= width
        tools, legend, plot = (_box(page, selector) for selector in ("#tools", "#legend", "#plot"))
        assert not _overlap(tools, legend)
        assert not _overlap(tools, plot)
        assert not _overlap(legend, plot)
        assert (legend[1] >= plot[3]) == (width < 900)  # below the plot on a phone, beside it otherwise
        outside = page.evaluate(
            """width => [...document.querySelectorAll('select, input, button, summary, p, td, th')].filter(one =>
                 one.checkVisibility() && !one.closest('.unseen') && !one.closest('.scroll') &&
                 one.getBoundingClientRect().right > width + 0.5).map(one => one.outerHTML.slice(0, 80))""",
            width,
        )
        assert outside == []
        watched.close()

    def test_targets_are_large_on_a_touch_screen(self, browser, written):
        watched = Watched(browser, written / "12.html", 390, 844, has_touch=True, is_mobile=True)
        small = watched.page.evaluate(
            """() => [...document.querySelectorAll('select, button, #more summary, .controls label')]
                 .filter(one => one.checkVisibility() && one.getBoundingClientRect().height < 43)
                 .map(one => one.outerHTML.slice(0, 80))"""
        )
        assert small == []
        watched.close()

    def test_finger_scrolls_over_the_picture_until_it_is_tapped(self, browser, written):
        watched = Watched(browser, written / "12.html", 390, 844, has_touch=True, is_mobile=True)
        mode = "() => document.getElementById('plot')._fullLayout.dragmode"
        assert watched.page.evaluate(mode) is False
        watched.page.locator("#plot").tap(position={"x": 150, "y": 30})
        watched.page.wait_for_function(f"() => ({mode})() === 'pan'")
        watched.close()

    def test_light_and_dark(self, browser, written):
        watched = Watched(browser, written / "12.html")
        page = watched.page
        looks = (
            "() => [getComputedStyle(document.body).backgroundColor, document.getElementById('plot').layout.font.color]"
        )
        light, colours = page.evaluate(looks), watched.data("trace.marker.color")
        page.emulate_media(color_scheme="dark")
        page.wait_for_function(f"before => ({looks})()[1] !== before", arg=light[1])
        watched.settle()
        assert page.evaluate(looks)[0] != light[0]
        assert watched.data("trace.marker.color") != colours
        page.emulate_media(color_scheme="light")
        page.wait_for_function(f"before => ({looks})()[1] === before", arg=light[1])
        watched.close()

    @pytest.mark.parametrize("theme", ["light", "dark"])
    @pytest.mark.parametrize("name", ["whole", "12"])
    def test_text_has_contrast(self, browser, written, theme, name):
        watched = Watched(browser, written / f"{name}.html", color_scheme=theme)
        for details in watched.page.locator("details > summary").all():
            details.click()
        poor = watched.page.evaluate(CONTRAST)
        assert poor == []
        watched.close()

    def test_print_opens_all_parts_in_the_light_theme(self, browser, written):
        watched = Watched(browser, written / "whole.html", color_scheme="dark")
        page = watched.page
        page.emulate_media(media="print", color_scheme="dark")
        page.wait_for_function("() => document.querySelectorAll('.section:not([open])').length === 0")
        watched.settle()
        for plot in PLOTS:
            assert page.locator(f"#{plot} .main-svg").count() > 0, plot
        ground, ink = page.evaluate(
            "() => [getComputedStyle(document.body).backgroundColor, getComputedStyle(document.body).color]"
        )
        assert (ground, ink) == ("rgb(255, 255, 255)", "rgb(0, 0, 0)")
        for hidden in ("#tools", "#colour", "#search", "#more", "#copy"):
            assert page.locator(hidden).is_hidden(), hidden
        page.emulate_media(media="screen", color_scheme="dark")
        page.wait_for_function("() => document.querySelectorAll('.section[open]').length === 0")
        assert page.pdf(format="A4").startswith(b"%PDF")
        watched.close()


# Texts whose contrast with the colour behind them is below that of WCAG 2 at level AA.
CONTRAST = """() => {
  const channels = text => {
    const [r, g, b, a = 1] = text.match(/[\\d.]+/g).map(Number); return { rgb: [r, g, b], a }; };
  const light = ({ rgb }) => rgb.map(value => value / 255).map(value => value <= 0.04045 ? value / 12.92 :
    ((value + 0.055) / 1.055) ** 2.4).reduce((sum, value, at) => sum + value * [0.2126, 0.7152, 0.0722][at], 0);
  const behind = one => { for (; one; one = one.parentElement) {
    const found = channels(getComputedStyle(one).backgroundColor);
    if (found.a > 0) return found; } };
  const poor = [];
  for (const one of document.querySelectorAll('body *')) {
    const own = [...one.childNodes].some(node => node.nodeType === 3 && node.textContent.trim());
    const skipped = one.closest('svg, script, noscript, .unseen, .skip');
    if (!own || !one.checkVisibility() || skipped || one.disabled) continue;
    const style = getComputedStyle(one), [a, b] = [light(channels(style.color)), light(behind(one))];
    const contrast = (Math.max(a, b) + 0.05) / (Math.min(a, b) + 0.05), size = parseFloat(style.fontSize);
    if (contrast < (size >= 24 ? 3 : 4.5)) poor.push([one.outerHTML.slice(0, 80), contrast]);
  }
  return poor; }"""


class TestAccess:
    def test_every_control_has_a_name(self, page):
        nameless = page.evaluate(
            """() => [...document.querySelectorAll('select, input, button')].filter(one => one.checkVisibility() &&
                 !(one.labels && one.labels.length) && !one.textContent.trim() && !one.ariaLabel).length"""
        )
        assert nameless == 0

    def test_headings_and_landmarks(self, page):
        levels = page.evaluate(
            "() => [...document.querySelectorAll('h1, h2, h3')].map(one => Number(one.tagName.slice(1)))"
        )
        assert levels[0] == 1
        assert levels.count(1) == 1
        assert all(after <= before + 1 for before, after in itertools.pairwise(levels))
        for selector in ("header", "main", "footer", "[role=search]", "[role=status]"):
            assert page.locator(selector).count() >= 1, selector
        assert page.evaluate("() => [...document.querySelectorAll('table')].every(one => one.caption)")
        assert page.locator("#shown").text_content()

    def test_page_is_walked_by_keyboard_alone(self, browser, written):
        watched = Watched(browser, written / "12.html")
        page = watched.page
        page.keyboard.press("Tab")
        assert page.evaluate("() => document.activeElement.className") == "skip"
        page.keyboard.press("Enter")
        reached, unseen = [], []
        for _ in range(60):
            page.keyboard.press("Tab")
            name, outline = page.evaluate(
                """() => { const one = document.activeElement;
                     const name = one.id || one.name || one.dataset.key || one.parentElement?.id;
                     return [name, getComputedStyle(one).outlineWidth]; }"""
            )
            reached.append(name)
            unseen += [name] if outline == "0px" and name else []
            if name == "words":
                break
        wanted = ["colour", "labels", "trust", "view", "closer", "farther", "whole", "save", "plot", "0", "11", "more"]
        assert [name for name in reached if name in wanted] == wanted
        assert {"search-id", "scales", "made", "words"} <= set(reached)
        assert unseen == []
        page.focus("#trust")
        page.keyboard.press("Space")
        watched.settle()
        assert "nearly all" in watched.data("trace.name")
        assert "trust" in page.locator("#said").text_content()
        page.keyboard.press("Space")
        page.focus("#legend [data-key='3']")
        page.keyboard.press("Enter")
        watched.settle()
        assert page.evaluate("() => document.activeElement.dataset.key") == "3"
        assert page.locator("#legend [aria-pressed=true]").count() == 1
        page.focus("#scales summary")
        page.keyboard.press("Enter")
        page.wait_for_selector("#spectrum .main-svg")
        watched.close()

    def test_markup_is_text_and_nothing_was_fetched(self, watched, page):
        assert page.locator("h1").inner_text() == f"A page {EVIL}"
        assert page.evaluate("() => window.broken") is None
        assert page.locator("img[onerror]").count() == 0
        assert watched.errors == []
        assert [url.split(":")[0] for url in watched.requests if not url.startswith(("data:", "blob:"))] == ["file"]

    def test_text_is_there_without_scripts(self, browser, written):
        context = browser.new_context(java_script_enabled=False)
        page = context.new_page()
        page.goto((written / "12.html").as_uri())
        assert page.locator("#summary p").count() == 3
        assert page.locator("#findings").inner_text()
        assert page.locator("#colour").is_hidden()
        context.close()


class TestManyPoints:
    def test_many_points_are_drawn_in_cells(self, browser, written):
        watched = Watched(browser, written / "cells.html", color_scheme="dark")
        page = watched.page
        assert watched.data("trace.type")[0] == "heatmap"
        assert f"All {N} points" in page.locator("#notes").inner_text()
        assert page.locator("#lineup").is_hidden()  # there is no other method
        words = watched.data("trace.text ? trace.text.flat().filter(text => text.includes('mean number')).length : 0")
        assert 0 < words[0] <= N
        before = watched.data("trace.z ? trace.z.flat() : []")[0]
        page.click("#more summary")
        page.focus("#power")
        page.keyboard.press("ArrowRight")
        watched.settle()
        assert watched.data("trace.z ? trace.z.flat() : []")[0] != before
        page.keyboard.press("ArrowLeft")
        page.check("#trust")
        watched.settle()
        assert "heatmap" not in watched.data("trace.type")
        page.uncheck("#trust")
        page.select_option("#draw", "points")
        watched.settle()
        assert "heatmap" not in watched.data("trace.type")
        assert sum(watched.data("trace.x.length")) == 40
        page.select_option("#colour", index=1)
        page.select_option("#draw", "cells")
        watched.settle()
        assert any("most common" in text for text in watched.data("trace.text ? trace.text.flat().join('') : ''"))
        watched.close()


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
    for _ in range(22):  # a turn of the wheel changes the picture by a tenth
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
        page.click("#closer")
        watched.settle()
    assert _cells(watched)[0] < side
    assert _cells(watched)[1] == _inside(watched, places)
    page.focus("#plot")
    page.keyboard.press("0")
    watched.settle()
    assert _cells(watched)[:2] == [2 / 128, n]
    watched.close()


def test_ten_thousand_points_take_less_than_three_megabytes(tmp_path):
    X, groups = _clusters(12, 10_000)
    rng = np.random.default_rng(1)
    model = hs.HeatSketch(random_state=0).fit(np.hstack([X, rng.normal(size=(len(X), 15))]))
    columns = {"group": groups, "number": rng.normal(size=len(X)), "other": rng.normal(size=len(X))}
    names = [f"sample {i}" for i in range(len(X))]
    assert hs.write_report(model, tmp_path / "page.html", columns=columns, names=names).stat().st_size < 3e6
