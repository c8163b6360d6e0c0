"""Located values to configuration records. Collects every problem instead of stopping at the first."""

from typing import Any, TypeVar, get_args

import msgspec
from msgspec import inspect as kinds

from arauto.config.base import is_secret
from arauto.config.kinds import bare, describe, found, is_path, kind_of
from arauto.config.paths import at_home
from arauto.config.problems import Problem, nearest
from arauto.config.source import Located

__all__ = ["build", "fields_named"]

_S = TypeVar("_S", bound=msgspec.Struct)
_BAD: Any = object()


def build(root: type[_S], located: Located) -> tuple[_S, list[Problem]]:
    """Make a record of type `root`.

    Returns:
        The record, with defaults in place of whatever was wrong, and the problems found.
    """
    builder = _Builder(root)
    value = builder.struct(root, located, "")
    return (root() if value is _BAD else value), builder.problems


def fields_named(root: type[msgspec.Struct], name: str, prefix: str = "") -> list[str]:
    """Return the paths of all fields anywhere in the schema with that outside name."""
    paths = []
    for field in msgspec.structs.fields(root):
        path = f"{prefix}{field.encode_name}"
        if field.encode_name == name:
            paths.append(path)
        below = kind_of(field.type)
        if isinstance(below, kinds.StructType):
            paths += fields_named(below.cls, name, f"{path}.")
    return paths


class _Builder:
    def __init__(self, root: type[msgspec.Struct]) -> None:
        self._root = root
        self.problems: list[Problem] = []

    def struct(self, cls: type[msgspec.Struct], located: Located, path: str) -> Any:
        # None is `connection:` with all its fields commented out.
        entries = {} if located.value is None else located.value
        if not isinstance(entries, dict):
            return self._bad(located, path, "a group of fields")
        fields = {field.encode_name: field for field in msgspec.structs.fields(cls)}
        values: dict[str, Any] = {}
        for key, entry in entries.items():
            below = f"{path}.{key}" if path else key
            field = fields.get(key)
            if field is None:
                self._unknown(key, entry, path, list(fields))
                continue
            value = self.value(field.type, entry, below, secret=is_secret(field.name))
            if value is not _BAD:
                values[field.name] = value
        missing = [f.encode_name for f in fields.values() if f.required and f.name not in values]
        if missing:
            self._add(located, path, f"needs {', '.join(missing)}")
            return _BAD
        return cls(**values)

    def value(self, annotation: Any, located: Located, path: str, *, secret: bool) -> Any:
        kind = kind_of(annotation)
        if isinstance(kind, kinds.UnionType):
            return self._optional(kind, located, path)
        if isinstance(kind, kinds.StructType):
            return self.struct(kind.cls, located, path)
        if isinstance(kind, kinds.VarTupleType):
            return self._tuple(annotation, located, path, secret=secret)
        if isinstance(kind, kinds.DictType):
            return self._dict(annotation, located, path, secret=secret)
        try:
            value = msgspec.convert(located.value, annotation)
        except msgspec.ValidationError:
            return self._bad(located, path, describe(annotation), secret=secret)
        return self._at_home(value, located, path) if is_path(annotation) else value

    def _at_home(self, value: str, located: Located, path: str) -> Any:
        """A path with `~` written out: nobody wants a directory of that name."""
        if not value.startswith("~"):
            return value
        home = str(at_home(value))
        if home.startswith("~"):
            self._add(located, path, f"{value.partition('/')[0]} is nobody's home directory here")
            return _BAD
        return home

    def _optional(self, kind: kinds.UnionType, located: Located, path: str) -> Any:
        if located.value is None:
            return None
        # The schema's only unions are "this group of fields, or nothing".
        [group] = [option for option in kind.types if isinstance(option, kinds.StructType)]
        return self.struct(group.cls, located, path)

    def _tuple(self, annotation: Any, located: Located, path: str, *, secret: bool) -> Any:
        if not isinstance(located.value, list):
            return self._bad(located, path, describe(annotation), secret=secret)
        item = get_args(bare(annotation))[0]
        values = [
            self.value(item, entry, f"{path}[{i}]", secret=secret)
            for i, entry in enumerate(located.value)
        ]
        return _BAD if _BAD in values else tuple(values)

    def _dict(self, annotation: Any, located: Located, path: str, *, secret: bool) -> Any:
        if not isinstance(located.value, dict):
            return self._bad(located, path, describe(annotation), secret=secret)
        item = get_args(bare(annotation))[1]
        values = {
            key: self.value(item, entry, f"{path}.{key}", secret=secret)
            for key, entry in located.value.items()
        }
        return _BAD if _BAD in values.values() else values

    def _unknown(self, key: str, entry: Located, path: str, known: list[str]) -> None:
        below = f"{path}.{key}" if path else key
        close = nearest(key, known)
        message = "unknown field"
        if close:
            message += f"; did you mean {close}?"
        elif elsewhere := fields_named(self._root, key)[:3]:
            message += (
                f"; it belongs to {' or '.join(p.rpartition('.')[0] or p for p in elsewhere)}"
            )
        self._add(entry, below, message, at_key=True, secret=_looks_secret(key, close))

    def _bad(self, located: Located, path: str, expected: str, *, secret: bool = False) -> Any:
        said = found(located.value, secret=secret)
        hint = ""
        if expected.startswith("text") and isinstance(located.value, bool | int | float):
            hint = "; put it in quotes"
        self._add(located, path, f"expected {expected}, found {said}{hint}", secret=secret)
        return _BAD

    def _add(
        self,
        located: Located,
        path: str,
        message: str,
        *,
        at_key: bool = False,
        secret: bool = False,
    ) -> None:
        place = (located.key_place if at_key else None) or located.place
        self.problems.append(Problem(place, path, message, secret))


def _looks_secret(*names: str) -> bool:
    folded = " ".join(names).lower()
    return any(word in folded for word in ("secret", "pas", "token", "key", "head", "cred", "auth"))
