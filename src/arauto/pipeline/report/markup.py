"""HTML that cannot be broken from inside: text is escaped unless this module made it. Pure."""

from html import escape

from arauto.printable import printable

__all__ = ["Markup", "el", "joined"]

_VOID = frozenset({"br", "col", "line", "meta", "path", "rect", "circle"})


class Markup(str):
    """Text that is HTML already. Only `el` and `joined` make it, and who writes it out by hand."""

    __slots__ = ()


def el(name: str, /, *children: str, **attributes: str | int | float | None) -> Markup:
    """An element. Children that are not markup are escaped, and so is every attribute: what would act on the
    page as HTML, and what would turn the text around or hide it.

    `class_` is written `class`, `aria_label` is `aria-label`; an attribute that is None is left out.
    """
    said = "".join(
        f' {key.rstrip("_").replace("_", "-")}="{escape(printable(str(value)))}"'
        for key, value in attributes.items()
        if value is not None
    )
    if name in _VOID and not children:
        return Markup(f"<{name}{said}/>" if name != "meta" else f"<{name}{said}>")
    return Markup(f"<{name}{said}>{joined(*children)}</{name}>")


def joined(*children: str) -> Markup:
    """Children after one another."""
    return Markup("".join(c if isinstance(c, Markup) else escape(printable(c)) for c in children))
