"""YAML text to plain values that remember where they stand. Knows YAML, knows nothing of the schema.

Only the plain part of YAML is accepted: one document, text keys, no anchors, aliases or tags (so no
expansion bombs and no objects), each key once, limited size and depth. Numbers are decimal: `0700` and
`12:30` are text here, where YAML 1.1 would quietly make 448 and 750 of them.
"""

import re
from typing import Any

import msgspec
import yaml

from arauto.config.problems import Place, Problem

__all__ = ["FILE_BYTES_MAX", "Located", "Scalar", "parse_yaml"]

FILE_BYTES_MAX = 262_144
_DEPTH_MAX = 20
_INT = re.compile(r"[-+]?(0|[1-9][0-9_]{0,19})\Z")
_FLOAT = re.compile(
    r"[-+]?((0|[1-9][0-9_]{0,19})(\.[0-9]{0,20})?|\.[0-9]{1,20})(e[-+]?[0-9]{1,2})?\Z",
    re.IGNORECASE,
)
_BOOL = {"true": True, "yes": True, "on": True, "false": False, "no": False, "off": False}

Scalar = str | int | float | bool | None


class Located(msgspec.Struct, frozen=True):
    """A value and where it stands. `key_place` is where its key stands, if it is part of a mapping."""

    value: "Scalar | dict[str, Located] | list[Located]"
    place: Place
    key_place: Place | None = None


class _Loader(yaml.SafeLoader):
    """Composes nodes only; refuses what a configuration has no use for while reading, before it expands."""

    depth = 0

    def compose_node(self, parent: Any, index: Any) -> Any:
        event = self.peek_event()  # type: ignore[no-untyped-call]
        if isinstance(event, yaml.AliasEvent) or getattr(event, "anchor", None) is not None:
            _refuse("anchors and aliases (& and *) are not used here; write the value out", event)
        if getattr(event, "tag", None) is not None:
            _refuse("tags (!) are not used here", event)
        if self.depth >= _DEPTH_MAX:
            _refuse(f"nested more than {_DEPTH_MAX} levels deep", event)
        self.depth += 1
        node = super().compose_node(parent, index)
        self.depth -= 1
        return node


def _refuse(rule: str, event: Any) -> None:
    raise yaml.MarkedYAMLError(problem=rule, problem_mark=event.start_mark)


def parse_yaml(
    data: bytes, file: str, shape: str = "categories such as `connection:`"
) -> tuple[Located, list[Problem]]:
    """Read one YAML document.

    Args:
        data: the file's bytes.
        file: how to call the file in problems.
        shape: how to call what the document should be, if it has no names and values.

    Returns:
        The values, as far as they could be read, and what is wrong with the text.
    """
    problems: list[Problem] = []
    root = Located({}, Place(file))
    if len(data) > FILE_BYTES_MAX:
        return root, [Problem(Place(file), "", f"larger than {FILE_BYTES_MAX} bytes")]
    try:
        text = data.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        before = data[: error.start]
        place = Place(file, before.count(b"\n") + 1, error.start - before.rfind(b"\n"))
        return root, [Problem(place, "", "not valid UTF-8")]
    try:
        node = yaml.compose(text, Loader=_Loader)
    except yaml.reader.ReaderError as error:
        before_text = text[: error.position]
        place = Place(file, before_text.count("\n") + 1, error.position - before_text.rfind("\n"))
        return root, [Problem(place, "", "control characters are not allowed")]
    except yaml.MarkedYAMLError as error:
        mark = error.problem_mark or error.context_mark
        place = _place(file, mark) if mark else Place(file)
        said = ", ".join(part for part in (error.context, error.problem) if part)
        return root, [Problem(place, "", said or "not valid YAML")]
    if node is None or _is_null(node):
        return root, problems
    if not isinstance(node, yaml.MappingNode):
        place = _place(file, node.start_mark)
        return root, [Problem(place, "", f"expected {shape}")]
    return _convert(node, file, "", problems), problems


def _convert(
    node: Any, file: str, path: str, problems: list[Problem], key_place: Place | None = None
) -> Located:
    place = _place(file, node.start_mark)
    if isinstance(node, yaml.ScalarNode):
        return Located(_scalar(node), place, key_place)
    if isinstance(node, yaml.SequenceNode):
        items = [
            _convert(item, file, f"{path}[{i}]", problems) for i, item in enumerate(node.value)
        ]
        return Located(items, place, key_place)
    entries: dict[str, Located] = {}
    for key_node, value_node in node.value:
        at = _place(file, key_node.start_mark)
        key = _scalar(key_node) if isinstance(key_node, yaml.ScalarNode) else None
        if not isinstance(key, str):
            problems.append(Problem(at, path, "a key must be text; put it in quotes if it is"))
            continue
        below = f"{path}.{key}" if path else key
        if key in entries:
            first = entries[key].key_place
            line = first.line if first else 0
            problems.append(Problem(at, below, f"written twice; the first is on line {line}"))
            continue
        entries[key] = _convert(value_node, file, below, problems, at)
    return Located(entries, place, key_place)


def _scalar(node: yaml.ScalarNode) -> Scalar:
    text: str = node.value
    if node.style is not None:  # quoted or block: always text
        return text
    if _is_null(node):
        return None
    if text.lower() in _BOOL:
        return _BOOL[text.lower()]
    if _INT.match(text):
        return int(text.replace("_", ""))
    if _FLOAT.match(text):
        return float(text.replace("_", ""))
    return text


def _is_null(node: Any) -> bool:
    return (
        isinstance(node, yaml.ScalarNode)
        and node.style is None
        and node.value in ("", "~", "null", "Null", "NULL")
    )


def _place(file: str, mark: Any) -> Place:
    return Place(file, mark.line + 1, mark.column + 1)
