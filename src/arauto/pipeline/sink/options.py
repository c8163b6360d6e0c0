"""What a query says about its sink: options and columns, checked before anything runs."""

import os
from collections.abc import Mapping
from dataclasses import dataclass, field

from pyspark.sql.types import BinaryType, DataType, MapType, StringType, StructType

from arauto.errors import ArautoError, Code
from arauto.names import check_hub

__all__ = ["COLUMNS", "TOKEN_VARIABLE", "SinkOptions", "check_columns"]

TOKEN_VARIABLE = "ARAUTO_ADMIN__TOKEN"  # noqa: S105
_ID_PREFIX_BYTES_MAX = 64
_RULE_BYTES_MAX = 128

_TEXT = (StringType(),)
_MAP = (MapType(StringType(), StringType()),)

#: Columns a sink takes, and their types.
COLUMNS: Mapping[str, tuple[DataType, ...]] = {
    "hub": _TEXT,
    "channel": _TEXT,
    "payload": (BinaryType(), StringType()),
    "content_type": _TEXT,
    "id": _TEXT,
    "key": _TEXT,
    "headers": _MAP,
    "user": _TEXT,
}


@dataclass(frozen=True, slots=True)
class SinkOptions:
    """Options of a sink. They travel to the executors, token and all; `repr` leaves the token out."""

    url: str
    token: str = field(repr=False)
    hub: str = ""
    content_type: str = ""
    id_prefix: str = ""
    rule: str = ""
    refused_max: int = 0
    retry_s: int = 30

    @classmethod
    def read(
        cls, options: Mapping[str, str], environment: Mapping[str, str] = os.environ
    ) -> "SinkOptions":
        """Read them from what Spark hands over (names in any case).

        Raises:
            ArautoError: BAD_CONFIG, naming the option.
        """
        given = {name.lower(): value for name, value in options.items()}
        url = given.get("url", "")
        if not url.startswith(("http://", "https://")):
            raise _bad("url", "must be the node's admin API, such as http://127.0.0.1:4040")
        token = given.get("token") or environment.get(TOKEN_VARIABLE, "")
        if not token:
            raise _bad("token", f"is missing: give the admin token, or set {TOKEN_VARIABLE}")
        hub = given.get("hub", "")
        if hub:
            check_hub(hub)
        return cls(
            url=url,
            token=token,
            hub=hub,
            content_type=given.get("contenttype", ""),
            id_prefix=_short(given, "idPrefix", _ID_PREFIX_BYTES_MAX),
            rule=_short(given, "rule", _RULE_BYTES_MAX),
            refused_max=_count(given, "maxRefused", 0),
            retry_s=_count(given, "retrySeconds", 30),
        )


def check_columns(schema: StructType, options: SinkOptions) -> None:
    """Refuse a frame whose rows could not be published.

    Raises:
        ArautoError: BAD_CONFIG, naming the column and what it should be.
    """
    types = {each.name: each.dataType for each in schema.fields}
    unknown = sorted(set(types) - set(COLUMNS))
    if unknown:
        raise _bad(unknown[0], f"is not a column of the sink; it takes {', '.join(COLUMNS)}")
    for name in ("channel", "payload") if options.hub else ("hub", "channel", "payload"):
        if name not in types:
            more = ", or give the option hub" if name == "hub" else ""
            raise _bad(name, f"is missing: the sink needs this column{more}")
    for name, kind in types.items():
        # A map's nullability is no matter of the query's author.
        if kind.simpleString() not in {each.simpleString() for each in COLUMNS[name]}:
            wanted = " or ".join(each.simpleString() for each in COLUMNS[name])
            hint = "; to_json() makes text of it" if name == "payload" else ""
            raise _bad(name, f"must be of type {wanted}, not {kind.simpleString()}{hint}")


def _short(given: Mapping[str, str], name: str, bytes_max: int) -> str:
    value = given.get(name.lower(), "")
    if len(value.encode()) > bytes_max:
        raise _bad(name, f"must have at most {bytes_max} bytes")
    return value


def _count(given: Mapping[str, str], name: str, default: int) -> int:
    text = given.get(name.lower(), str(default))
    if not text.isascii() or not text.isdigit() or len(text) > 9:
        raise _bad(name, "must be a whole number, 0 or more")
    return int(text)


def _bad(name: str, rule: str) -> ArautoError:
    return ArautoError(Code.BAD_CONFIG, f"{name} {rule}", field=name)
