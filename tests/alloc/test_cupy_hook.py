"""The CuPy memory hook against a stand-in that calls it as CuPy's pool does."""

import io

from stridetool.programs.cupy_hook import _Writer, hook_class
from stridetool.sources.alloc_trace import read_trace


class MemoryHook:
    """CuPy's base class has no state that a hook needs."""


def test_a_pool_s_calls_become_a_trace():
    file = io.StringIO()
    hook = hook_class(MemoryHook)(_Writer(file))
    hook.malloc_postprocess(device_id=0, size=1000, mem_size=1024, mem_ptr=4096, pmem_id=1)
    hook.malloc_postprocess(device_id=0, size=0, mem_size=0, mem_ptr=0, pmem_id=2)
    hook.free_preprocess(device_id=0, mem_size=1024, mem_ptr=4096, pmem_id=1)
    hook.free_preprocess(device_id=0, mem_size=512, mem_ptr=8192, pmem_id=3)
    events, _ = read_trace(file.getvalue().encode())
    assert [(event.op, event.id, event.nbytes) for event in events] == [("alloc", 1, 1000), ("free", 1, 0)]
