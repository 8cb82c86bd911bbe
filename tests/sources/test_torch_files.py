"""The .pt reader against torch.load on checkpoints that torch writes here: names, layouts, storages, sharing."""

from __future__ import annotations

import io
from collections import OrderedDict
from pathlib import Path

import pytest

torch = pytest.importorskip("torch")

from stridetool.core.tensor_file import TensorFile  # noqa: E402  (after the skip)
from stridetool.sources import open_tensor_file  # noqa: E402

DTYPES = [
    *("bool", "uint8", "int8", "int16", "int32", "int64", "uint16", "uint32", "uint64", "float16", "bfloat16"),
    *("float32", "float64", "complex32", "complex64", "complex128", "float8_e4m3fn", "float8_e5m2"),
    *("float8_e4m3fnuz", "float8_e5m2fnuz", "float8_e8m0fnu"),
]

NEWER_DTYPES = {
    name for name in DTYPES if name.startswith("float8") or name in ("uint16", "uint32", "uint64", "complex32")
}


def base() -> torch.Tensor:
    return torch.arange(240, dtype=torch.float32).reshape(4, 6, 10)


def shared():
    x = base()
    return {"x": x, "part": x[1:3], "t": x.transpose(0, 2), "again": x, "tail": x.flatten()[100:], "zero": x[:0]}


def odd_layouts():
    x = base()
    return {
        "expanded": x[:, :1].expand(4, 6, 10),
        "diagonal": x.diagonal(dim1=1, dim2=2),
        "windows": x.flatten().unfold(0, 8, 3),
        "channels_last": torch.zeros(2, 3, 4, 5).to(memory_format=torch.channels_last),
        "ones": torch.zeros(1, 3, 1).as_strided((1, 3, 1), (77, 1, 5)),
        "scalar": torch.tensor(5),
        "empty": torch.zeros(0, 3),
    }


def optimizer():
    model = torch.nn.Sequential(torch.nn.Linear(3, 5), torch.nn.BatchNorm1d(5))
    optim = torch.optim.AdamW(model.parameters(), lr=0.1)
    model(torch.ones(4, 3)).sum().backward()
    optim.step()
    return {"model": model.state_dict(), "optim": optim.state_dict(), "epoch": 3, "args": {"lr": 0.1, "names": ["a"]}}


def tied():
    embedding = torch.nn.Embedding(7, 4)
    head = torch.nn.Linear(4, 7, bias=False)
    head.weight = embedding.weight
    return torch.nn.ModuleDict({"embedding": embedding, "head": head}).state_dict()


CHECKPOINTS = {
    "shared": shared,
    "odd layouts": odd_layouts,
    "dtypes": lambda: {name: torch.zeros(3, dtype=getattr(torch, name)) for name in DTYPES},
    "optimizer": optimizer,
    "tied": tied,
    "parameters": lambda: [torch.nn.Parameter(torch.zeros(2, 3)), {"deep": (torch.zeros(1), {"er": torch.ones(2)})}],
    "bits": lambda: {
        "conj": torch.zeros(3, dtype=torch.complex64).conj(),
        "neg": torch.zeros(2, 2).cfloat().conj().imag,
    },
    "attributes": lambda: with_attribute(torch.zeros(2)),
    "one tensor": lambda: torch.zeros(3),
    "keys": lambda: {1: torch.zeros(1), (2, "b"): torch.zeros(1), None: torch.zeros(1), "a.b": torch.zeros(1)},
    "ordered": lambda: OrderedDict(b=torch.zeros(1), a=torch.zeros(2)),
    "nothing": lambda: {"epoch": 3, "text": "x" * 1000, "big": 1 << 200},
}


def with_attribute(tensor):
    tensor.note = "a python attribute makes torch save it as a subclass would be"
    return {"t": tensor}


def named(value, name="") -> list:
    """Tensors of a loaded object under the names that the reader gives them."""
    if isinstance(value, torch.Tensor):
        return [(name or "tensor", value)]
    if isinstance(value, dict):
        return [
            p for key, item in value.items() for p in named(item, f"{name}.{key_text(key)}" if name else key_text(key))
        ]
    if isinstance(value, list | tuple):
        return [pair for i, item in enumerate(value) for pair in named(item, f"{name}[{i}]")]
    return []


def key_text(key) -> str:
    return f"({', '.join(map(key_text, key))})" if isinstance(key, tuple) else str(key)


def assert_same(found: TensorFile, loaded) -> None:
    storages = {storage.key: storage for storage in found.storages}
    wanted = named(loaded)
    rows = {tensor.name: tensor for tensor in found.tensors}
    assert list(rows) == [name for name, _ in wanted]
    partners: dict[int, set] = {}
    for name, tensor in wanted:
        row = rows[name]
        assert (row.dtype, row.layout.sizes, row.layout.strides, row.layout.offset) == (
            str(tensor.dtype).removeprefix("torch."),
            tuple(tensor.shape),
            tensor.stride(),
            tensor.storage_offset(),
        ), name
        assert storages[row.storage].nbytes == tensor.untyped_storage().nbytes()
        assert ("requires_grad" in row.flags, "conj" in row.flags, "neg" in row.flags) == (
            tensor.requires_grad,
            tensor.is_conj(),
            tensor.is_neg(),
        )
        partners.setdefault(tensor.untyped_storage()._cdata, set()).add(row.storage)
    assert all(len(keys) == 1 for keys in partners.values())
    assert len({next(iter(keys)) for keys in partners.values()}) == len(partners)


@pytest.mark.filterwarnings("ignore:ComplexHalf")
@pytest.mark.parametrize("name", CHECKPOINTS)
@pytest.mark.parametrize("zipped", [True, False], ids=["zip", "stream"])
def test_as_torch_loads_it(name, zipped, tmp_path: Path):
    path = tmp_path / "checkpoint.pt"
    value = CHECKPOINTS[name]()
    if name == "dtypes" and not zipped:  # torch cannot load the newer ones from a stream
        value = {key: tensor for key, tensor in value.items() if key not in NEWER_DTYPES}
    torch.save(value, path, _use_new_zipfile_serialization=zipped)
    found = open_tensor_file(str(path))
    assert found.kind == ("torch zip" if zipped else "torch legacy")
    assert_same(found, torch.load(path, weights_only=name != "keys", mmap=True if zipped else None))


@pytest.mark.filterwarnings("ignore:ComplexHalf")
@pytest.mark.parametrize("name", ["shared", "odd layouts", "optimizer", "tied", "dtypes"])
def test_as_torch_loads_it_without_data(name, tmp_path: Path):
    from torch._subclasses.fake_tensor import FakeTensorMode

    path = tmp_path / "checkpoint.pt"
    torch.save(CHECKPOINTS[name](), path)
    with FakeTensorMode():
        loaded = torch.load(path)
    rows = {tensor.name: tensor for tensor in open_tensor_file(str(path)).tensors}
    for key, tensor in named(loaded):
        assert rows[key].layout.sizes == tuple(tensor.shape)
        assert rows[key].layout.strides == tensor.stride()
        assert rows[key].layout.offset == tensor.storage_offset()


@pytest.mark.parametrize("zipped", [True, False], ids=["zip", "stream"])
def test_storages_are_where_their_bytes_are(zipped, tmp_path: Path):
    path = tmp_path / "checkpoint.pt"
    values = {"a": torch.arange(1000), "b": torch.arange(7, dtype=torch.float64) / 3, "c": torch.arange(20)[5:9]}
    torch.save(values, path, _use_new_zipfile_serialization=zipped)
    data = path.read_bytes()
    found = open_tensor_file(str(path))
    places = {storage.key: storage for storage in found.storages}
    for tensor in found.tensors:
        storage = places[tensor.storage]
        raw = bytes(values[tensor.name].untyped_storage())
        assert data[storage.file_offset : storage.file_offset + storage.nbytes] == raw


@pytest.mark.parametrize("protocol", [2, 3, 4, 5])
def test_pickle_protocols(protocol, tmp_path: Path):
    path = tmp_path / "checkpoint.pt"
    torch.save(shared(), path, pickle_protocol=protocol)
    assert_same(open_tensor_file(str(path)), torch.load(path, weights_only=False))


def test_a_pickled_module_lists_what_its_state_dict_has(tmp_path: Path):
    model = torch.nn.Sequential(
        torch.nn.Conv2d(1, 2, 3), torch.nn.BatchNorm2d(2), torch.nn.Sequential(torch.nn.Linear(2, 2))
    )
    path = tmp_path / "model.pt"
    torch.save(model, path)
    found = open_tensor_file(str(path))
    assert sorted(tensor.name for tensor in found.tensors) == sorted(model.state_dict())
    named_globals = {note.where for note in found.notes if note.code == "unsafe-global"}
    assert "torch.nn.modules.conv.Conv2d" in named_globals
    assert all(note.severity == "warning" for note in found.notes)


@pytest.mark.filterwarnings("ignore")  # beta and deprecation warnings of torch
def test_sparse_meta_and_nested(tmp_path: Path):
    path = tmp_path / "odd.pt"
    torch.save(
        {
            "coo": torch.eye(3).to_sparse(),
            "csr": torch.eye(3).to_sparse_csr(),
            "meta": torch.empty(3, 4, device="meta", dtype=torch.float16).t(),
            "nested": torch.nested.nested_tensor([torch.zeros(2, 3), torch.zeros(4, 3)]),
        },
        path,
    )
    rows = {tensor.name: tensor for tensor in open_tensor_file(str(path)).tensors}
    assert {"coo.indices", "coo.values", "csr.compressed_indices", "csr.plain_indices", "csr.values"} <= set(rows)
    assert rows["coo.indices"].layout.sizes == (2, 3)
    meta = rows["meta"]
    assert (meta.device, meta.storage, meta.layout.sizes, meta.layout.strides) == ("meta", None, (4, 3), (1, 4))
    assert rows["nested.buffer"].layout.sizes == (18,)


@pytest.mark.filterwarnings("ignore")
def test_quantized(tmp_path: Path):
    path = tmp_path / "q.pt"
    try:
        value = torch.quantize_per_tensor(torch.ones(2, 3), 0.5, 1, torch.qint8)
    except (RuntimeError, NotImplementedError):
        pytest.skip("no quantized tensors in this build of torch")
    torch.save({"q": value}, path)
    (tensor,) = open_tensor_file(str(path)).tensors
    assert (tensor.dtype, tensor.layout.sizes, tensor.flags) == ("qint8", (2, 3), ("quantized",))


@pytest.mark.filterwarnings("ignore")
def test_torchscript(tmp_path: Path):
    path = tmp_path / "script.pt"
    module = torch.jit.script(torch.nn.Sequential(torch.nn.Linear(2, 3), torch.nn.ReLU()))
    torch.jit.save(module, path)
    found = open_tensor_file(str(path))
    assert found.kind == "torchscript"
    assert sorted(tensor.name for tensor in found.tensors) == ["0.bias", "0.weight"]
    assert not [note for note in found.notes if note.severity == "error"]


def test_a_cut_file_is_refused_everywhere(tmp_path: Path):
    from stridetool.errors import InputError

    buffer = io.BytesIO()
    torch.save({"a": torch.zeros(100)}, buffer, _use_new_zipfile_serialization=False)
    data = buffer.getvalue()
    path = tmp_path / "cut.pt"
    for length in range(0, len(data), 7):
        path.write_bytes(data[:length])
        with pytest.raises(InputError):
            open_tensor_file(str(path))


def patched(data: bytes, name: bytes, offset: int, value: bytes) -> bytes:
    """The archive with bytes of one entry of its directory replaced."""
    out, at = bytearray(data), data.find(b"PK\1\2")
    while data[at : at + 4] == b"PK\1\2":
        lengths = [int.from_bytes(data[at + k : at + k + 2], "little") for k in (28, 30, 32)]
        if data[at + 46 : at + 46 + lengths[0]].endswith(name):
            out[at + offset : at + offset + len(value)] = value
        at += 46 + sum(lengths)
    return bytes(out)


def local_name(data: bytes) -> bytes:
    at = data.find(b"/data/0")
    return data[:at] + b"/data/X" + data[at + 7 :]


TRICKS = {
    "pickle in capitals": (lambda d: d.replace(b"/data.pkl", b"/DATA.PKL"), "member-case"),
    "version in capitals": (lambda d: d.replace(b"/version", b"/VERSION"), "member-case"),
    "another name before the data": (local_name, "local-header"),
    "another place": (lambda d: patched(d, b"/data/0", 42, bytes(4)), "local-header"),
    "more behind": (lambda d: d + b"more", "trailing"),
    "claims more": (lambda d: patched(d, b"/data/0", 24, b"\xff\xff\0\0"), None),
    "encrypted": (lambda d: patched(d, b"/data/0", 8, b"\x09\x08"), None),
}


@pytest.mark.parametrize("name", TRICKS)
def test_tricks_with_archives(name, tmp_path: Path):
    from stridetool.errors import InputError

    trick, code = TRICKS[name]
    buffer = io.BytesIO()
    torch.save({"a": torch.arange(4.0)}, buffer)
    path = tmp_path / "trick.pt"
    path.write_bytes(trick(buffer.getvalue()))
    if code is None:  # torch refuses it, and so must we
        with pytest.raises(RuntimeError):
            torch.load(path)
        with pytest.raises(InputError):
            open_tensor_file(str(path))
        return
    assert list(torch.load(path)) == ["a"]
    found = open_tensor_file(str(path))
    assert [t.name for t in found.tensors] == ["a"]
    assert code in {note.code for note in found.notes}


def test_how_bad_a_global_is(tmp_path: Path):
    from collections import defaultdict

    path = tmp_path / "globals.pt"
    torch.save({"d": defaultdict(list, k=[torch.zeros(1)]), "b": print}, path)
    found = open_tensor_file(str(path))
    assert [t.name for t in found.tensors] == ["d.k[0]"]
    severities = {note.where.partition(".")[2]: note.severity for note in found.notes}
    assert severities == {"defaultdict": "warning", "list": "warning", "print": "error"}


def test_the_tar_of_torch_0_1(tmp_path: Path):
    import pickle
    import struct
    import tarfile

    def named_class(name: str) -> bytes:
        return f"ctorch\n{name}\n".encode()

    storage = b"\x80\x02K\x05X\x03\x00\x00\x00cpu" + named_class("FloatStorage") + b"\x87."
    tensor = b"\x80\x02K\x07K\x05" + named_class("FloatTensor") + b"\x87."
    members = {
        "pickle": b"\x80\x02}X\x01\x00\x00\x00aK\x07Qs.",
        "tensors": pickle.dumps(1, 2) + tensor + struct.pack("<ii5q", 2, 0, 2, 3, 3, 1, 0),
        "storages": pickle.dumps(1, 2) + storage + struct.pack("<q6f", 6, *range(6)) + pickle.dumps([], 2),
    }
    path = tmp_path / "old.pt"
    with tarfile.open(path, "w") as archive:
        for name, data in members.items():
            info = tarfile.TarInfo(name)
            info.size = len(data)
            archive.addfile(info, io.BytesIO(data))
    loaded = torch.load(path, weights_only=False)["a"]
    found = open_tensor_file(str(path))
    (row,), (place,) = found.tensors, found.storages
    assert (row.layout.sizes, row.layout.strides) == (tuple(loaded.shape), loaded.stride())
    assert path.read_bytes()[place.file_offset :][: place.nbytes] == loaded.numpy().tobytes()
    assert [note.code for note in found.notes] == ["old-format"]
