"""SASL SCRAM: the RFC's exchange, successful authentication, and all kinds of invalid messages."""

from __future__ import annotations

import base64
import hashlib
import hmac
from collections.abc import Callable, Mapping
from dataclasses import dataclass

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tidelog.security.scram_credential import ScramCredential, ScramMechanism, salted_password
from tidelog.server.security.fake_scram_credentials import fake_credential
from tidelog.server.security.sasl_exchange import SaslError
from tidelog.server.security.scram_exchange import ScramExchange

SHA_256 = ScramMechanism.SHA_256


@dataclass
class Users:
    by_name: Mapping[str, ScramCredential]
    secret: bytes = b"secret"

    def of(self, user: str) -> ScramCredential | None:
        return self.by_name.get(user)

    def some(self) -> Mapping[str, ScramCredential]:
        return self.by_name


USERS = Users({"alice": ScramCredential.of_password(SHA_256, "secret")})


@dataclass(kw_only=True)
class Client:
    """A client according to RFC 5802. Each part can be made wrong."""

    user: str = "alice"
    password: str = "secret"
    header: str = "n,,"
    mechanism: ScramMechanism = SHA_256
    nonce: str = "client-nonce"
    extensions: str = ""
    change_final: Callable[[str], str] = str

    def first(self) -> bytes:
        return f"{self.header}{self.bare}".encode()

    @property
    def bare(self) -> str:
        name = self.user.replace("=", "=3D").replace(",", "=2C")
        return f"n={name},r={self.nonce}{self.extensions}"

    def final(self, challenge: bytes) -> bytes:
        parts = dict(part.split("=", 1) for part in challenge.decode().split(","))
        binding = base64.b64encode(self.header.encode()).decode()
        unproved = self.change_final(f"c={binding},r={parts['r']}")
        salt, iterations = base64.b64decode(parts["s"]), int(parts["i"])
        salted = salted_password(self.mechanism, self.password, iterations=iterations, salt=salt)
        client_key = hmac.digest(salted, b"Client Key", self.mechanism.digest)
        stored_key = hashlib.new(self.mechanism.digest, client_key).digest()
        self.messages = f"{self.bare},{challenge.decode()},{unproved}".encode()
        signature = hmac.digest(stored_key, self.messages, self.mechanism.digest)
        self.server_key = hmac.digest(salted, b"Server Key", self.mechanism.digest)
        proof = bytes(one ^ other for one, other in zip(client_key, signature, strict=True))
        return f"{unproved},p={base64.b64encode(proof).decode()}".encode()

    def verify(self, answer: bytes) -> None:
        """Check that the server knows the password too."""
        signature = hmac.digest(self.server_key, self.messages, self.mechanism.digest)
        assert answer == b"v=" + base64.b64encode(signature)


def log_in(client: Client, users: Users = USERS) -> ScramExchange:
    exchange = ScramExchange(client.mechanism, users)
    client.verify(exchange.respond(client.final(exchange.respond(client.first()))))
    return exchange


def refusal(client: Client, users: Users = USERS) -> SaslError:
    with pytest.raises(SaslError) as raised:
        log_in(client, users)
    assert "secret" not in str(raised.value)
    return raised.value


def test_the_exchange_of_rfc_7677() -> None:
    salt = base64.b64decode("W22ZaJ0SNY7soEsUEjb6gQ==")
    users = Users({"user": ScramCredential.of_password(SHA_256, "pencil", salt=salt)})
    exchange = ScramExchange(SHA_256, users, nonce="%hvYDpWUa2RaTCAfuxFIlj)hNlF$k0")
    assert exchange.respond(b"n,,n=user,r=rOprNGfwEbeRWgbNEkqO") == (
        b"r=rOprNGfwEbeRWgbNEkqO%hvYDpWUa2RaTCAfuxFIlj)hNlF$k0,s=W22ZaJ0SNY7soEsUEjb6gQ==,i=4096"
    )
    assert exchange.user is None
    assert (
        exchange.respond(
            b"c=biws,r=rOprNGfwEbeRWgbNEkqO%hvYDpWUa2RaTCAfuxFIlj)hNlF$k0,"
            b"p=dHzbZapWIk4jUhN+Ute9ytag9zjfMHgsqmmiz7AndVQ="
        )
        == b"v=6rriTRBi23WpRR/wtup+mMhUZUn/dB5nLTJRsjl95G4="
    )
    assert exchange.user == "user"


@pytest.mark.parametrize("mechanism", ScramMechanism)
@pytest.mark.parametrize("name", ["alice", "a,b=c", "=2C", "=3D,", "ålice"])
def test_who_knows_the_password_is_let_in_whatever_the_name(mechanism: ScramMechanism, name: str) -> None:
    users = Users({name: ScramCredential.of_password(mechanism, "secret", iterations=5000)})
    assert log_in(Client(user=name, mechanism=mechanism), users).user == name


def test_extensions_are_ignored_and_an_own_authorization_id_is_none() -> None:
    assert log_in(Client(extensions=",x=y,other=1")).user == "alice"
    assert log_in(Client(header="n,a=alice,")).user == "alice"


def test_a_user_there_is_not_is_refused_where_and_as_a_wrong_password_is() -> None:
    """Both fail after the proof with the same text. An unknown user's salt is stable, and its iterations are usual."""
    users = Users({"alice": ScramCredential.of_password(SHA_256, "secret", iterations=8192)})
    wrong, unknown = Client(password="guess"), Client(user="mallory", password="guess")
    assert str(refusal(wrong, users)) == str(refusal(unknown, users))
    assert refusal(wrong, users).client_message is refusal(unknown, users).client_message is None
    challenges = [ScramExchange(SHA_256, users).respond(unknown.first()).decode().split(",") for _ in range(2)]
    assert challenges[0][0] != challenges[1][0]
    assert challenges[0][1:] == challenges[1][1:]
    assert challenges[0][2] == "i=8192"
    salt = base64.b64decode(challenges[0][1].removeprefix("s="))
    assert 23 <= len(salt) <= 26
    assert int(salt, 36) < 1 << 130


def test_nobody_gets_in_by_the_keys_of_a_user_there_is_not() -> None:
    """Knowing the secret behind the fake credentials does not help."""
    users = Users({})
    stand_in = fake_credential(SHA_256, "mallory", {}, users.secret)
    exchange = ScramExchange(SHA_256, users)
    client = Client(user="mallory")
    challenge = exchange.respond(client.first()).decode()
    assert challenge.split(",")[1] == "s=" + base64.b64encode(stand_in.salt).decode()
    with pytest.raises(SaslError):
        exchange.respond(client.final(challenge.encode()))


def test_a_credential_of_too_few_iterations_is_as_none() -> None:
    weak = Users({"alice": ScramCredential.of_password(SHA_256, "secret", iterations=4095)})
    assert str(refusal(Client(), weak)) == "a wrong name or password"


@pytest.mark.parametrize(
    ("client", "reason"),
    [
        (Client(header="p=tls-unique,,"), "without channel binding"),
        (Client(header="y,,"), "without channel binding"),
        (Client(header="n,,m=needed,"), "without channel binding"),
        (Client(header="n,a=bob,"), "another user's authorization id"),
        (Client(extensions=",tokenauth=true"), "delegation token"),
        (Client(nonce=""), "first message"),
        (Client(user=""), "first message"),
        (Client(change_final=lambda text: text + "x"), "another nonce"),
        (Client(change_final=lambda text: text[:-1]), "another nonce"),
        (Client(change_final=lambda text: text.replace("biws", "eSws")), "another channel binding"),
        (Client(change_final=lambda text: text.replace("biws", "cD10bHMtdW5pcXVlLCw=")), "another channel binding"),
        (Client(change_final=lambda text: text.replace("biws", "")), "another channel binding"),
    ],
)
def test_what_is_refused(client: Client, reason: str) -> None:
    assert reason in str(refusal(client))


def test_a_whole_exchange_cannot_be_replayed() -> None:
    client, first = Client(), ScramExchange(SHA_256, USERS)
    final = client.final(first.respond(client.first()))
    first.respond(final)
    again = ScramExchange(SHA_256, USERS)
    again.respond(client.first())
    with pytest.raises(SaslError, match="replay"):
        again.respond(final)
    for exchange in (first, again):
        with pytest.raises(SaslError, match="after the end of the exchange"):
            exchange.respond(final)


def test_the_final_message_alone_is_none() -> None:
    client, exchange = Client(), ScramExchange(SHA_256, USERS)
    final = client.final(exchange.respond(client.first()))
    with pytest.raises(SaslError):
        ScramExchange(SHA_256, USERS).respond(final)


def test_a_proof_of_another_mechanism_is_none() -> None:
    """The client was downgraded to a weaker mechanism than its user has."""
    users = Users({"alice": ScramCredential.of_password(ScramMechanism.SHA_512, "secret")})
    exchange, client = ScramExchange(ScramMechanism.SHA_512, users), Client()
    with pytest.raises(SaslError, match="its proof has the wrong length"):
        exchange.respond(client.final(exchange.respond(client.first())))


@given(st.integers(0, 300), st.integers(0, 255), st.booleans())
def test_a_message_with_one_byte_changed_or_cut_lets_nobody_in(position: int, byte: int, is_final: bool) -> None:
    def begun() -> ScramExchange:
        exchange = ScramExchange(SHA_256, USERS, nonce="server-nonce")
        if is_final:
            exchange.respond(client.first())
        return exchange

    client = Client()
    message = client.first()
    if is_final:
        message = client.final(ScramExchange(SHA_256, USERS, nonce="server-nonce").respond(message))
    position %= len(message)
    for changed in (message[:position], message[:position] + bytes([byte]) + message[position + 1 :]):
        if changed == message:
            continue
        tried = begun()
        try:
            answer = tried.respond(changed)
        except SaslError:
            continue
        if is_final:
            assert _proved(changed) == _proved(message)
            continue
        assert tried.user is None
        with pytest.raises(SaslError):
            tried.respond(client.final(answer))


def test_bits_behind_a_proofs_last_byte_are_none_of_it() -> None:
    """The last base64 character has two unused bits. Java's decoder, which Kafka uses, ignores them too."""
    client, exchange = Client(), ScramExchange(SHA_256, USERS)
    final = client.final(exchange.respond(client.first()))
    last = _BASE64.index(final[-2:-1])
    changed = final[:-2] + _BASE64[last + 1 : last + 2] + b"="
    assert changed != final
    assert _proved(changed) == _proved(final)
    exchange.respond(changed)
    assert exchange.user == "alice"


_BASE64 = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/"


def _proved(final: bytes) -> tuple[bytes, bytes]:
    """Return the message without the proof, and the proof's bytes."""
    unproved, _, proof = final.rpartition(b",p=")
    return unproved, base64.b64decode(proof, validate=True)


@given(st.lists(st.binary(max_size=80), min_size=1, max_size=3))
def test_any_bytes_are_refused_without_another_error(messages: list[bytes]) -> None:
    exchange = ScramExchange(SHA_256, USERS)
    for message in messages:
        try:
            exchange.respond(message)
        except SaslError:
            pass
    assert exchange.user is None


@given(st.text(st.sampled_from("n,ar=2CD3m\0pcy"), max_size=24), st.text(st.sampled_from("c=biws,rp+/x"), max_size=24))
def test_texts_that_look_like_messages_are_refused(first: str, final: str) -> None:
    exchange = ScramExchange(SHA_256, USERS)
    for message in (first, final):
        try:
            exchange.respond(message.encode())
        except SaslError:
            pass
    assert exchange.user is None


def test_a_long_message_takes_no_long_time() -> None:
    """The messages have the largest size that a listener accepts, and provoke backtracking."""
    for message in (
        b"n,," + b"n=" + b"=2C" * 170_000,
        b"n,,n=a,r=b" + b",x=y" * 130_000 + b",",
        b"n,a=" + b"a" * 524_000,
    ):
        with pytest.raises(SaslError):
            ScramExchange(SHA_256, USERS).respond(message)
