"""Strided copies at the speed of the memory, for any two arrays.

`copy_into(dst, src, *, threads=1)` copies between any two array-likes of the same shape and dtype: objects with the
buffer protocol, `__array_interface__` or `__dlpack__`. Memory that both share is handled as if through a copy.
The work is done by a small C extension where it could be built, else by NumPy over tiles; `kernel_name()` says which.
Importing this loads neither NumPy nor a GPU library.
"""

from stridetool.kernels.host import (
    available_kernels,
    copy_into,
    copy_raw,
    kernel_name,
    use_kernel,
)

__all__ = ["available_kernels", "copy_into", "copy_raw", "kernel_name", "use_kernel"]
