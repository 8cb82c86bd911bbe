"""The raw bytes of a storage, and two ways to read them as something else."""

import stridetool as st

x = st.tensor([1.0, 2.0, -3.5], dtype=st.float32)
as_bytes = x.view(st.uint8)  # the same storage, four elements for one
as_words = x.view(st.int32)

print("bytes:", as_bytes.tolist())
print("words:", [hex(word & 0xFFFFFFFF) for word in as_words.tolist()])
assert bytes(x.untyped_storage()) == bytes(as_bytes.tolist())

as_bytes[3] = 0xBF  # the sign and exponent of the first element
assert x[0].item() == -1.0
