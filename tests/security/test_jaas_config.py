"""The format of ``sasl.jaas.config``."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tidelog.model import ConfigError
from tidelog.security.jaas_config import parse_jaas_config


@pytest.mark.parametrize(
    ("text", "options"),
    [
        ("a.b.Module required;", {}),
        ('Module required user_alice="a" user_bob=b;', {"user_alice": "a", "user_bob": "b"}),
        (
            "Module\n  REQUIRED\n  user_a='it\"s' // a comment\n  /* another\n */ debug=true ;\n",
            {"user_a": 'it"s', "debug": "true"},
        ),
        (r'Module required p="a\"b\\c\n\101;=" ;', {"p": 'a"b\\c\nA;='}),
        ('Module optional user_a="";', {"user_a": ""}),
        ('Module sufficient a = "b";', {"a": "b"}),
    ],
)
def test_options_are_read_as_java_reads_them(text: str, options: dict[str, str]) -> None:
    module = parse_jaas_config(text)
    assert module.name.endswith("Module")
    assert module.options == options


@pytest.mark.parametrize(
    "text",
    [
        "",
        ";",
        "Module",
        "Module;",
        "Module mandatory;",
        "Module required",
        "Module required user_a;",
        'Module required user_a="hunter2"',
        'Module required user_a="hunter2;',
        'Module required = "hunter2";',
        'Module required user_a="hunter2"; Other required;',
        "Module required user_a=;",
        "Module required /* hunter2",
    ],
)
def test_what_is_no_login_module_is_refused_without_its_secrets(text: str) -> None:
    with pytest.raises(ConfigError) as raised:
        parse_jaas_config(text)
    assert "hunter2" not in str(raised.value)


def test_its_text_has_no_secrets() -> None:
    assert "hunter2" not in repr(parse_jaas_config('Module required user_a="hunter2";'))


@given(st.text(st.sampled_from("Mod required;=\"'\\/*\n abc"), max_size=60))
def test_any_text_is_read_or_refused(text: str) -> None:
    try:
        parse_jaas_config(text)
    except ConfigError:
        pass


@given(st.text(st.characters(exclude_characters="\n", exclude_categories=["Cs"])))
def test_any_password_comes_back(password: str) -> None:
    escaped = password.replace("\\", "\\\\").replace('"', '\\"')
    assert parse_jaas_config(f'Module required user_a="{escaped}";').options == {"user_a": password}
