"""What settings must keep to beyond their types: names, references, what depends on others. Pure."""

from collections.abc import Mapping

from arauto.config.checks import is_origin
from arauto.errors import ArautoError, Code
from arauto.hub.rules import HubState
from arauto.names import check_channel, check_id
from arauto.session.auth.authenticator import check_auth_settings
from arauto.settings import ChannelSettings, HubSettings, NamespaceSettings, Rules

__all__ = [
    "check_channel_settings",
    "check_hub_settings",
    "check_namespace_settings",
    "check_rules",
    "users_of_rules",
]

_RULES_LEN_MAX = 1_000
_NAMESPACES_LEN_MAX = 1_000
_CHANNELS_LEN_MAX = 10_000
_ORIGINS_LEN_MAX = 100
_METADATA_LEN_MAX = 64
_METADATA_BYTES_MAX = 16_384
#: Ids named in a message; more would not help.
_SHOWN_LEN_MAX = 5


def check_hub_settings(state: HubState, settings: HubSettings) -> None:
    """Refuse hub settings that cannot work.

    Raises:
        ArautoError: BAD_FIELD or UNKNOWN_RULES, naming the field. Never repeats a value.
    """
    if settings.user_channel or settings.user_channel_namespace:
        check_id(settings.user_channel_namespace, "userChannelNamespace")
    if settings.default_rules:
        _check_reference(state, settings.default_rules, "defaultRules")
    if len(settings.allowed_origins) > _ORIGINS_LEN_MAX:
        raise _bad("allowedOrigins", f"must have at most {_ORIGINS_LEN_MAX} entries")
    for index, origin in enumerate(settings.allowed_origins):
        if origin != "*" and not is_origin(origin):
            raise _bad(
                f"allowedOrigins[{index}]",
                "must be * or scheme://host or scheme://host:port, in lower case",
            )
    if not settings.allow_anonymous and settings.auth_provider is None and settings.jwt is None:
        raise _bad(
            "allowAnonymous",
            "must be true while there is no authProvider and no jwt to authenticate with",
        )
    check_auth_settings(settings)


def check_rules(state: HubState, id: str, rules: Rules) -> None:
    """Refuse rules under a malformed id, or one set too many.

    Raises:
        ArautoError: BAD_FIELD or CONFLICT.
    """
    check_id(id, "id")
    _check_room(state.rules, id, _RULES_LEN_MAX, "rules")


def check_namespace_settings(state: HubState, id: str, settings: NamespaceSettings) -> None:
    """Refuse a malformed namespace, or one bound to rules that are not there.

    Raises:
        ArautoError: BAD_FIELD, UNKNOWN_RULES or CONFLICT.
    """
    check_id(id, "id")
    _check_reference(state, settings.rules, "rules")
    _check_room(state.namespaces, id, _NAMESPACES_LEN_MAX, "namespaces")


def check_channel_settings(state: HubState, id: str, settings: ChannelSettings) -> None:
    """Refuse settings of a malformed channel, bound to rules that are not there, or with too much metadata.

    Raises:
        ArautoError: BAD_CHANNEL_NAME, BAD_FIELD, UNKNOWN_RULES or CONFLICT.
    """
    check_channel(id)
    if settings.rules:
        _check_reference(state, settings.rules, "rules")
    metadata = settings.metadata
    if len(metadata) > _METADATA_LEN_MAX:
        raise _bad("metadata", f"must have at most {_METADATA_LEN_MAX} entries")
    if sum(len(k.encode()) + len(v.encode()) for k, v in metadata.items()) > _METADATA_BYTES_MAX:
        raise _bad("metadata", f"must have at most {_METADATA_BYTES_MAX} bytes in all")
    _check_room(state.channels, id, _CHANNELS_LEN_MAX, "channel settings")


def users_of_rules(state: HubState, id: str) -> str:
    """What names these rules, in words; "" if nothing does."""
    users = ["the hub's defaultRules"] if state.settings.default_rules == id else []
    users += [f"namespace {name}" for name, s in state.namespaces.items() if s.rules == id]
    users += [f"channel {name}" for name, s in state.channels.items() if s.rules == id]
    shown = ", ".join(users[:_SHOWN_LEN_MAX])
    left = len(users) - _SHOWN_LEN_MAX
    return f"{shown} and {left} more" if left > 0 else shown


def _check_reference(state: HubState, rules: str, field: str) -> None:
    check_id(rules, field)
    if rules not in state.rules:
        raise ArautoError(
            Code.UNKNOWN_RULES, "this hub has no rules with that id; set them first", field=field
        )


def _check_room(there: Mapping[str, object], id: str, most: int, what: str) -> None:
    if id not in there and len(there) >= most:
        raise ArautoError(Code.CONFLICT, f"a hub has at most {most} {what}")


def _bad(field: str, rule: str) -> ArautoError:
    return ArautoError(Code.BAD_FIELD, rule, field=field)
