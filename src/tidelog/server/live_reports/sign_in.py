"""The names and passwords of visitors, checked against the broker's own users: those of PLAIN and of SCRAM.

=============  ======================================================================================================
user           check
=============  ======================================================================================================
PLAIN          the password in ``sasl.jaas.config`` of any listener
SCRAM          the credential in the cluster metadata: the password is hashed with its salt and iterations
unknown        a fake credential is hashed, so that the time does not reveal which users exist
=============  ======================================================================================================

With an authorizer a visitor must also be a super user, or have ClusterAction on the cluster: the pages show the records
of every topic, as a follower reads them. A failure is logged without name and password, and its response is delayed.
Hashing takes milliseconds and runs in a background thread. Thread rule: the event loop only.
"""

from __future__ import annotations

import hmac
import logging
from collections.abc import Mapping
from typing import Final

from tidelog.model import TidelogError
from tidelog.protocol.api_key import ApiKey
from tidelog.runtime.timers import pause
from tidelog.security.scram_credential import ScramCredential, ScramMechanism
from tidelog.server.authorization.operation import Operation
from tidelog.server.authorization.resource import CLUSTER
from tidelog.server.live_reports.reported_node import ReportedNode
from tidelog.server.metadata.kraft.scram_users import ScramUsers
from tidelog.server.network.client_connection import ClientConnection
from tidelog.server.network.request_context import RequestContext
from tidelog.server.security.fake_scram_credentials import fake_credential
from tidelog.server.security.principal import Principal
from tidelog.server.security.sasl_exchange import PlainExchange, SaslError
from tidelog.server.security.scram_exchange import NO_CREDENTIALS

_FAILURE_DELAY_MS: Final = 1000
_LONGEST: Final = 1024
_log: Final = logging.getLogger(__name__)


async def check_visitor(reported: ReportedNode, name: str, password: str, address: str) -> bool:
    """Return True if a visitor may see the pages. ``address`` is the visitor's IP address, for the log."""
    reason = await _refusal(reported, name, password, address)
    if reason is None:
        return True
    _log.warning("A visitor of the pages at %s is refused: %s", address, reason)
    await pause(reported.node.timers, _FAILURE_DELAY_MS)
    return False


async def _refusal(reported: ReportedNode, name: str, password: str, address: str) -> str | None:
    """Return the reason for which a visitor is refused, or None."""
    node = reported.node
    if reported.metadata is None:
        return "the broker does not know its users yet"
    if not _is_usable(name) or not _is_usable(password):
        return "a name or password is missing, too long, or not text"
    is_known = _is_plain_user(reported, name, password)
    for mechanism in ScramMechanism:
        users = ScramUsers(reported.metadata, mechanism, NO_CREDENTIALS.secret)
        known = users.of(name)
        credential = known or fake_credential(mechanism, name, users.some(), users.secret)
        is_right = await node.in_thread(_is_password_of, credential, password)
        is_known = is_known or (known is not None and is_right)
    if not is_known:
        return "a wrong name or password"
    return None if _may_see(reported, name, address) else "without ClusterAction on the cluster"


def _is_usable(text: str) -> bool:
    """Return True for a text that a user's name or password may be. A NUL would end it in PLAIN's token."""
    try:
        text.encode()
    except UnicodeEncodeError:
        return False
    return 0 < len(text) <= _LONGEST and "\0" not in text


def _is_plain_user(reported: ReportedNode, name: str, password: str) -> bool:
    """Return True if a listener has a user of PLAIN with this password."""
    is_known = False
    for security in reported.node.security.values():
        passwords: Mapping[str, str] = {} if security.sasl is None else security.sasl.passwords
        try:
            PlainExchange(passwords).respond(f"\0{name}\0{password}".encode())
            is_known = True
        except SaslError:
            continue
    return is_known


def _is_password_of(credential: ScramCredential, password: str) -> bool:
    made = ScramCredential.of_password(
        credential.mechanism, password, iterations=credential.iterations, salt=credential.salt
    )
    return hmac.compare_digest(made.stored_key, credential.stored_key)


def _may_see(reported: ReportedNode, name: str, address: str) -> bool:
    node = reported.node
    client = ClientConnection(host=address, port=0, listener="", connection_id="", principal=Principal("User", name))
    context = RequestContext(ApiKey.FETCH, 0, 0, "tidelog-web", client, reported.now_ms)
    try:
        return node.authorizer.allows(context, Operation.CLUSTER_ACTION, CLUSTER, log_denial=False)
    except TidelogError:
        return False
