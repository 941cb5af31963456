"""Compile the kernels and the jar of Spark's JVM reader; pyproject.toml has everything else about the package.

Every ``src/tidelog/kernel/*.pyx`` becomes an extension module of the same name. A kernel that needs a C file
names it in its first lines (``# distutils: sources = src/tidelog/kernel/NAME.c``). Generated C goes to
``build/cython``. ``TIDELOG_WITHOUT_KERNELS=1`` leaves the kernels out: the Makefile installs the project editable so,
then builds them once in place. The jar is compiled if the environment of the build has PySpark and a JDK. Otherwise a
jar that ``make jar`` has made is packed, or none: then Spark reads by Python.
"""

import os
import runpy
import shutil
import sysconfig
from pathlib import Path

from setuptools import Extension, setup
from setuptools.command.build_ext import build_ext
from setuptools.command.build_py import build_py

KERNEL = Path("src/tidelog/kernel")
COMPILE_FLAGS = ["-fno-strict-aliasing", "-Wno-unreachable-code"]
if "-O" not in os.environ.get("CFLAGS", ""):  # keep a level that the caller sets
    COMPILE_FLAGS.append("-O3")
NEEDS_A_COMPILER = "tidelog's kernels are C and need a compiler"
ADVICE = (
    "On Debian: apt-get install gcc libc6-dev python3-dev. Or install a wheel, which 'pip wheel .' makes on a machine"
    " with a compiler and the same version of Python."
)


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


class BuildKernels(build_ext):
    """The usual build, which first looks for the compiler and Python's headers."""

    def build_extensions(self) -> None:
        compiler = self.compiler.compiler_so[0]
        if shutil.which(compiler) is None:
            raise SystemExit(f"{NEEDS_A_COMPILER}: there is no {compiler!r}. {ADVICE}")
        if not Path(sysconfig.get_path("include"), "Python.h").exists():
            raise SystemExit(f"{NEEDS_A_COMPILER} and Python's headers: there is no Python.h. {ADVICE}")
        super().build_extensions()


class BuildPackage(build_py):
    """The usual build, which first compiles the jar where it can."""

    def run(self) -> None:
        if not self.editable_mode:
            builder = runpy.run_path("scripts/spark_jar.py")
            try:
                builder["build"](builder["spark_jars"]())
            except builder["JarError"] as error:
                print(f"The jar of Spark's JVM reader was not compiled: {error}")
        super().run()


setup(
    ext_modules=kernel_extensions(),
    cmdclass={"build_ext": BuildKernels, "build_py": BuildPackage},
    options={"build_ext": {"parallel": os.cpu_count() or 1}},
)
