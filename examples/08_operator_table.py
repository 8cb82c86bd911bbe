"""Which operator copies? Found by running each, not from memory."""

import stridetool as st

OPERATORS = {
    "view(6, 4)": lambda x: x.view(6, 4),
    "reshape(6, 4)": lambda x: x.reshape(6, 4),
    "t().reshape(24)": lambda x: x.t().reshape(24),
    "transpose(0, 1)": lambda x: x.transpose(0, 1),
    "permute(1, 0)": lambda x: x.permute(1, 0),
    "narrow(0, 1, 2)": lambda x: x.narrow(0, 1, 2),
    "select(0, 2)": lambda x: x.select(0, 2),
    "x[:, ::2]": lambda x: x[:, ::2],
    "x[[0, 2]]": lambda x: x[[0, 2]],
    "squeeze()": lambda x: x.squeeze(),
    "unsqueeze(1)": lambda x: x.unsqueeze(1),
    "expand(2, 4, 6)": lambda x: x.expand(2, 4, 6),
    "unfold(1, 3, 1)": lambda x: x.unfold(1, 3, 1),
    "diagonal()": lambda x: x.diagonal(),
    "as_strided": lambda x: x.as_strided((3, 2), (2, 1), 5),
    "detach()": lambda x: x.detach(),
    "view(int32)": lambda x: x.view(st.int32),
    "contiguous()": lambda x: x.contiguous(),
    "t().contiguous()": lambda x: x.t().contiguous(),
    "clone()": lambda x: x.clone(),
    "to(float64)": lambda x: x.to(st.float64),
    "to(float32)": lambda x: x.to(st.float32),
    "flip(0)": lambda x: x.flip(0),
    "repeat(1, 1)": lambda x: x.repeat(1, 1),
}


def row(name, operator):
    x = st.arange(24, dtype=st.float32).view(4, 6)
    y = operator(x)
    shares = y.untyped_storage() is x.untyped_storage()
    answers = (not shares, y.stride() != x.stride(), y.storage_offset() != x.storage_offset(), shares)
    return f"{name:18}" + "".join(f"{'yes' if answer else '–':>10}" for answer in answers)


print(f"{'operator':18}" + "".join(f"{title:>10}" for title in ("copies", "strides", "offset", "shares")))
for name, operator in OPERATORS.items():
    print(row(name, operator))
