"""What any array or storage is, whoever owns it: the values that `inspect` works from, without the memory itself."""

from __future__ import annotations

import msgspec

from stridetool.core.layout import Layout


class ArrayFacts(msgspec.Struct, frozen=True, kw_only=True):
    """One array-like: where its memory is and how it is laid out.

    `layout` is in steps of `unit` bytes: the item size, or 1 where byte strides are no whole elements
    (a field of a structured array). `address` is that of the first byte of the storage (0: no memory);
    `storage` is any key that is equal for arrays of one storage object.
    """

    name: str
    library: str
    dtype: str
    itemsize: int
    device: str
    layout: Layout
    unit: int
    storage: int
    address: int
    storage_nbytes: int
    readonly: bool = False
    flags: tuple[str, ...] = ()  # requires_grad, is_view, conj, neg, …
    values: tuple[str, ...] = ()  # the first elements in logical order, as text; of host memory alone

    @property
    def data_address(self) -> int:
        """The address of the element with index 0 everywhere (0 without memory)."""
        return self.address + self.layout.offset * self.unit if self.address and self.layout.numel else 0


class HiddenStorage(msgspec.Struct, frozen=True):
    """A storage that is alive though no variable names a tensor of it, and the paths that hold it."""

    nbytes: int
    device: str
    held_by: tuple[str, ...]
