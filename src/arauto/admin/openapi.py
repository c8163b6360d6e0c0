"""The API's description, OpenAPI 3.1.

Litestar describes the paths. The records are described by msgspec, which also checks them, so that what is
documented is what is enforced; the sentences under their fields are read from the source.
"""

from collections.abc import Iterable, Sequence
from typing import Any

import msgspec
from litestar.di import Provide
from litestar.handlers import HTTPRouteHandler
from litestar.openapi import OpenAPIConfig
from litestar.openapi.spec import Components, SecurityScheme, Tag
from msgspec import inspect as kinds

import arauto
from arauto.admin.examples import EXAMPLES
from arauto.admin.framework import LeanLitestar
from arauto.admin.records import Problem
from arauto.admin.rollups import ROWS_LEN_MAX
from arauto.config.reference import field_texts
from arauto.limits import BATCH_LEN_MAX

__all__ = ["describe_api"]

_TAGS = (
    ("node", "The node itself: what it is, what it counts, whether it is well."),
    ("hubs", "Tenants and their settings."),
    ("rules", "Named settings of channels. The most specific wins whole: channel, namespace, hub."),
    ("namespaces", "Bind the channels whose names begin alike to rules."),
    ("channel settings", "Bind one channel to rules, and give it metadata."),
    ("channels", "What is open now, and who is there."),
    ("messages", "Publish, and read the past."),
    ("sessions", "Look at sessions, end them, shut users out."),
    ("correlations", "Rules that the data pipeline watches messages with."),
    ("analytics", "Traffic over time, as the data pipeline summed it up."),
)


def describe_api(routes: Sequence[HTTPRouteHandler]) -> bytes:
    """The document, as JSON."""
    config = OpenAPIConfig(
        title="Arauto admin API",
        version=arauto.__version__,
        description="Sets up and watches one node. Every request but the health check needs the admin token.",
        security=[{"bearer": []}],
        components=Components(
            security_schemes={
                "bearer": SecurityScheme(type="http", scheme="bearer", description="`admin.token`.")
            }
        ),
        tags=[Tag(name=name, description=text) for name, text in _TAGS],
    )
    # An application that serves nobody: the one that does has no pages of the framework's own.
    parts = ("ops", "system", "by")
    app = LeanLitestar(
        route_handlers=routes,
        dependencies={name: Provide(lambda: None, sync_to_thread=False) for name in parts},
        openapi_config=config,
        logging_config=None,
    )
    document = app.openapi_schema.to_schema()
    document["components"]["schemas"] = _schemas(routes)
    return msgspec.json.encode(document)


def _schemas(routes: Iterable[HTTPRouteHandler]) -> dict[str, Any]:
    records = list(dict.fromkeys((Problem, *(r for route in routes for r in _records_of(route)))))
    _, schemas = msgspec.json.schema_components(records, ref_template="#/components/schemas/{name}")
    found: dict[type[msgspec.Struct], None] = {}
    for record in records:
        _collect(kinds.type_info(record), found)
    for record in found:
        _complete(schemas[record.__name__], record)
    return schemas


def _records_of(route: HTTPRouteHandler) -> Iterable[type[msgspec.Struct]]:
    """The record a route reads, and the one it answers with."""
    for field in (route.parsed_data_field, route.parsed_fn_signature.return_type):
        if field is not None:
            for part in (field, *field.inner_types):
                if isinstance(part.annotation, type) and issubclass(
                    part.annotation, msgspec.Struct
                ):
                    yield part.annotation


def _collect(kind: object, found: dict[type[msgspec.Struct], None]) -> None:
    """Find all records that a type is made of."""
    if isinstance(kind, kinds.StructType):
        if kind.cls in found:
            return
        found[kind.cls] = None
    if isinstance(kind, tuple):
        for item in kind:
            _collect(item, found)
    elif isinstance(kind, kinds.Type | kinds.Field):
        for name in kind.__struct_fields__:
            _collect(getattr(kind, name), found)


def _complete(schema: dict[str, Any], record: type[msgspec.Struct]) -> None:
    """Add what the record's type does not say."""
    if "description" in schema:
        schema["description"] = " ".join(schema["description"].split())
    texts = field_texts(record)
    for field in msgspec.structs.fields(record):
        if field.name in texts:
            schema["properties"][field.encode_name]["description"] = texts[field.name]
    if record.__name__ in EXAMPLES:
        schema["examples"] = EXAMPLES[record.__name__]
    if record.__name__ == "PublishItem":
        schema["oneOf"] = [{"required": [name]} for name in ("data", "text", "base64")]
    if record.__name__ == "PublishBody":
        schema["properties"]["messages"] |= {"minItems": 1, "maxItems": BATCH_LEN_MAX}
    if record.__name__ == "RollupBody":
        schema["properties"]["rows"] |= {"maxItems": ROWS_LEN_MAX}
