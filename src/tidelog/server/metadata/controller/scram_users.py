"""Changes of users' SCRAM credentials (KIP-554). Pure.

Each user has one outcome, and one refused change refuses all changes of the user.
Source: Kafka's ``ScramControlManager``, whose error messages are used.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TypeVar

from tidelog.protocol.errors import ErrorCode
from tidelog.security.scram_credential import MAXIMUM_ITERATIONS, MINIMUM_ITERATIONS, ScramCredential, ScramMechanism
from tidelog.server.metadata.controller.decision import Decision, require_bounded
from tidelog.server.metadata.image import MetadataImage
from tidelog.server.metadata.metadata_record import MetadataRecord
from tidelog.server.metadata.requests import DONE, Outcome, ScramDeletion, ScramUpsertion

OLDEST_METADATA_VERSION = 11
"""The metadata.version 3.5-IV2, the first with these records."""

Part = TypeVar("Part", ScramDeletion, ScramUpsertion)


def alter_scram_users(
    image: MetadataImage,
    deletions: Sequence[ScramDeletion],
    upsertions: Sequence[ScramUpsertion],
    *,
    since: int = OLDEST_METADATA_VERSION,
) -> Decision[dict[str, Outcome]]:
    """Return the outcomes by user in the request's order. Raise ApiError(POLICY_VIOLATION) for too many changes.

    ``since`` is the oldest metadata.version whose metadata can have credentials.
    """
    require_bounded(len(deletions) + len(upsertions))
    if image.metadata_version < since:
        refused = Outcome(ErrorCode.UNSUPPORTED_VERSION, "The current metadata.version does not support SCRAM")
        users = (*(one.user for one in deletions), *(one.user for one in upsertions))
        return Decision((), dict.fromkeys(users, refused))
    outcomes: dict[str, Outcome] = {}
    records: dict[str, MetadataRecord] = {}
    _decide(image, deletions, _deletion_refusal, _removal, outcomes, records)
    _decide(image, upsertions, _upsertion_refusal, _credential_record, outcomes, records)
    return Decision(list(records.values()), outcomes)


def _decide(
    image: MetadataImage,
    parts: Sequence[Part],
    refusal: Callable[[MetadataImage, Part], Outcome],
    record: Callable[[Part], MetadataRecord],
    outcomes: dict[str, Outcome],
    records: dict[str, MetadataRecord],
) -> None:
    for part in parts:
        before = outcomes.get(part.user)
        if before is not None and before.is_failure:
            continue
        if before is not None:
            outcome = Outcome(
                ErrorCode.DUPLICATE_RESOURCE, "A user credential cannot be altered twice in the same request"
            )
        else:
            outcome = refusal(image, part)
        outcomes[part.user] = outcome
        if outcome.is_failure:
            records.pop(part.user, None)
        else:
            records[part.user] = record(part)


def _deletion_refusal(image: MetadataImage, deletion: ScramDeletion) -> Outcome:
    outcome = _name_refusal(deletion.user, deletion.mechanism)
    if outcome.is_failure:
        return outcome
    if deletion.user not in image.scram_credentials.get(ScramMechanism(deletion.mechanism), {}):
        return Outcome(ErrorCode.RESOURCE_NOT_FOUND, "Attempt to delete a user credential that does not exist")
    return DONE


def _upsertion_refusal(_image: MetadataImage, upsertion: ScramUpsertion) -> Outcome:
    outcome = _name_refusal(upsertion.user, upsertion.mechanism)
    if not outcome.is_failure and upsertion.iterations < MINIMUM_ITERATIONS:
        return Outcome(ErrorCode.UNACCEPTABLE_CREDENTIAL, "Too few iterations")
    if not outcome.is_failure and upsertion.iterations > MAXIMUM_ITERATIONS:
        return Outcome(ErrorCode.UNACCEPTABLE_CREDENTIAL, "Too many iterations")
    return outcome


def _name_refusal(user: str, mechanism: int) -> Outcome:
    if not user:
        return Outcome(ErrorCode.UNACCEPTABLE_CREDENTIAL, "Username must not be empty")
    if mechanism not in list(ScramMechanism):
        return Outcome(ErrorCode.UNSUPPORTED_SASL_MECHANISM, "Unknown SCRAM mechanism")
    return DONE


def _removal(deletion: ScramDeletion) -> MetadataRecord:
    return MetadataRecord("RemoveUserScramCredentialRecord", {"name": deletion.user, "mechanism": deletion.mechanism})


def _credential_record(upsertion: ScramUpsertion) -> MetadataRecord:
    credential = ScramCredential.of_salted_password(
        ScramMechanism(upsertion.mechanism),
        upsertion.salted,
        iterations=upsertion.iterations,
        salt=upsertion.salt,
    )
    return MetadataRecord("UserScramCredentialRecord", credential.fields(upsertion.user))
