"""What the CUDA kernels take of a multiprocessor, by architecture, without a GPU: NVRTC compiles, ptxas reports.

Needs the library of the wheel `nvidia-cuda-nvrtc` (extra `dev-cuda`) or of CuPy's `[ctk]` extra, nothing else.
"""

from __future__ import annotations

import ctypes
import importlib.util
import re
from pathlib import Path
from typing import Any

import msgspec

from stridetool.errors import StrideToolError, UnavailableError
from stridetool.kernels.cuda import SOURCE

_LIBRARIES = ("lib/libnvrtc.so.*", "lib/x86_64/libnvrtc.so.*", "bin/nvrtc64_*.dll", "bin/x86_64/nvrtc64_*.dll")
_ENTRY = re.compile(r"Compiling entry function '(\w+)'(.*?)(?=Compiling entry function|\Z)", re.S)


class Resources(msgspec.Struct, frozen=True):
    """Of one kernel on one architecture."""

    registers: int
    """Per thread."""
    shared_bytes: int
    """Per block."""
    spill_bytes: int
    stack_bytes: int


def resources(arch: str) -> dict[str, Resources]:
    """Resources of each entry point of copy.cu for an architecture such as "sm_90".

    UnavailableError where NVRTC is not installed, StrideToolError with the compiler's log when it refuses.
    """
    log = _compile(_nvrtc(), SOURCE.read_bytes(), arch)
    return {name: _read(text) for name, text in _ENTRY.findall(log)}


def _read(text: str) -> Resources:
    def number(pattern: str) -> int:
        return sum(int(found) for found in re.findall(pattern, text))

    return Resources(
        registers=number(r"Used (\d+) registers"),
        shared_bytes=number(r"(\d+) bytes smem"),
        spill_bytes=number(r"(\d+) bytes spill (?:stores|loads)"),
        stack_bytes=number(r"(\d+) bytes stack frame"),
    )


def _nvrtc() -> Any:
    spec = importlib.util.find_spec("nvidia")
    roots = [Path(root) for root in (spec.submodule_search_locations or ())] if spec else []
    for root in roots:
        for pattern in _LIBRARIES:
            for path in sorted(root.glob(f"*/{pattern}")):
                if "builtins" not in path.name:
                    return ctypes.CDLL(str(path))
    raise UnavailableError("NVRTC is not installed", hint="pip install 'stride-tool[dev-cuda]'")


def _compile(nvrtc: Any, source: bytes, arch: str) -> str:
    """The log of a compilation."""
    options = [f"--gpu-architecture={arch}".encode(), b"--std=c++17", b"--ptxas-options=-v"]
    program = ctypes.c_void_p()
    nvrtc.nvrtcCreateProgram(ctypes.byref(program), source, b"copy.cu", 0, None, None)
    try:
        failed = nvrtc.nvrtcCompileProgram(program, len(options), (ctypes.c_char_p * len(options))(*options))
        size = ctypes.c_size_t()
        nvrtc.nvrtcGetProgramLogSize(program, ctypes.byref(size))
        log = ctypes.create_string_buffer(size.value)
        nvrtc.nvrtcGetProgramLog(program, log)
    finally:
        nvrtc.nvrtcDestroyProgram(ctypes.byref(program))
    if failed:
        raise StrideToolError(f"cannot compile copy.cu for {arch}: {log.value.decode()}")
    return log.value.decode()
