"""Six views, one storage: nothing is copied, only sizes, strides and offset differ."""

import stridetool as st

x = st.arange(24, dtype=st.float32).view(4, 6)
top = x.narrow(0, 0, 2)  # two rows: same strides
column = x.select(1, 3)  # one column: stride 6, offset 3
every_other = x[:, ::2]  # a step in the last dimension
flipped_axes = x.t()  # sizes and strides swapped
batch = x.unsqueeze(0).expand(5, 4, 6)  # five times the same bytes: stride 0

top[0, 0] = 99.0  # seen through every one of them
assert flipped_axes[0, 0].item() == batch[4, 0, 0].item() == 99.0
