"""Compile the kernels; pyproject.toml has everything else about the package.

Every ``src/tidelog/kernel/*.pyx`` becomes an extension module of the same name. A kernel that needs a C file
names it in its first lines (``# distutils: sources = src/tidelog/kernel/NAME.c``). Generated C goes to
``build/cython``. ``TIDELOG_WITHOUT_KERNELS=1`` leaves the kernels out: the Makefile installs the project editable so,
then builds them once in place.
"""

import os
from pathlib import Path

from setuptools import Extension, setup

KERNEL = Path("src/tidelog/kernel")
COMPILE_FLAGS = ["-fno-strict-aliasing", "-Wno-unreachable-code"]
if "-O" not in os.environ.get("CFLAGS", ""):  # keep a level that the caller sets
    COMPILE_FLAGS.append("-O3")


def kernel_extensions() -> list[Extension]:
    sources = sorted(KERNEL.glob("*.pyx"))
    if not sources or os.environ.get("TIDELOG_WITHOUT_KERNELS") == "1":
        return []
    from Cython.Build import cythonize

    extensions = [
        Extension(
            f"tidelog.kernel.{source.stem}",
            [str(source)],
            include_dirs=[str(KERNEL)],
            extra_compile_args=COMPILE_FLAGS,
        )
        for source in sources
    ]
    return cythonize(
        extensions,
        build_dir="build/cython",
        include_path=["src"],
        compiler_directives={"language_level": 3, "embedsignature": True, "show_performance_hints": False},
        nthreads=os.cpu_count() or 1,
        quiet=True,
    )


setup(ext_modules=kernel_extensions(), options={"build_ext": {"parallel": os.cpu_count() or 1}})
