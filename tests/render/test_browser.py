"""The pages in a real browser: open, point, click, zoom, keys; no console error, no request but for the page."""

import pytest
from browser import CHROMIUM, Browser
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
