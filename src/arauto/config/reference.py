"""What the schema says about itself: every field with its type, default and documentation.

The documentation is the string under each field, which Python throws away; it is read from the source.
"""

import ast
import inspect
from collections.abc import Iterator
from functools import cache
from typing import Any

import msgspec
from msgspec import inspect as kinds

from arauto.config.base import is_secret
from arauto.config.kinds import describe, is_reserved, kind_of
from arauto.config.schema import Config

__all__ = ["FieldDoc", "GroupDoc", "describe_schema", "field_texts"]


class FieldDoc(msgspec.Struct, frozen=True):
    """One field."""

    path: str
    name: str
    type: str
    default: Any
    text: str
    secret: bool
    reserved: bool


class GroupDoc(msgspec.Struct, frozen=True):
    """A category or a group of fields inside one, in the schema's order."""

    path: str
    name: str
    text: str
    fields: "tuple[FieldDoc | GroupDoc, ...]"
    optional: bool = False
    """Whether the group is absent (null) by default."""

    def walk(self) -> Iterator[FieldDoc]:
        """Yield every field below."""
        for item in self.fields:
            if isinstance(item, GroupDoc):
                yield from item.walk()
            else:
                yield item


@cache
def describe_schema() -> GroupDoc:
    """Return the whole schema."""
    return _group(Config, "", "", "")


def _group(
    cls: type[msgspec.Struct], path: str, name: str, text: str, *, optional: bool = False
) -> GroupDoc:
    texts = field_texts(cls)
    items: list[FieldDoc | GroupDoc] = []
    for field in msgspec.structs.fields(cls):
        below = f"{path}.{field.encode_name}" if path else field.encode_name
        said = texts.get(field.name, "")
        kind = kind_of(field.type)
        is_optional = isinstance(kind, kinds.UnionType)
        if isinstance(kind, kinds.UnionType):
            [kind] = [option for option in kind.types if isinstance(option, kinds.StructType)]
        if isinstance(kind, kinds.StructType):
            items.append(_group(kind.cls, below, field.encode_name, said, optional=is_optional))
        else:
            items.append(_field(field, below, said))
    return GroupDoc(path, name, text or _plain(inspect.getdoc(cls) or ""), tuple(items), optional)


def _field(field: Any, path: str, text: str) -> FieldDoc:
    default = field.default_factory() if field.default is msgspec.NODEFAULT else field.default
    return FieldDoc(
        path=path,
        name=field.encode_name,
        type=describe(field.type),
        default=msgspec.to_builtins(default),
        text=text,
        secret=is_secret(field.name),
        reserved=is_reserved(field.type),
    )


def field_texts(cls: type[msgspec.Struct]) -> dict[str, str]:
    """Return the sentences under the fields that a record's class itself defines, by field name."""
    [tree] = ast.parse(inspect.getsource(cls)).body
    if not isinstance(tree, ast.ClassDef):
        raise TypeError(f"{cls} is not a class in a source file")
    texts: dict[str, str] = {}
    for statement, following in zip(tree.body, tree.body[1:], strict=False):
        if (
            isinstance(statement, ast.AnnAssign)
            and isinstance(statement.target, ast.Name)
            and isinstance(following, ast.Expr)
            and isinstance(following.value, ast.Constant)
            and isinstance(following.value.value, str)
        ):
            texts[statement.target.id] = _plain(following.value.value)
    return texts


def _plain(text: str) -> str:
    return " ".join(text.split())
