# Written by `make map` from kio's classes.

from collections.abc import Iterable
from typing import TypedDict

class SaslHandshakeRequest:
    mechanism: str

class SaslHandshakeResponse(TypedDict, total=False):
    error_code: int
    mechanisms: Iterable[str]

class SaslAuthenticateRequest:
    auth_bytes: bytes

class SaslAuthenticateResponse(TypedDict, total=False):
    error_code: int
    error_message: str | None
    auth_bytes: bytes
    session_lifetime: int

class UserName:
    name: str

class DescribeUserScramCredentialsRequest:
    users: tuple[UserName, ...] | None

class CredentialInfo(TypedDict, total=False):
    mechanism: int
    iterations: int

class DescribeUserScramCredentialsResult(TypedDict, total=False):
    user: str
    error_code: int
    error_message: str | None
    credential_infos: Iterable[CredentialInfo]

class DescribeUserScramCredentialsResponse(TypedDict, total=False):
    throttle_time: int
    error_code: int
    error_message: str | None
    results: Iterable[DescribeUserScramCredentialsResult]

class ScramCredentialDeletion:
    name: str
    mechanism: int

class ScramCredentialUpsertion:
    name: str
    mechanism: int
    iterations: int
    salt: bytes
    salted_password: bytes

class AlterUserScramCredentialsRequest:
    deletions: tuple[ScramCredentialDeletion, ...]
    upsertions: tuple[ScramCredentialUpsertion, ...]

class AlterUserScramCredentialsResult(TypedDict, total=False):
    user: str
    error_code: int
    error_message: str | None

class AlterUserScramCredentialsResponse(TypedDict, total=False):
    throttle_time: int
    results: Iterable[AlterUserScramCredentialsResult]
