"""The rules by which files of a folder belong to its base, judged by path, with git's ignore rules."""

from __future__ import annotations

import os
import re
import stat
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import field
from itertools import accumulate
from pathlib import Path

from kbhub.types import Base, Kind
from kbhub.values import struct
from kbhub.workspace.files import read_regular
from kbhub.workspace.formats import IGNORE_NAMES, LIMIT_NAMES, SKIPPED_FOLDERS, is_lock, is_session, why_not_taken
from kbhub.workspace.git import git_root
from kbhub.workspace.settings import MAX_RULES

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

_UNCLOSED = re.compile(r"(?<!\\)(?:\\\\)*\[[^\[\]]*\Z")
"""A last bracket that nothing closes: it matches nothing, and takes pathspec quadratic time."""

_OPENED_TWICE = re.compile(r"(?<!\\)((?:\\\\)*)\[\[")
"""`[[`, of which `re` warns ("possible nested set")."""

_STAR = "[^/]*"
_ANYWHERE, _END = "^(?:[^/]+/)*", "(?:(?:/)|$)"
"""How the expression of a rule without a slash begins, and how it ends once its group has no name."""

_DIRECTORY_GROUP = "ps_d"
"""Name of pathspec's group for the slash after a folder; if it matched, the match is an ancestor of the item."""


@struct
class Rule:
    """One pattern of an ignore file."""

    source: str
    """The file or setting that the pattern is from."""
    text: str
    regex: re.Pattern[str]
    negated: bool
    directories: bool
    """Whether it applies to folders only."""

    def matches(self, path: str, *, directory: bool) -> bool:
        """Return whether the rule matches the item itself, at a path relative to the rule's folder, not an ancestor."""
        if self.directories and not directory:
            return False
        match = self.regex.search(path)
        return match is not None and match.lastgroup != _DIRECTORY_GROUP


@struct
class Layer:
    """The rules of one folder, and how to make a path in the base relative to that folder."""

    rules: tuple[Rule, ...]
    skip: int = 0
    """Leading characters of a path to drop, if the folder is inside the base."""
    prefix: str = ""
    """Prefix to add to a path, if the folder is above the base."""
    _any: re.Pattern[str] = field(init=False, compare=False)
    """Matches whenever a rule does: a single search for the many paths that match no rule."""

    def __post_init__(self) -> None:
        common, others = list[str](), list[str]()
        for rule in self.rules:
            pattern = rule.regex.pattern.replace(f"(?P<{_DIRECTORY_GROUP}>", "(?:")
            tail = pattern.removeprefix(_ANYWHERE)
            alike = tail != pattern and "|" not in tail.removesuffix(_END)
            (common if alike else others).append(tail if alike else pattern)
        # Most rules begin alike. For all of them at once, the folders of a path are tried only once.
        first = [f"{_ANYWHERE}(?:{'|'.join(common)})"] if common else []
        object.__setattr__(self, "_any", re.compile("|".join([*first, *others])))

    def among(self, prefix: str, names: Iterable[str]) -> list[str]:
        """Return the files of a folder that some rule matches; `prefix` is its path with a slash, or empty."""
        search, before = self._any.search, self.prefix + prefix[self.skip :]
        return [name for name in names if search(before + name)]

    def rule_for(self, path: str, *, directory: bool) -> Rule | None:
        """Return the rule of this layer that decides about a path of the base, or None."""
        relative = self.prefix + path[self.skip :]
        if self._any.search(relative) is None:
            return None
        return next((rule for rule in reversed(self.rules) if rule.matches(relative, directory=directory)), None)


def parse_rules(lines: Iterable[str], source: str) -> tuple[Rule, ...]:
    """Parse the lines of an ignore file, the `source`; patterns that git cannot match either are dropped."""
    if not (lines := tuple(lines)):
        return ()
    # Importing pathspec takes 13 ms, and many bases have no patterns.
    from pathspec.patterns.gitignore import base, spec  # noqa: PLC0415

    rules: list[Rule] = []
    for line in lines:
        if not line.strip() or line.startswith("#"):
            continue
        if len(rules) == MAX_RULES:
            break
        # A slash at the end only means "folders"; any other one anchors the pattern.
        text = line.rstrip()
        pattern = line if text.endswith("\\") else text.removesuffix("/")
        if len(pattern) > MAX_PATTERN_CHARACTERS or _UNCLOSED.search(pattern):
            continue
        try:
            ranged = _BRACKETS.sub(
                lambda brackets: _CLASS.sub(lambda named: _CLASSES.get(named[1], named[0]), brackets[0]), pattern
            )
            regex, include = spec.GitIgnoreSpecPattern.pattern_to_regex(ranged)
            if regex is None or include is None or pattern.count("**") > _MAX_DEEP_WILDCARDS:
                continue
            compiled = re.compile(_without_backtracking(regex))
        except (base.GitIgnorePatternError, re.error):
            continue
        rules.append(Rule(source, text, compiled, not include, text.endswith("/")))
    return tuple(rules)


def read_rules(folder: Path, names: Iterable[str] = IGNORE_NAMES) -> tuple[Rule, ...]:
    """Parse the ignore files of a folder in the order of `names`; as in git, links and special files are ignored."""
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


def excludes_everything(rule: Rule, prefix: str = "") -> bool:
    """Return whether a rule excludes every file of a folder, tested with a name that no pattern spells out."""
    return not rule.negated and rule.matches(f"{prefix}\x01", directory=False)


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


def belongs(path: str, only: Sequence[str], *, above: bool = False) -> bool:
    """Return whether a path is a part of a base, below one or, if asked, `above` one; without parts, every path is."""
    return not only or any(
        path == part or path.startswith(f"{part}/") or (above and part.startswith(f"{path}/")) for part in only
    )


def too_large(size: int, limit: int, kind: Kind = "document") -> str:
    """Return the message about a file whose size in bytes exceeds the limit of its kind."""
    setting = LIMIT_NAMES.get(kind, "limits.fileBytes")
    return f"it has {size} bytes, but the limit is {limit} (`{setting}` in ~/.kbhub.json)"


class Filters:
    """The include, exclude and ignore rules of a base; links are handled elsewhere."""

    def __init__(self, base: Base) -> None:
        self.root = Path(os.path.realpath(base.path))
        self.base, self.only = base, base.only
        self.include = parse_rules(base.include, "include")
        self.exclude = Layer(rules) if (rules := parse_rules(base.exclude, "exclude")) else None
        # `*` is not meant to include `.env`: only patterns that spell out the dot match hidden files.
        hidden = [text for text in base.include if text.rstrip("/").rsplit("/", 1)[-1].startswith(".")]
        self.include_hidden = parse_rules(hidden, "include")
        self.overfull: list[str] = []
        """Ignore files with more rules than are read."""
        # The folders above up to the git root, without the rules that exclude the base itself: a repository that keeps
        # its knowledge out of git (`knowledge/`, `knowledge/*`, `.*`, `*`) does not mean to exclude the files in it.
        top, layers = git_root(self.root, None) or self.root, list[Layer]()
        for folder in reversed([folder for folder in self.root.parents if folder.is_relative_to(top)]):
            prefix = self.root.relative_to(folder).as_posix()
            parts = list(accumulate(prefix.split("/"), "{}/{}".format))
            rules = tuple(
                rule
                for rule in read_rules(folder)
                if rule.negated
                or not (
                    excludes_everything(rule, f"{prefix}/") or any(rule.matches(one, directory=True) for one in parts)
                )
            )
            if rules:
                layers.append(Layer(rules, prefix=f"{prefix}/"))
        self.outer = self.layers_in("", "", tuple(layers))
        """The layers that apply in the base's own folder."""

    def layers_in(
        self, path: str, real: str, layers: tuple[Layer, ...], names: Iterable[str] = IGNORE_NAMES
    ) -> tuple[Layer, ...]:
        """Return the layers that apply in a folder: those of its parent, and its own ignore files.

        `path` is the folder as the base shows it, empty for the base itself; `real` is the folder on disk, relative to
        the base; `names` are the ignore files in it.
        """
        if not (rules := read_rules(self.root / real, names)):
            return layers
        if len(rules) >= MAX_RULES:
            counts = Counter(rule.source for rule in rules)
            self.overfull += [source for source, count in counts.items() if count == MAX_RULES]
        # `*` in a base's own .gitignore keeps the whole base out of git, as one further up would.
        if not path:
            rules = tuple(one for one in rules if not (excludes_everything(one) and one.source.endswith(".gitignore")))
        return (*layers, Layer(rules, skip=len(path) + 1 if path else 0)) if rules else layers

    def folder_reason(self, path: str, name: str, layers: Sequence[Layer]) -> str | None:
        """Return why a folder is skipped, or None if it is entered."""
        if name.startswith("."):
            return f"the folder {path!r} is hidden"
        if name in SKIPPED_FOLDERS:
            return f"folders called {name!r} are skipped"
        return self.rule_reason(path, layers, directory=True)

    def file_reason(self, path: str, name: str, layers: Sequence[Layer]) -> str | None:
        """Return why a file is skipped, judged by its path alone, or None if it belongs to the base."""
        sessions = self.base.kind == "session"
        if name.startswith("."):
            if not included(self.include_hidden, path):
                return "it is hidden"
        elif is_lock(name):
            return "it is the lock of a document that is open"
        elif not included(self.include, path):
            if sessions and not is_session(name.lower()):
                return "it is not a session log (.jsonl), and `include` does not match it"
            if not sessions and (other := why_not_taken(name.lower())) is not None:
                return other
        if sessions:
            from kbhub.documents.sessions import why_not_ours  # noqa: PLC0415 - few have sessions

            if other := why_not_ours(self.root / path, self.base.sessions_of):
                return other
        return self.rule_reason(path, layers, directory=False)

    def reason(self, path: str) -> str | None:
        """Return why a file or a folder above it is skipped, or None; reads the ignore files on the way."""
        if not belongs(path, self.only):
            return "it is not in a part of the folder that belongs to the base"
        layers, reason = self._layers_above(path)
        return reason or self.file_reason(path, path.rsplit("/", 1)[-1], layers)

    def target_reason(self, path: str) -> str | None:
        """Return why the target of a link is skipped, or None; unlike `reason`, it accepts any file type."""
        layers, reason = self._layers_above(path)
        name = path.rsplit("/", 1)[-1]
        directory = (self.root / path).is_dir()
        if reason is None and directory:
            return self.folder_reason(path, name, layers)
        if reason is None and name.startswith(".") and not included(self.include_hidden, path):
            return f"{path!r} is hidden"
        return reason or self.rule_reason(path, layers, directory=directory)

    def _layers_above(self, path: str) -> tuple[tuple[Layer, ...], str | None]:
        layers = self.outer
        parts = path.split("/")[:-1]
        for folder, name in zip(accumulate(parts, "{}/{}".format), parts, strict=True):
            if (reason := self.folder_reason(folder, name, layers)) is not None:
                return layers, reason
            layers = self.layers_in(folder, folder, layers)
        return layers, None

    def rule_reason(self, path: str, layers: Sequence[Layer], *, directory: bool) -> str | None:
        """Return a message with the rule that leaves a file or folder out, or None if there is none."""
        rule = self.exclude.rule_for(path, directory=directory) if self.exclude else None
        if rule is None or rule.negated:  # else the innermost rule that matches decides
            for layer in reversed(layers):
                if rule := layer.rule_for(path, directory=directory):
                    break
        if rule is None or rule.negated:
            return None
        return f"{path!r} is excluded by {rule.text!r} in {rule.source}"


def included(rules: Sequence[Rule], path: str) -> bool:
    """Return whether patterns such as those of `include` match a file or a folder above it."""
    items = [(item, item != path) for item in accumulate(path.split("/"), "{}/{}".format)] if rules else []
    for item, directory in reversed(items):
        for rule in reversed(rules):
            if rule.matches(item, directory=directory):
                return not rule.negated
    return False
