"""The most specific of several quotas applies."""

from __future__ import annotations

import pytest

from tidelog.server.metadata.image import QuotaEntity
from tidelog.server.quotas.quota_lookup import FoundQuota, Sharers, find_quota

KEY = "producer_byte_rate"
ANN, ANY = "ann", None


def entity(**parts: str | None) -> QuotaEntity:
    return tuple(sorted((kind.replace("_", "-"), name) for kind, name in parts.items()))


ROWS: list[tuple[QuotaEntity, Sharers]] = [
    (entity(user=ANN, client_id="c"), Sharers(ANN, "c")),
    (entity(user=ANN, client_id=ANY), Sharers(ANN, "c")),
    (entity(user=ANN), Sharers(ANN, "")),
    (entity(user=ANY, client_id="c"), Sharers(ANN, "c")),
    (entity(user=ANY, client_id=ANY), Sharers(ANN, "c")),
    (entity(user=ANY), Sharers(ANN, "")),
    (entity(client_id="c"), Sharers("", "c")),
    (entity(client_id=ANY), Sharers("", "c")),
]


@pytest.mark.parametrize("first", range(len(ROWS)))
def test_the_first_row_that_is_there(first: int) -> None:
    quotas = {row: {KEY: float(number)} for number, (row, _) in enumerate(ROWS) if number >= first}
    assert find_quota(quotas, KEY, ANN, "c") == FoundQuota(first, ROWS[first][1])


def test_quotas_of_others_and_of_other_kinds() -> None:
    quotas = {
        entity(user="bob"): {KEY: 1.0},
        entity(client_id="d"): {KEY: 2.0},
        entity(user=ANN): {"consumer_byte_rate": 3.0},
        entity(ip="127.0.0.1"): {"connection_creation_rate": 4.0},
    }
    assert find_quota(quotas, KEY, ANN, "c") is None
    assert find_quota({}, KEY, ANN, "c") is None
