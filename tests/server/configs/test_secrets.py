"""Secrets are set wherever a broker accepts them. No output of the broker contains them."""

from __future__ import annotations

import json
import logging
import traceback
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

import click
import pytest

from cli.runner import run
from server.harness import WireClient, running_broker
from tidelog.cli.setting_options import key_values
from tidelog.config.broker_config import BrokerConfig
from tidelog.config.broker_keys import BROKER_KEYS
from tidelog.config.value_text import KeyType
from tidelog.inspect.dump.json_payload import payload_json
from tidelog.inspect.dump.options import PayloadDecoder
from tidelog.model import ConfigError
from tidelog.protocol.api_key import ApiKey
from tidelog.record.internal_records.frames import encode_framed
from tidelog.record.internal_records.metadata_tables import METADATA_TYPES
from tidelog.runtime.logging_setup import LineFormatter

BROKER = 4
SET, APPEND = 0, 2

PASSWORDS = [name for name, key in BROKER_KEYS.items() if key.type is KeyType.PASSWORD]
PLACES = [
    *PASSWORDS,
    *(f"listener.name.between.{name}" for name in PASSWORDS),
    "listener.name.between.scram-sha-512.sasl.jaas.config",
    "listener.name.between.plain.sasl.jaas.config",
    "remote.log.metadata.manager.impl.prefix.client.ssl.keystore.password",
    "my.plugin.password",
]
SECRETS = {name: f"zq9x-hush-{number}-" for number, name in enumerate(PLACES)}

Records = Mapping[str, Any]


class Shown:
    """The texts that were shown, by their source."""

    def __init__(self) -> None:
        self.texts: dict[str, str] = {}

    def add(self, source: str, *texts: object) -> None:
        self.texts[source] = self.texts.get(source, "") + "\n".join(map(str, texts))

    def assert_tells_nothing(self) -> None:
        assert self.texts
        for source, text in self.texts.items():
            assert text, f"{source} has shown nothing"
            assert "zq9x" not in text, source


@pytest.fixture
def shown() -> Iterator[Shown]:
    found = Shown()
    yield found
    found.assert_tells_nothing()


@pytest.fixture
def file(tmp_path: Path) -> Path:
    path = tmp_path / "server.properties"
    settings = {"node.id": "1", "process.roles": "broker,controller", "log.dirs": "data", **SECRETS}
    path.write_text("".join(f"{key}={value}\n" for key, value in settings.items()))
    return path


def error_of(cause: Callable[[], object]) -> str:
    """Return the error as a stack trace of an unexpected failure shows it."""
    try:
        cause()
    except (ConfigError, click.UsageError) as error:
        return "".join(traceback.format_exception(error)) + repr(error)
    pytest.fail("no error")


def test_the_secrets_are_all_there_are() -> None:
    config = BrokerConfig.load(overrides=SECRETS)
    assert len(PASSWORDS) == 10
    assert {setting.text for setting in config.settings.values()} == set(SECRETS.values())


def test_of_a_configuration_and_its_errors(file: Path, shown: Shown, caplog: pytest.LogCaptureFixture) -> None:
    config = BrokerConfig.load(file)
    with caplog.at_level(logging.DEBUG):
        config.log_warnings()
    shown.add("log", caplog.text)
    shown.add("configuration", config, repr(config), vars, config.static, config.settings, *config.settings.values())
    shown.add("values", *(repr(config.shown(name)) for name in PASSWORDS))
    with file.open("a") as more:
        more.write("log.segment.bytes=many\nlisteners=nowhere\n")
    shown.add("errors", error_of(lambda: BrokerConfig.load(file)))


@pytest.mark.parametrize(
    "lines",
    [
        "ssl.keystore.password=\\uzq9x-hush",
        "ssl.keystore.key=-----BEGIN PRIVATE KEY-----\nMIIzq9x-hush/+A==\nAAAAzq9x-hush\n-----END",
        "sasl.jaas.config=org.apache.X required \n  username=admin password=zq9x-hush;\n",
        'sasl.jaas.config=org.apache.X required\n"zq9x-hush";\nzq9x-hush-two\n',
    ],
)
def test_of_a_file_that_breaks_them_into_lines(
    lines: str, tmp_path: Path, shown: Shown, caplog: pytest.LogCaptureFixture
) -> None:
    path = tmp_path / "server.properties"
    path.write_text(f"node.id=1\nprocess.roles=broker,controller\nlog.dirs={tmp_path / 'data'}\n{lines}")
    command = run("config", "--file", path, code=2 if "\\u" in lines else 1)
    shown.add("command", command.output)
    try:
        config = BrokerConfig.load(path)
    except ConfigError as error:
        shown.add("error", error)
        return
    config.log_warnings()
    shown.add("log", caplog.text)
    texts = {key.replace(".", "_"): setting.text for key, setting in config.settings.items() if "zq9x" not in key}
    with running_broker(tmp_path / "data", **{key: text for key, text in texts.items() if key != "log_dirs"}) as home:
        home.call(lambda: setattr(home.broker, "config", config))
        with home.client() as client:
            shown.add("described", described(client))


def test_of_the_command_line(file: Path, shown: Shown) -> None:
    shown.add("all", run("config", "--file", file, "--all", code=1).output)
    shown.add("json", run("config", "--file", file, "--all", "--json", code=1).output)
    shown.add("csv", run("config", "--file", file, "--csv", code=1).output)
    known = [name for name in PLACES if name in PASSWORDS or name.startswith("listener.name.")]
    shown.add("keys", run("config", *known, "--file", file, code=1).output)
    shown.add("keys as json", run("config", *known, "--file", file, "--json", code=1).output)
    overrides = [part for name in PASSWORDS for part in ("--override", f"{name}={SECRETS[name]}")]
    shown.add("overrides", run("config", *overrides, "--all").output)
    for command in ("config", "serve"):
        for text in ("ssl.key.password:zq9x-hush", "zq9x-hush", "=zq9x-hush"):
            shown.add("no setting", run(command, "--override", text, code=2).output)
    shown.add("refused", run("serve", *overrides, "--override", "node.id=x", code=2).output)
    texts = ["a=b", SECRETS["ssl.key.password"]]
    shown.add("several", error_of(lambda: key_values("--conf", texts)))


def described(client: WireClient) -> Any:
    resource = {"resource_type": BROKER, "resource_name": "1", "configuration_keys": None}
    other = {**resource, "resource_name": ""}
    return client.call(
        ApiKey.DESCRIBE_CONFIGS, resources=[resource, other], include_synonyms=True, include_documentation=True
    )


def test_of_a_broker_and_its_answers(tmp_path: Path, shown: Shown, caplog: pytest.LogCaptureFixture) -> None:
    settings = {name.replace(".", "_"): text for name, text in SECRETS.items()}
    caplog.handler.setFormatter(LineFormatter())
    with (
        caplog.at_level(logging.DEBUG),
        running_broker(tmp_path / "data", **settings) as home,
        home.client() as client,
    ):
        answer = described(client)
        names = {config.name: config for config in answer.results[0].configs}
        assert names.keys() >= SECRETS.keys()
        assert all(names[name].is_sensitive for name in SECRETS)
        shown.add("described", answer)
        shown.add("broker", vars(home.broker), home.broker.config, home.broker.limits)
        for name in PLACES:
            shown.add("altered", altered(client, name, "zq9x-hush-new"))
            shown.add("appended", altered(client, name, "zq9x-hush-new", APPEND))
        shown.add("described again", described(client))
    shown.add("log", caplog.text)
    for dumped in sorted((tmp_path / "data").glob("__cluster_metadata-0/*.log")):
        shown.add("dump", run("dump", dumped).output)
        shown.add("batches", run("dump", "--batches", dumped).output)
    assert '"[hidden]"' in shown.texts["dump"], "a secret was written at run time"


def altered(client: WireClient, name: str, value: str, operation: int = SET) -> Any:
    change = {"name": name, "config_operation": operation, "value": value}
    resource = {"resource_type": BROKER, "resource_name": "1", "configs": [change]}
    return client.call(ApiKey.INCREMENTAL_ALTER_CONFIGS, resources=[resource], validate_only=False)


def test_of_records_of_the_metadata(shown: Shown) -> None:
    secret = b"zq9x-hush-of-scram"
    user = {"name": "ann", "mechanism": 1, "salt": secret, "storedKey": secret, "serverKey": secret, "iterations": 4096}
    shown.add("user", fields := dumped("UserScramCredentialRecord", user))
    assert fields == {**user, **dict.fromkeys(("salt", "storedKey", "serverKey"), "[hidden]")}
    setting = {"resourceType": BROKER, "resourceName": "1", "value": "zq9x-hush"}
    for name in PLACES:
        shown.add("setting", dumped("ConfigRecord", {**setting, "name": name}))
    plain = {**setting, "name": "log.roll.ms", "value": "7"}
    assert dumped("ConfigRecord", plain) == plain
    of_topic = {"resourceType": 2, "resourceName": "t", "name": "colour", "value": "blue"}
    assert dumped("ConfigRecord", of_topic) == of_topic


def dumped(name: str, fields: Records) -> Any:
    message = next(message for message in METADATA_TYPES.values() if message.name == name)
    value = payload_json(PayloadDecoder.CLUSTER_METADATA)(None, encode_framed(message, fields, 0))["value"]
    return json.loads(json.dumps(value))["fields"]
