"""Names of torch's that are not here, and names that nobody has: refused with what to do about it."""

from __future__ import annotations

import difflib
from collections.abc import Iterable

from stridetool.errors import UnsupportedAttributeError

_ARITHMETIC = """
abs acos add_n addmm all amax amin angle any argmax argmin argsort asin atan atan2 baddbmm bernoulli bincount
bitwise_and bitwise_not bitwise_or bitwise_xor block_diag bmm bucketize cdist ceil cholesky clamp clip conv1d conv2d
conv3d cos cosh cov cross cummax cummin cumprod cumsum deg2rad det diag diff dot eig einsum erf exp expm1 eye floor
floor_divide fmod gather gcd histc hypot imag_ index_add_ index_copy_ index_fill_ index_put_ index_select inverse
isfinite isinf isnan kron kthvalue lerp linspace log log10 log1p log2 log_softmax logical_and logical_not logical_or
logical_xor logspace logsumexp lstsq masked_fill masked_fill_ masked_scatter masked_scatter_ masked_select matmul max
maximum mean median min minimum mm mode multinomial mv nanmean nansum nonzero norm normal_ outer pinverse prod put_ qr
quantile rad2deg randint randperm reciprocal register_hook relu remainder renorm retain_grad round rsqrt scatter
scatter_ scatter_add scatter_add_ searchsorted sigmoid sign sin sinh softmax solve sort sparse_dim sqrt square std
svd take take_along_dim tan tanh tensordot tile topk to_sparse trace tril triu trunc uniform_ unique var vdot where
"""
_REFUSED = frozenset(_ARITHMETIC.split())
_PARTS = frozenset(
    ("nn", "optim", "utils", "distributed", "jit", "compile", "autograd", "fft", "linalg", "profiler", "amp")
)
MORE_THAN_LAYOUT = (
    "only torch's tensors and their memory are simulated: what needs more runs with torch installed, without "
    "--alias-torch"
)


def missing_attribute(owner: str, name: str, known: Iterable[str]) -> Exception:
    """What to raise for `owner.name`: UnsupportedAttributeError for arithmetic of torch, else AttributeError."""
    if name in _REFUSED:
        return UnsupportedAttributeError(
            f"{owner}.{name} is not supported: this library is about memory layout, not about arithmetic",
            hint="compute in NumPy (x.numpy(), from_numpy) or run the script with torch itself",
        )
    if owner == "stridetool" and name in _PARTS:
        return UnsupportedAttributeError(f"torch.{name} is not supported here", hint=MORE_THAN_LAYOUT)
    close = difflib.get_close_matches(name, known, n=1)
    meant = f". Did you mean: '{close[0]}'?" if close else ""
    what = f"module '{owner}'" if owner == "stridetool" else f"'{owner}' object"
    return AttributeError(f"{what} has no attribute '{name}'{meant}", name=name)
