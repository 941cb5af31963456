"""Compile ``src/jvm`` to the jar of Spark's JVM reader, ``src/tidelog/spark/jvm/tidelog-spark.jar``.

``python scripts/spark_jar.py`` (``make jar``) needs a JDK 17, and takes Spark's jars from the PySpark of the running
interpreter, or from ``--pyspark DIR``. Equal sources make equal bytes: names are sorted, and times are fixed.
``setup.py`` calls ``build`` when a wheel is built.
"""

from __future__ import annotations

import argparse
import importlib.util
import shutil
import subprocess
import tempfile
import zipfile
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
SOURCES = ROOT / "src" / "jvm"
JAR = ROOT / "src" / "tidelog" / "spark" / "jvm" / "tidelog-spark.jar"
SERVICE = "META-INF/services/org.apache.spark.sql.sources.DataSourceRegister"
RELEASE = "17"
"""The oldest Java that Spark 4 runs on."""
_FIRST_TIME = (1980, 1, 1, 0, 0, 0)


class JarError(Exception):
    """The jar cannot be built. The text names the missing part."""


def spark_jars() -> Path:
    """Return the folder of the installed PySpark's jars. Raise JarError if there is none."""
    found = importlib.util.find_spec("pyspark")
    if found is None or found.origin is None:
        raise JarError("PySpark is not installed in this interpreter, and its jars are needed to compile the reader")
    return Path(found.origin).parent / "jars"


def build(jars: Path, target: Path = JAR) -> None:
    """Compile and pack. Raise JarError if there is no compiler, or if it finds errors."""
    compiler = shutil.which("javac")
    if compiler is None:
        raise JarError(f"there is no javac: a JDK {RELEASE} or newer compiles the reader")
    sources = sorted(str(path) for path in SOURCES.rglob("*.java"))
    with tempfile.TemporaryDirectory() as made:
        command = [compiler, "--release", RELEASE, "-Xlint:all,-processing,-classfile", "-d", made]
        run = subprocess.run([*command, "-cp", f"{jars}/*", *sources], capture_output=True, text=True, check=False)
        if run.returncode:
            raise JarError(run.stderr)
        _pack(Path(made), target)


def _pack(classes: Path, target: Path) -> None:
    """Write the classes and the name of the source's class, with nothing in them that differs between two builds."""
    content = {str(path.relative_to(classes)): path.read_bytes() for path in classes.rglob("*.class")}
    content[SERVICE] = b"tidelog.spark.TidelogSource\n"
    content["META-INF/MANIFEST.MF"] = b"Manifest-Version: 1.0\r\n\r\n"
    temporary = target.with_suffix(".tmp")
    with zipfile.ZipFile(temporary, "w", zipfile.ZIP_DEFLATED) as jar:
        for name in sorted(content):
            entry = zipfile.ZipInfo(name, _FIRST_TIME)
            entry.compress_type = zipfile.ZIP_DEFLATED
            entry.external_attr = 0o644 << 16
            jar.writestr(entry, content[name])
    temporary.replace(target)


def main() -> None:
    parser = argparse.ArgumentParser(description="Compile the jar of Spark's JVM reader.")
    parser.add_argument("--pyspark", type=Path, help="the folder of Spark's jars (default: of the installed PySpark)")
    arguments = parser.parse_args()
    try:
        build(arguments.pyspark or spark_jars())
    except JarError as error:
        raise SystemExit(f"The jar was not built: {error}") from None


if __name__ == "__main__":
    main()
