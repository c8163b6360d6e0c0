"""Finds the patterns that cover a channel. Pure; a leaf without hub types.

Patterns whose wildcards are `#` segments and at most one `*` at the very end live in a trie over `:`
segments; topic paths in a dictionary looked up once per ancestor. The rest, globs, are found by what stands
before their first wildcard and then tried one by one. So a look-up costs what the channel's name is long, not
what others have subscribed to; only of globs that begin alike each is tried, and a hub bounds how many
that can be for any name (`loose_len`, `tried_len`).
"""

import re
from collections.abc import Iterator
from typing import Generic, TypeVar

from arauto.names import ancestors, compile_pattern, is_topic, literal_prefix

__all__ = ["Matcher", "is_loose", "is_tried"]

T = TypeVar("T")


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

    def of(self, text: str) -> list[T]:
        """The values whose prefix the text starts with."""
        by_prefix = self._by_prefix
        return [
            by_prefix[text[:size]]
            for size in self._lens
            if size <= len(text) and text[:size] in by_prefix
        ]


class _Globs(Generic[T]):
    """Globs by what stands before their first wildcard, compiled: what is tried again and again must not
    depend on how many others there are."""

    __slots__ = ("_alike", "_largest", "_sizes", "tried_len")

    def __init__(self) -> None:
        self._alike: _Prefixes[dict[str, tuple[re.Pattern[str], T]]] = _Prefixes()
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
        alike[pattern] = compile_pattern(pattern), value

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

    def of(self, channel: str) -> Iterator[tuple[str, T]]:
        for alike in self._alike.of(channel):
            for pattern, (compiled, value) in alike.items():
                if compiled.match(channel) is not None:
                    yield pattern, value

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


class _Node(Generic[T]):
    __slots__ = ("children", "ends", "tails")

    def __init__(self) -> None:
        self.children: dict[str, _Node[T]] = {}
        self.ends: tuple[str, T] | None = None
        """The pattern that ends exactly here."""
        self.tails: _Prefixes[tuple[str, T]] | None = None
        """Patterns that end here with `<prefix>*`, by prefix."""

    @property
    def is_bare(self) -> bool:
        return not self.children and self.ends is None and self.tails is None


class Matcher(Generic[T]):
    """A map from pattern to value, with look-up by channel."""

    __slots__ = ("_globs", "_patterns", "_root", "_topics")

    def __init__(self) -> None:
        self._patterns: dict[str, T] = {}
        self._root: _Node[T] = _Node()
        self._topics: dict[str, T] = {}
        self._globs: _Globs[T] = _Globs()

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

    def get(self, pattern: str) -> T | None:
        return self._patterns.get(pattern)

    def add(self, pattern: str, value: T) -> None:
        """Insert a well-formed pattern (names.check_pattern), replacing an equal one."""
        self._patterns[pattern] = value
        if is_topic(pattern):
            self._topics[pattern] = value
        elif _is_glob(pattern):
            self._globs.set(pattern, value)
        else:
            self._add_to_trie(pattern, value)

    def remove(self, pattern: str) -> None:
        """Remove a pattern; unknown ones are ignored."""
        if self._patterns.pop(pattern, None) is None:
            return
        if is_topic(pattern):
            del self._topics[pattern]
        elif _is_glob(pattern):
            self._globs.remove(pattern)
        else:
            self._prune(pattern.split(":"))

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
        self._collect(self._root, channel, 0, found)
        if len(self._globs):
            found.extend(self._globs.of(channel))
        return found

    def _add_to_trie(self, pattern: str, value: T) -> None:
        node = self._root
        parts = pattern.split(":")
        for part in parts[:-1]:
            node = node.children.setdefault(part, _Node())
        last = parts[-1]
        if not last.endswith("*"):
            node.children.setdefault(last, _Node()).ends = (pattern, value)
            return
        if node.tails is None:
            node.tails = _Prefixes()
        node.tails.set(last[:-1], (pattern, value))

    def _prune(self, parts: list[str]) -> None:
        path = [self._root]
        for part in parts[:-1]:
            path.append(path[-1].children[part])
        last = parts[-1]
        if last.endswith("*"):
            tails = path[-1].tails
            assert tails is not None
            tails.remove(last[:-1])
            if not len(tails):  # compiled, an object is true whatever its length
                path[-1].tails = None
            keys = parts[:-1]
        else:
            path.append(path[-1].children[last])
            path[-1].ends = None
            keys = parts
        for depth in range(len(keys), 0, -1):
            if not path[depth].is_bare:
                break
            del path[depth - 1].children[keys[depth - 1]]

    def _collect(
        self, node: _Node[T], channel: str, start: int, found: list[tuple[str, T]]
    ) -> None:
        end = channel.find(":", start)
        segment = channel[start:] if end == -1 else channel[start:end]
        if node.tails is not None:
            # A prefix before a star holds no colon, so it lies within the segment.
            found.extend(node.tails.of(segment))
        if not node.children:
            return
        for key in (segment, "#"):
            child = node.children.get(key)
            if child is None or (key == "#" and not segment):
                continue
            if end == -1:
                if child.ends is not None:
                    found.append(child.ends)
            else:
                self._collect(child, channel, end + 1, found)


def _is_glob(pattern: str) -> bool:
    stars = pattern.count("*")
    return stars > 1 or (stars == 1 and not pattern.endswith("*"))


def is_tried(pattern: str) -> bool:
    """Whether a pattern is compiled, and has to be tried for every name that begins as it does."""
    return not is_topic(pattern) and _is_glob(pattern)


def is_loose(pattern: str) -> bool:
    """Whether a pattern has to be tried for every name, since nothing is known of how they start."""
    return is_tried(pattern) and not literal_prefix(pattern)
