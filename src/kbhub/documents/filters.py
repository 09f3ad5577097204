"""Decide by path which files of a folder belong to its base."""

from __future__ import annotations

import os
from collections import Counter
from pathlib import Path
from typing import TYPE_CHECKING

from kbhub.documents.ignore import (
    Layer,
    Rule,
    deciding_rule,
    excludes_everything,
    outer_layers,
    parse_rules,
    read_rules,
)
from kbhub.workspace.formats import (
    IGNORE_NAMES,
    LIMIT_NAMES,
    SKIPPED_FOLDERS,
    can_read_pdf,
    is_markdown,
    is_session,
    kind_of,
)
from kbhub.workspace.settings import MAX_RULES

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from kbhub.types import Base, Kind


def belongs(path: str, only: Sequence[str]) -> bool:
    """Return whether a path is one of the parts of a base or below one; without parts, everything is."""
    return not only or any(path == part or path.startswith(f"{part}/") for part in only)


def too_large(size: int, limit: int, kind: Kind = "document") -> str:
    """Return the message about a file whose size in bytes exceeds the limit of its kind."""
    setting = LIMIT_NAMES.get(kind, "limits.fileBytes")
    return f"it has {size} bytes and the limit is {limit} (`{setting}` in ~/.kbhub.json)"


class Filters:
    """The include, exclude and ignore rules of a base; links are handled elsewhere."""

    def __init__(self, base: Base) -> None:
        self.root = Path(os.path.realpath(base.path))
        self.base, self.only = base, base.only
        self.include = parse_rules(base.include, "include")
        self.exclude = Layer(parse_rules(base.exclude, "exclude"))
        # `*` is not meant to include `.env`: only patterns that spell out the dot match hidden files.
        hidden = [text for text in base.include if text.rstrip("/").rsplit("/", 1)[-1].startswith(".")]
        self.include_hidden = parse_rules(hidden, "include")
        self.overfull: list[str] = []
        """Ignore files with more rules than are read."""
        git = next((folder for folder in (self.root, *self.root.parents) if (folder / ".git").exists()), None)
        self.outer = self.layers_in("", "", outer_layers(self.root, git))
        """The layers that apply in the base's own folder."""

    def layers_in(
        self, path: str, real: str, layers: tuple[Layer, ...], names: Iterable[str] = IGNORE_NAMES
    ) -> tuple[Layer, ...]:
        """Return the layers that apply in a folder: those of its parent, and its own ignore files.

        Args:
            path: the folder as the base shows it; empty for the base itself.
            real: the folder on disk, relative to the base.
            layers: those of the parent folder.
            names: the ignore files in the folder.
        """
        rules = read_rules(self.root / real, names)
        if len(rules) >= MAX_RULES:
            counts = Counter(rule.source for rule in rules)
            self.overfull += [source for source, count in counts.items() if count == MAX_RULES]
        if not path:
            # `*` in a base's own .gitignore keeps the whole base out of git, as one further up would.
            rules = tuple(
                rule for rule in rules if not (excludes_everything(rule) and rule.source.endswith(".gitignore"))
            )
        return (*layers, Layer(rules, skip=len(path) + 1 if path else 0)) if rules else layers

    def folder_reason(self, path: str, name: str, layers: Sequence[Layer]) -> str | None:
        """Return why a folder is skipped, or None if it is entered."""
        if name.startswith("."):
            return f"the folder {path!r} is hidden"
        if name in SKIPPED_FOLDERS:
            return f"folders called {name!r} are left out"
        return self.rule_reason(path, layers, directory=True)

    def file_reason(self, path: str, name: str, layers: Sequence[Layer]) -> str | None:
        """Return why a file is skipped, judged by its path alone, or None if it belongs to the base."""
        if name.startswith("."):
            if not included(self.include_hidden, path):
                return "it is hidden"
        elif (other := self._other_reason(path, name.lower())) is not None and not included(self.include, path):
            return other
        return self.rule_reason(path, layers, directory=False)

    def _other_reason(self, path: str, name: str) -> str | None:
        """Why a file needs `include` to belong to a base of this kind."""
        if self.base.kind == "session":
            return None if is_session(name) else "it is no session log (.jsonl), and `include` does not name it"
        if kind_of(self.base, path) == "pdf":
            return None if can_read_pdf() else "reading PDF needs the extra `kbhub[pdf]`, which is not installed"
        return None if is_markdown(name) else "it is not Markdown, and `include` does not name it"

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
        parts = path.split("/")
        for end in range(1, len(parts)):
            folder = "/".join(parts[:end])
            reason = self.folder_reason(folder, parts[end - 1], layers)
            if reason is not None:
                return layers, reason
            layers = self.layers_in(folder, folder, layers)
        return layers, None

    def rule_reason(self, path: str, layers: Sequence[Layer], *, directory: bool) -> str | None:
        """Return a message with the rule that leaves a file or folder out, or None if there is none."""
        rule = self.exclude.rule_for(path, directory=directory)
        if rule is None or rule.negated:
            rule = deciding_rule(layers, path, directory=directory)
        if rule is None or rule.negated:
            return None
        return f"{path!r} is left out by {rule.text!r} in {rule.source}"


def included(rules: Sequence[Rule], path: str) -> bool:
    """Return whether patterns such as those of `include` match a file or a folder above it."""
    if not rules:
        return False
    parts = path.split("/")
    items = [("/".join(parts[:end]), end < len(parts)) for end in range(1, len(parts) + 1)]
    for item, directory in reversed(items):
        for rule in reversed(rules):
            if rule.matches(item, directory=directory):
                return not rule.negated
    return False
