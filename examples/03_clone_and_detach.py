"""Who changes whom: a clone has bytes of its own, detach() and views do not."""

import stridetool as st

x = st.zeros(3, 4)
view = x[1]
detached = x.detach()
clone = x.clone()

view.fill_(7.0)

assert x[1, 0].item() == 7.0
assert detached[1, 0].item() == 7.0  # cut from the graph, not from the memory
assert clone[1, 0].item() == 0.0
print("versions:", x._version, detached._version, clone._version)  # views share the counter
