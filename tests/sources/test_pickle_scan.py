"""The pickle scan against pickles that Python writes, and against ones that nobody should write."""

from __future__ import annotations

import pickle
import pickletools

import pytest
from hypothesis import given
from hypothesis import strategies as st

from stridetool.errors import InputError
from stridetool.sources.pickle_scan import ALL_OPCODES, OPCODES, PLAIN_OPCODES, IncompleteError, scan

_PLAIN = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=300) | st.binary(max_size=300),
    lambda inner: (
        st.lists(inner, max_size=5)
        | st.tuples(inner, inner)
        | st.dictionaries(st.text(max_size=5), inner, max_size=5)
        | st.frozensets(st.integers(), max_size=5)
    ),
    max_leaves=20,
)


def test_the_table_is_pickletools_without_buffers_and_extensions():
    known = {ord(op.code): op.name for op in pickletools.opcodes}
    missing = {name for code, name in known.items() if code not in OPCODES}
    assert missing == {"EXT1", "EXT2", "EXT4", "NEXT_BUFFER", "READONLY_BUFFER"}
    assert {code: op.name for code, op in OPCODES.items()} == {c: known[c] for c in OPCODES}


@given(_PLAIN, st.integers(0, 5), st.binary(max_size=10))
def test_end_is_one_past_stop(value, protocol, after):
    data = pickle.dumps(value, protocol=protocol)
    assert scan(b"before" + data + after, 6, allow=ALL_OPCODES).end == 6 + len(data)


@given(_PLAIN, st.integers(2, 5), st.data())
def test_a_cut_pickle_is_incomplete(value, protocol, data):
    pickled = pickle.dumps(value, protocol=protocol)
    cut = data.draw(st.integers(0, len(pickled) - 1))
    with pytest.raises(IncompleteError):
        scan(pickled[:cut], allow=ALL_OPCODES)


def test_many_memo_entries_of_a_large_pickle_pass():
    value = [str(i) * 3 for i in range(70_000)]
    data = pickle.dumps(value, protocol=2)
    assert scan(data).end == len(data)


def test_globals_are_named_and_refused_where_not_allowed():
    data = b"\x80\x02cos\nsystem\nX\x04\x00\x00\x00true\x85Rcos\nsystem\n."
    assert scan(data, allow=ALL_OPCODES).globals == (("os", "system"),)
    with pytest.raises(InputError, match="GLOBAL at byte 2 is not allowed"):
        scan(data, allow=PLAIN_OPCODES)
    assert scan(pickle.dumps(len, protocol=4), allow=ALL_OPCODES).stack_globals


@pytest.mark.parametrize(
    ("data", "reason"),
    [
        (b"\x8b\xff\xff\xff\x7f.", "an integer of 2,147,483,647 bytes"),
        (b"X\xff\xff\xff\xffa.", "more than there are"),
        (b"\x8d" + b"\xff" * 8 + b"a.", "more than there are"),
        (b"Nr\xff\xff\xff\x7f.", "memo index"),
        (b"\xffN.", "no opcode"),
        (b"\x82\x01.", "no opcode"),
        (b"", "before its STOP"),
        (b"c" + b"a" * 10_000, "without end"),
    ],
)
def test_what_is_refused(data, reason):
    with pytest.raises(InputError, match=reason):
        scan(data, allow=ALL_OPCODES)
