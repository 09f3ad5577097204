"""Ignore rules with git's meaning: which rule, if any, decides about a file or folder.

pathspec translates a pattern to a regular expression; what decides is taken from git: the last rule of the
innermost file that matches the *item itself*. (pathspec's own verdict is about whole paths and is wrong for
folders: after `*` and `!*/` it leaves every folder out.) The caller walks from the top and does not enter an
excluded folder, so that rules never need to look at an item's ancestors.
"""

from __future__ import annotations

import re
import stat
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from kbhub.document_names import IGNORE_NAMES
from kbhub.files import read_regular
from kbhub.values import struct

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence
    from pathlib import Path

MAX_IGNORE_BYTES = 1024 * 1024
"""Bytes of an ignore file; the longest public template has 20 kB."""

MAX_RULES = 2000
"""Patterns of one ignore file, or of one `include` or `exclude`; the longest public template has some 500, and each
takes a tenth of a millisecond before a file can be looked at. A file's further ones do not count."""

MAX_PATTERN_CHARACTERS = 4096
"""Of one pattern; no system has longer paths."""

_MAX_DEEP_WILDCARDS = 4
"""`**` in one pattern; each may stand for any number of folders, so a match takes depth to that power."""

_BRACKETS = re.compile(r"(?<!\\)\[[!^]?\]?(?:\[:[a-z]+:\]|\\.|[^\]])*\]")
_CLASS = re.compile(r"\[:([a-z]+):\]")
_CLASSES = {
    "alpha": "A-Za-z", "digit": "0-9", "alnum": "A-Za-z0-9", "lower": "a-z", "upper": "A-Z", "xdigit": "0-9A-Fa-f",
    "blank": " \t", "space": " \t\n\r", "cntrl": "\x01-\x1f\x7f",
    "punct": ":-@!-.[-`{-~", "graph": "0-~!-.", "print": "0-~ -.",
}  # fmt: skip
"""POSIX classes, which git knows and pathspec does not. Never a slash, and no `!` or `[` at the start, where they say
something else."""

_OPENED_TWICE = re.compile(r"(?<!\\)((?:\\\\)*)\[\[")
"""What Python warns of, on standard error, as it may mean something else one day."""

_STAR = "[^/]*"
_DIRECTORY_GROUP = "ps_d"
"""Name of pathspec's group for the slash after a folder: with it, an ancestor of the item has matched."""


@struct
class Rule:
    """One pattern of an ignore file."""

    source: str
    """The file, or what else the pattern is from."""
    text: str
    """As it was written."""
    regex: re.Pattern[str]
    negated: bool
    directories: bool
    """Whether it is about folders only."""

    def matches(self, path: str, *, directory: bool) -> bool:
        """Whether the rule is about this very item.

        Args:
            path: relative to the folder of the rule, with `/` and none at the end.
            directory: whether the item is a folder.
        """
        if self.directories and not directory:
            return False
        found = self.regex.search(path)
        return found is not None and found.lastgroup != _DIRECTORY_GROUP


@dataclass(slots=True)
class Layer:
    """The rules of one folder, and how a path of the base looks from there."""

    rules: tuple[Rule, ...]
    skip: int = 0
    """Characters of the base's path to leave out: the folder lies inside the base."""
    prefix: str = ""
    """What to put before it: the folder lies above the base."""
    _any: re.Pattern[str] = field(init=False)
    """Finds something wherever a rule does: one search for the many paths that no rule is about."""

    def __post_init__(self) -> None:
        every = "|".join(rule.regex.pattern for rule in self.rules) or "(?!)"
        self._any = re.compile(every.replace(f"(?P<{_DIRECTORY_GROUP}>", "(?:"))

    def rule_for(self, path: str, *, directory: bool) -> Rule | None:
        """The rule that decides about a path of the base, or none."""
        seen = self.prefix + path[self.skip :]
        if self._any.search(seen) is None:
            return None
        for rule in reversed(self.rules):
            if rule.matches(seen, directory=directory):
                return rule
        return None


def deciding_rule(layers: Sequence[Layer], path: str, *, directory: bool) -> Rule | None:
    """The rule that decides about a path of the base: of the innermost layer that has one.

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
    """The rules in an ignore file's lines; a pattern that git would not match either is left out.

    Args:
        lines: without line endings.
        source: what to call their file.
    """
    if not (lines := tuple(lines)):
        return ()
    # 13 ms, which many a base does without.
    from pathspec.patterns.gitignore.base import GitIgnorePatternError  # noqa: PLC0415
    from pathspec.patterns.gitignore.spec import GitIgnoreSpecPattern  # noqa: PLC0415

    rules: list[Rule] = []
    for line in lines:
        if not line.strip() or line.startswith("#"):
            continue
        if len(rules) == MAX_RULES:
            break
        # The slash at the end only says "folders"; another one decides what the pattern is relative to.
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
    """The rules of one folder's ignore files; as in git, one that is a link or no plain file has none.

    Args:
        folder: where they lie.
        names: the ignore files to read, in order.
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
    """The rules of the folders above a base, up to its git root, less those that exclude the base itself.

    A repository that keeps its knowledge out of git (`knowledge/`, `knowledge/*`, `.*`, `*`) says nothing
    about what is in the knowledge.

    Args:
        base: folder of the base, absolute, links resolved.
        root: nearest folder at or above the base that holds `.git`; without one no outer rule counts.
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
    """Whether a rule is about every file of a folder: it matches a name that no pattern can have meant."""
    return not rule.negated and rule.matches(f"{prefix}\x01", directory=False)


def _excludes_base(rule: Rule, base: str) -> bool:
    if rule.negated:
        return False
    parts = base.split("/")
    ancestors = ("/".join(parts[: end + 1]) for end in range(len(parts)))
    return excludes_everything(rule, f"{base}/") or any(rule.matches(one, directory=True) for one in ancestors)


def _is_open(pattern: str) -> bool:
    """Whether nothing closes the last bracket: the pattern matches nothing, and finding that out bracket by bracket
    takes time by the square of their number.
    """
    last = pattern.rfind("[")
    before = pattern[: max(last, 0)]
    escaped = (len(before) - len(before.rstrip("\\"))) % 2 == 1
    return last > pattern.rfind("]") and not escaped


def _with_ranges(brackets: re.Match[str]) -> str:
    return _CLASS.sub(lambda named: _CLASSES.get(named[1], named[0]), brackets[0])


def _without_backtracking(regex: str) -> str:
    """The same expression such that no name takes it more than a moment.

    `*a*a*a*b` as pathspec translates it takes, for a name of many a, time to the power of its stars, and
    both come with a clone. In one path segment the first way in which a star's successor can match is as
    good as any other, so all stars but the last may keep it; and `**` need only try whole segments.
    """
    regex = _OPENED_TWICE.sub(r"\1[\\[", regex)
    regex = regex.replace("(?:.+/)?", "(?:[^/]+/)*").replace("(?:/.+)?", "(?:/[^/]+)*")
    head, *parts = regex.split(_STAR)
    for number, part in enumerate(parts, start=1):
        same_segment = number < len(parts) and "/" not in part.replace("[^/]", "")
        head += f"(?>{_STAR}?{part})" if same_segment else f"{_STAR}{part}"
    return head
