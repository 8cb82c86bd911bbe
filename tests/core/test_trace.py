"""The Trace key: one record for each operator that a program calls, with what it did to memory."""

import gc
import weakref

import pytest

import stridetool as st
from stridetool.core.trace import trace


def records_of(function):
    records = []
    with trace(records.append):
        function()
    return records


def test_each_kind_of_effect():
    x = st.arange(6.0).view(2, 3)
    cases = {
        "view": lambda: x.t(),
        "self": lambda: x.contiguous(),
        "copy": lambda: x.t().contiguous(),
        "new": lambda: x + 1,
        "in-place": lambda: x.add_(0),
        "none": lambda: x.equal(x),
    }
    assert {kind: records_of(call)[-1].kind for kind, call in cases.items()} == {kind: kind for kind in cases}


def test_a_composite_is_one_record_with_the_copy_that_it_made():
    x = st.arange(6.0).view(2, 3)
    (transposed, reshaped) = records_of(lambda: x.t().reshape(6))
    assert (transposed.op, transposed.copied, transposed.shares_storage) == ("t", False, True)
    assert (reshaped.op, reshaped.copied, reshaped.copied_bytes) == ("reshape", True, 24)
    assert not reshaped.shares_storage
    assert reshaped.arguments == (6,)


@pytest.mark.parametrize(
    ("call", "strides", "offset"),
    [
        (lambda x: x.t(), True, False),
        (lambda x: x[1:], False, True),
        (lambda x: x[1], True, True),
        (lambda x: x.detach(), False, False),
    ],
)
def test_what_changed(call, strides, offset):
    x = st.zeros(2, 3)
    (record,) = records_of(lambda: call(x))
    assert (record.strides_changed, record.offset_changed) == (strides, offset)


def test_a_record_says_where_the_call_stands():
    x = st.zeros(2, 3)
    records = []
    with trace(records.append):
        x.t()
        x.reshape(
            6,
        )
    first = test_a_record_says_where_the_call_stands.__code__.co_firstlineno
    assert [record.file for record in records] == [__file__] * 2
    assert [record.line - first for record in records] == [4, 5]


def test_an_output_is_known_again_as_an_input():
    x = st.zeros(2, 3)
    a, b, c = records_of(lambda: x.t().unsqueeze(0).t_() if x.dim() == 3 else x.t().unsqueeze(0).squeeze(0))
    assert a.outputs[0].tensor == b.inputs[0].tensor
    assert b.outputs[0].tensor == c.inputs[0].tensor
    assert len({record.outputs[0].storage for record in (a, b, c)}) == 1


def test_an_in_place_operator_shows_before_and_after():
    x = st.zeros(2, 3)
    (record,) = records_of(lambda: x.t_())
    assert (record.inputs[0].layout.sizes, record.outputs[0].layout.sizes) == ((2, 3), (3, 2))
    assert record.inputs[0].tensor == record.outputs[0].tensor


def test_a_failure_is_recorded_with_its_hint_and_raised():
    x = st.zeros(2, 3).t()
    records = []
    with trace(records.append), pytest.raises(RuntimeError):
        x.view(6)
    (record,) = records
    assert record.error.type == "RuntimeError"
    assert record.error.message.startswith("view size is not compatible")
    assert "reshape would copy" in record.error.hint
    assert record.outputs == ()


def test_tracing_changes_no_lifetime():
    gc.disable()
    try:
        records = []
        with trace(records.append):
            x = st.zeros(2, 3)
            y = x[[0, 1]]
            dead = weakref.ref(x), weakref.ref(y)
            del x, y
        assert [ref() for ref in dead] == [None, None]
    finally:
        gc.enable()


def test_large_arguments_are_not_kept():
    (record,) = records_of(lambda: st.tensor(list(range(1000))))
    assert record.arguments == (...,)


def test_nothing_is_recorded_outside():
    records = []
    with trace(records.append):
        pass
    st.zeros(3).t()
    assert records == []


def test_several_sinks_at_once():
    outer, inner = [], []
    with trace(outer.append):
        st.zeros(1)
        with trace(inner.append):
            st.ones(1)
        st.zeros(1)
    assert [len(outer), len(inner)] == [3, 1]
