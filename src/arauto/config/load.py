"""From a file and the environment to a `Config`, or to everything that is wrong with them.

`load` is for the node, `examine` for tools that show problems to people. Neither changes anything.
"""

import errno
from collections.abc import Iterator, Mapping
from pathlib import Path

import msgspec

from arauto.config.build import build
from arauto.config.checks import Finding, check
from arauto.config.environment import CONFIG_VARIABLE, overlay, variables
from arauto.config.kinds import is_reserved
from arauto.config.paths import at_home
from arauto.config.problems import ConfigError, Place, Problem
from arauto.config.schema import Config
from arauto.config.source import FILE_BYTES_MAX, Located, parse_yaml

__all__ = ["DEFAULT_FILE", "Report", "examine", "find_file", "load"]

DEFAULT_FILE = "config.yaml"


class Report(msgspec.Struct, frozen=True):
    """What a look at a configuration brought to light."""

    config: Config
    """Complete only if there are no problems."""
    problems: tuple[Problem, ...]
    warnings: tuple[Problem, ...]
    text: str = ""
    """The file's text, for showing lines of it; it may contain secrets."""


def find_file(environ: Mapping[str, str]) -> Path | None:
    """Return the file to use when none was named: `ARAUTO_CONFIG`, or `config.yaml` if it is there."""
    named = environ.get(CONFIG_VARIABLE)
    if named:
        return at_home(named)
    return Path(DEFAULT_FILE) if Path(DEFAULT_FILE).is_file() else None


def load(path: Path | None, environ: Mapping[str, str]) -> Config:
    """Read the configuration.

    Args:
        path: the YAML file; None = defaults and environment only.
        environ: the environment variables; those that start with `ARAUTO_` override the file.

    Raises:
        ConfigError: BAD_CONFIG, with every problem found.
    """
    report = examine(path, environ)
    if report.problems:
        raise ConfigError(report.problems)
    return report.config


def examine(path: Path | None, environ: Mapping[str, str]) -> Report:
    """Read the configuration and report on it instead of raising."""
    file = "" if path is None else str(path)
    located, text = Located({}, Place(file)), ""
    problems: list[Problem] = []
    if path is not None:
        try:
            data = _read(at_home(path))
        except OSError as error:
            why = _REASONS.get(error.errno or 0, "cannot be read")
            return Report(Config(), (Problem(Place(file), "", why),), ())
        text = data.decode(errors="replace")
        located, problems = parse_yaml(data, file)
    located, more = overlay(Config, located, environ)
    problems += more
    config, more = build(Config, located)
    problems += more
    wrong = {problem.path for problem in problems}
    warnings: list[Problem] = []
    for finding in check(config):
        if not any(_overlaps(path, wrong) for path in finding.paths):
            target = warnings if finding.warning else problems
            target.append(_problem(finding, located))
    warnings += _reserved_but_set(located)
    return Report(config, tuple(_sorted(problems)), tuple(_sorted(warnings)), text)


_REASONS = {
    errno.ENOENT: "no such file",
    errno.EISDIR: "is a directory, not a file",
    errno.EACCES: "may not be read by this user",
}


def _read(path: Path) -> bytes:
    with path.open("rb") as file:
        return file.read(FILE_BYTES_MAX + 1)


def _overlaps(path: str, wrong: set[str]) -> bool:
    """Whether the field, or a group it belongs to, was already found wrong."""
    parts = path.replace("[", ".[").split(".")
    return any(".".join(parts[:i]).replace(".[", "[") in wrong for i in range(1, len(parts) + 1))


def _problem(finding: Finding, located: Located) -> Problem:
    path = finding.paths[0]
    secret = path.rpartition(".")[2] in ("secret", "token", "password")
    for each in finding.paths[: 1 if finding.missing else None]:
        place, is_there = _place(located, each)
        if is_there:
            return Problem(place, path, finding.message, secret)
    place, _ = _place(located, path)
    return Problem(place, path, finding.message, secret, absent=True)


def _place(located: Located, path: str) -> tuple[Place, bool]:
    """Where a field stands; or else the nearest group around it that the file has, and that it does not."""
    at, group = located, Place(located.place.file)
    for part in path.replace("[", ".[").split("."):
        below = at.value
        if isinstance(below, dict) and part in below:
            at = below[part]
        elif isinstance(below, list) and part.startswith("["):
            at = below[int(part[1:-1])]
        else:
            return group, False
        if at.key_place is not None and at.key_place.line:
            group = at.key_place
    return at.place, True


def _reserved_but_set(located: Located) -> Iterator[Problem]:
    for variable in variables(Config):
        if not is_reserved(variable.annotation):
            continue
        at: Located | None = located
        for part in variable.path:
            at = at.value.get(part) if at is not None and isinstance(at.value, dict) else None
        if at is not None and at.value not in ("", None):
            message = "reserved for later; ignored today"
            yield Problem(at.place, ".".join(variable.path), message, variable.secret)


def _sorted(problems: list[Problem]) -> list[Problem]:
    return sorted(problems, key=lambda p: (p.place.variable, p.place.line, p.place.column, p.path))
