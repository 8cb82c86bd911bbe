"""A CuPy memory hook that writes the trace which `alloc-report` reads.

    with TraceHook("trace.jsonl"):
        ...  # CuPy allocations from its memory pool

CuPy calls a hook for every `malloc` and `free` of its pool, with the memory's address as the identity.
"""

from __future__ import annotations

import json
import threading
from pathlib import Path
from types import TracebackType
from typing import IO, Any

from stridetool.errors import UnavailableError


class _Writer:
    """Numbers addresses and writes one line an event; CuPy calls it from any thread."""

    def __init__(self, file: IO[str]) -> None:
        self._file = file
        self._lock = threading.Lock()
        self._ids: dict[int, int] = {}
        self._next = 0

    def allocated(self, address: int, nbytes: int, stream: int = 0) -> None:
        """`nbytes` bytes were handed out at `address`."""
        with self._lock:
            self._next += 1
            self._ids[address] = self._next
            self._write({"op": "alloc", "id": self._next, "size": nbytes, "stream": stream})

    def freed(self, address: int) -> None:
        """They came back; memory from before the hook is not in the trace."""
        with self._lock:
            identity = self._ids.pop(address, None)
            if identity is not None:
                self._write({"op": "free", "id": identity})

    def _write(self, event: dict[str, Any]) -> None:
        self._file.write(json.dumps(event, separators=(",", ":")) + "\n")


class TraceHook:
    """Records CuPy's pool into the file at `path`, as a context manager. Raises UnavailableError without CuPy."""

    def __init__(self, path: str | Path) -> None:
        self._path = Path(path)
        self._file: IO[str] | None = None
        self._hook: Any = None

    def __enter__(self) -> TraceHook:
        try:
            import cupy
        except ImportError as error:
            raise UnavailableError("recording CuPy's memory needs CuPy", hint="pip install cupy-cuda12x") from error
        self._file = self._path.open("w", encoding="utf-8")
        self._hook = hook_class(cupy.cuda.MemoryHook)(_Writer(self._file))
        self._hook.__enter__()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        assert self._file is not None
        self._hook.__exit__(kind, error, trace)
        self._file.close()


def hook_class(base: type) -> type:
    """The hook as a subclass of CuPy's own (or, in tests, of a stand-in with the same calls)."""

    class Hook(base):  # type: ignore[misc]  # known only when it runs
        name = "stride-tool"

        def __init__(self, writer: _Writer) -> None:
            self._writer = writer

        def malloc_postprocess(self, **call: Any) -> None:
            if call["mem_ptr"]:
                self._writer.allocated(call["mem_ptr"], call["size"])

        def free_preprocess(self, **call: Any) -> None:
            self._writer.freed(call["mem_ptr"])

    return Hook
