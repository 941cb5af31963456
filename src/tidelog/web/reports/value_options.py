"""The parameters of pages about the format of keys and values, and the known Avro schemas.

The schemas of a registry come from the topic ``_schemas`` in the given log directories. It is read in the background,
when the first value needs a schema.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import cache
from typing import Final

from tidelog.inspect.avro.registry_log import SCHEMAS_TOPIC
from tidelog.inspect.avro.schemas import Schemas, merged, read_schema_folder
from tidelog.inspect.dump.options import choose_payload_decoder
from tidelog.inspect.schema_topic import read_registry_log
from tidelog.inspect.shown_values import ValueFormat, ValueShape
from tidelog.model import TopicPartition
from tidelog.storage.fs import BY_PATH
from tidelog.web.jobs import JobProgress
from tidelog.web.page import Choice, FormField
from tidelog.web.request import PageRequest

MOST_VALUE_BYTES: Final = 1024 * 1024
USUAL_VALUE_BYTES: Final = 4096
_PARTITION: Final = TopicPartition(SCHEMAS_TOPIC, 0)
_FRESH_MS: Final = 10_000
"""The age at which the schemas are read again while a process holds a log directory."""


def value_shape(request: PageRequest, *, most_bytes: int = USUAL_VALUE_BYTES) -> ValueShape:
    """Read the parameters ``key_format``, ``value_format`` and ``value_bytes``. Raise ConfigError."""
    query = request.query
    formats = [form.value for form in ValueFormat]
    return ValueShape(
        key_format=ValueFormat(query.choice("key_format", formats, ValueFormat.AUTO)),
        value_format=ValueFormat(query.choice("value_format", formats, ValueFormat.AUTO)),
        most_bytes=query.integer("value_bytes", most_bytes, minimum=1, maximum=MOST_VALUE_BYTES),
        decoder=choose_payload_decoder(request.partition.directory_name),
        schemas=cache(lambda: known_schemas(request)),
    )


def format_fields(shape: ValueShape) -> Sequence[FormField]:
    """Return the fields of a form that set the formats."""
    choices = [Choice(value=form.value, title=form.value) for form in ValueFormat]
    return (
        FormField(name="key_format", title="Keys as", value=shape.key_format.value, choices=choices),
        FormField(name="value_format", title="Values as", value=shape.value_format.value, choices=choices),
    )


def known_schemas(request: PageRequest) -> Schemas:
    """Return the schemas of the given folder and of all registries' topics. Raise StillRunningError."""
    sources = request.sources
    holders = sources.holders(_PARTITION)
    folder = sources.schemas
    is_held = any(one.is_held for one in holders)
    signature = (
        request.now_ms // _FRESH_MS if is_held else tuple(one.signature(_PARTITION.directory_name) for one in holders),
        None if folder is None else tuple(BY_PATH.list_sizes(folder).items()),
    )

    def work(progress: JobProgress) -> Schemas:
        views = [one.view(_PARTITION.directory_name) for one in holders]
        progress.expect(sum(segment.size for view in views for segment in view.state.segments))
        logs = [read_registry_log(view, progress.advance) for view in views]
        return merged({} if folder is None else read_schema_folder(BY_PATH, folder), logs)

    return request.job(("schemas",), work, title="reading the schemas of the registry", signature=signature).value
