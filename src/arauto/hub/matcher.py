"""Finds the patterns that cover a channel. Pure; a leaf without hub types.

Patterns whose wildcards are `#` segments and at most one `*` at the very end live in a trie over `:`
segments; topic paths in a dictionary looked up once per ancestor; the rare rest in a list tried one by one.
Results are cached by the caller per channel and dropped when `generation` changes.
"""

from collections.abc import Iterator
from typing import Generic, TypeVar

from arauto.names import ancestors, is_topic, matches

__all__ = ["Matcher"]

T = TypeVar("T")


class _Node(Generic[T]):
    __slots__ = ("children", "ends", "tails")

    def __init__(self) -> None:
        self.children: dict[str, _Node[T]] = {}
        self.ends: tuple[str, T] | None = None
        """The pattern that ends exactly here."""
        self.tails: dict[str, tuple[str, T]] = {}
        """Patterns that end here with `<prefix>*`, by prefix."""


class Matcher(Generic[T]):
    """A map from pattern to value, with look-up by channel. `generation` grows with every change."""

    __slots__ = ("_odd", "_patterns", "_root", "_topics", "generation")

    def __init__(self) -> None:
        self._patterns: dict[str, T] = {}
        self._root: _Node[T] = _Node()
        self._topics: dict[str, T] = {}
        self._odd: dict[str, T] = {}
        self.generation = 0

    def __len__(self) -> int:
        return len(self._patterns)

    def __contains__(self, pattern: str) -> bool:
        return pattern in self._patterns

    def __iter__(self) -> Iterator[str]:
        return iter(self._patterns)

    def get(self, pattern: str) -> T | None:
        return self._patterns.get(pattern)

    def add(self, pattern: str, value: T) -> None:
        """Insert a well-formed pattern (names.check_pattern), replacing an equal one."""
        self.generation += 1
        self._patterns[pattern] = value
        if is_topic(pattern):
            self._topics[pattern] = value
        elif _is_odd(pattern):
            self._odd[pattern] = value
        else:
            node, tail = self._walk(pattern)
            if tail is None:
                node.ends = (pattern, value)
            else:
                node.tails[tail] = (pattern, value)

    def remove(self, pattern: str) -> None:
        """Remove a pattern; unknown ones are ignored."""
        if self._patterns.pop(pattern, None) is None:
            return
        self.generation += 1
        if is_topic(pattern):
            del self._topics[pattern]
        elif _is_odd(pattern):
            del self._odd[pattern]
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
        if self._odd:
            found.extend((p, v) for p, v in self._odd.items() if matches(p, channel))
        return found

    def _walk(self, pattern: str) -> tuple[_Node[T], str | None]:
        node = self._root
        parts = pattern.split(":")
        for part in parts[:-1]:
            node = node.children.setdefault(part, _Node())
        last = parts[-1]
        if last.endswith("*"):
            return node, last[:-1]
        return node.children.setdefault(last, _Node()), None

    def _prune(self, parts: list[str]) -> None:
        path = [self._root]
        for part in parts[:-1]:
            path.append(path[-1].children[part])
        last = parts[-1]
        if last.endswith("*"):
            del path[-1].tails[last[:-1]]
            keys = parts[:-1]
        else:
            path.append(path[-1].children[last])
            path[-1].ends = None
            keys = parts
        for depth in range(len(keys), 0, -1):
            node = path[depth]
            if node.children or node.tails or node.ends is not None:
                break
            del path[depth - 1].children[keys[depth - 1]]

    def _collect(
        self, node: _Node[T], channel: str, start: int, found: list[tuple[str, T]]
    ) -> None:
        for prefix, hit in node.tails.items():
            if channel.startswith(prefix, start):
                found.append(hit)
        if not node.children:
            return
        end = channel.find(":", start)
        segment = channel[start:] if end == -1 else channel[start:end]
        for key in (segment, "#"):
            child = node.children.get(key)
            if child is None or (key == "#" and not segment):
                continue
            if end == -1:
                if child.ends is not None:
                    found.append(child.ends)
            else:
                self._collect(child, channel, end + 1, found)


def _is_odd(pattern: str) -> bool:
    stars = pattern.count("*")
    return stars > 1 or (stars == 1 and not pattern.endswith("*"))
