"""The query of a URL: read so that no name in it turns into another. Pure.

Whatever is not UTF-8 is refused, since its replacement could be somebody's name, and so is a switch that is
neither on nor off, and a field of which one value counts and that comes twice: whoever stands before us may
take the other one.
"""

from urllib.parse import parse_qs

from arauto.errors import ArautoError, Code

__all__ = ["is_strict", "last", "read_query"]

#: Others may come more than once, or mean something to a later version.
_SINGLE = ("hub", "token", "strict", "lastEventId")
_SWITCH = {"true": True, "1": True, "false": False, "0": False}


def read_query(query: bytes, fields_len_max: int) -> dict[str, list[str]]:
    """The values by field, empty ones too.

    Raises:
        ArautoError: BAD_FIELD.
    """
    try:
        found = parse_qs(
            query.decode(), keep_blank_values=True, errors="strict", max_num_fields=fields_len_max
        )
    except UnicodeDecodeError:
        raise ArautoError(Code.BAD_FIELD, "the query must be UTF-8", field="query") from None
    except ValueError:
        raise ArautoError(Code.BAD_FIELD, "the query has too many fields", field="query") from None
    for field in _SINGLE:
        if len(found.get(field, ())) > 1:
            raise ArautoError(Code.BAD_FIELD, "must be given once", field=field)
    return found


def last(query: dict[str, list[str]], field: str) -> str:
    """The value, of several the last; "" if there is none."""
    return query.get(field, [""])[-1]


def is_strict(query: dict[str, list[str]]) -> bool:
    """Whether the client wants every field refused that this version does not know.

    Raises:
        ArautoError: BAD_FIELD.
    """
    if "strict" not in query:
        return False
    found = _SWITCH.get(last(query, "strict"))
    if found is None:
        raise ArautoError(Code.BAD_FIELD, "give true or 1, false or 0", field="strict")
    return found
