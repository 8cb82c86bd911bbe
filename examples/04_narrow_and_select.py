"""Slicing moves the offset; only a step or a dropped dimension changes the strides."""

import stridetool as st

x = st.arange(60).view(3, 4, 5)
middle = x.narrow(1, 1, 2)  # offset 5, strides kept
last = x.select(0, 2)  # offset 40, one dimension less
step = x[:, ::2, 1:]  # strides (20, 10, 1), offset 1
windows = st.arange(6).unfold(0, 3, 1)  # overlapping windows of one storage

for name, tensor in {"middle": middle, "last": last, "step": step, "windows": windows}.items():
    print(f"{name:8} {tuple(tensor.shape)} strides {tensor.stride()} offset {tensor.storage_offset()}")
