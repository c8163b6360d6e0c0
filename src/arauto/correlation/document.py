"""Reads rules from YAML or JSON text. Whatever is wrong is said with its line and with what is allowed."""

import re
from functools import partial
from typing import Any

from arauto.config.source import Located, parse_yaml
from arauto.correlation.bodies import BESIDE, BODIES, IDENTIFIER, RESERVED, condition
from arauto.correlation.coercion import cast
from arauto.correlation.expression import KINDS, Expr, walk
from arauto.correlation.fields import Fields, Findings, bad_rule, expression_of, items_of, text_of
from arauto.correlation.rule import Emit, Rule, Source
from arauto.correlation.scope import Scope, suggest
from arauto.errors import ArautoError, Code
from arauto.names import check_channel, check_id, check_pattern, matches

__all__ = [
    "ERRORS_MAX",
    "FILE_BYTES_MAX",
    "RULE_BYTES_MAX",
    "examine_rules",
    "load_rule",
    "load_rules",
]

RULE_BYTES_MAX = 65_536
FILE_BYTES_MAX = 1_048_576
RULES_MAX = 500
#: What is told of one file; nobody mends more at a time.
ERRORS_MAX = 50
_CHANNELS_MAX = 32
_KEYS_MAX = 8
_LETS_MAX = 32
_EMITTED_MAX = 32
_BUFFER_MAX = 10_000
_VERSION_MAX = 1_000_000_000

_COMMON = ("rule", "version", "from", "key", "let", "emit", "include_pipeline", "buffer")
_SHAPE = "a rule: names and values"
#: A line like this always starts a document in YAML, also inside a block of text.
_SEPARATOR = re.compile(r"^---(?=\s|$)", re.MULTILINE)


def load_rule(text: str) -> Rule:
    """Read exactly one rule.

    Raises:
        ArautoError: BAD_RULE, naming the line.
    """
    rules = load_rules(text)
    if len(rules) != 1:
        raise ArautoError(Code.BAD_RULE, f"expected one rule, found {len(rules)}")
    return rules[0]


def load_rules(text: str) -> list[Rule]:
    """Read the rules of a file: documents separated by `---`.

    Raises:
        ArautoError: BAD_RULE, naming the line.
    """
    rules, errors = examine_rules(text)
    if errors:
        raise errors[0]
    return rules


def examine_rules(text: str) -> tuple[list[Rule], list[ArautoError]]:
    """Read the rules of a file, and tell of everything that is wrong with them.

    Returns:
        The rules that are right, and the errors (BAD_RULE): of each part of a rule the first one.
    """
    if len(text.encode(errors="replace")) > FILE_BYTES_MAX:
        return [], [ArautoError(Code.BAD_RULE, f"larger than {FILE_BYTES_MAX} bytes")]
    rules: dict[str, Rule] = {}
    found = Findings()
    for part, line in _documents(text):
        if len(found.errors) >= ERRORS_MAX:
            break
        located = found.of(partial(_parsed, part, line))
        rule = located and found.of(partial(_rule, located, part, found))
        if not located or not rule:
            continue
        if rule.name in rules:
            message = f"{rule.name} is in this file twice"
            found.errors.append(bad_rule(located.place, "rule", message))
        rules[rule.name] = rule
        if len(rules) > RULES_MAX:
            message = f"more than {RULES_MAX} rules in one file"
            found.errors.append(ArautoError(Code.BAD_RULE, message))
            break
    return list(rules.values()), found.errors[:ERRORS_MAX]


def _documents(text: str) -> list[tuple[str, int]]:
    """The documents and the number of lines before each."""
    starts = [0, *(found.end() for found in _SEPARATOR.finditer(text))]
    ends = [*(found.start() for found in _SEPARATOR.finditer(text)), len(text)]
    return [
        (text[start:end], text.count("\n", 0, start))
        for start, end in zip(starts, ends, strict=True)
    ]


def _parsed(text: str, line: int) -> Located | None:
    try:
        data = text.encode()
    except UnicodeEncodeError:
        raise ArautoError(Code.BAD_RULE, "not valid UTF-8") from None
    if len(data) > RULE_BYTES_MAX:
        message = f"line {line + 1}: a rule has at most {RULE_BYTES_MAX} bytes"
        raise ArautoError(Code.BAD_RULE, message)
    if text.lstrip()[:1] == "{":
        # JSON may be indented with tabs, YAML may not; inside JSON's texts there are none.
        text = text.replace("\t", " ")
    # Empty lines in front keep the line numbers those of the file.
    located, problems = parse_yaml(("\n" * line + text).encode(), "", _SHAPE)
    if problems:
        first = problems[0]
        raise bad_rule(first.place, first.path, first.message)
    return located if located.value else None


def _rule(located: Located, text: str, found: Findings) -> Rule | None:
    everything = {*_COMMON, *BODIES, *(name for names in BESIDE.values() for name in names)}
    rule = Fields.read(located, "", sorted(everything), _SHAPE)
    kinds = [name for name in rule.names() if name in BODIES]
    if len(kinds) != 1:
        said = f"; found {' and '.join(kinds)}" if kinds else ""
        raise bad_rule(located.place, "", f"a rule has one of {', '.join(BODIES)}{said}")
    (kind,) = kinds
    allowed = (*_COMMON, kind, *BESIDE[kind])
    for name in rule.names():
        if name not in allowed:
            rule.fail(name, f"has no meaning for {kind}{suggest(name, list(BESIDE[kind]))}")
    before = len(found.errors)
    lets = found.of(partial(_lets, rule))
    body = key = emit = source = None
    if lets is not None:
        body = found.of(partial(BODIES[kind], rule, lets))
        key = found.of(partial(_key, rule, lets, body or {}))
        # What may be emitted depends on all of these.
        if body is not None and key is not None:
            emit = found.of(partial(_emit, rule, _emit_scope(kind, body, lets, key[1]), found))
        source = found.of(partial(_source, rule, lets, emit))
    rule_name = found.of(partial(_name, rule))
    version = found.of(partial(rule.number, "version", 1, 1, _VERSION_MAX))
    buffer_rows = found.of(partial(rule.number, "buffer", 1000, 10, _BUFFER_MAX))
    if not (key and emit and source and rule_name and version and buffer_rows) or body is None:
        return None
    if len(found.errors) > before:
        return None
    _settle_of(body, emit)
    for helper in ("by", "totals"):
        body.pop(helper, None)
    return Rule(
        name=rule_name,
        version=version,
        kind="quorum" if kind in ("all_of", "any_of") else kind,  # type: ignore[arg-type]
        text=text,
        source=source,
        key=key[0],
        emit=emit,
        buffer_rows=buffer_rows,
        **body,
    )


def _name(rule: Fields) -> str:
    name = rule.text("rule", "the rule's name")
    try:
        return check_id(name, "rule")
    except ArautoError as error:
        rule.fail("rule", error.message)


def _source(rule: Fields, lets: dict[str, Expr], emit: Emit | None) -> Source:
    source = _source_alone(rule, lets)
    if emit and source.include_pipeline and any(matches(p, emit.channel) for p in source.channels):
        rule.fail("include_pipeline", "the rule would look at what it publishes itself")
    return source


def _source_alone(rule: Fields, lets: dict[str, Expr]) -> Source:
    include = rule.flag("include_pipeline")
    if "from" not in rule.values:
        return Source(include_pipeline=include)
    fields = Fields.read(
        rule.values["from"], "from", ("channels", "kinds", "where"), "channels, kinds and where"
    )
    channels: tuple[str, ...] = ("*",)
    if given := fields.values.get("channels"):
        items = items_of(given, "from.channels", _CHANNELS_MAX, "channel patterns")
        channels = tuple(_pattern(item, n) for n, item in enumerate(items))
    kinds: tuple[int, ...] = (1,)
    if given := fields.values.get("kinds"):
        items = items_of(given, "from.kinds", len(KINDS), "kinds of rows")
        kinds = tuple(sorted({_kind(item, n) for n, item in enumerate(items)}))
    where = None
    if given := fields.values.get("where"):
        where = condition(given, "from.where", Scope(lets=lets))
    return Source(channels, kinds, where, include)


def _pattern(item: Located, n: int) -> str:
    path = f"from.channels[{n}]"
    try:
        return check_pattern(text_of(item, path))
    except ArautoError as error:
        if error.code == Code.BAD_RULE:
            raise
        raise bad_rule(item.place, path, error.message) from None


def _kind(item: Located, n: int) -> int:
    numbers = {name: number for number, name in KINDS.items()}
    if not isinstance(item.value, str) or item.value not in numbers:
        raise bad_rule(item.place, f"from.kinds[{n}]", f"expected one of {', '.join(numbers)}")
    return numbers[item.value]


def _lets(rule: Fields) -> dict[str, Expr]:
    lets: dict[str, Expr] = {}
    given = rule.values.get("let")
    if given is None:
        return lets
    if not isinstance(given.value, dict) or len(given.value) > _LETS_MAX:
        rule.fail("let", f"expected up to {_LETS_MAX} names with an expression each")
    for name, value in given.value.items():
        path = f"let.{name}"
        if not IDENTIFIER.match(name) or name in RESERVED:
            message = "a name has letters, digits and _ and is not one that means something already"
            raise bad_rule(value.key_place or value.place, path, message)
        lets[name] = expression_of(value, path, Scope(lets=dict(lets)))
    return lets


def _key(
    rule: Fields, lets: dict[str, Expr], body: dict[str, Any]
) -> tuple[tuple[Expr, ...], tuple[str, ...]]:
    """The key's expressions as text, and the names of its parts ("" if a part has none of its own)."""
    parts: list[Expr] = []
    names: list[str] = []
    if "key" in rule.values:
        items = items_of(rule.values["key"], "key", _KEYS_MAX, "expressions")
        for n, item in enumerate(items):
            expr = expression_of(item, f"key[{n}]", Scope(lets=lets))
            parts.append(cast(expr, "string"))
            names.append(str(item.value) if str(item.value) in lets else _own_name(expr))
    if "by" in body:
        parts.append(body["by"])
        names.append("group")
    return tuple(parts), tuple(name if names.count(name) == 1 else "" for name in names)


def _own_name(expr: Expr) -> str:
    if expr.op in ("column", "header"):
        return str(expr.value)
    return str(expr.path[-1]) if expr.path else ""


def _emit_scope(
    kind: str, body: dict[str, Any], lets: dict[str, Expr], keys: tuple[str, ...]
) -> Scope:
    if "totals" in body:
        return Scope(lets=lets, row=False, totals=body["totals"], of=body["of"], keys=keys)
    roles: list[str] = ["first", "last"]
    if kind in ("sequence", "all_of", "any_of"):
        roles += [step.name for step in body["steps"] if not step.absent]
    if body.get("has_base"):
        roles.append("base")
    base = "base" in roles
    steps = tuple(roles[2:]) if kind == "sequence" else ()
    return Scope(lets=lets, roles=tuple(roles), role="last", keys=keys, base=base, steps=steps)


def _emit(rule: Fields, scope: Scope, found: Findings) -> Emit:
    shape = "channel and perhaps payload and cooldown"
    located = rule.need("emit", shape)
    fields = Fields.read(located, "emit", ("channel", "payload", "cooldown"), shape)
    channel = fields.text("channel", "where matches are published")
    try:
        check_channel(channel)
    except ArautoError as error:
        fields.fail("channel", error.message)
    payload = {
        name: Expr("key", "text", value=float(n)) for n, name in enumerate(scope.keys or ()) if name
    }
    if given := fields.values.get("payload"):
        if not isinstance(given.value, dict) or len(given.value) > _EMITTED_MAX:
            fields.fail("payload", f"expected up to {_EMITTED_MAX} names with an expression each")
        payload = {}
        for name, value in given.value.items():
            expr = found.of(partial(expression_of, value, f"emit.payload.{name}", scope))
            if expr is not None:
                payload[name] = expr
    return Emit(channel, payload, fields.duration_or("cooldown", 0, 0))


def _settle_of(body: dict[str, Any], emit: Emit) -> None:
    """A counted payload value is a number if the rule does arithmetic with it, else text."""
    of = body.get("of")
    if of is None or of.type != "any":
        return
    used = [node for tree in (body["when"], *emit.payload.values()) for node in walk(tree)]
    if any(n.op == "total" and n.value in ("sum", "avg", "min", "max") for n in used):
        body["of"] = Expr("to_number", "number", (of,))
