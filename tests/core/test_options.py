"""TensorOptions: partial, chained, and the defaults that fill what was not said."""

import pytest

import stridetool as st
from stridetool.errors import ArgumentTypeError, TensorError


@pytest.fixture
def defaults():
    yield
    st.set_default_dtype(st.float32)
    st.set_default_device(None)


def test_chained_options_say_what_was_said_and_default_to_the_rest(defaults):
    options = st.TensorOptions().dtype(st.float64).requires_grad(True)
    assert options.dtype() is st.float64
    assert options.requires_grad() is True
    assert options.device_opt() is None
    assert options.device() == st.device("cpu")
    st.set_default_device("meta")
    assert options.device() == st.device("meta"), "a default is taken when it is asked for"


def test_options_are_values():
    options = st.TensorOptions()
    options.dtype(st.int8)
    assert options.dtype_opt() is None


def test_later_options_override_only_what_they_say():
    base = st.TensorOptions().dtype(st.float64).device("meta")
    merged = base.merge_in(st.TensorOptions().dtype(st.int8))
    assert (merged.dtype(), merged.device()) == (st.int8, st.device("meta"))


def test_factories_take_options_and_keywords():
    options = st.TensorOptions().dtype(st.float64).memory_format(st.channels_last)
    x = st.empty(2, 3, 4, 5, options)
    assert (x.dtype, x.stride()) == (st.float64, (60, 1, 15, 3))
    assert st.zeros((2,), options.memory_format(st.contiguous_format), dtype=st.int8).dtype is st.int8


def test_default_dtype_decides_for_numbers(defaults):
    st.set_default_dtype(st.float64)
    assert [x.dtype for x in (st.tensor(1.5), st.tensor(1j), st.zeros(1), st.tensor(1))] == [
        st.float64,
        st.complex128,
        st.float64,
        st.int64,
    ]


def test_wrong_options_are_refused():
    for wrong in (lambda: st.zeros(1, dtype="float32"), lambda: st.zeros(1, memory_format="nchw")):
        with pytest.raises(ArgumentTypeError):
            wrong()
    with pytest.raises(TypeError):
        st.zeros(1, dtyp=st.int8)
    with pytest.raises(TensorError):
        st.zeros(1, device="nowhere")
