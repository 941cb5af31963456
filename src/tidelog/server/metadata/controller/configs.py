"""Changes of the configs of topics, brokers, groups and client metrics subscriptions. Pure.

One refused change refuses all changes of its resource, and the other resources continue. ``server.configs`` has the
rules for keys and values; this module checks that the resource exists. Source: Kafka's ``ConfigurationControlManager``,
``QuorumController.ConfigResourceExistenceChecker``.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

from tidelog.model import ConfigError, TidelogError
from tidelog.protocol.errors import ApiError, ErrorCode
from tidelog.protocol.shortened_text import shortened
from tidelog.server.configs.changes import changed, replaced
from tidelog.server.configs.resource_rules import check_min_isr, check_resource
from tidelog.server.configs.resource_type import ResourceType
from tidelog.server.metadata.controller.decision import ControllerSettings, Decision, require_bounded
from tidelog.server.metadata.features import (
    CORDONED_DIRECTORIES_SINCE,
    keeps_eligible_leaders,
    release_name,
    supports_cordoned_directories,
)
from tidelog.server.metadata.image import ConfigResource, MetadataImage
from tidelog.server.metadata.metadata_record import MetadataRecord
from tidelog.server.metadata.requests import DONE, ConfigChanges, Outcome

MIN_ISR = "min.insync.replicas"
_CORDONED = "cordoned.log.dirs"
_MOST_PATTERN_CHARACTERS = 8192
"""The most pattern characters in one request. Compiling that many takes 0.1 s and blocks the event loop."""

Altered = Callable[[ConfigResource, Mapping[str, str]], Mapping[str, str | None]]
"""A function from a resource and its current configs to the changed ones. None removes a key."""


def alter_configs(
    image: MetadataImage, settings: ControllerSettings, changes: ConfigChanges
) -> Decision[dict[ConfigResource, Outcome]]:
    """Change configs key by key."""
    return _altered(
        image, settings, changes, lambda resource, before: changed(resource.type, before, changes[resource])
    )


def replace_configs(
    image: MetadataImage, settings: ControllerSettings, configs: Mapping[ConfigResource, Mapping[str, str]]
) -> Decision[dict[ConfigResource, Outcome]]:
    """Replace all configs of each resource. Keys that are not named are removed."""
    return _altered(image, settings, configs, lambda resource, before: replaced(before, configs[resource]))


def _altered(
    image: MetadataImage, settings: ControllerSettings, resources: Mapping[ConfigResource, object], altered: Altered
) -> Decision[dict[ConfigResource, Outcome]]:
    require_bounded(len(resources))
    records: list[MetadataRecord] = []
    outcomes = {}
    patterns = _PatternAllowance()
    for resource in resources:
        before = image.settings_of(resource.type, resource.name)
        try:
            different = altered(resource, before)
            patterns.take(resource, different)
            _check(image, settings, resource, before, different)
            made = [config_record(resource, key, value) for key, value in different.items()]
            require_bounded(len(records) + len(made))
        except TidelogError as error:
            outcomes[resource] = Outcome.of(error)
        else:
            records += made
            outcomes[resource] = DONE
    records += _cleared_eligible(image, records)
    require_bounded(len(records))
    return Decision(records, outcomes)


def _cleared_eligible(image: MetadataImage, changes: Sequence[MetadataRecord]) -> list[MetadataRecord]:
    """Return records that remove the eligible leader replicas of the topics whose ``min.insync.replicas`` changes.

    A replica became eligible under the previous minimum. Under a smaller one, records may have been acknowledged that
    it lacks (KIP-966).
    """
    if not keeps_eligible_leaders(image):
        return []
    changed_minima = [record.fields for record in changes if record.fields["name"] == MIN_ISR]
    return [
        clear_eligible_record(fields["resourceName"] if fields["resourceType"] == ResourceType.TOPIC else "")
        for fields in changed_minima
    ]


def clear_eligible_record(topic: str = "") -> MetadataRecord:
    """Return the record that removes the eligible leader replicas of a topic, or of all topics."""
    return MetadataRecord("ClearElrRecord", {"topicName": topic})


class _PatternAllowance:
    """The characters that the remaining client matching patterns of a request may have."""

    def __init__(self) -> None:
        self._left = _MOST_PATTERN_CHARACTERS

    def take(self, resource: ConfigResource, different: Mapping[str, str | None]) -> None:
        """Take the pattern's characters. Raise ConfigError, and take none, if too few are left."""
        wanted = len(different.get("match") or "") if resource.type is ResourceType.CLIENT_METRICS else 0
        if wanted > self._left:
            raise ConfigError(
                f"Client matching patterns of one request must have no more than {_MOST_PATTERN_CHARACTERS} characters"
                f" in all; this one has {wanted}, and {self._left} are left: send it in another request, or shorten it."
            )
        self._left -= wanted


def config_record(resource: ConfigResource, key: str, value: str | None) -> MetadataRecord:
    return MetadataRecord(
        "ConfigRecord",
        {"resourceType": int(resource.type), "resourceName": resource.name, "name": key, "value": value},
    )


def _check(
    image: MetadataImage,
    settings: ControllerSettings,
    resource: ConfigResource,
    before: Mapping[str, str],
    different: Mapping[str, str | None],
) -> None:
    if resource.type is ResourceType.BROKER and keeps_eligible_leaders(image):
        check_min_isr(resource.name, different)
    if resource.type is ResourceType.BROKER and _CORDONED in different and not supports_cordoned_directories(image):
        raise ConfigError(
            f"The {_CORDONED} configuration value cannot be set because it requires metadata.version >="
            f" {release_name(CORDONED_DIRECTORIES_SINCE)}"
        )
    after = {key: value for key, value in {**before, **different}.items() if value is not None}
    check_resource(resource.type, resource.name, after, before=before, broker=settings.config)
    _require_existing(image, settings, resource)


def _require_existing(image: MetadataImage, settings: ControllerSettings, resource: ConfigResource) -> None:
    if resource.type is ResourceType.TOPIC and resource.name not in image.topics:
        raise ApiError(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, f"The topic '{shortened(resource.name)}' does not exist.")
    if resource.type is ResourceType.BROKER and resource.name:
        number = int(resource.name)
        if number not in image.brokers and number not in image.controllers and number != settings.node_id:
            raise ApiError(ErrorCode.BROKER_ID_NOT_REGISTERED, f"No node with id {number} found.")
