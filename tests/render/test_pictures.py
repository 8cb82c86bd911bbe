"""Terminal pictures at three widths, and the SVG, against golden files; and what holds for all of them."""

import re
import xml.etree.ElementTree as ET

import pytest
from pictured import assert_golden, document

from stridetool.render.blocks import Picture, ascii_blocks
from stridetool.render.inspect_page import inspect_page
from stridetool.render.inspect_text import inspect_blocks
from stridetool.render.plain import write_plain
from stridetool.render.svg import inspect_svg

WIDTHS = [40, 80, 200]


def cells(width):
    return max(16, min(width, 200) - 30)


def pictures(width, *, ascii_only=False):
    blocks = inspect_blocks(document(cells(width)), width=width, details=True)
    return [block for block in (ascii_blocks(blocks) if ascii_only else blocks) if isinstance(block, Picture)]


@pytest.mark.parametrize("width", WIDTHS)
def test_terminal_pictures(width):
    assert_golden(f"pictures_{width}.txt", "".join(write_plain(pictures(width))))


@pytest.mark.parametrize("width", WIDTHS)
@pytest.mark.parametrize("ascii_only", [False, True])
def test_pictures_keep_to_the_width(width, ascii_only):
    text = "".join(write_plain(pictures(width, ascii_only=ascii_only)))
    assert max(map(len, text.splitlines())) <= width


@pytest.mark.parametrize("width", WIDTHS)
def test_colour_adds_nothing_but_colour(width):
    coloured = "".join(write_plain(pictures(width), color=True))
    stripped = [line.rstrip() for line in re.sub(r"\x1b\[[0-9;]*m", "", coloured).splitlines()]
    assert stripped == "".join(write_plain(pictures(width))).splitlines()
    assert "\x1b" in coloured


def test_ascii_tells_every_cell_apart_as_the_signs_do():
    signs = "".join(write_plain(pictures(80)))
    plain = "".join(write_plain(pictures(80, ascii_only=True)))
    assert plain.isascii()
    assert [len(line) for line in plain.splitlines()] == [len(line) for line in signs.splitlines()]
    pairs = {(a, b) for a, b in zip(signs, plain, strict=True) if not a.isascii()}
    assert len({b for _, b in pairs}) == len({a for a, _ in pairs})
    assert_golden("pictures_ascii.txt", plain)


def test_the_whole_report_in_ascii():
    assert "".join(write_plain(ascii_blocks(inspect_blocks(document())))).isascii()


def test_svg():
    text = "".join(inspect_svg(document()))
    assert_golden("layout.svg", text)
    root = ET.fromstring(text)
    assert not [node for node in root.iter() if node.tag.endswith(("script", "image", "foreignObject"))]
    assert "http" not in text.replace("http://www.w3.org/2000/svg", "")
    assert "<script>alert(1)</script>" in "".join(root.itertext())


def test_the_page_says_everything_without_its_script():
    page = "".join(inspect_page(document()))
    assert page.count("<script") == 1
    without = re.sub(r"<script>.*</script>", "", page, flags=re.S)
    assert "turned[1, 2] → offset 14 → byte 56 → address 0x7f0000010038" in without
    assert "&lt;script&gt;alert(1)&lt;/script&gt;" in without
    assert "no bytes moved" in without
    assert "merging needs 24, it is 1" in without
    for word in ("http://", "https://", "src=", "@import", "eval(", "url(h"):
        assert word not in page.replace("http://www.w3.org/2000/svg", "")
