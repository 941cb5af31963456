"""Real clients produce, consume and fail to authenticate over every protocol and mechanism."""

from __future__ import annotations

import ssl
from collections.abc import Iterator
from typing import Any, Protocol

import aiokafka
import confluent_kafka
import pytest

from server.clients.adapters import ADAPTERS, Adapter, Sent
from server.data.data_home import eventually
from server.security.certificates import CLIENT_NAME, Files, authority
from server.security.logins import LISTENERS, MECHANISMS, PASSWORD, SecureHome, secure_broker
from tidelog.testing.broker.loop_thread import PATIENCE_S

RECORDS = [Sent(b"value", b"key"), Sent(b"much " * 50_000)]
CASES = [
    ("TLS", ""),
    ("MUTUAL", ""),
    *((listener, mechanism) for listener in ("SASL", "BOTH") for mechanism in MECHANISMS),
]


@pytest.fixture(scope="module")
def home(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SecureHome]:
    advertised = {
        "advertised.listeners": ",".join(f"{name}://localhost:0" for name in LISTENERS),
        "log.retention.ms": "-1",
        "offsets.topic.replication.factor": "1",
        "offsets.topic.num.partitions": "1",
    }
    with secure_broker(tmp_path_factory.mktemp("secure"), advertised) as running:
        yield running


class Secure(Protocol):
    """A server or a cluster with a listener of each kind."""

    files: Files

    def create_topic(self, name: str, /) -> object: ...

    def servers(self, listener: str, /) -> str:
        """Return the addresses of a listener for clients."""
        ...

    def counts(self, listener: str, /) -> tuple[int, int]:
        """Return the numbers of successful and failed authentications."""
        ...


def options(home: Secure, adapter: Adapter, listener: str, mechanism: str, password: str) -> dict[str, Any]:
    """Return the library's own settings for the listener and mechanism."""
    protocol = LISTENERS[listener]
    if adapter.name == "confluent-kafka":
        given = {"security.protocol": protocol, "ssl.ca.location": str(home.files.authority)}
        if listener == "MUTUAL":
            given |= {"ssl.certificate.location": str(home.files.client), "ssl.key.location": str(home.files.client)}
        if mechanism:
            given |= {"sasl.mechanism": mechanism, "sasl.username": "alice", "sasl.password": password}
        return given
    context = ssl.create_default_context(cadata=authority().pem)
    if listener == "MUTUAL":
        context.load_cert_chain(home.files.client)
    secret = {"sasl_mechanism": mechanism, "sasl_plain_username": "alice", "sasl_plain_password": password}
    tls = {"ssl_context": context} if "SSL" in protocol else {}
    return {"security_protocol": protocol, **tls, **(secret if mechanism else {})}


@pytest.mark.parametrize("adapter", ADAPTERS, ids=lambda adapter: adapter.name)
@pytest.mark.parametrize(("listener", "mechanism"), CASES)
def test_records_come_back_as_they_were_sent(home: Secure, adapter: Adapter, listener: str, mechanism: str) -> None:
    topic = f"{adapter.name}-{listener}-{mechanism}"
    home.create_topic(topic)
    before = home.counts(listener)
    servers = home.servers(listener)
    own = options(home, adapter, listener, mechanism, PASSWORD)
    assert adapter.produce(servers, topic, RECORDS, **own) == [0, 1]
    assert adapter.consume(servers, topic, len(RECORDS), **own) == RECORDS
    let_in, refused = home.counts(listener)
    assert let_in > before[0]
    assert refused == before[1]


def test_a_certificate_gives_its_name(home: SecureHome) -> None:
    own = options(home, ADAPTERS[0], "MUTUAL", "", "")
    producer = confluent_kafka.Producer({"bootstrap.servers": home.servers("MUTUAL")} | own)

    def is_known() -> bool:
        """A client may replace its first connection, so the metadata request is repeated."""
        producer.list_topics(timeout=PATIENCE_S)
        names = home.call(lambda: {str(one.client.principal) for one in home.listener("MUTUAL").connections})
        return names == {f"User:{CLIENT_NAME}"}

    eventually(is_known)


@pytest.mark.parametrize("mechanism", MECHANISMS)
def test_libraries_understand_that_the_password_is_wrong(home: Secure, mechanism: str) -> None:
    """The clients do not mistake it for a network error. kafka-python is left out because it retries."""
    servers = home.servers("SASL")
    errors: list[Any] = []
    own = options(home, ADAPTERS[0], "SASL", mechanism, "guess")
    producer = confluent_kafka.Producer(
        {"bootstrap.servers": servers, "error_cb": errors.append, "log_level": 0, **own}
    )
    while not any(error.code() == confluent_kafka.KafkaError._AUTHENTICATION for error in errors):
        producer.poll(1)
    producer.close()  # otherwise it goes on trying until it is collected
    with pytest.raises(aiokafka.errors.KafkaError):
        ADAPTERS[2].produce(servers, "any", RECORDS, **options(home, ADAPTERS[2], "SASL", mechanism, "guess"))
