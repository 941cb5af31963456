from collections.abc import Awaitable, Callable
from typing import Any

RECENT: int

class ApiTimes:
    @property
    def count(self) -> int: ...
    @property
    def waiting(self) -> int:
        """The requests whose response is not ready."""
    @property
    def done(self) -> int: ...
    @property
    def bytes_in(self) -> int: ...
    @property
    def bytes_out(self) -> int: ...
    @property
    def throttled(self) -> int: ...
    @property
    def throttle_ms(self) -> int: ...
    @property
    def local_s(self) -> float: ...
    @property
    def total_s(self) -> float: ...
    @property
    def longest_s(self) -> float: ...
    def percentile_s(self, share: float) -> float: ...
    def response_is_ready(
        self, client: ClientRequests, total_s: float, reply: list[Any] | None, throttle_ms: int
    ) -> None: ...
    def has_failed(self) -> None: ...

class ClientRequests:
    @property
    def count(self) -> int: ...
    @property
    def bytes_in(self) -> int:
        """The bytes of requests without their length prefixes."""
    @property
    def bytes_out(self) -> int:
        """The bytes of responses."""
    @property
    def begun_s(self) -> float: ...
    @property
    def api(self) -> int: ...

class RequestMeter:
    def __init__(
        self,
        apis: dict[int, ApiTimes],
        handle: Callable[[Any, Any], Any],
        *,
        add_api: Callable[[int], ApiTimes | None],
        name: Callable[[Any, Any], None],
        wait: Callable[[Awaitable[Any], ApiTimes, Any, float], Awaitable[Any]],
    ) -> None: ...
    def begin(self, frame: Any, client: Any) -> Any: ...
