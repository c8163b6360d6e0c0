"""Random expressions and nasty rows, for the test that SQL and the interpreter agree."""

from functools import partial
from random import Random

__all__ = [
    "LIKE_PATTERNS",
    "LIKE_TEXTS",
    "PAYLOADS",
    "random_boolean",
    "random_number",
    "random_text",
]

#: Patterns as they stand between quotes, of all shapes that become SQL in a way of their own.
LIKE_PATTERNS: tuple[str, ...] = (
    "",
    "%",
    "%%%%",
    "_",
    "%_",
    "%_%_%",
    "a",
    "a%",
    "%a",
    "%a%",
    "a%a",
    "ab%ba",
    "a%b%a",
    "%a%ab",
    "%aab%ab",
    "%ab%ab%",
    "a%ab%ab%b",
    "%a%a%a%b",
    "%a_%_b%b",
    "%_a%_b%a_",
    "__%__%_",
    "%.%.%",
    "%(%)%",
    "%[%]%",
    "a%*%+%?",
    "%{%}%|%",
    "^%$%^",
    "%\\'%\\'%",
    '%"%"',
    "%\n%b",
    "%\n%\n",
    "%\t%b%",
    "%ü%ß%",
    "_%ü_%",
    "%\U0001f600%\U0001f600",
    "%_\U0001f600_%b%",
    "% % %",
    "%x2e%#%-%",
)
#: Texts for them: pieces that overlap, and signs that mean something to SQL or in regular expressions.
LIKE_TEXTS: tuple[str, ...] = (
    "",
    "a",
    "b",
    "ab",
    "ba",
    "aba",
    "abba",
    "aab",
    "aabab",
    "aaab",
    "aabb",
    "abab",
    "abababb",
    "baabab",
    "a.b.a",
    ".",
    "..",
    "(a)",
    "[a]",
    "[^a]",
    "a*+?",
    "a*b+c?d?",
    "{1}|",
    "^$^",
    "it's, it's",
    "'",
    '"a"',
    '"',
    "%",
    "_",
    "%_%",
    "\\",
    "a\\b\\",
    "\\a\\b",
    "\\'\\'",
    "\n",
    "a\n",
    "a\nb",
    "\n\nb",
    "a\r\nb\r\n",
    "\u2028b\u0085",
    "a\tb",
    "\x00b",
    "üß",
    "aüb",
    "u\u0308ß",
    "\U0001f600",
    "\U0001f600\U0001f600",
    "a\U0001f600b\U0001f601b",
    " a b ",
    "x2e#-",
)

#: What clients may send, as bytes.
PAYLOADS: tuple[bytes, ...] = (
    b'{"a": 1, "b": "two", "c": true, "d": null, "e": {"f": [1, 2.5, "x", {"g": "deep"}]}}',
    b'{"a": 1.05, "b": "Two ", "c": "true", "e": {"f": []}}',
    b'{"a": -0.0, "b": "", "c": false, "e": []}',
    b'{"a": 1e400, "b": "1d", "c": "TRUE"}',
    b'{"a": 12345678901234567890123456789, "b": " 1", "c": "False"}',
    b'{"a": 1e-7, "b": "1_000", "c": 0}',
    b'{"a": 12345678.9, "b": "NaN", "c": []}',
    b'{"a": "17.50", "b": "Infinity", "c": {}}',
    b'{"a": "+3", "b": ".5", "c": "yes"}',
    b'{"a": "5.", "b": "0x10", "c": null}',
    b'{"a": 0.1, "b": "a\\u0000b"}',
    b'{"a": 0.30000000000000004, "b": "\\n"}',
    b'{"a": 9007199254740993, "b": "\\ud83d\\ude00"}',
    b'{"a": 2, "a": 3}',
    b'{"a": NaN, "b": "x"}',
    b"{'a': 1}",
    b'{"a": 01}',
    b'{"a": 1,}',
    b'{"a": 1} trailing',
    b'{"a": 1}{"a": 2}',
    b"1] x",
    b"1} x",
    b"1, 2",
    b'1, "a": 2',
    b'1, "a"',
    b"1,",
    b'{"e": {"f": ["null", null, "x", null]}}',
    b'  {"a": 4, "b" : "spaced"}  ',
    b'\xef\xbb\xbf{"a": 5}',
    b'{"a": "\xff\xfe"}',
    b"\xc3\x28",
    b"",
    b"   ",
    b"17",
    b'"just text"',
    b"null",
    b"true",
    b"[1, 2, 3]",
    b'[{"a": 1}]',
    b"not json",
    '{"a": "ünïcödé", "b": "ß İ ǆ Σας"}'.encode(),
    b'{"a": ' + b"[" * 200 + b"]" * 200 + b"}",
    b'{"a": ' + b'{"a": [' * 425 + b"]}" * 425 + b"}",
    b"[" * 5_000 + b"]" * 5_000,
    b'{"a": ' + b"9" * 400 + b"}",
    b'{"a": 1e99999}',
    b'{"a": "' + b"7" * 60 + b'"}',
    b'{"a": 7, "b": "it\'s", "c": true, "e": {"f": ["%", "_"]}}',
    b'{"a": 100, "b": "100%", "x y": "spaced", "e": {"f": [null, 1]}}',
    b'{"a": 2.5, "b": "back\\\\slash"}',
    b'{"a": 3.5, "b": "line\\nbreak"}',
    b'{"a": -2.5, "b": "tab\\t"}',
    b'{"a": 1e22, "b": "1e22"}',
    b'{"a": 1e28, "b": "1e27"}',
    b'{"a": 123456.7890123456, "b": "-1e-11"}',
    b'{"": 1, "b": {"": 2}}',
)

_TEXTS = (
    "payload.b",
    "payload.e.f[0]",
    "payload.e.f[2]",
    "payload.e.f[3].g",
    "payload.e",
    "payload.c",
    "payload.d",
    "payload['x y']",
    "payload",
    "headers.color",
    "channel",
    "user",
    "kind",
    "'two'",
    "''",
    "'it\\'s'",
    "null",
)
_NUMBERS = (
    "payload.a",
    "payload.e.f[1]",
    "payload.b",
    "1",
    "0",
    "-2.5",
    "1.05",
    "100",
    "1e10",
    "null",
)


def random_number(random: Random, depth: int) -> str:
    """An expression that gives a number."""
    if depth <= 0:
        return random.choice(_NUMBERS)
    inner = partial(random_number, random, depth - 1)
    return random.choice(
        (
            lambda: f"({inner()} + {inner()})",
            lambda: f"({inner()} - {inner()})",
            lambda: f"({inner()} * {inner()})",
            lambda: f"({inner()} / {inner()})",
            lambda: f"({inner()} % {inner()})",
            lambda: f"(- {inner()})",
            lambda: f"abs({inner()})",
            lambda: f"floor({inner()})",
            lambda: f"ceil({inner()})",
            lambda: f"round({inner()}, {random.randrange(5)})",
            lambda: f"cast({random_text(random, depth - 1)} as double)",
            lambda: f"length({random_text(random, depth - 1)})",
            lambda: f"coalesce({inner()}, {inner()}, 0)",
            lambda: f"if({random_boolean(random, depth - 1)}, {inner()} + 0, 7)",
        )
    )()


def random_text(random: Random, depth: int) -> str:
    """An expression that gives text."""
    if depth <= 0:
        return random.choice(_TEXTS)
    inner = partial(random_text, random, depth - 1)
    return random.choice(
        (
            lambda: f"lower({inner()})",
            lambda: f"upper({inner()})",
            lambda: f"({inner()} || {inner()})",
            lambda: f"coalesce({inner()}, 'none')",
            lambda: f"cast({random_number(random, depth - 1)} + 0 as string)",
            lambda: f"cast({random_boolean(random, depth - 1)} as string)",
            lambda: f"case when {random_boolean(random, depth - 1)} then {inner()} else 'no' end",
        )
    )()


def random_boolean(random: Random, depth: int) -> str:
    """A condition."""
    if depth <= 0:
        return random.choice(
            ("payload.c = true", "payload.a > 1", "channel = 'prices:eur'", "true")
        )
    inner = partial(random_boolean, random, depth - 1)
    number = partial(random_number, random, depth - 1)
    text = partial(random_text, random, depth - 1)
    sign = random.choice(("=", "<>", "<", "<=", ">", ">="))
    return random.choice(
        (
            lambda: f"({inner()} and {inner()})",
            lambda: f"({inner()} or {inner()})",
            lambda: f"(not {inner()})",
            lambda: f"({number()} + 0 {sign} {number()})",
            lambda: f"({text()} {sign} {text()})",
            lambda: f"({text()} is null)",
            lambda: f"({number()} is not null)",
            lambda: f"({text()} in ('two', 'true', {text()}))",
            lambda: f"({number()} between {number()} and 50)",
            lambda: (
                f"({text()} like {random.choice(('%o%', 't_o', '%', '', 'Two _', '%.%', '100%'))!r})"
            ),
        )
    )()
