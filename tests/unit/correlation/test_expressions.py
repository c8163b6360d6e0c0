"""Expressions: what they give, what SQL they become, and what is refused."""

import json
import sys
from typing import Any

import pytest

from arauto.correlation.coercion import ExpressionError
from arauto.correlation.expression import Value, walk
from arauto.correlation.interpreter import evaluate, json_of
from arauto.correlation.parsing import parse
from arauto.correlation.scope import Scope

TEXT = (
    '{"s": "Ab", "n": 2.5, "i": 7, "neg": -3, "t": true, "z": null, "zero": 0, "o": {"k": ["x", {"y": 1}]},'
    ' "word": "1d", "under": "1_0", "space": " 1", "odd name": "o", "num": "12.50"}'
)
ROW: dict[str, Any] = {
    "hub": "shop",
    "channel": "prices:eur",
    "user": "ana",
    "session": "s1",
    "kind": 1,
    "content_type": "application/json",
    "id": "m1",
    "key": "",
    "headers": {"x-a": "b"},
    "text": TEXT,
    "json": json_of(TEXT),
}


def value(expression: str, **columns: Any) -> Value:
    return evaluate(parse(expression, Scope()), {**ROW, **columns})


@pytest.mark.parametrize("levels", [1, 340, 500, 900, 999, 1000, 100_000])
@pytest.mark.parametrize(("opening", "closing"), [("[", "]"), ('{"a":', "}")])
def test_json_of_any_depth_is_text_or_null(levels: int, opening: str, closing: str) -> None:
    deep = opening * levels + "1" + closing * levels
    text = f'{{"deep":{deep}}}'
    # The row says that it is JSON also where the interpreter has no room to parse it.
    expected = (deep,) if levels < 600 else (deep, None) if levels < 1000 else (None,)
    assert value("payload.deep", text=text, json=text) in expected
    assert json_of(text) in (
        (text,) if levels < 600 else (text, None) if levels < 1000 else (None,)
    )


def test_a_python_that_could_read_deeper_does_not() -> None:
    """As 3.12 and later can, and Spark cannot."""
    limit = sys.getrecursionlimit()
    sys.setrecursionlimit(20_000)
    try:
        assert json_of("[" * 1000 + "]" * 1000) is not None
        assert json_of("[" * 1001 + "]" * 1001) is None
    finally:
        sys.setrecursionlimit(limit)


def test_brackets_side_by_side_or_in_strings_are_not_depth() -> None:
    for text in (f"[{'[],' * 2000}1]", json.dumps("[" * 2000), json.dumps('\\"[' * 2000)):
        assert json_of(text) == text


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("payload.s", "Ab"),
        ("payload.n", "2.5"),
        ("payload.i", "7"),
        ("payload.t", "true"),
        ("payload.z", None),
        ("payload.missing", None),
        ("payload.o.k[0]", "x"),
        ("payload.o.k[1].y", "1"),
        ("payload.o.k[9]", None),
        ("payload.o.k.y", None),
        ("payload.o", '{"k":["x",{"y":1}]}'),
        ("payload['odd name']", "o"),
        ("payload.`odd name`", "o"),
        ("headers['x-a']", "b"),
        ("headers.nothing", None),
        ("kind", "message"),
        ("payload.n > 2", True),
        ("payload.n = 2.50", True),
        ("payload.num = 12.5", True),
        ("payload.num = '12.5'", False),
        ("payload.t = true", True),
        ("payload.word > 0", None),
        ("payload.under > 0", None),
        ("payload.space > 0", None),
        ("payload.s > 0", None),
        ("not (payload.s > 0)", None),
        ("payload.s > 0 or true", True),
        ("payload.s > 0 and false", False),
        ("payload.s > 0 and true", None),
        ("payload.s > 0 or false", None),
        ("payload.z is null", True),
        ("payload.s is not null", True),
        ("1 / payload.zero", None),
        ("7 % payload.zero", None),
        ("payload.neg % 2", -1.0),
        ("payload.i - 2 * 3", 1.0),
        ("-payload.i", -7.0),
        ("channel in ('a', 'prices:eur')", True),
        ("payload.z in ('a')", None),
        ("payload.s in ('a', payload.z)", None),
        ("payload.s in ('Ab', payload.z)", True),
        ("payload.s not in ('a')", True),
        ("payload.i between 7 and 8", True),
        ("payload.i not between 7 and 8", False),
        ("payload.i between payload.z and 6", False),
        ("channel like 'prices:_ur'", True),
        ("channel like 'p%s:%'", True),
        ("channel like '%.%'", False),
        ("channel not like 'x%'", True),
        ("payload.z like 'x%'", None),
        ("lower(payload.s) || upper('x')", "abX"),
        ("payload.z || 'x'", None),
        ("length(payload.s)", 2.0),
        ("coalesce(payload.z, payload.s)", "Ab"),
        ("coalesce(payload.z, 1)", 1.0),
        ("abs(payload.neg)", 3.0),
        ("round(2.5)", 3.0),
        ("round(-2.5)", -3.0),
        ("round(1.005, 2)", 1.01),
        ("floor(-2.5)", -3.0),
        ("ceil(2.1)", 3.0),
        ("floor(1e18 * 1e18)", None),
        ("if(payload.i > 5, 'big', 'small')", "big"),
        ("if(payload.z > 5, 'big', 'small')", "small"),
        ("case when payload.i = 1 then 'one' when payload.i = 7 then 'seven' end", "seven"),
        ("case when false then 1 end", None),
        ("cast(payload.i as string) = '7'", True),
        ("cast(7 as string)", "7"),
        ("cast(0.1 + 0.2 as string)", "0.3"),
        ("cast(-0.0 as string)", "0"),
        ("cast(1e18 * 1e18 as string)", None),
        ("cast(true as string)", "true"),
        ("cast('TRUE' as boolean)", True),
        ("cast('yes' as boolean)", None),
        ("cast('1e3' as double)", 1000.0),
        ("cast('+.5' as double)", 0.5),
        ("cast('1.' as double)", 1.0),
        ("cast('' as double)", None),
        ("cast('1\\n' as double)", None),
        ("cast('NaN' as double)", None),
        ("cast('\u0661' as double)", None),
        ("cast('1e999' as double) > 1e18", True),
        ("'b' > 'a'", True),
        ("null = 1", None),
    ],
)
def test_an_expression_gives(text: str, expected: Value) -> None:
    found = value(text)
    assert found == expected
    assert type(found) is type(expected)


def test_numbers_that_are_none_are_ordered_as_spark_orders_them() -> None:
    infinity = "cast('1e999' as double)"
    assert value(f"{infinity} - {infinity} > {infinity}") is True
    assert value(f"{infinity} - {infinity} = {infinity} - {infinity}") is True


@pytest.mark.parametrize(
    "text", ["{", "[1,]", '{"a": 1, "a": 2}', "NaN", "", "{'a': 1}", "[" * 100_000]
)
def test_text_that_is_not_json_has_no_paths(text: str) -> None:
    assert json_of(text) is None
    assert value("payload.a", text=text, json=json_of(text)) is None
    assert value("payload", text=text) == text


def test_a_payload_with_a_number_of_more_digits_than_python_reads_has_no_paths() -> None:
    for digits, is_json in ((4_300, True), (4_301, False)):
        number = "7" * digits
        sent = f'{{"n": {number}, "other": 1}}'
        columns = {"text": sent, "json": json_of(sent)}
        assert value("payload.n", **columns) == (number if is_json else None)
        assert value("payload.other", **columns) == ("1" if is_json else None)


@pytest.mark.parametrize(
    ("number", "text"),
    [
        ("1.5", "1.5"),
        ("38.70", "38.7"),
        ("1795066120.4674747", "1795066120.4674747"),
        ("12345678.9", "12345678.9"),
        ("0.0001", "0.0001"),
        ("0.000001", "0.000001"),
        ("0.00000012", "1.2e-7"),
        ("-1e-7", "-1e-7"),
        ("7.0", "7"),
        ("1e3", "1000"),
        ("1.5e20", "150000000000000000000"),
        ("-1e20", "-100000000000000000000"),
        ("1e21", "1e+21"),
        ("1.25e300", "1.25e+300"),
        ("-0", "0"),
        ("-0.0", "0"),
        ("9007199254740993", "9007199254740993"),
        ("12345678901234567890123456789", "12345678901234567890123456789"),
        ("1e400", None),
        ("-1e400", None),
    ],
)
def test_a_number_of_a_payload_gives_its_digits(number: str, text: str | None) -> None:
    sent = f'{{"n": {number}, "items": [{number}], "deep": {{"n": {number}}}}}'
    columns = {"text": sent, "json": json_of(sent)}
    assert value("payload.n", **columns) == text
    assert value("payload.items[0]", **columns) == text
    assert value("payload.deep", **columns) == f'{{"n":{text or "null"}}}'
    # What it gives as text is the same number again.
    assert value("cast(payload.n as double)", **columns) == (float(number) if text else None)


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("", "not empty"),
        ("x", "x is not known here"),
        ("chan = 'a'", "did you mean channel?"),
        ("payload.a = ", "cannot be read: a part is missing"),
        ("payload.a = )", "cannot be read: "),
        ("channel > 5", "> mixes a number and text"),
        ("channel + 1", "+ needs a number, not text"),
        ("lower(5)", "lower needs text, not a number"),
        ("not 5", "not needs true or false, not a number"),
        ("true > false", "does not compare true with false"),
        ("cast(5 as boolean)", "a number cannot be cast to boolean"),
        ("cast(true as double)", "cannot be cast to a number"),
        ("cast(channel as date)", "cast takes double, string or boolean"),
        ("if(true, 1, 'a')", "case mixes a number and text"),
        ("(select 1)", "subquery is not allowed"),
        ("channel in (select 1)", "is not allowed"),
        ("exists(select 1)", "is not allowed"),
        ("channel rlike '(a+)+'", "regexplike is not allowed"),
        ("java_method('a', 'b')", "is not a function"),
        ("reflect('java.lang.Runtime', 'exit')", "is not a function"),
        ("current_timestamp()", "is not allowed"),
        ("user = 'a'; drop table x", "is not allowed"),
        ("user = 'it''s'", "write \\' for a quote"),
        ("user u", "alias is not allowed"),
        ("base(payload.p)", "a hold that says base: last_stable"),
        ("base.p", "a hold that says base: last_stable"),
        ("bases(payload.p)", "bases() is not a function"),
        ("count()", "count is not known here"),
        ("channel.x", "channel has no parts"),
        ("headers.a.b", "a header is written headers.name"),
        ("payload['a\\'b']", "a name in a path has no quotes"),
        ("payload['*']", "a name in a path has no quotes"),
        ("payload[-1]", "only names can have parts"),
        ("payload.a[99999]", "only names can have parts"),
        ("round(1.5, 99)", "round takes 0 to 10"),
        ("channel like user", "like takes a pattern in quotes"),
        ("channel like '%a%b%c%d%'", "a pattern of like has at most"),
        ("1e300 > 1", "numbers go up to 1e18"),
        ("'a' is true", "is takes null"),
        ("(" * 33 + "1" + ")" * 33, "nested more than 32"),
        ("not " * 40 + "true", "nested more than 32"),
        ("1" + " + 1" * 499, "longer than 1000 characters"),
    ],
)
def test_what_is_not_allowed_is_refused(text: str, said: str) -> None:
    with pytest.raises(ExpressionError) as caught:
        parse(text, Scope())
    assert said in caught.value.message


def test_names_cannot_be_used_to_grow_an_expression_without_end() -> None:
    lets = {"a0": parse("payload.x", Scope())}
    lets["a1"] = parse(f"coalesce({', '.join(['a0'] * 200)})", Scope(lets=lets))
    assert len(walk(lets["a1"])) == 201
    assert parse("a1 || a1", Scope(lets=lets))
    with pytest.raises(ExpressionError, match="more than 500 parts or 64 levels"):
        parse("a1 || a1 || a1", Scope(lets=lets))
