"""Builds the copy kernels and the fast replay where there is a C compiler; all else stands in pyproject.toml.

The extensions are optional: without a compiler the install succeeds and their Python counterparts serve.
"""

import sysconfig

from setuptools import Extension, setup

# The limited API does not exist in free-threaded builds.
LIMITED = not sysconfig.get_config_var("Py_GIL_DISABLED")


def extension(name: str, source: str, headers: str) -> Extension:
    """One C file and the headers beside it."""
    folder = source.rpartition("/")[0]
    return Extension(
        name,
        sources=[source],
        depends=[f"{folder}/{header}.h" for header in headers.split()],
        define_macros=[("Py_LIMITED_API", "0x030B0000")] if LIMITED else [],
        extra_compile_args=["-O3", "-std=gnu11"],
        py_limited_api=LIMITED,
        optional=True,
    )


setup(
    ext_modules=[
        extension(
            "stridetool.kernels._copy",
            "stridetool/kernels/csrc/_copy.c",
            "plan tiles vectors block shuffle engine engine_end module",
        ),
        extension(
            "stridetool.core.memory._replay",
            "stridetool/core/memory/csrc/_replay.c",
            "blocks device segments streams expandable growth heap private state",
        ),
    ],
    options={"bdist_wheel": {"py_limited_api": "cp311"}} if LIMITED else {},
)
