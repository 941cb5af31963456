# Written by `make map` from kio's classes.

from collections.abc import Iterable
from typing import TypedDict

class DescribeAclsRequest:
    resource_type_filter: int
    resource_name_filter: str | None
    pattern_type_filter: int
    principal_filter: str | None
    host_filter: str | None
    operation: int
    permission_type: int

class AclDescription(TypedDict, total=False):
    principal: str
    host: str
    operation: int
    permission_type: int

class DescribeAclsResource(TypedDict, total=False):
    resource_type: int
    resource_name: str
    pattern_type: int
    acls: Iterable[AclDescription]

class DescribeAclsResponse(TypedDict, total=False):
    throttle_time: int
    error_code: int
    error_message: str | None
    resources: Iterable[DescribeAclsResource]

class AclCreation:
    resource_type: int
    resource_name: str
    resource_pattern_type: int
    principal: str
    host: str
    operation: int
    permission_type: int

class CreateAclsRequest:
    creations: tuple[AclCreation, ...]

class AclCreationResult(TypedDict, total=False):
    error_code: int
    error_message: str | None

class CreateAclsResponse(TypedDict, total=False):
    throttle_time: int
    results: Iterable[AclCreationResult]

class DeleteAclsFilter:
    resource_type_filter: int
    resource_name_filter: str | None
    pattern_type_filter: int
    principal_filter: str | None
    host_filter: str | None
    operation: int
    permission_type: int

class DeleteAclsRequest:
    filters: tuple[DeleteAclsFilter, ...]

class DeleteAclsMatchingAcl(TypedDict, total=False):
    error_code: int
    error_message: str | None
    resource_type: int
    resource_name: str
    pattern_type: int
    principal: str
    host: str
    operation: int
    permission_type: int

class DeleteAclsFilterResult(TypedDict, total=False):
    error_code: int
    error_message: str | None
    matching_acls: Iterable[DeleteAclsMatchingAcl]

class DeleteAclsResponse(TypedDict, total=False):
    throttle_time: int
    filter_results: Iterable[DeleteAclsFilterResult]
