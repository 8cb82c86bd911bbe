"""Memory with an owner: DataPtr (an address and how it is given back) and Storage (what tensors share)."""

from __future__ import annotations

import itertools
import threading
from collections.abc import Callable, Iterator, Sequence
from typing import TYPE_CHECKING, Any

from stridetool.core.drivers.device import CPU, Device, driver_for
from stridetool.errors import ArgumentTypeError, DimensionError, TensorError, UnsupportedError

if TYPE_CHECKING:
    from stridetool.core.dtype import DType
    from stridetool.core.layout import Layout

_serials = itertools.count(1)


class DataPtr:
    """An address that is given back exactly once: by `release()`, or when the last reference goes.

    `address` is 0 when `nbytes` is 0. `deleter(address)` runs at most once; None means that the memory
    belongs to someone else, and `owner` (any object) is then kept alive as long as this pointer.
    """

    __slots__ = ("_deleter", "address", "device", "nbytes", "owner")

    def __init__(
        self,
        address: int,
        nbytes: int,
        device: Device,
        deleter: Callable[[int], None] | None = None,
        owner: object = None,
    ) -> None:
        self.address = address
        self.nbytes = nbytes
        self.device = device
        self._deleter = deleter
        self.owner = owner

    def release(self) -> None:
        """Give the memory back now; the address is 0 afterwards."""
        deleter, self._deleter = self._deleter, None
        address, self.address = self.address, 0
        self.owner = None
        if deleter is not None:
            deleter(address)

    def __del__(self) -> None:
        if self._deleter is not None:
            self.release()


class _Current(threading.local):
    """Per thread: the handle of the stream that new memory belongs to (0: the default stream)."""

    stream = 0


current = _Current()


def allocate(nbytes: int, device: Device) -> DataPtr:
    """`nbytes` bytes from the allocator that serves `device`; on `meta` a size without memory."""
    if device.type == "meta":
        return DataPtr(0, nbytes, device)
    from stridetool.core.memory.registry import allocator_for

    return allocator_for(device).allocate(nbytes, stream=current.stream)


class Storage:
    """Bytes that tensors share. It is freed at once when the last tensor (or the last user of its bytes) goes.

    Another library's memory is held by a DataPtr with an owner, and cannot be resized, as in torch. Resizing
    takes new memory; whoever still looks at the old bytes keeps the old DataPtr alive.

    `Storage(8)` and `Storage([1, 2, 3])` take new host memory, as torch's constructor: a size, or the bytes.
    """

    __slots__ = ("__weakref__", "_serial", "pointer", "resizable", "writable")

    def __init__(
        self, pointer: DataPtr | int | Sequence[int] = 0, *, resizable: bool = True, writable: bool = True
    ) -> None:
        self.pointer = pointer if isinstance(pointer, DataPtr) else _new_memory(pointer)
        self.resizable = resizable
        self.writable = writable
        self._serial = 0

    @property
    def serial(self) -> int:
        """A number that no other storage of this process has, given when first asked for."""
        if not self._serial:
            self._serial = next(_serials)
        return self._serial

    @property
    def device(self) -> Device:
        """Where the bytes are."""
        return self.pointer.device

    def nbytes(self) -> int:
        """Size in bytes."""
        return self.pointer.nbytes

    def size(self) -> int:
        """Size in bytes, as `UntypedStorage.size` counts."""
        return self.pointer.nbytes

    def data_ptr(self) -> int:
        """The address of the first byte; 0 without bytes."""
        return self.pointer.address

    def resize_(self, nbytes: int) -> Storage:
        """Change the size for all tensors that share this storage; bytes that both sizes have are kept.

        Raises TensorError for memory that another library owns.
        """
        if not self.resizable:
            raise TensorError("Trying to resize storage that is not resizable", hint="clone() the tensor first")
        old = self.pointer
        new = allocate(nbytes, old.device)
        kept = min(nbytes, old.nbytes)
        if kept and old.device.type != "meta":
            driver = driver_for(old.device)
            driver.buffer(new.address, kept)[:] = driver.buffer(old.address, kept)
        self.pointer = new
        return self

    def buffer(self) -> Any:
        """All bytes as a uint8 array of NumPy (of CuPy on a real GPU), not copied, alive as long as it is used."""
        if self.device.type == "meta":
            raise UnsupportedError("Cannot copy out of meta tensor; no data!")
        return driver_for(self.device).buffer(self.pointer.address, self.pointer.nbytes)

    def __buffer__(self, flags: int) -> memoryview:
        """The buffer protocol (Python 3.12 and later; before that, `memoryview(storage.numpy())`)."""
        return memoryview(self.numpy())

    @property
    def __array_interface__(self) -> dict[str, Any]:
        self._require_host()
        return {
            "data": (self.pointer.address, not self.writable),
            "shape": (self.pointer.nbytes,),
            "typestr": "|u1",
            "version": 3,
        }

    def numpy(self) -> Any:
        """The bytes as a NumPy array of uint8 that shares them and keeps them alive."""
        import numpy as np

        return np.asarray(Exported(self.__array_interface__, self.pointer))

    def _require_host(self) -> None:
        if self.device.type != "cpu":
            raise ArgumentTypeError(f"can't convert {self.device} device type storage to numpy. Use .cpu() first.")

    def tolist(self) -> list[int]:
        """The bytes as integers 0 … 255."""
        return [int(byte) for byte in self.buffer()]

    def __bytes__(self) -> bytes:
        """A copy of the bytes; none on the meta device."""
        if self.device.type == "meta":
            return b""
        data: bytes = self.buffer().tobytes()
        return data

    def __len__(self) -> int:
        return self.pointer.nbytes

    def __bool__(self) -> bool:
        return self.pointer.nbytes > 0

    def __iter__(self) -> Iterator[int]:
        return iter(self.tolist())

    def __getitem__(self, index: int | slice) -> int | list[int]:
        if isinstance(index, slice):
            return [int(byte) for byte in self.buffer()[index]]
        return int(self.buffer()[self._checked(index)])

    def __setitem__(self, index: int | slice, value: int | Sequence[int]) -> None:
        self.buffer()[index if isinstance(index, slice) else self._checked(index)] = value

    def _checked(self, index: int) -> int:
        if not -len(self) <= index < len(self):
            raise DimensionError(f"index {index} out of range for storage of size {len(self)}")
        return index

    def fill_(self, value: int) -> Storage:
        """Set every byte to `value`."""
        self.buffer()[:] = value
        return self

    def __deepcopy__(self, memo: dict[int, Any]) -> Storage:
        if id(self) not in memo:
            memo[id(self)] = storage_of(bytes(self), self.device, self.nbytes())
        out: Storage = memo[id(self)]
        return out

    def __reduce__(self) -> Any:
        return storage_of, (bytes(self), self.device, self.nbytes())

    def __repr__(self) -> str:
        return f"[stridetool.UntypedStorage(device={self.device}) of size {self.nbytes()}]"


class Exported:
    """What NumPy keeps as the base of a shared array: the interface, and the pointer that owns the bytes."""

    __slots__ = ("__array_interface__", "pointer")

    def __init__(self, interface: dict[str, Any], pointer: DataPtr) -> None:
        self.__array_interface__ = interface
        self.pointer = pointer


class TypedStorage:
    """A storage seen as elements of one type, what `Tensor.storage()` hands out."""

    __slots__ = ("_storage", "dtype")

    def __init__(self, storage: Storage, dtype: DType) -> None:
        self._storage = storage
        self.dtype = dtype

    def untyped(self) -> Storage:
        """The bytes below."""
        return self._storage

    @property
    def device(self) -> Device:
        """Where the elements are."""
        return self._storage.device

    def nbytes(self) -> int:
        """Size in bytes."""
        return self._storage.nbytes()

    def size(self) -> int:
        """Size in elements."""
        return self._storage.nbytes() // self.dtype.itemsize

    __len__ = size

    def element_size(self) -> int:
        """Bytes of one element."""
        return self.dtype.itemsize

    def data_ptr(self) -> int:
        """The address of the first byte."""
        return self._storage.data_ptr()

    def resize_(self, size: int) -> TypedStorage:
        """Change the size to `size` elements, as `Storage.resize_`."""
        self._storage.resize_(size * self.dtype.itemsize)
        return self

    def tolist(self) -> list[Any]:
        """The elements as Python numbers."""
        from stridetool.core.numeric import decode

        flat = decode(self._storage.buffer()[: self.size() * self.dtype.itemsize], self.dtype)
        values: list[Any] = flat.tolist()
        return values

    def __getitem__(self, index: int | slice) -> Any:
        return self.tolist()[index]

    def __iter__(self) -> Iterator[Any]:
        return iter(self.tolist())

    def __repr__(self) -> str:
        name = f"stridetool.TypedStorage(dtype={self.dtype}, device={self.device})"
        return f"[{name} of size {self.size()}]"


def refuse_out_of_bounds(layout: Layout, itemsize: int, nbytes: int, *, hint: str | None = None) -> None:
    """Raise TensorError, in torch's words, when a layout with elements reaches beyond a storage of `nbytes`."""
    low, high = layout.reach()
    if low != high and (low < 0 or high * itemsize > nbytes):
        raise TensorError(
            f"setStorage: sizes {list(layout.sizes)}, strides {list(layout.strides)}, storage offset {layout.offset}, "
            f"and itemsize {itemsize} requiring a storage size of {high * itemsize} are out of bounds for storage of "
            f"size {nbytes}",
            hint=hint,
        )


def _new_memory(source: int | Sequence[int]) -> DataPtr:
    """Host memory of `source` bytes, or that holds them. Raises TensorError for anything else."""
    if isinstance(source, int):
        if source < 0:
            raise TensorError(f"cannot make a storage of {source} bytes")
        return allocate(source, CPU)
    if not isinstance(source, Sequence):
        raise TensorError(f"torch.UntypedStorage(): Expected a sequence type, but got {type(source).__name__}")
    wrong = [byte for byte in source if not isinstance(byte, int)]
    if wrong:
        raise TensorError(
            f"torch.UntypedStorage(): tried to construct a storage from a sequence ({type(source).__name__}), but one "
            f"of the items was of type {type(wrong[0]).__name__} instead of int"
        )
    return storage_of(bytes(byte & 0xFF for byte in source), CPU, len(source)).pointer


def storage_of(data: bytes, device: Device, nbytes: int) -> Storage:
    """A storage of `nbytes` with these bytes (none on the meta device): how copies and pickles are made."""
    storage = Storage(allocate(nbytes, device))
    if data:
        import numpy as np

        buffer = storage.buffer()
        buffer[:] = np.frombuffer(data, np.uint8)
    return storage


def empty_storage(device: Device = CPU) -> Storage:
    """No bytes."""
    return Storage(DataPtr(0, 0, device))
