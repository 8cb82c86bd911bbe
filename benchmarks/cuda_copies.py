"""Time the CUDA copy kernels on a GPU, beside CuPy, cuTENSOR where installed, and a device-to-device memcpy.

usage: cuda_copies.py [--only TEXT] [--mib 256] [--rounds 20] [--json FILE]
       cuda_copies.py --resources sm_80 sm_90     registers and shared memory, without a GPU

Each round runs all kernels in random order; before each, a buffer larger than the L2 cache is written, so that no
kernel finds the source there. Events time the kernel alone. GB/s are read + written; the peak is the memcpy of the
same bytes in the same rounds, never a data-sheet number. Every result is compared with CuPy's first.
"""

import argparse
import json
import math
import random
import statistics
import sys

from stridetool.errors import UnavailableError
from stridetool.kernels import cuda
from stridetool.kernels.cuda_resources import resources


def cases(cupy, elements, dtype):
    """(name, view) over one allocation of about `elements` elements."""
    side = 64 * max(1, math.isqrt(elements) // 64)
    a = cupy.arange(side * side, dtype="u8").astype(dtype)
    square, images, heads = a.reshape(side, side), side * side // (64 * 3136), side * side // (16 * 128 * 64)
    yield "contiguous", a
    yield "transpose", square.T
    yield "ragged transpose", square[: side - 7, : side - 13].T
    yield "reversed transpose", square[::-1].T
    yield "nchw to nhwc", a[: images * 64 * 3136].reshape(images, 64, 56, 56).transpose(0, 2, 3, 1)
    yield "nhwc to nchw", a[: images * 64 * 3136].reshape(images, 56, 56, 64).transpose(0, 3, 1, 2)
    yield "images to planes", a[: a.size // 3 * 3].reshape(-1, 3).T
    yield "heads", a[: heads * 16 * 128 * 64].reshape(heads, 128, 16, 64).transpose(0, 2, 1, 3)
    yield "slice of columns", square[:, 16 : side // 2]
    yield "every second", a[::2]
    yield "reversed", a[::-1]
    yield "rows repeated", cupy.broadcast_to(square[:1], (side, side))
    yield "columns repeated", cupy.broadcast_to(square[:, :1], (side, side))


def runs(cupy, dst, view):
    """Name → call, of everything that can do this copy."""
    found = {kernel: (lambda k=kernel: cuda.copy_into(dst, view, kernel=k)) for kernel in cuda.kernel_names(dst, view)}
    found["cupy"] = lambda: cupy.copyto(dst, view)
    tensor = cutensor_run(cupy, dst, view)
    return found | ({"cutensor": tensor} if tensor else {})


def cutensor_run(cupy, dst, view):
    """cuTENSOR's permutation as CuPy >= 13 reaches it; None where it is not installed or cannot do this view."""
    try:
        from cupyx import cutensor
    except ImportError:
        return None
    order = sorted(range(view.ndim), key=lambda dim: -view.strides[dim])
    source = view.transpose(order)
    if view.dtype.char not in "fdFD" or not source.flags.c_contiguous:
        return None
    names = "abcdefgh"[: view.ndim]
    modes = [names[dim] for dim in order]

    def run():
        cutensor.elementwise_binary(1.0, source, modes, 0.0, dst, list(names), out=dst)

    try:
        run()
    except (TypeError, ValueError, AttributeError) as error:
        print(f"cuTENSOR is not measured: {error}", file=sys.stderr)
        return None
    return run


def timed(cupy, run, flush):
    """Seconds of one run with a cold L2 cache."""
    flush.fill(1)
    start, stop = cupy.cuda.Event(), cupy.cuda.Event()
    start.record()
    run()
    stop.record()
    stop.synchronize()
    return cupy.cuda.get_elapsed_time(start, stop) / 1e3


def measure(cupy, name, view, rounds):
    dst = cupy.zeros(view.shape, view.dtype)
    here = runs(cupy, dst, view)
    for kernel, run in here.items():
        dst.fill(0)
        run()
        if not bool((dst == view).all()):
            sys.exit(f"wrong: {kernel} on {name}, {view.dtype}")
    other = cupy.empty_like(dst)
    here["memcpy"] = lambda: dst.data.copy_from_device_async(other.data, dst.nbytes, cupy.cuda.get_current_stream())
    flush = cupy.empty(4 * cupy.cuda.Device().attributes["L2CacheSize"] + (64 << 20), "u1")
    samples = {kernel: [] for kernel in here}
    for _ in range(rounds):
        for kernel in random.sample(list(here), len(here)):
            samples[kernel].append(timed(cupy, here[kernel], flush))
    return 2 * dst.nbytes, samples


def report(name, nbytes, samples):
    median = {kernel: statistics.median(taken) for kernel, taken in samples.items()}
    peak = median.pop("memcpy")
    row = "  ".join(f"{kernel} {peak / taken:5.2f}" for kernel, taken in sorted(median.items(), key=lambda kv: kv[1]))
    print(f"{name:28} peak {nbytes / peak / 1e9:7.0f} GB/s   of peak: {row}", flush=True)


def show_resources(archs):
    for arch in archs:
        for entry, used in sorted(resources(arch).items()):
            shared = f"{used.shared_bytes:6} B shared"
            print(f"{arch:8} {entry:20} {used.registers:4} registers {shared} {used.spill_bytes:4} B spilled")


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--only", default="")
    parser.add_argument("--mib", type=int, default=256)
    parser.add_argument("--rounds", type=int, default=20)
    parser.add_argument("--json")
    parser.add_argument("--resources", nargs="+", metavar="ARCH")
    options = parser.parse_args()
    if options.resources:
        show_resources(options.resources)
        return
    if not cuda.driver.is_available():
        raise UnavailableError("no GPU to time", hint="--resources ARCH needs none")
    import cupy

    everything = {}
    for dtype in ("u1", "f2", "f4", "f8", "c16"):
        for case, view in cases(cupy, (options.mib << 20) // cupy.dtype(dtype).itemsize, dtype):
            name = f"{case} {dtype}"
            if options.only in name:
                nbytes, samples = measure(cupy, name, view, options.rounds)
                report(name, nbytes, samples)
                everything[name] = {"bytes_moved": nbytes, "samples": samples}
    if options.json:
        with open(options.json, "w") as file:
            json.dump(everything, file)


if __name__ == "__main__":
    main()
