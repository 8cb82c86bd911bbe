"""Layout text and hostile names go through every writer unchanged, or escaped where they would act."""

import io
import re

import pytest

from stridetool.render.blocks import Column, Heading, Line, Picture, Table, line
from stridetool.render.html import write_html
from stridetool.render.plain import write_plain
from stridetool.render.terminal import write_terminal

LAYOUT_TEXT = ["x[0:100:2]", "x[b, t]", "a[red].npy", "[/x]", ":warning:", "(1, 3)"]
HOSTILE = "x\x1b[31m\n\x07\u202e"
ESCAPED = "x\\x1b[31m\\n\\x07\\u202e"

WRITERS = {
    "plain": write_plain,
    "terminal": lambda blocks: write_terminal(blocks, 120, color=False),
}


def blocks(text):
    return [
        Heading(text),
        line("before ", (text, "warn")),
        Table((Column("name"), Column("n", "right")), [((text, "name"), "1"), (text, "22")]),
        Picture([((text, "lane0"),)]),
    ]


@pytest.mark.parametrize("writer", WRITERS)
@pytest.mark.parametrize("text", LAYOUT_TEXT)
def test_layout_text_survives(writer, text):
    assert "".join(WRITERS[writer](blocks(text))).count(text) == 5


@pytest.mark.parametrize("writer", WRITERS)
def test_escape_bytes_of_theirs_never_reach_the_terminal(writer):
    written = "".join(WRITERS[writer](blocks(HOSTILE)))
    assert written.count(ESCAPED) == 5
    assert not re.search(r"[\x00-\x09\x0b-\x1f\x7f\u202e]", written)


def test_html_escapes_markup_and_control_bytes():
    page = "".join(write_html("<script>", blocks("<script>alert(1)</script>" + HOSTILE)))
    assert "<script" not in page
    assert page.count("&lt;script&gt;alert(1)&lt;/script&gt;" + ESCAPED) == 5
    assert "http" not in page


def test_colour_only_when_asked_and_always_reset():
    plain = "".join(write_plain(blocks("x")))
    coloured = "".join(write_plain(blocks("x"), color=True))
    assert "\x1b" not in plain
    assert re.sub(r"\x1b\[[0-9;]*m", "", coloured) == plain
    assert coloured.count("\x1b[0m") * 2 == coloured.count("\x1b")


def test_rows_are_streamed():
    taken = []

    def rows():
        for i in range(10**9):
            taken.append(i)
            yield (str(i),)

    lines = write_plain([Table((Column("i"),), rows())])
    assert [next(lines).strip() for _ in range(3)] == ["i", "0", "1"]
    assert len(taken) < 1000


def test_a_closed_table_on_a_terminal_is_as_wide_as_it_may_be():
    wide = Table((Column("a"), Column("b")), [("x" * 100, "y" * 100)])
    out = io.StringIO("".join(write_terminal([wide], 80, color=False)))
    assert max(len(text.rstrip("\n")) for text in out) <= 80


def test_a_line_keeps_its_spans_together():
    assert "".join(write_plain([Line((("a", "good"), ("b", "bad")))])) == "ab\n"
