"""Environment variables that override fields of the file: `ARAUTO_<CATEGORY>__<FIELD>`.

Two underscores go one level down; one stands between the words of a name: `ARAUTO_CONNECTION__PORT`,
`ARAUTO_CONNECTION__WS__SEND_BUFFER_BYTES`. Lists are separated by commas, name-value groups are JSON
objects. A secret can be read from a file with `_FILE` at the end. A variable that starts with `ARAUTO_`
and means nothing is an error, so that a typing error is not a silent default.
"""

from collections.abc import Iterator, Mapping
from typing import Any

import msgspec
from msgspec import inspect as kinds

from arauto.config.base import is_secret
from arauto.config.kinds import kind_of
from arauto.config.paths import at_home
from arauto.config.problems import Place, Problem, nearest
from arauto.config.source import Located, Scalar

__all__ = ["CONFIG_VARIABLE", "PREFIX", "Variable", "overlay", "variables"]

PREFIX = "ARAUTO_"
CONFIG_VARIABLE = "ARAUTO_CONFIG"
"""Names the configuration file itself."""

#: Variables with our prefix that are not fields of the configuration.
#: The last three tell `arauto pub` and `arauto sub` where to connect.
_OTHERS = frozenset({CONFIG_VARIABLE, "ARAUTO_URL", "ARAUTO_HUB", "ARAUTO_TOKEN"})
_OTHER_PREFIXES = ("ARAUTO_TEST_", "ARAUTO_BENCH_")
_FILE = "_FILE"
_SECRET_FILE_BYTES_MAX = 65_536


class Variable(msgspec.Struct, frozen=True):
    """A field that an environment variable can set."""

    name: str
    path: tuple[str, ...]
    annotation: Any
    secret: bool


def variables(
    root: type[msgspec.Struct], prefix: str = PREFIX, path: tuple[str, ...] = ()
) -> Iterator[Variable]:
    """Yield every field of the schema that has a variable, in the schema's order."""
    for field in msgspec.structs.fields(root):
        name = prefix + field.name.upper()
        below = (*path, field.encode_name)
        kind = kind_of(field.type)
        if isinstance(kind, kinds.UnionType):
            [kind] = [option for option in kind.types if isinstance(option, kinds.StructType)]
        if isinstance(kind, kinds.StructType):
            yield from variables(kind.cls, f"{name}__", below)
        else:
            yield Variable(name, below, field.type, is_secret(field.name))


def overlay(
    root: type[msgspec.Struct], located: Located, environ: Mapping[str, str]
) -> tuple[Located, list[Problem]]:
    """Put the variables' values over the file's.

    Returns:
        New located values (the old ones are not changed), and what is wrong with the variables.
    """
    known = {variable.name: variable for variable in variables(root)}
    problems: list[Problem] = []
    for name in sorted(environ):
        if not name.startswith(PREFIX) or name in _OTHERS or name.startswith(_OTHER_PREFIXES):
            continue
        place = Place(variable=name)
        raw = environ[name]
        variable = known.get(name)
        if variable is None:
            variable = known.get(name.removesuffix(_FILE))
            if variable is None or not variable.secret or not name.endswith(_FILE):
                problems.append(Problem(place, "", _unknown(name, known)))
                continue
            if variable.name in environ:
                problems.append(Problem(place, "", f"set either this or {variable.name}"))
                continue
            try:
                raw = _read_secret(raw)
            except (OSError, ValueError) as error:
                why = error.strerror if isinstance(error, OSError) else str(error)
                problems.append(Problem(place, ".".join(variable.path), f"cannot be read: {why}"))
                continue
        located = _put(located, variable.path, _typed(variable.annotation, raw, place), place)
    return located, problems


def _unknown(name: str, known: Mapping[str, Variable]) -> str:
    # Without the prefix, which would make everything look alike.
    close = nearest(name.removeprefix(PREFIX), [other.removeprefix(PREFIX) for other in known])
    return "no such setting" + (f"; did you mean {PREFIX}{close}?" if close else "")


def _read_secret(path: str) -> str:
    with at_home(path).open("rb") as file:
        data = file.read(_SECRET_FILE_BYTES_MAX + 1)
    if len(data) > _SECRET_FILE_BYTES_MAX:
        raise ValueError(f"larger than {_SECRET_FILE_BYTES_MAX} bytes")
    try:
        text = data.decode()
    except UnicodeDecodeError:
        raise ValueError("not valid UTF-8") from None
    # Editors and `echo` end a file with a line break that is not part of the secret.
    return text.removesuffix("\n").removesuffix("\r")


def _typed(annotation: Any, raw: str, place: Place) -> Located:
    """Read a variable's text as its field's type would be written in YAML.

    Text that does not fit stays text, so that the builder can say what it expected.
    """
    kind = kind_of(annotation)
    value: Scalar = raw
    match kind:
        case kinds.BoolType() | kinds.IntType() | kinds.FloatType():
            value = _number(kind, raw.strip())
        case kinds.VarTupleType():
            parts = [part.strip() for part in raw.split(",")]
            return Located([Located(part, place) for part in parts if part], place)
        case kinds.DictType():
            try:
                pairs = msgspec.json.decode(raw, type=dict[str, str])
            except msgspec.MsgspecError:
                return Located(raw, place)
            return Located({key: Located(text, place) for key, text in pairs.items()}, place)
    return Located(value, place)


def _number(kind: kinds.Type, raw: str) -> Scalar:
    plain: type = {kinds.BoolType: bool, kinds.IntType: int}.get(type(kind), float)
    try:
        value: Scalar = msgspec.convert(raw, plain, strict=False)
    except msgspec.ValidationError:
        return raw
    # "inf" and "nan" are numbers to a parser and nonsense as a setting.
    return value if isinstance(value, bool | int) or abs(value) < 1e300 else raw  # type: ignore[arg-type]


def _put(at: Located, path: tuple[str, ...], leaf: Located, place: Place) -> Located:
    if not path:
        return leaf
    if not isinstance(at.value, dict | None):
        return at  # the file is wrong here, and the builder will say so
    below = dict(at.value or {})
    child = below.get(path[0], Located({}, place, place))
    below[path[0]] = _put(child, path[1:], leaf, place)
    return msgspec.structs.replace(at, value=below)
