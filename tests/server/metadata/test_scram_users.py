"""Users' SCRAM credentials are set and removed: Kafka's error messages, and the written records."""

from __future__ import annotations

from pathlib import Path

import pytest

from server.harness import running_broker
from server.metadata.images import image_of
from server.security.logins import PASSWORD, SecureHome, log_in
from tidelog.protocol.api_key import ApiKey
from tidelog.protocol.errors import ApiError, ErrorCode
from tidelog.security.scram_credential import ScramCredential, ScramMechanism, salted_password
from tidelog.server.metadata.controller.decision import MAX_RECORDS
from tidelog.server.metadata.controller.feature_updates import feature_record
from tidelog.server.metadata.controller.scram_users import alter_scram_users
from tidelog.server.metadata.image import METADATA_VERSION, MetadataImage
from tidelog.server.metadata.requests import DONE, ScramDeletion, ScramUpsertion

SALT = b"salt"
SALTED = salted_password(ScramMechanism.SHA_256, "secret", iterations=4096, salt=SALT)


def new(user: str, mechanism: int = 1, iterations: int = 4096) -> ScramUpsertion:
    return ScramUpsertion(user, mechanism, iterations, SALT, SALTED)


def image_with(*users: str) -> MetadataImage:
    image = image_of()
    for record in alter_scram_users(image, [], [new(user) for user in users]).records:
        image.apply(record)
    return image


def test_what_is_written_checks_the_password() -> None:
    image = image_with("alice")
    expected = ScramCredential.of_password(ScramMechanism.SHA_256, "secret", salt=SALT)
    assert image.scram_credentials == {ScramMechanism.SHA_256: {"alice": expected}}
    decision = alter_scram_users(image, [ScramDeletion("alice", 1)], [])
    assert decision.result == {"alice": DONE}
    for record in decision.records:
        image.apply(record)
    assert image.scram_credentials == {}


def test_a_refused_part_refuses_all_of_its_user_and_nobody_else() -> None:
    image = image_with("alice", "bob")
    decision = alter_scram_users(
        image,
        [ScramDeletion("alice", 1), ScramDeletion("bob", 2), ScramDeletion("", 1), ScramDeletion("eve", 7)],
        [new("alice", 2), new("carol"), new("dan", iterations=4095), new("fay", iterations=16385), new("gil", 0)],
    )
    assert {user: outcome.error for user, outcome in decision.result.items()} == {
        "alice": ErrorCode.DUPLICATE_RESOURCE,
        "bob": ErrorCode.RESOURCE_NOT_FOUND,
        "": ErrorCode.UNACCEPTABLE_CREDENTIAL,
        "eve": ErrorCode.UNSUPPORTED_SASL_MECHANISM,
        "carol": ErrorCode.NONE,
        "dan": ErrorCode.UNACCEPTABLE_CREDENTIAL,
        "fay": ErrorCode.UNACCEPTABLE_CREDENTIAL,
        "gil": ErrorCode.UNSUPPORTED_SASL_MECHANISM,
    }
    assert [record.fields["name"] for record in decision.records] == ["carol"]


def test_so_many_at_once() -> None:
    users = [str(number) for number in range(MAX_RECORDS)]
    with pytest.raises(ApiError, match="excessively large"):
        alter_scram_users(image_of(), [ScramDeletion("ann", 1)], [new(user) for user in users])
    assert len(alter_scram_users(image_of(), [ScramDeletion(user, 1) for user in users], []).result) == MAX_RECORDS


def test_metadata_of_a_release_without_the_records_has_no_users() -> None:
    image = image_of()
    image.apply(feature_record(METADATA_VERSION, 10))
    (outcome,) = alter_scram_users(image, [], [new("alice")]).result.values()
    assert outcome.error is ErrorCode.UNSUPPORTED_VERSION


def test_a_request_does_not_show_passwords() -> None:
    assert repr(SALTED) not in repr(new("alice"))


def test_users_are_there_after_a_restart(tmp_path: Path) -> None:
    """A credential that is set over the wire survives a kill, is described without its keys, and can be removed."""
    with SecureHome(tmp_path) as home:
        with home.wire("PLAINTEXT") as client:
            salted = salted_password(ScramMechanism.SHA_512, PASSWORD, iterations=5000, salt=SALT)
            part = {"name": "alice", "mechanism": 2, "iterations": 5000, "salt": SALT, "salted_password": salted}
            (result,) = client.call(ApiKey.ALTER_USER_SCRAM_CREDENTIALS, deletions=[], upsertions=[part]).results
            assert (result.user, result.error_code) == ("alice", 0)
        home.kill()
        home.start()
        with home.wire("SASL") as client:
            assert log_in(client, "SCRAM-SHA-512").error_code == 0
            (described,) = client.call(ApiKey.DESCRIBE_USER_SCRAM_CREDENTIALS, users=None).results
            assert [(one.mechanism, one.iterations) for one in described.credential_infos] == [(2, 5000)]
            gone = [{"name": "alice", "mechanism": 2}]
            client.call(ApiKey.ALTER_USER_SCRAM_CREDENTIALS, deletions=gone, upsertions=[])
        home.restart()
        with home.wire("SASL") as client:
            assert log_in(client, "SCRAM-SHA-512").error_code == ErrorCode.SASL_AUTHENTICATION_FAILED


def test_no_user_is_described_where_there_is_none(tmp_path: Path) -> None:
    with running_broker(tmp_path) as home, home.client() as client:
        assert client.call(ApiKey.DESCRIBE_USER_SCRAM_CREDENTIALS, users=None).results == ()
