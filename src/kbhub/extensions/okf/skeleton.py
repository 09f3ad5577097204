"""The first page on a source, made without a model: its outline, its decisive sentences, and links to related pages."""

from __future__ import annotations

import re
from bisect import bisect_right
from collections import Counter
from collections.abc import Mapping

from kbhub.answers.extractive import nearness, plain
from kbhub.answers.sentences import Unit, units
from kbhub.documents.safe_text import TITLE_BYTES, one_line
from kbhub.editing.renames import as_destination
from kbhub.extensions.okf.pages import entry
from kbhub.models.embedding import Embedder
from kbhub.types import Document, Heading

EXTRACTS, OUTLINE = 12, 40
"""Most sentences, a screen of them, and most headings: of more, the deepest levels are left out."""

WEIGHED = 1_000
"""Sentences that are compared with the whole, evenly taken; a document of 30 pages has some 600."""

SHORTEST, LONGEST, LETTERS = 30, 400, 0.75
"""Characters of an extract, for less says little alone, and more is a table; and its least share of letters."""

DECISION = 0.2
"""Worth of words that decide, beside a cosine: most sentences of a text are within 0.3 of each other."""

_DECIDES = re.compile(
    r"\b(?:must|shall|should|never|always|only|except|unless|required?|decided?|decision|agreed?|chosen?|chose|instead"
    r"|because|therefore|recommend\w*|deadline|limit(?:ed)?|at (?:least|most)|no longer|from now on)\b",
    re.IGNORECASE,
)
_FAILS = re.compile(r"error|fatal|fail|denied|refused|timeout|panic|critical", re.IGNORECASE)
"""The same in a log."""
_ACTIVE = re.compile(r"[\\`*\[\]<>#~|]|(?<!\w)_|_(?!\w)|^[-+=]|(?<=^\d)[.)]|(?<=^\d\d)[.)]")
"""What means something in Markdown."""
_BULLET = re.compile(r"^\s*(?:[-*+]|\d{1,9}[.)])\s+")
_NUMBERED = re.compile(r"(?:Page|Slide) \d+")


def skeleton(document: Document, path: str, name: str, related: Mapping[str, str], embedder: Embedder | None) -> str:
    """Return the text of a page, without front matter.

    `path` is that of the source in its base, `name` its id in citations, `related` has paths of pages with titles.
    """
    file, mark = _literal(path.rpartition("/")[2]), f"[^{name}]"
    parts = [f"# {_literal(document.title)}"]
    named = [one for one in document.headings if one.text not in ("", document.title)]
    headings = [one for one in named if not _NUMBERED.fullmatch(one.text)]
    while len(headings) > OUTLINE and len({one.level for one in headings}) > 1:
        headings = [one for one in headings if one.level < max(one.level for one in headings)]
    if headings:
        levels = sorted({one.level for one in headings})
        items = [f"{'  ' * levels.index(one.level)}- {_literal(one.text)}" for one in headings[:OUTLINE]]
        parts += ["## Outline", f"The parts of {file}:{mark}", "\n".join(items)]
    if chosen := _extracts(document, embedder):
        parts += ["## Extracts", *(_quoted(document, unit) + mark for unit in chosen)]
    elif not headings:
        parts += [f"There is no sentence to quote in {file}.{mark}"]
    if related:
        parts += ["## Related", "\n".join(entry(title, f"/{page}") for page, title in related.items())]
    return "\n\n".join([*parts, f"{mark}: [{file}](/{as_destination(path)})\n"])


def _literal(text: str, limit: int = TITLE_BYTES) -> str:
    """Return text of a source as Markdown on one line that shows it, and is nothing else."""
    return _ACTIVE.sub(r"\\\g<0>", one_line(text, limit))


def _extracts(document: Document, embedder: Embedder | None) -> list[Unit]:
    """Return the sentences that decide, or are nearest to the whole, in order and from all over the source."""
    lines = document.lines[document.body :]
    found = [one for one in map(plain, units("\n".join(lines), document.body + 1, whole_lists=False)) if one]
    often = Counter(one.text for one in found)  # running heads
    fitting = [one for one in found if one.kind != "block" and often[one.text] == 1 and _is_prose(one.text)]
    decides = _DECIDES if fitting else _FAILS
    if not fitting:
        fitting = [Unit(text, at, "sentence", at) for at, text in enumerate(lines, document.body + 1)]
        fitting = [one for one in fitting if SHORTEST <= len(one.text) <= LONGEST]
    fitting = fitting[:: max(1, -(-len(fitting) // WEIGHED))]
    near = nearness(" ".join(one.text for one in fitting), [one.text for one in fitting], embedder=embedder)
    near = near or [0.0] * len(fitting)
    worth = [cosine + DECISION * bool(decides.search(one.text)) for one, cosine in zip(fitting, near, strict=True)]
    sections = [_heading(document, one.line) for one in fitting]
    most, taken, chosen = -(-EXTRACTS // max(1, len({*sections}))), Counter[Heading | None](), list[int]()
    for at in sorted(range(len(fitting)), key=lambda at: -worth[at]):
        if len(chosen) < EXTRACTS and taken[sections[at]] < most:
            taken[sections[at]] += 1
            chosen.append(at)
    return [fitting[at] for at in sorted(chosen)]


def _is_prose(text: str) -> bool:
    return SHORTEST <= len(text) <= LONGEST and sum(map(str.isalpha, text)) >= LETTERS * len(text)


def _heading(document: Document, line: int) -> Heading | None:
    at = bisect_right([heading.line for heading in document.headings], line)
    return document.headings[at - 1] if at else None


def _quoted(document: Document, unit: Unit) -> str:
    heading = _heading(document, unit.line)
    where = f"{_literal(heading.text)}, " if heading and heading.text != document.title else ""
    return f"> {_literal(_BULLET.sub('', unit.text), 2 * LONGEST)} ({where}line {unit.line})"
