"""The public names: handed on lazily, guessed when misspelt, refused when they are arithmetic."""

import subprocess
import sys

import pytest

import stridetool as st
from stridetool.errors import UnsupportedError

HEAVY = ("numpy", "cupy", "rich", "typer", "msgspec", "torch")


def loaded_after(statement):
    code = f"import sys; {statement}; print(*sys.modules)"
    out = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    return set(out.stdout.split())


def test_importing_the_package_loads_nothing_else():
    loaded = loaded_after("import stridetool; stridetool.__version__")
    assert not loaded & set(HEAVY)
    assert not any(name.startswith("stridetool.core") for name in loaded)


def test_a_name_loads_what_it_needs():
    assert "numpy" in loaded_after("import stridetool; stridetool.zeros(1)")
    assert "rich" not in loaded_after("import stridetool; stridetool.zeros(1)")


def test_every_name_that_dir_lists_is_there():
    for name in dir(st):
        assert getattr(st, name) is not None


def test_a_misspelt_name_is_guessed():
    with pytest.raises(AttributeError, match="Did you mean: 'view'"):
        st.zeros(1).viwe  # noqa: B018  it raises
    with pytest.raises(AttributeError, match="Did you mean: 'transpose'"):
        st.transpse  # noqa: B018  it raises


def test_arithmetic_is_refused_and_is_not_there():
    with pytest.raises(UnsupportedError, match="memory layout"):
        st.zeros(1).matmul(st.zeros(1))
    with pytest.raises(UnsupportedError, match="operator @"):
        st.zeros(1) @ st.zeros(1)
    assert not hasattr(st, "softmax")
    assert not hasattr(st.zeros(1), "softmax")


def test_free_functions_are_the_methods():
    x = st.arange(6).view(2, 3)
    assert st.transpose(x, 0, 1).stride() == x.transpose(0, 1).stride() == (1, 3)
    assert st.reshape(x, (3, 2)).tolist() == [[0, 1], [2, 3], [4, 5]]


def test_text_of_a_tensor_shows_values_type_and_graph():
    assert repr(st.arange(3)) == "tensor([0, 1, 2])"
    assert repr(st.ones(2, dtype=st.float64)) == "tensor([1., 1.], dtype=stridetool.float64)"
    assert "grad_fn=<TBackward0>" in repr(st.ones(2, 3, requires_grad=True).t())
    assert "device='meta', size=(2, 3)" in repr(st.ones(2, 3, device="meta"))
    assert "device='cuda:0'" in repr(st.ones(1, device="cuda"))
    assert "..." in repr(st.zeros(10_000))
    assert repr(st.zeros(2, 3).shape) == "stridetool.Size([2, 3])"
