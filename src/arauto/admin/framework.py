"""Litestar, lean and held to the letter.

Of its own accord it imports every data library it finds installed, reads bodies leniently (to it, "1" is a
number) and passes over parameters that a route does not have. Here it does not.
"""

import re
from functools import cache
from typing import Any
from urllib.parse import parse_qsl, unquote

from litestar import Litestar, Request
from litestar.exceptions import HTTPException, NotFoundException, ValidationException
from litestar.handlers import BaseRouteHandler, HTTPRouteHandler
from litestar.params import QueryParameter
from litestar.plugins import PluginProtocol
from litestar.plugins.core import MsgspecDIPlugin

from arauto.codec.checks import bad_field
from arauto.codec.json_body import decode_body, field_rule, read_once
from arauto.config.problems import nearest
from arauto.errors import ArautoError, Code

__all__ = ["LeanLitestar", "StrictRequest", "check_parameters", "translated"]

_PARAMETERS_LEN_MAX = 20
_MISSING = re.compile(r"Missing required \w+ parameter '(\w+)'")

_WORD_START = re.compile(r"_([a-z])")


class LeanLitestar(Litestar):
    """Without the plugins for pydantic and attrs: these would load them, fourteen megabytes, for nothing."""

    @staticmethod
    def _get_default_plugins(plugins: list[PluginProtocol]) -> list[PluginProtocol]:
        return [*plugins, MsgspecDIPlugin()]


class StrictRequest(Request[Any, Any, Any]):
    """A request whose body is exactly what its route asks for."""

    _whole: bytes | None = None

    async def body(self) -> bytes:
        """All of it; the port has seen to it that it is not too large.

        Raises:
            ArautoError: CONNECTION_LOST if the client left before it had sent everything.
        """
        if self._whole is None:
            parts = []
            more = True
            while more:
                message = await self.receive()
                if message["type"] != "http.request":
                    raise ArautoError(
                        Code.CONNECTION_LOST, "the client left before its request ended"
                    )
                parts.append(message.get("body", b""))
                more = message.get("more_body", False)
            self._whole = b"".join(parts)
        return self._whole

    async def json(self) -> Any:
        handler = self.route_handler
        assert isinstance(handler, HTTPRouteHandler)
        assert handler.parsed_data_field is not None
        data = await self.body()
        # Decoded to the final type here; what the framework does afterwards leaves such a value alone.
        value = decode_body(data, handler.parsed_data_field.annotation)
        if self.method == "PUT":  # settings, which say who may do what
            try:
                read_once(data)
            except ValueError:
                raise bad_field("body", "must name each member of an object once") from None
        return value


async def check_parameters(request: Request[Any, Any, Any]) -> None:
    """Decode the names in the path, and refuse parameters that the route does not have or has once.

    Raises:
        ArautoError: BAD_FIELD.
    """
    try:
        names = request.scope["path_params"]
        request.scope["path_params"] = {k: unquote(v, errors="strict") for k, v in names.items()}
    except UnicodeDecodeError:
        raise bad_field("path", "must be UTF-8, percent-encoded") from None
    query = request.scope["query_string"].decode("latin-1")
    try:
        pairs = parse_qsl(
            query, keep_blank_values=True, errors="strict", max_num_fields=_PARAMETERS_LEN_MAX
        )
    except ValueError:
        raise bad_field("query", "must be UTF-8, percent-encoded, and not long") from None
    known = _query_names(request.route_handler)
    seen: set[str] = set()
    for name, _ in pairs:
        if name not in known:
            allowed = ", ".join(known) or "no parameters"
            meant = nearest(name, known)
            hint = f"did you mean {meant}?" if meant else f"this takes {allowed}"
            raise bad_field("query", f"has an unknown parameter; {hint}")
        if name in seen:
            raise bad_field(name, "must be given once")
        seen.add(name)


@cache
def _query_names(handler: BaseRouteHandler) -> tuple[str, ...]:
    found = []
    for name, parameter in handler.parsed_fn_signature.parameters.items():
        kwarg = parameter.kwarg_definition
        if isinstance(kwarg, QueryParameter):
            found.append(kwarg.name or name)
    return tuple(found)


def _wanted(handler: BaseRouteHandler | None, name: str) -> Any:
    """The type of a parameter, as far as it is known; the route may call it something else outside."""
    if handler is None:
        return None
    for inside, parameter in handler.parsed_fn_signature.parameters.items():
        kwarg = parameter.kwarg_definition
        if name in (inside, getattr(kwarg, "name", None)):
            return parameter.annotation
    return None


def translated(error: HTTPException, handler: BaseRouteHandler | None = None) -> ArautoError:
    """An error of the framework as one of ours. `handler` is the route's, which knows the words it takes."""
    if isinstance(error, ValidationException) and isinstance(error.extra, list) and error.extra:
        first = error.extra[0]
        key = str(first.get("key", ""))
        if key == "data":
            return bad_field("body", "is required")
        outside = _WORD_START.sub(lambda found: found[1].upper(), key)
        wanted = _wanted(handler, key)
        return bad_field(outside, field_rule(str(first.get("message", "")), wanted)[1])
    missing = _MISSING.match(error.detail)
    if missing:
        return bad_field(missing[1], "is required")
    if isinstance(error, NotFoundException):
        return ArautoError(Code.NOT_FOUND, "there is nothing at this address", field="path")
    if error.status_code == 405:
        return ArautoError(Code.BAD_FIELD, "that cannot be done here", field="method")
    return ArautoError(Code.BAD_FIELD, "the request cannot be read", field="request")
