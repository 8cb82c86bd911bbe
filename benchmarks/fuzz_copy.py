"""Copy random views with every host kernel until the count is reached, and compare each with NumPy byte for byte.

usage: fuzz_copy.py [--count 1000000] [--seed 0] [--bytes 65536] [--kernel NAME]

Under the sanitizers (the extension built with them, the interpreter not):
    CFLAGS="-O1 -g -fsanitize=address,undefined" python setup.py build_ext --inplace --force
    LD_PRELOAD="$(gcc -print-file-name=libasan.so) $(gcc -print-file-name=libubsan.so)" \\
        ASAN_OPTIONS=detect_leaks=0 UBSAN_OPTIONS=halt_on_error=1 python benchmarks/fuzz_copy.py --count 20000
"""

import argparse
import pathlib
import random
import sys

import numpy as np

from stridetool.kernels import available_kernels, copy_into, use_kernel

sys.path.insert(0, str(pathlib.Path(__file__).parent.parent / "tests" / "kernels"))
from random_views import random_pair


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--count", type=int, default=1_000_000)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--bytes", type=int, default=65536)
    parser.add_argument("--kernel", action="append", help="only this one; may be given several times")
    options = parser.parse_args()
    kernels = options.kernel or available_kernels()
    for number in range(options.count):
        rng = random.Random(f"{options.seed}/{number}")
        use_kernel(kernels[number % len(kernels)])
        # One in fifty is large enough to be streamed around the caches and to be shared by threads.
        pair = random_pair(rng, 6 << 20 if number % 50 == 0 else int(options.bytes ** rng.uniform(0.3, 1)))
        copy_into(pair.dst, pair.src, threads=rng.choice((1, 1, 2, 3)))
        if not np.array_equal(pair.bytes, pair.expected):
            print(
                f"wrong: --seed {options.seed}, number {number}: {kernels[number % len(kernels)]}, "
                f"{pair.dst.shape} of {pair.dst.itemsize} B, {pair.src.strides} to {pair.dst.strides}"
            )
            sys.exit(1)
        if number % 10_000 == 9_999:
            print(f"{number + 1} right", flush=True)
    print(f"{options.count} right: {', '.join(kernels)}")


if __name__ == "__main__":
    main()
