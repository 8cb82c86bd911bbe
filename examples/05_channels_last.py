"""The channels-last flag, and what torch will treat a tensor as: they can differ."""

import stridetool as st

images = st.zeros(2, 3, 4, 5)
nhwc = images.to(memory_format=st.channels_last)  # copies: the bytes change their order
assert nhwc.is_contiguous(memory_format=st.channels_last)

one = nhwc[:1].reshape(1, 3, 4, 5)  # the size-1 batch dimension gets a stride of 3
flag = one.is_contiguous(memory_format=st.channels_last)
treated = one.to(memory_format=st.channels_last) is one
print(f"flag says channels_last: {flag}; torch treats it as channels_last: {treated}")

back = nhwc.contiguous()  # and a copy back
