"""Finds the patterns that cover a channel. Pure; a leaf without hub types.

Looked up are patterns whose one wildcard is a `*` at the very end, by what stands before it; topic paths,
once per ancestor; and patterns of `#` segments, which may end with a `*` too, by their form, which is where
the `#` stand. The rest, globs, are found by what stands before their first wildcard and then tried one by
one. So a look-up costs what the channel's name is long, not what others have subscribed to; only forms, and
of globs those that begin alike, are gone through, and a hub bounds how many that can be for any name
(`forms_len`, `loose_len`, `tried_len`). What it took is counted in `effort`.
"""

from collections.abc import Callable, Iterator, Mapping
from functools import partial
from typing import Any, Final, Generic, NamedTuple, TypeVar

from arauto.names import ancestors, compiled, fits, is_topic, literal_prefix

__all__ = ["Matcher", "is_compiled", "is_loose", "is_tried", "trying_steps"]

T = TypeVar("T")

#: One step more for so many segments of a name that is made into what patterns of a form would have to be.
_SEGMENTS_PER_STEP = 16
#: One step more for so many prefixes of a name that are looked up.
_PREFIXES_PER_STEP = 2
#: What trying a pattern takes grows with its length times the name's: one step more for so much of that.
_TRYING_SHIFT = 12
#: How much more it takes if the pattern is compiled: in general, and in characters of its length.
_COMPILED_FACTOR, _COMPILED_LEN = 4, 512

_NONE: Final[Mapping[Any, Any]] = {}


class _Prefixes(Generic[T]):
    """Values by prefix. Looked up once per length that any of them has."""

    __slots__ = ("_by_prefix", "_lens")

    def __init__(self) -> None:
        self._by_prefix: dict[str, T] = {}
        self._lens: dict[int, int] = {}

    def __len__(self) -> int:
        return len(self._by_prefix)

    def get(self, prefix: str) -> T | None:
        return self._by_prefix.get(prefix)

    def set(self, prefix: str, value: T) -> None:
        if prefix not in self._by_prefix:
            self._lens[len(prefix)] = self._lens.get(len(prefix), 0) + 1
        self._by_prefix[prefix] = value

    def remove(self, prefix: str) -> None:
        del self._by_prefix[prefix]
        self._lens[len(prefix)] -= 1
        if not self._lens[len(prefix)]:
            del self._lens[len(prefix)]

    @property
    def steps(self) -> int:
        """What `of` takes for a long text."""
        return len(self._lens) // _PREFIXES_PER_STEP

    def of(self, text: str) -> list[T]:
        """The values whose prefix the text starts with."""
        by_prefix = self._by_prefix
        return [
            by_prefix[text[:size]]
            for size in self._lens
            if size <= len(text) and text[:size] in by_prefix
        ]


class _Globs(Generic[T]):
    """Globs by what stands before their first wildcard, each with what tries it: what is done again and again
    must not depend on how many others there are."""

    __slots__ = ("_alike", "_largest", "_sizes", "tried_len")

    def __init__(self) -> None:
        self._alike: _Prefixes[dict[str, tuple[str, Callable[[str], object], int, T]]] = _Prefixes()
        self._sizes: dict[int, dict[int, int]] = {}
        """By length of prefix: how many prefixes have so many globs."""
        self._largest: dict[int, int] = {}
        """By length of prefix: the most globs that any of them has."""
        self.tried_len = 0
        """The sum of those: no name begins with more than one prefix of each length."""

    def __len__(self) -> int:
        return len(self._alike)

    def count(self, prefix: str) -> int:
        return len(self._alike.get(prefix) or ())

    def set(self, pattern: str, value: T) -> None:
        prefix = literal_prefix(pattern)
        alike = self._alike.get(prefix)
        if alike is None:
            alike = {}
            self._alike.set(prefix, alike)
        if pattern not in alike:
            self._resize(len(prefix), len(alike), len(alike) + 1)
        alike[pattern] = _ending(pattern), _tester(pattern), _weight(pattern), value

    def remove(self, pattern: str) -> None:
        prefix = literal_prefix(pattern)
        alike = self._alike.get(prefix) or {}
        del alike[pattern]
        self._resize(len(prefix), len(alike) + 1, len(alike))
        if not alike:
            self._alike.remove(prefix)

    def tried_len_with(self, prefix: str) -> int:
        """What `tried_len` will be with one more glob of that prefix."""
        return self.tried_len + (self.count(prefix) >= self._largest.get(len(prefix), 0))

    def of(self, channel: str, found: list[tuple[str, T]]) -> int:
        """Add what covers the channel; the steps that took."""
        size = len(channel)
        steps = self._alike.steps
        for alike in self._alike.of(channel):
            steps += len(alike)
            for pattern, (ending, covers, weight, value) in alike.items():
                if channel.endswith(ending):
                    steps += weight * size >> _TRYING_SHIFT
                    if covers(channel):
                        found.append((pattern, value))
        return steps

    def _resize(self, length: int, before: int, after: int) -> None:
        sizes = self._sizes.setdefault(length, {})
        if before:
            sizes[before] -= 1
            if not sizes[before]:
                del sizes[before]
        if after:
            sizes[after] = sizes.get(after, 0) + 1
        largest = self._largest.get(length, 0)
        if after > largest or (before == largest and before not in sizes):
            # Who was the largest alone and shrank is the largest still, or one of them.
            self.tried_len += after - largest
            self._largest[length] = after
        if not sizes:
            del self._sizes[length], self._largest[length]


class _Form(NamedTuple):
    """What patterns have in common whose `#` stand in the same places."""

    segments_len: int
    holes: tuple[int, ...]
    """The places of the `#`."""
    tail_len: int
    """Of patterns that end with a star: how much of the last segment stands before it; else -1."""


def _form_of(pattern: str) -> _Form:
    parts = pattern.split(":")
    holes = tuple(index for index, part in enumerate(parts) if part == "#")
    return _Form(len(parts), holes, len(parts[-1]) - 1 if pattern.endswith("*") else -1)


class _Forms(Generic[T]):
    """Patterns of `#`, and perhaps a star at the very end, by form. A name is made into what a pattern of the
    form would have to be, and that is looked up: so a form costs a step, however many patterns have it."""

    __slots__ = ("_by_len", "_starred")

    def __init__(self) -> None:
        self._by_len: dict[int, dict[_Form, dict[str, T]]] = {}
        """Those without a star, by their number of segments."""
        self._starred: dict[_Form, dict[str, T]] = {}

    def __len__(self) -> int:
        return len(self._starred) + sum(map(len, self._by_len.values()))

    def __contains__(self, form: _Form) -> bool:
        return form in self._alike(form)

    def set(self, pattern: str, value: T) -> None:
        form = _form_of(pattern)
        if form.tail_len < 0:
            self._by_len.setdefault(form.segments_len, {}).setdefault(form, {})[pattern] = value
        else:
            self._starred.setdefault(form, {})[pattern] = value

    def remove(self, pattern: str) -> None:
        form = _form_of(pattern)
        forms = self._alike(form)
        del forms[form][pattern]
        if not forms[form]:
            del forms[form]
        if not forms and form.tail_len < 0:
            del self._by_len[form.segments_len]

    def of(self, name: str, found: list[tuple[str, T]]) -> int:
        """Add what covers the name; the steps that took."""
        parts = name.split(":")
        cost = 1 + len(parts) // _SEGMENTS_PER_STEP
        steps = 0
        for form, alike in self._by_len.get(len(parts), _NONE).items():
            steps += cost
            key = parts.copy()
            for hole in form.holes:
                if not parts[hole]:
                    break
                key[hole] = "#"
            else:
                _find(alike, ":".join(key), found)
        for form, alike in self._starred.items():
            steps += 1
            if form.segments_len > len(parts):
                continue
            steps += cost
            head = parts[: form.segments_len - 1]
            rest = ":".join(parts[form.segments_len - 1 :])
            for hole in form.holes:
                if not head[hole]:
                    break
                head[hole] = "#"
            else:
                # What stands before a star holds no colon, so it lies within the segment.
                head.append(rest[: form.tail_len] + "*")
                _find(alike, ":".join(head), found)
        return steps

    def _alike(self, form: _Form) -> dict[_Form, dict[str, T]]:
        return self._starred if form.tail_len >= 0 else self._by_len.get(form.segments_len, {})


def _find(alike: dict[str, T], pattern: str, found: list[tuple[str, T]]) -> None:
    value = alike.get(pattern)
    if value is not None:
        found.append((pattern, value))


class Matcher(Generic[T]):
    """A map from pattern to value, with look-up by channel."""

    __slots__ = ("_forms", "_globs", "_patterns", "_prefixes", "_topics", "effort")

    def __init__(self) -> None:
        self._patterns: dict[str, T] = {}
        self._topics: dict[str, T] = {}
        self._prefixes: _Prefixes[tuple[str, T]] = _Prefixes()
        self._forms: _Forms[T] = _Forms()
        self._globs: _Globs[T] = _Globs()
        self.effort = 0
        """The steps that all looking up took so far, of about a quarter of a microsecond each."""

    def __len__(self) -> int:
        return len(self._patterns)

    def __contains__(self, pattern: str) -> bool:
        return pattern in self._patterns

    def __iter__(self) -> Iterator[str]:
        return iter(self._patterns)

    @property
    def loose_len(self) -> int:
        """How many patterns have to be tried for every name."""
        return self._globs.count("")

    @property
    def tried_len(self) -> int:
        """No more patterns than this have to be tried for any one name."""
        return self._globs.tried_len

    def tried_len_with(self, pattern: str) -> int:
        """What `tried_len` will be with one more pattern."""
        if pattern in self._patterns or not is_tried(pattern):
            return self._globs.tried_len
        return self._globs.tried_len_with(literal_prefix(pattern))

    @property
    def forms_len(self) -> int:
        """No more forms than this are gone through for any one name."""
        return len(self._forms)

    def forms_len_with(self, pattern: str) -> int:
        """What `forms_len` will be with one more pattern."""
        is_new = "#" in pattern and not is_tried(pattern) and _form_of(pattern) not in self._forms
        return len(self._forms) + is_new

    def get(self, pattern: str) -> T | None:
        return self._patterns.get(pattern)

    def add(self, pattern: str, value: T) -> None:
        """Insert a well-formed pattern (names.check_pattern), replacing an equal one."""
        self._patterns[pattern] = value
        if is_topic(pattern):
            self._topics[pattern] = value
        elif _is_glob(pattern):
            self._globs.set(pattern, value)
        elif "#" in pattern:
            self._forms.set(pattern, value)
        else:
            self._prefixes.set(pattern[:-1], (pattern, value))

    def remove(self, pattern: str) -> None:
        """Remove a pattern; unknown ones are ignored."""
        if self._patterns.pop(pattern, None) is None:
            return
        if is_topic(pattern):
            del self._topics[pattern]
        elif _is_glob(pattern):
            self._globs.remove(pattern)
        elif "#" in pattern:
            self._forms.remove(pattern)
        else:
            self._prefixes.remove(pattern[:-1])

    def match(self, channel: str) -> list[tuple[str, T]]:
        """Every (pattern, value) that covers the channel."""
        if is_topic(channel):
            found = [
                (topic, self._topics[topic])
                for topic in (*ancestors(channel), channel)
                if topic in self._topics
            ]
        else:
            found = []
        steps = 1
        if len(self._prefixes):
            steps += self._prefixes.steps
            found.extend(self._prefixes.of(channel))
        if len(self._forms):
            steps += self._forms.of(channel, found)
        if len(self._globs):
            steps += self._globs.of(channel, found)
        self.effort += steps
        return found


def _is_glob(pattern: str) -> bool:
    stars = pattern.count("*")
    return stars > 1 or (stars == 1 and not pattern.endswith("*"))


def is_tried(pattern: str) -> bool:
    """Whether a pattern has to be tried for every name that begins as it does."""
    return not is_topic(pattern) and _is_glob(pattern)


def is_loose(pattern: str) -> bool:
    """Whether a pattern has to be tried for every name, since nothing is known of how they start."""
    return is_tried(pattern) and not literal_prefix(pattern)


def is_compiled(pattern: str) -> bool:
    """Whether a pattern has to be compiled before it can be tried."""
    return is_tried(pattern) and "#" in pattern


def trying_steps(pattern: str, chars: int) -> int:
    """What trying a pattern for names of so many characters takes, as counted in `Matcher.effort`, beside a
    step for each."""
    return _weight(pattern) * chars >> _TRYING_SHIFT


def _tester(pattern: str) -> Callable[[str], object]:
    if "#" in pattern:
        return compiled(pattern).match
    return partial(fits, pattern.split("*"))


def _ending(pattern: str) -> str:
    """What every name that a pattern covers ends with: all behind its last wildcard."""
    return pattern[max(pattern.rfind("*"), pattern.rfind("#")) + 1 :]


def _weight(pattern: str) -> int:
    size = len(pattern)
    return _COMPILED_FACTOR * size + _COMPILED_LEN if "#" in pattern else size
