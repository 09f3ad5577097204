"""Ignore rules with git's semantics.

pathspec translates patterns to regular expressions; which rule decides follows git: the last rule of the innermost
file that matches the *item itself*. (pathspec's own verdict is about whole paths and is wrong for folders: after `*`
and `!*/` it leaves every folder out.) The caller walks from the top and does not enter excluded folders, so rules
never need to check an item's ancestors.
"""

from __future__ import annotations

import re
import stat
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from kbhub.values import struct
from kbhub.workspace.files import read_regular
from kbhub.workspace.formats import IGNORE_NAMES
from kbhub.workspace.settings import MAX_RULES

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence
    from pathlib import Path

MAX_IGNORE_BYTES = 1024 * 1024
"""Largest ignore file in bytes; the longest public template has 20 kB."""

MAX_PATTERN_CHARACTERS = 4096
"""Longest pattern; no system has longer paths."""

_MAX_DEEP_WILDCARDS = 4
"""Most `**` in one pattern: matching takes time by path depth to that power."""

_BRACKETS = re.compile(r"(?<!\\)\[[!^]?\]?(?:\[:[a-z]+:\]|\\.|[^\]])*\]")
_CLASS = re.compile(r"\[:([a-z]+):\]")
_CLASSES = {
    "alpha": "A-Za-z", "digit": "0-9", "alnum": "A-Za-z0-9", "lower": "a-z", "upper": "A-Z", "xdigit": "0-9A-Fa-f",
    "blank": " \t", "space": " \t\n\r", "cntrl": "\x01-\x1f\x7f",
    "punct": ":-@!-.[-`{-~", "graph": "0-~!-.", "print": "0-~ -.",
}  # fmt: skip
"""POSIX classes, which git supports and pathspec does not. Never a slash, and no `!` or `[` at the start, where they
have another meaning."""

_OPENED_TWICE = re.compile(r"(?<!\\)((?:\\\\)*)\[\[")
"""`[[`, of which `re` warns ("possible nested set")."""

_STAR = "[^/]*"
_DIRECTORY_GROUP = "ps_d"
"""Name of pathspec's group for the slash after a folder; if it matched, the match is an ancestor of the item."""


@struct
class Rule:
    """One pattern of an ignore file."""

    source: str
    """The file or setting that the pattern is from."""
    text: str
    """The pattern as written."""
    regex: re.Pattern[str]
    negated: bool
    directories: bool
    """Whether it applies to folders only."""

    def matches(self, path: str, *, directory: bool) -> bool:
        """Return whether the rule matches the item itself rather than an ancestor.

        Args:
            path: relative to the folder of the rule, with `/` and none at the end.
            directory: whether the item is a folder.
        """
        if self.directories and not directory:
            return False
        match = self.regex.search(path)
        return match is not None and match.lastgroup != _DIRECTORY_GROUP


@dataclass(slots=True)
class Layer:
    """The rules of one folder, and how to make a path in the base relative to that folder."""

    rules: tuple[Rule, ...]
    skip: int = 0
    """Leading characters of a path to drop, if the folder is inside the base."""
    prefix: str = ""
    """Prefix to add to a path, if the folder is above the base."""
    _any: re.Pattern[str] = field(init=False)
    """Matches whenever a rule does: a single search for the many paths that match no rule."""

    def __post_init__(self) -> None:
        every = "|".join(rule.regex.pattern for rule in self.rules) or "(?!)"
        self._any = re.compile(every.replace(f"(?P<{_DIRECTORY_GROUP}>", "(?:"))

    def rule_for(self, path: str, *, directory: bool) -> Rule | None:
        """Return the rule of this layer that decides about a path of the base, or None."""
        relative = self.prefix + path[self.skip :]
        if self._any.search(relative) is None:
            return None
        return next((rule for rule in reversed(self.rules) if rule.matches(relative, directory=directory)), None)


def deciding_rule(layers: Sequence[Layer], path: str, *, directory: bool) -> Rule | None:
    """Return the rule that decides about a path of the base, from the innermost layer that has one, or None.

    Args:
        layers: outermost first.
        path: relative to the base.
        directory: whether it is a folder.
    """
    for layer in reversed(layers):
        rule = layer.rule_for(path, directory=directory)
        if rule is not None:
            return rule
    return None


def parse_rules(lines: Iterable[str], source: str) -> tuple[Rule, ...]:
    """Parse the lines of an ignore file; patterns that git cannot match either are dropped.

    Args:
        lines: without line endings.
        source: the name of their file, for messages.
    """
    if not (lines := tuple(lines)):
        return ()
    # Importing pathspec takes 13 ms, and many bases have no patterns.
    from pathspec.patterns.gitignore.base import GitIgnorePatternError  # noqa: PLC0415
    from pathspec.patterns.gitignore.spec import GitIgnoreSpecPattern  # noqa: PLC0415

    rules: list[Rule] = []
    for line in lines:
        if not line.strip() or line.startswith("#"):
            continue
        if len(rules) == MAX_RULES:
            break
        # A slash at the end only means "folders"; any other one anchors the pattern.
        text = line.rstrip()
        pattern = line if text.endswith("\\") else text.removesuffix("/")
        if len(pattern) > MAX_PATTERN_CHARACTERS or _is_open(pattern):
            continue
        try:
            regex, include = GitIgnoreSpecPattern.pattern_to_regex(_BRACKETS.sub(_with_ranges, pattern))
            if regex is None or include is None or pattern.count("**") > _MAX_DEEP_WILDCARDS:
                continue
            compiled = re.compile(_without_backtracking(regex))
        except (GitIgnorePatternError, re.error):
            continue
        rules.append(Rule(source, text, compiled, not include, text.endswith("/")))
    return tuple(rules)


def read_rules(folder: Path, names: Iterable[str] = IGNORE_NAMES) -> tuple[Rule, ...]:
    """Parse the ignore files of a folder; as in git, links and special files are ignored.

    Args:
        folder: the folder.
        names: names of the ignore files to read, in order.
    """
    rules: tuple[Rule, ...] = ()
    for name in names:
        file = folder / name
        try:
            if not stat.S_ISREG(file.lstat().st_mode):
                continue
            data = read_regular(file, MAX_IGNORE_BYTES, follow=False)
        except OSError:
            continue
        text = data.decode("utf-8-sig", errors="surrogateescape")
        rules += parse_rules((line.removesuffix("\r") for line in text.split("\n")), str(file))
    return rules


def outer_layers(base: Path, root: Path | None) -> tuple[Layer, ...]:
    """Return the rules of the folders above a base, up to its git root, without those that exclude the base itself.

    A repository that keeps its knowledge out of git (`knowledge/`, `knowledge/*`, `.*`, `*`) does not mean to exclude
    the files in it.

    Args:
        base: folder of the base, absolute, links resolved.
        root: nearest folder at or above the base that contains `.git`; without one no outer rule applies.
    """
    if root is None or root == base:
        return ()
    above = [folder for folder in base.parents if folder.is_relative_to(root)]
    layers = []
    for folder in reversed(above):
        prefix = base.relative_to(folder).as_posix()
        rules = tuple(rule for rule in read_rules(folder) if not _excludes_base(rule, prefix))
        if rules:
            layers.append(Layer(rules, prefix=f"{prefix}/"))
    return tuple(layers)


def excludes_everything(rule: Rule, prefix: str = "") -> bool:
    """Return whether a rule excludes every file of a folder, tested with a name that no pattern spells out."""
    return not rule.negated and rule.matches(f"{prefix}\x01", directory=False)


def _excludes_base(rule: Rule, base: str) -> bool:
    if rule.negated:
        return False
    parts = base.split("/")
    ancestors = ("/".join(parts[: end + 1]) for end in range(len(parts)))
    return excludes_everything(rule, f"{base}/") or any(rule.matches(path, directory=True) for path in ancestors)


def _is_open(pattern: str) -> bool:
    """Whether the last bracket is unclosed: such a pattern matches nothing, and pathspec takes quadratic time on it."""
    last = pattern.rfind("[")
    before = pattern[: max(last, 0)]
    escaped = (len(before) - len(before.rstrip("\\"))) % 2 == 1
    return last > pattern.rfind("]") and not escaped


def _with_ranges(brackets: re.Match[str]) -> str:
    return _CLASS.sub(lambda named: _CLASSES.get(named[1], named[0]), brackets[0])


def _without_backtracking(regex: str) -> str:
    """Make an expression safe against catastrophic backtracking; pattern and file names may come with a clone.

    As translated by pathspec, `*a*a*a*b` takes, on a name of n times `a`, time of n to the power of its stars. Within a
    path segment the first match of a star's successor is as good as any other, so all stars but the last become
    atomic groups; and `**` need only try whole segments.
    """
    regex = _OPENED_TWICE.sub(r"\1[\\[", regex)
    regex = regex.replace("(?:.+/)?", "(?:[^/]+/)*").replace("(?:/.+)?", "(?:/[^/]+)*")
    head, *parts = regex.split(_STAR)
    for number, part in enumerate(parts, start=1):
        same_segment = number < len(parts) and "/" not in part.replace("[^/]", "")
        head += f"(?>{_STAR}?{part})" if same_segment else f"{_STAR}{part}"
    return head
