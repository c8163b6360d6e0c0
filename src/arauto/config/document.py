"""Writes the reference page and the commented default file from the schema, so that neither can be wrong."""

import textwrap
from collections.abc import Iterator

import msgspec

from arauto.config.reference import FieldDoc, GroupDoc, describe_schema

__all__ = ["default_yaml", "reference_page"]

_WIDTH = 100

_PAGE_HEAD = """\
# Configuration

<!-- Generated from src/arauto/config by scripts/gen_config_docs.py; edit the schema instead. -->

A node reads one YAML file: the one named with `--config`, else by `ARAUTO_CONFIG`, else `config.yaml` in
the current directory if there is one. Every field has a default, so an empty file (or none) runs one
embedded node on loopback. `arauto default-config` prints a file with all of them and what they mean;
`arauto check-config FILE` says what is wrong with yours, line by line.

## How the file is read

- Names are written as shown here. An unknown name is an error, not a silent default.
- Times are in seconds (`…S`), sizes in bytes (`…Bytes`). Fractions such as `0.5` are fine for times.
- Anchors, aliases and tags are refused, and so is a key that is written twice.
- Paths are relative to the directory the node is started in.
- Fields marked *reserved* are accepted so that one file fits later versions too; they do nothing yet,
  and `check-config` says so.

## Environment variables

Every field can be set by a variable, which wins over the file: `ARAUTO_`, then the path in capitals with
two underscores between levels and one between words.

| field | variable |
|---|---|
| `connection.port` | `ARAUTO_CONNECTION__PORT` |
| `connection.ws.sendBufferBytes` | `ARAUTO_CONNECTION__WS__SEND_BUFFER_BYTES` |
| `keyValue.kind` | `ARAUTO_KEY_VALUE__KIND` |

Lists are separated by commas. Groups of names and values are JSON objects. Fields marked *secret* can
also be read from a file: `ARAUTO_AUTH__SESSION__SECRET_FILE=/run/secrets/session`. A variable that starts
with `ARAUTO_` and means nothing is an error.

## Production

`node.mode: production` refuses to start without `auth.session.secret` and `admin.token`, or with values
that are short or well known. In development both are made up at each start.
"""

_YAML_HEAD = """\
# Arauto's configuration with every default. Delete what you do not change: an empty file means the same.
# `arauto check-config FILE` explains what is wrong with a file; environment variables such as
# ARAUTO_CONNECTION__PORT=9000 win over it.
"""


def reference_page() -> str:
    """Return the Markdown page that documents every field."""
    lines = [_PAGE_HEAD]
    for category in describe_schema().fields:
        if isinstance(category, GroupDoc):
            lines.extend(_section(category, level=2))
    return "\n".join(lines).rstrip("\n") + "\n"


def _section(group: GroupDoc, level: int) -> Iterator[str]:
    yield f"{'#' * level} `{group.path}`\n"
    absent = " Absent by default." if group.optional else ""
    yield f"{textwrap.fill(group.text + absent, _WIDTH + 5)}\n"
    fields = [item for item in group.fields if isinstance(item, FieldDoc)]
    if fields:
        yield "| field | value | default | meaning |\n|---|---|---|---|"
        for field in fields:
            yield _row(field)
        yield ""
    for item in group.fields:
        if isinstance(item, GroupDoc):
            yield from _section(item, level + 1)


def _row(field: FieldDoc) -> str:
    marks = "*secret*. " if field.secret else ""
    default = _value(field.default)
    shown = "empty" if default in ('""', "[]", "{}") else f"`{default}`"
    cells = (f"`{field.name}`", field.type, shown, marks + field.text)
    return "| " + " | ".join(cell.replace("|", "\\|") for cell in cells) + " |"


def default_yaml() -> str:
    """Return a configuration file with every default and its meaning as a comment.

    Reserved fields and groups that are absent by default are commented out, so that the file loads to
    exactly the defaults.
    """
    lines = [_YAML_HEAD]
    for category in describe_schema().fields:
        if isinstance(category, GroupDoc):
            lines.extend(_yaml_group(category, indent=0, off=False))
            lines.append("")
    return "\n".join(lines).rstrip("\n") + "\n"


def _yaml_group(group: GroupDoc, indent: int, *, off: bool) -> Iterator[str]:
    off = off or group.optional or all(field.reserved for field in group.walk())
    yield from _comment(group.text, indent)
    yield f"{' ' * indent}{'# ' if off else ''}{group.name}:"
    for item in group.fields:
        if isinstance(item, GroupDoc):
            yield from _yaml_group(item, indent + 2, off=off)
            continue
        yield from _comment(item.text, indent + 2)
        mark = "# " if off or item.reserved else ""
        yield f"{' ' * (indent + 2)}{mark}{item.name}: {_value(item.default)}"


def _comment(text: str, indent: int) -> Iterator[str]:
    for line in textwrap.wrap(text, _WIDTH - indent):
        yield f"{' ' * indent}# {line}"


def _value(default: object) -> str:
    """Write a default as YAML, which is JSON here but for plain words."""
    if isinstance(default, str) and default.replace("-", "").replace("_", "").isalnum():
        return default
    if isinstance(default, float) and default == int(default):
        return str(int(default))
    return msgspec.json.encode(default).decode()
