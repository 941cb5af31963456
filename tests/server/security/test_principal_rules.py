"""Rules that map a certificate's name to a user: Kafka's own examples, and invalid rules."""

from __future__ import annotations

import pytest

from tidelog.model import ConfigError
from tidelog.server.security.certificate_principal import PrincipalRules

KAFKAS = (
    "RULE:^CN=(.*?),OU=ServiceUsers.*$/$1/, "
    "RULE:^CN=(.*?),OU=(.*?),O=(.*?),L=(.*?),ST=(.*?),C=(.*?)$/$1@$2/L, "
    "RULE:^.*[Cc][Nn]=([a-zA-Z0-9.]*).*$/$1/U, "
    "DEFAULT"
)


@pytest.mark.parametrize(
    ("name", "user"),
    [
        ("CN=Duke,OU=ServiceUsers,O=Org,C=US", "Duke"),
        ("CN=Duke,OU=SME,O=mycp,L=Fulton,ST=MD,C=US", "duke@sme"),
        ("cn=duke,OU=JavaSoft,O=Sun Microsystems", "DUKE"),
        ("OU=JavaSoft,O=Sun Microsystems,C=US", "OU=JavaSoft,O=Sun Microsystems,C=US"),
    ],
)
def test_the_first_rule_that_matches_the_whole_name_counts(name: str, user: str) -> None:
    assert PrincipalRules(KAFKAS).user_of(name) == user


@pytest.mark.parametrize("text", ["", "DEFAULT", " DEFAULT , ", ",DEFAULT"])
def test_by_default_it_is_the_name(text: str) -> None:
    assert PrincipalRules(text).user_of("CN=a") == "CN=a"


@pytest.mark.parametrize(
    ("rules", "name", "user"),
    [
        (r"RULE:^CN=(.*?), O=a\/b$/$1/", "CN=x, O=a/b", "x"),
        (r"RULE:^CN=((\\, *|\w)+)(,.*|$)/$1/", r"CN=a\, b,O=c", r"a\, b"),
        (r"RULE:^CN=(\w+).*$/\$$1\/\\/", "CN=x,O=y", "$x/\\"),
        (r"RULE:^CN=(?<who>\w+)$/${who}!/", "CN=x", "x!"),
        (r"RULE:CN=x/admin/", "CN=x", "admin"),
        (r"RULE:CN=x/admin/", "CN=xy", None),
        (r"RULE:(CN=x)?(CN=y)?/$1-$2/", "CN=y", "-CN=y-"),
    ],
)
def test_replacements_are_javas(rules: str, name: str, user: str | None) -> None:
    """Java applies ``replaceAll`` to the complete name: a pattern that can be empty matches once more at the end."""
    assert PrincipalRules(rules).user_of(name) == user


@pytest.mark.parametrize(
    "text",
    [
        "RULE",
        "RULE:x",
        "RULE:x/y",
        "default",
        "RULE:x/y/LU",
        "RULE:(/y/",
        "RULE:x/$1/",
        "RULE:(x)/$2/",
        "DEFAULT DEFAULT",
    ],
)
def test_what_is_no_rule_is_named(text: str) -> None:
    with pytest.raises(ConfigError, match=r"ssl\.principal\.mapping\.rules"):
        PrincipalRules(text)
