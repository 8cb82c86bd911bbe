"""Builds the copy kernels where there is a C compiler; everything else about the package stands in pyproject.toml.

The extension is optional: without a compiler the install succeeds and the NumPy kernel serves.
"""

import sysconfig

from setuptools import Extension, setup

# The limited API does not exist in free-threaded builds.
LIMITED = not sysconfig.get_config_var("Py_GIL_DISABLED")

setup(
    ext_modules=[
        Extension(
            "stridetool.kernels._copy",
            sources=["stridetool/kernels/csrc/_copy.c"],
            depends=[
                f"stridetool/kernels/csrc/{name}.h"
                for name in ("plan", "tiles", "vectors", "block", "shuffle", "engine", "engine_end", "module")
            ],
            define_macros=[("Py_LIMITED_API", "0x030B0000")] if LIMITED else [],
            extra_compile_args=["-O3", "-std=gnu11"],
            py_limited_api=LIMITED,
            optional=True,
        )
    ],
    options={"bdist_wheel": {"py_limited_api": "cp311"}} if LIMITED else {},
)
