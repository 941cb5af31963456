"""The jar: where sessions get it from, and that its bytes depend on the sources alone."""

from __future__ import annotations

from pathlib import Path

import pytest
import spark_jar

from tidelog.model import ConfigError
from tidelog.spark import jar_path
from tidelog.spark.jvm import jar

ROOT = Path(__file__).resolve().parents[3]


def test_a_sessions_own_jars_stay(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    made = tmp_path / "reader.jar"
    monkeypatch.setattr(jar, "JAR", made)
    assert jar.with_jar("a.jar") == "a.jar"
    assert jar.with_jar(None) is None
    with pytest.raises(ConfigError, match="has no jar of the JVM reader"):
        jar_path()
    made.touch()
    assert jar.with_jar(None) == jar_path() == str(made)
    assert jar.with_jar("a.jar,b.jar") == f"a.jar,b.jar,{made}"


@pytest.mark.spark
def test_every_supported_pyspark_makes_the_same_jar(tmp_path: Path) -> None:
    """The jar that one of them compiled runs with the others."""
    found = []
    for environment in (".venv", ".venv-spark40"):
        (jars,) = (ROOT / environment).glob("lib/python*/site-packages/pyspark/jars")
        spark_jar.build(jars, tmp_path / environment)
        found.append((tmp_path / environment).read_bytes())
    assert found[0] == found[1] == jar.JAR.read_bytes()


def test_a_build_without_pyspark_is_refused_in_a_sentence(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("importlib.util.find_spec", lambda name: None)
    with pytest.raises(spark_jar.JarError, match="PySpark is not installed in this interpreter"):
        spark_jar.spark_jars()
