"""The pages in a real browser: open, point, click, zoom, keys; no console error, no request but for the page."""

import pytest
from browser import CHROMIUM, Browser
from filmed import NAMES, page, recorded_blocks, recorded_segments
from pictured import document

from stridetool.render.inspect_page import inspect_page

pytestmark = [
    pytest.mark.skipif(CHROMIUM is None, reason="no Chromium here"),
    pytest.mark.xdist_group("browser"),
]


@pytest.fixture(scope="module")
def browser(tmp_path_factory):
    page = Browser(tmp_path_factory.mktemp("profile"))
    yield page
    page.close()


@pytest.fixture
def quiet(browser):
    """The browser, which must have had nothing to complain about and nothing to fetch."""
    browser.errors.clear()
    browser.requests.clear()
    yield browser
    assert browser.errors == []
    assert all(url.startswith(("file:", "data:", "blob:")) for url in browser.requests)
    assert len([url for url in browser.requests if url.startswith("file:")]) <= 1


@pytest.fixture
def layout_page(quiet, tmp_path):
    path = tmp_path / "layout.html"
    path.write_text("".join(inspect_page(document())), encoding="utf-8")
    quiet.open(path)
    return quiet


def test_pointing_at_an_element_says_where_it_lies(layout_page):
    layout_page.mouse("mouseMoved", *layout_page.middle('figure[data-tensor="turned"] .cell[data-byte="56"]'))
    words = layout_page.wait("document.getElementById('where').textContent")
    assert words == "turned[1, 2] → offset 14 → byte 56 → address 0x7f0000010038"
    assert layout_page.run("document.querySelectorAll('.here-mark').length") == 1


def test_pointing_at_a_strip_says_which_index_lies_there(layout_page):
    lane = 'figure[data-storage="s0"] .lane[data-name="x"] rect'
    x, y = layout_page.middle(lane)
    layout_page.mouse("mouseMoved", x + 2, y)
    words = layout_page.wait("document.getElementById('where').textContent")
    assert words == "s0 byte 48 → address 0x7f0000010030 → x[2, 0], offset 12"


def test_the_keys_walk_through_a_grid(layout_page):
    layout_page.run("document.querySelector('figure[data-tensor=\"turned\"]').focus()")
    for name in ("ArrowRight", "ArrowDown"):
        layout_page.key(name)
    words = layout_page.wait("document.getElementById('where').textContent")
    assert words.startswith("turned[1, 1] → offset 8 → byte 32")


def test_a_name_is_never_markup(layout_page):
    assert layout_page.run("document.scripts.length") == 1
    assert layout_page.run("document.body.textContent.includes('<script>alert(1)</script>')")


_END = """Film.read(document.querySelector('section.film script').textContent).then((film) => {
  const { live, segments } = film.state(film.entries);
  const asked = (block) => film.kinds[film.kindOf[block]][0];
  return {
    blocks: [...live].map(([block, waits]) => [film.hex(film.addressOf[block]), asked(block), waits]),
    segments: [...segments.values()].map((row) => [film.hex(row.address), row.size, row.stream]),
  };
})"""


@pytest.fixture(params=NAMES)
def film_page(request, quiet, tmp_path):
    path = tmp_path / "film.html"
    path.write_text(page(request.param), encoding="utf-8")
    quiet.open(path)
    quiet.wait("document.querySelector('section.film').dataset.ready")
    return request.param, quiet


def test_the_script_ends_with_the_memory_that_torch_recorded(film_page):
    name, browser = film_page
    end = browser.run(_END)
    assert {address: (asked, waits) for address, asked, waits in end["blocks"]} == recorded_blocks(name)
    assert sorted(map(tuple, end["segments"])) == recorded_segments(name)


@pytest.fixture
def phases(quiet, tmp_path):
    path = tmp_path / "film.html"
    path.write_text(page("trace_phases_1.pickle.gz"), encoding="utf-8")
    quiet.open(path)
    quiet.wait("document.querySelector('section.film').dataset.ready")
    return quiet


def span(browser):
    low, high = browser.run("document.querySelector('.course').dataset.range").split("-")
    return int(high) - int(low)


def frame(browser):
    browser.run("new Promise((done) => requestAnimationFrame(() => requestAnimationFrame(done)))")


def test_pointing_zooming_and_clicking_in_the_timeline(phases):
    x, y = phases.middle(".course")
    phases.mouse("mouseMoved", x, y)
    assert "after it allocated" in phases.wait("document.querySelector('.said').textContent")
    before = span(phases)
    phases.mouse("mouseWheel", x, y, deltaX=0, deltaY=-800)
    frame(phases)
    assert span(phases) < before / 4
    phases.click(x, y)
    title = phases.run("document.querySelector('.moment-title').textContent")
    assert "memory after entry 2," in title
    phases.run("document.querySelector('[data-do=all]').click()")
    frame(phases)
    assert span(phases) == before
    phases.run("document.querySelector('.course').focus()")
    phases.key("ArrowRight")
    assert phases.run("document.querySelector('.moment-title').textContent") != title


def test_pointing_at_a_block_tells_its_size_and_who_asked(phases):
    x, y = phases.run(
        "(() => { const b = document.querySelector('.map').getBoundingClientRect(); return [b.left, b.top]; })()"
    )
    phases.run(f"window.scrollBy(0, {y - 200})")
    for step in range(40):
        phases.mouse("mouseMoved", x + 345 + step * 15, 210)
        if "asked for on stream" in phases.run("document.querySelector('.stack').textContent"):
            break
    else:
        pytest.fail("no block under the pointer")
    assert phases.run("document.querySelectorAll('table.pins tr').length") > 1


def test_the_keys_walk_through_blocks(phases):
    phases.run("document.querySelector('.mapbox').focus()")
    phases.key("ArrowRight")
    first = phases.run("document.querySelector('.stack').textContent")
    phases.key("ArrowRight")
    assert "asked for on stream" in first
    assert phases.run("document.querySelector('.stack').textContent") != first


def test_without_script_the_pictures_and_tables_are_there(quiet, tmp_path):
    path = tmp_path / "film.html"
    path.write_text(page("trace_phases_1.pickle.gz"), encoding="utf-8")
    quiet.call("Emulation.setScriptExecutionDisabled", value=True)
    quiet.open(path)
    quiet.call("Emulation.setScriptExecutionDisabled", value=False)
    assert quiet.run("document.querySelectorAll('figure svg').length") >= 2
    assert quiet.run("getComputedStyle(document.querySelector('section.film')).display") == "none"
