# Written by `make map` from kio's classes.

from collections.abc import Iterable
from typing import TypedDict

class DescribeConfigsResource:
    resource_type: int
    resource_name: str
    configuration_keys: tuple[str, ...] | None

class DescribeConfigsRequest:
    resources: tuple[DescribeConfigsResource, ...]
    include_synonyms: bool
    include_documentation: bool

class DescribeConfigsSynonym(TypedDict, total=False):
    name: str
    value: str | None
    source: int

class DescribeConfigsResourceResult(TypedDict, total=False):
    name: str
    value: str | None
    read_only: bool
    config_source: int
    is_sensitive: bool
    synonyms: Iterable[DescribeConfigsSynonym]
    config_type: int
    documentation: str | None

class DescribeConfigsResult(TypedDict, total=False):
    error_code: int
    error_message: str | None
    resource_type: int
    resource_name: str
    configs: Iterable[DescribeConfigsResourceResult]

class DescribeConfigsResponse(TypedDict, total=False):
    throttle_time: int
    results: Iterable[DescribeConfigsResult]

class AlterConfigsRequestAlterableConfig:
    name: str
    value: str | None

class AlterConfigsRequestAlterConfigsResource:
    resource_type: int
    resource_name: str
    configs: tuple[AlterConfigsRequestAlterableConfig, ...]

class AlterConfigsRequest:
    resources: tuple[AlterConfigsRequestAlterConfigsResource, ...]
    validate_only: bool

class AlterConfigsResponseAlterConfigsResourceResponse(TypedDict, total=False):
    error_code: int
    error_message: str | None
    resource_type: int
    resource_name: str

class AlterConfigsResponse(TypedDict, total=False):
    throttle_time: int
    responses: Iterable[AlterConfigsResponseAlterConfigsResourceResponse]

class IncrementalAlterConfigsRequestAlterableConfig:
    name: str
    config_operation: int
    value: str | None

class IncrementalAlterConfigsRequestAlterConfigsResource:
    resource_type: int
    resource_name: str
    configs: tuple[IncrementalAlterConfigsRequestAlterableConfig, ...]

class IncrementalAlterConfigsRequest:
    resources: tuple[IncrementalAlterConfigsRequestAlterConfigsResource, ...]
    validate_only: bool

class IncrementalAlterConfigsResponseAlterConfigsResourceResponse(TypedDict, total=False):
    error_code: int
    error_message: str | None
    resource_type: int
    resource_name: str

class IncrementalAlterConfigsResponse(TypedDict, total=False):
    throttle_time: int
    responses: Iterable[IncrementalAlterConfigsResponseAlterConfigsResourceResponse]

class ListConfigResourcesRequest:
    resource_types: tuple[int, ...]

class ConfigResource(TypedDict, total=False):
    resource_name: str
    resource_type: int

class ListConfigResourcesResponse(TypedDict, total=False):
    throttle_time: int
    error_code: int
    config_resources: Iterable[ConfigResource]

class ComponentData:
    entity_type: str
    match_type: int
    match: str | None

class DescribeClientQuotasRequest:
    components: tuple[ComponentData, ...]
    strict: bool

class DescribeClientQuotasResponseEntityData(TypedDict, total=False):
    entity_type: str
    entity_name: str | None

class ValueData(TypedDict, total=False):
    key: str
    value: float

class DescribeClientQuotasResponseEntryData(TypedDict, total=False):
    entity: Iterable[DescribeClientQuotasResponseEntityData]
    values: Iterable[ValueData]

class DescribeClientQuotasResponse(TypedDict, total=False):
    throttle_time: int
    error_code: int
    error_message: str | None
    entries: Iterable[DescribeClientQuotasResponseEntryData] | None

class AlterClientQuotasRequestEntityData:
    entity_type: str
    entity_name: str | None

class OpData:
    key: str
    value: float
    remove: bool

class AlterClientQuotasRequestEntryData:
    entity: tuple[AlterClientQuotasRequestEntityData, ...]
    ops: tuple[OpData, ...]

class AlterClientQuotasRequest:
    entries: tuple[AlterClientQuotasRequestEntryData, ...]
    validate_only: bool

class AlterClientQuotasResponseEntityData(TypedDict, total=False):
    entity_type: str
    entity_name: str | None

class AlterClientQuotasResponseEntryData(TypedDict, total=False):
    error_code: int
    error_message: str | None
    entity: Iterable[AlterClientQuotasResponseEntityData]

class AlterClientQuotasResponse(TypedDict, total=False):
    throttle_time: int
    entries: Iterable[AlterClientQuotasResponseEntryData]
