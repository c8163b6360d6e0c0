"""Requests in the JSON flavour with fields that this version does not know. Pure.

For each shape of `json_request_shapes` there is an open one here, which passes over such fields where they
may stand: in the request itself and in the items of its list. The parser does not say what it passed over,
so the names are looked at apart. Only requests that the strict shapes refuse come here.
"""

import types
from typing import Any, Final, Union, get_args

import msgspec
from msgspec import Raw

from arauto.codec import json_request_shapes as shapes
from arauto.codec.unknown import Names, Unknown, check_unknown_bytes

__all__ = ["FIELD_NAMES", "AnyOpenRequest", "OpenPublishBody", "note_unknown", "shape_behind"]

_decode_object = msgspec.json.Decoder(dict[str, Raw]).decode
_decode_objects = msgspec.json.Decoder(list[dict[str, Raw]]).decode


def _open(shape: type[msgspec.Struct], **lists: Any) -> type[msgspec.Struct]:
    """The same shape, for objects that may have other fields beside its own."""
    config = shape.__struct_config__
    return msgspec.defstruct(
        f"Open{shape.__name__}",
        list(lists.items()),
        bases=(shape,),
        kw_only=True,
        omit_defaults=True,
        forbid_unknown_fields=False,
        gc=False,
        tag_field=config.tag_field,
        tag=config.tag,
    )


OpenPublishItem: Final = _open(shapes.PublishItem)

#: The body of a request over HTTP to publish; one that may have other fields.
OpenPublishBody: Final[Any] = msgspec.defstruct(
    "OpenPublishBody", [("messages", types.GenericAlias(list, OpenPublishItem))]
)

#: The list of each request that has one of objects: its name, the shape and the open shape of an item.
_LISTS: Final[dict[type, tuple[str, type[msgspec.Struct], Any]]] = {
    shapes.Publish: ("messages", shapes.PublishItem, OpenPublishItem),
    OpenPublishBody: ("messages", shapes.PublishItem, OpenPublishItem),
    shapes.Subscribe: ("items", shapes.SubscribeItem, _open(shapes.SubscribeItem)),
    shapes.DocumentChange: ("operations", shapes.Operation, _open(shapes.Operation)),
}


def _open_request(shape: type[msgspec.Struct]) -> Any:
    if shape not in _LISTS:
        return _open(shape)
    name, _, item = _LISTS[shape]
    return _open(shape, **{name: types.GenericAlias(list, item)})


#: Everything a client may send, with whatever else a newer one may have to say.
AnyOpenRequest: Final[Any] = Union[*map(_open_request, get_args(shapes.AnyRequest))]

_NAMES: Final[dict[type, Names]] = {
    shape: Names((*shape.__struct_encode_fields__, shape.__struct_config__.tag_field or ""))
    for shape in (
        *get_args(shapes.AnyRequest),
        *(item for _, item, _ in _LISTS.values()),
        OpenPublishBody,
    )
}

#: Of all requests and of the items of their lists.
FIELD_NAMES: Final = frozenset(name for names in _NAMES.values() for name in names.known)


def shape_behind(shape: msgspec.Struct) -> type[msgspec.Struct]:
    """The strict shape that an open one was made of."""
    return type(shape).__mro__[1]


def note_unknown(data: bytes, shape: type[msgspec.Struct], unknown: Unknown) -> None:
    """Note the fields of a request, already read as `shape`, that this version does not know.

    Raises:
        ArautoError: BAD_FIELD for those that must not be ignored.
    """
    fields = _decode_object(data)
    _note(fields, _NAMES[shape], "", unknown)
    if shape in _LISTS:
        name, item, _ = _LISTS[shape]
        names = _NAMES[item]
        for index, each in enumerate(_decode_objects(fields[name])):
            if not names.known.issuperset(each):
                _note(each, names, f"{name}[{index}]", unknown)


def _note(fields: dict[str, Raw], names: Names, place: str, unknown: Unknown) -> None:
    strangers = [name for name in fields if name not in names.known]
    if not strangers:
        return
    unknown.seen_bytes += sum(len(name) + len(bytes(fields[name])) for name in strangers)
    check_unknown_bytes(unknown.seen_bytes, place)
    for name in strangers:
        names.check(name, place)
    unknown.note(len(strangers), place)
