"""A storage lives as long as any tensor over it: ten elements can hold a million, and a cache can hide one."""

import stridetool as st

cache = {}


def first_ten(batch):
    return batch[:10]  # a view: it keeps all of the batch alive


def first_ten_cloned(batch):
    return batch[:10].clone()  # 40 bytes of its own


def remember(batch):
    cache["last"] = batch.t()


small_but_heavy = first_ten(st.zeros(1_000_000))
small = first_ten_cloned(st.zeros(1_000_000))
remember(st.ones(256, 256))  # no variable names it any more
