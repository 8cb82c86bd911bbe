"""view() never copies and may refuse; reshape() never refuses and may copy. What does the copy cost?"""

import stridetool as st

x = st.arange(24.0).view(4, 6)
flat = x.view(24)  # contiguous: a view
turned = x.t()

try:
    turned.view(24)  # refused: the two dimensions do not merge
except RuntimeError as error:
    print(error)

copied = turned.reshape(24)  # the same elements, in a storage of their own
split = turned.view(2, 3, 4)  # splitting a dimension is always possible

assert flat.untyped_storage() is x.untyped_storage()
assert copied.untyped_storage() is not x.untyped_storage()
