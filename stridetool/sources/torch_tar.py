"""torch's first format (0.1): a tar of `storages`, `tensors` and `pickle`. Only `weights_only=False` reads it today.

Rules: `legacy_load` in `torch.serialization`, torch 2.13.
"""

from __future__ import annotations

import struct
from typing import Any

from stridetool.core.layout import Layout
from stridetool.core.tensor_file import FileStorage, FileTensor, Note, Region, TensorFile
from stridetool.errors import InputError
from stridetool.sources.detect import is_tar
from stridetool.sources.file_bytes import Bytes, Part
from stridetool.sources.pickle_records import Global
from stridetool.sources.torch_legacy import begins_as_legacy
from stridetool.sources.torch_pickle import PickleStream, global_notes, placed
from stridetool.sources.torch_storages import MAX_BYTES, StorageClaim, is_key
from stridetool.sources.torch_types import dtype_of_storage, itemsize

_BLOCK = 512
_MAX_MEMBERS = 64
_MAX_OBJECTS = 20_000
_MAX_DIMS = 64
_MEMBERS = ("storages", "tensors", "pickle")
_PLAIN_TYPES = (b"0", b"\0", b"5")  # files and folders; what changes the name or size of the next is refused


def read_tar(data: Bytes, path: str) -> TensorFile:
    """A whole file. Raises InputError where it is no file of torch, or damaged."""
    _refuse_second_face(data)
    places, regions = _members(data)
    if not all(name in places for name in _MEMBERS):
        raise InputError("a tar archive without the members of torch: storages, tensors and pickle")
    streams = {name: PickleStream(Part(data, *places[name])) for name in _MEMBERS}
    storages, dtypes = _storages(streams["storages"], *places["storages"])
    tensors = _tensors(streams["tensors"], storages, dtypes)
    streams["pickle"].next()
    named = {name: found for stream in streams.values() for name, found in stream.globals.items()}
    note = Note(
        "old-format", "warning", "the tar format of torch 0.1: torch.load(weights_only=True) refuses it", None,
        "load it in a place that you can lose, and save it again",
    )  # fmt: skip
    return TensorFile(
        kind="torch tar", path=path, size=data.size, tensors=tuple(tensors), storages=tuple(storages.values()),
        regions=tuple(regions), notes=(note, *global_notes(named.values())),
    )  # fmt: skip


def _refuse_second_face(data: Bytes) -> None:
    """A tar header begins with a name, and the name can be a pickle: weights_only would read that, not the tar."""
    if begins_as_legacy(data):
        raise InputError("it is a tar archive and a stream of pickles at once: torch reads the one or the other")


def _members(data: Bytes) -> tuple[dict[str, tuple[int, int]], list[Region]]:
    """(name → (start, size) of regular files, regions); anything else in the archive is refused."""
    places, regions, at = dict[str, tuple[int, int]](), list[Region](), 0
    while is_tar(header := data.read(at, _BLOCK) if at + _BLOCK <= data.size else b""):
        if len(regions) >= 3 * _MAX_MEMBERS:
            raise InputError(f"more than {_MAX_MEMBERS} members in a tar archive")
        name = _member_name(header)
        size = _octal(header[124:136].strip(b" \0"))
        start = at + _BLOCK
        if start + size > data.size:
            raise InputError(f"member {name!r} claims {size:,} bytes, the file ends at {data.size:,}")
        if header[156:157] not in _PLAIN_TYPES:
            raise InputError(f"member {name!r} is no plain file")
        if name in places:
            raise InputError(f"two members are called {name!r}")
        places[name] = (start, size)
        regions += [Region(at, start, "header", name), Region(start, start + size, "header", name)]
        at = start + -(-size // _BLOCK) * _BLOCK
        regions.append(Region(start + size, min(at, data.size), "padding", name))
    return places, regions


def _member_name(header: bytes) -> str:
    """Up to the first NUL, below the folder in the prefix of the ustar form, as Python's tarfile joins them."""
    name, folder = header[:100].partition(b"\0")[0], header[345:500].partition(b"\0")[0]
    path = (folder + b"/" if folder else b"") + name
    return path.decode("utf-8", "backslashreplace").removeprefix("./")


def _octal(digits: bytes) -> int:
    if digits.strip(b"01234567"):
        raise InputError("a tar header whose numbers are not octal")
    return int(digits or b"0", 8)


def _storages(stream: PickleStream, start: int, size: int) -> tuple[dict[str, FileStorage], dict[str, str]]:
    storages, dtypes = dict[str, FileStorage](), dict[str, str]()
    for _ in range(_count(stream.next_object())):
        key, location, class_ = _triple(stream.next_object())
        dtype = dtype_of_storage(class_.path) if isinstance(class_, Global) else None
        if dtype is None or not isinstance(location, str):
            raise InputError("a storage of an unknown class")
        numel = int.from_bytes(stream.take(8), "little", signed=True)
        if not 0 <= numel <= MAX_BYTES:
            raise InputError(f"a storage of {numel:,} elements")
        claim = StorageClaim(_key(key), dtype, numel * itemsize(dtype), location)
        place = stream.skip(claim.nbytes, f"storage {claim.key}")
        storages[claim.key], dtypes[claim.key] = placed(claim, claim.nbytes, start + place), dtype
    # torch 0.1 wrote a list of views behind the storages; without it nothing is a view.
    if stream.position < size and stream.next_object():
        raise InputError("storages that are views of each other, in a file of torch 0.1")
    return storages, dtypes


def _tensors(stream: PickleStream, storages: dict[str, FileStorage], dtypes: dict[str, str]) -> list[FileTensor]:
    return [_tensor(stream, storages, dtypes) for _ in range(_count(stream.next_object()))]


def _tensor(stream: PickleStream, storages: dict[str, FileStorage], dtypes: dict[str, str]) -> FileTensor:
    key, storage_key, _class = _triple(stream.next_object())
    storage = storages.get(_key(storage_key))
    if storage is None:
        raise InputError(f"tensor {_key(key)} uses a storage that is not there")
    rank = int.from_bytes(stream.take(8)[:4], "little", signed=True)
    if not 0 <= rank <= _MAX_DIMS:
        raise InputError(f"tensor {_key(key)} of {rank:,} dimensions")
    numbers = struct.unpack(f"<{2 * rank + 1}q", stream.take(16 * rank + 8))
    layout = Layout(numbers[:rank], numbers[rank : 2 * rank], numbers[-1])
    dtype = dtypes[storage.key]
    if min(numbers) < 0 or (layout.numel and layout.reach()[1] * itemsize(dtype) > storage.nbytes):
        raise InputError(f"tensor {_key(key)} is out of the bounds of its storage")
    return FileTensor(
        name=f"tensor {_key(key)}", dtype=dtype, itemsize=itemsize(dtype), nbytes=layout.numel * itemsize(dtype),
        layout=layout, storage=storage.key, device=storage.device,
    )  # fmt: skip


def _count(value: Any) -> int:
    if type(value) is not int or not 0 <= value <= _MAX_OBJECTS:
        raise InputError("a number of storages or tensors that is none")
    return value


def _triple(value: Any) -> tuple[Any, Any, Any]:
    if not isinstance(value, tuple) or len(value) != 3:
        raise InputError("an entry of a tar of torch that is no triple")
    return value


def _key(value: Any) -> str:
    if not is_key(value):
        raise InputError("a key that is no number")
    return str(value)[:60]
