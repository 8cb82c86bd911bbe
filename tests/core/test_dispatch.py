"""The dispatcher: priorities, cached look-up, and that a new operator or backend is only a registration."""

import pytest

import stridetool as st
from stridetool.core import dispatch
from stridetool.core.dispatch import OPERATORS, operator, register_backend
from stridetool.core.trace import trace
from stridetool.errors import UnsupportedError


@pytest.fixture
def name():
    yield "test_operator"
    OPERATORS.pop("test_operator", None)


def test_a_kernel_for_a_backend_goes_before_the_composite(name):
    call = operator(name=name)(lambda x: "composite")
    x, meta = st.zeros(1), st.zeros(1, device="meta")
    assert (call(x), call(meta)) == ("composite", "composite")
    OPERATORS[name].register(dispatch.META, lambda x: "meta kernel")
    assert (call(x), call(meta)) == ("composite", "meta kernel"), "a registration also clears the cached look-up"


def test_a_look_up_is_cached_by_the_set_of_keys(name):
    call = operator(name=name)(lambda x: x)
    assert not OPERATORS[name].table
    x = st.zeros(1)
    call(x)
    call(x)
    assert list(OPERATORS[name].table) == [dispatch.CPU]
    call(st.zeros(1, requires_grad=True))
    assert set(OPERATORS[name].table) == {dispatch.CPU, dispatch.CPU | dispatch.AUTOGRAD}


def test_an_operator_without_a_kernel_for_a_backend_says_so(name):
    call = operator(name=name)(lambda x: x)
    OPERATORS[name].composite = None
    with pytest.raises(UnsupportedError, match="Could not run 'test_operator' with arguments from the 'cpu' backend"):
        call(st.zeros(1))


def test_a_new_backend_gets_a_key_of_its_own_below_the_functional_ones():
    key = register_backend("test_backend")
    assert key == register_backend("test_backend")
    assert key not in (dispatch.CPU, dispatch.CUDA, dispatch.META)
    assert key < dispatch.AUTOGRAD < dispatch.TRACE


def test_trace_sees_the_call_before_autograd_refuses_it():
    records = []
    x = st.zeros(3, requires_grad=True)
    with trace(records.append), pytest.raises(RuntimeError):
        x.fill_(1)
    assert [record.op for record in records] == ["fill_"]
    assert records[0].error.type == "RuntimeError"


@pytest.fixture
def copy_into():
    """The operator; what a test registers on it is gone afterwards."""
    operator, before = OPERATORS["copy_into"], dict(OPERATORS["copy_into"].kernels)
    yield operator
    operator.kernels = before
    operator.table.clear()


def test_a_better_copy_kernel_is_used_and_named(copy_into):
    used = []
    plain = copy_into.composite

    def kernel(dst, src):
        used.append(dst.shape)
        plain(dst, src)
        return "better"

    copy_into.register(dispatch.CPU, kernel)
    records = []
    with trace(records.append):
        y = st.arange(6).view(2, 3).t().contiguous()
    assert y.tolist() == [[0, 3], [1, 4], [2, 5]]
    assert used == [(3, 2)]
    assert [copy.kernel for copy in records[-1].copies] == ["better"]


def test_what_is_no_tensor_is_refused():
    with pytest.raises(TypeError, match="must be Tensor, not list"):
        st.transpose([[1]], 0, 0)
