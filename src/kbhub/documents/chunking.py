"""Chunks of a `Document` of readable size with exact line spans; no line is lost or repeated."""

from __future__ import annotations

import re
from bisect import bisect_left, bisect_right
from collections.abc import Iterator
from itertools import accumulate

from kbhub.documents.markdown import LINK_DEFINITION, heading_end, is_item, is_rule
from kbhub.types import Chunk, Document
from kbhub.values import shared_start, struct

CHUNK_WORDS = 300
"""Words of the largest chunk: what a reader takes in at once and a mean-pooled embedding still tells apart."""
MIN_WORDS = 40
"""Smaller sections, in words, are merged; a full chunk may exceed its limit by as much to keep a heading's text."""
WORD_CHARS = 16
"""A line counts at least one word per so many characters: URLs and encoded data are long words."""

_HAN_KANA = re.compile("[\u3040-\u30ff\u3400-\u4dbf\u4e00-\u9fff\uf900-\ufaff\uff66-\uff9f\U00020000-\U0003ffff]+")
_SOUTH_EAST_ASIAN = re.compile("[\u0e00-\u0eff\u1000-\u109f\u1780-\u17ff]+")
HAN_KANA_CHARS = 2
"""Characters of Han and Kana per word: most words have two."""
SOUTH_EAST_ASIAN_CHARS = 4
"""Characters per word of Thai, Lao, Burmese and Khmer, which put no spaces between words."""
_SPACE = re.compile(r"\s*")
_SENTENCE_END = re.compile(r"[.!?][\"')\]]*(?=\s)|[。！？]")
SENTENCE_SHARE = 0.5
"""A long line is cut after a sentence only if that ends in this last share of a part, else at a space."""

FRONT_MATTER_WORDS = 30
"""Most words that front matter counts for: it is kept whole, and must not crowd out the text."""

WINDOW_WORDS = 100
"""Words before the limit in which a break is preferred."""

# Scores of places to cut; a difference of 1 outweighs two thirds of the window.
HEADING_WORTH, RULE_WORTH, BLANK_WORTH, ITEM_WORTH = 4.0, 3.0, 2.0, 1.0

INSIDE_WORTH = 1.5
"""Blank line before an indented one, so inside a list item."""

INTRODUCTION_WORTH = 0.5
"""After a line that ends with a colon, which would be cut off from what it announces."""

DISTANCE_COST = 1.5
"""Subtracted at the far end of the window."""


def size(line: str) -> int:
    """Return the size of a line in words; 0 if it is blank."""
    words = len(line.split())
    if not line.isascii():
        words += sum(map(len, _HAN_KANA.findall(line))) // HAN_KANA_CHARS
        words += sum(map(len, _SOUTH_EAST_ASIAN.findall(line))) // SOUTH_EAST_ASIAN_CHARS
    if len(line) > words * WORD_CHARS:
        words = max(words, -(-len(line.strip()) // WORD_CHARS))
    return words


def split_line(line: str) -> Iterator[tuple[int, int]]:
    """Yield (start, end) of parts of a line of at most `CHUNK_WORDS`, cut behind the space after a sentence or word."""
    start, length = 0, len(line)
    while start < length:
        filled = _after_space(line, start)
        end = min(filled + CHUNK_WORDS * WORD_CHARS, length)
        while (words := size(line[filled:end])) > CHUNK_WORDS:
            end = filled + (end - filled) * CHUNK_WORDS // words
        rest = line[end : end + MIN_WORDS * WORD_CHARS + 1]
        if end + len(rest) == length and 0 < size(rest) < MIN_WORDS:
            end = min(end, filled + (length - filled) // 2)  # two halves rather than a small remainder
        if end < length:
            # After a sentence, else after a word, else where it fits.
            text = line[filled:end]
            earliest, space = int(len(text) * SENTENCE_SHARE), max(text.rfind(" "), text.rfind("\t"))
            sentences = [match.end() for match in _SENTENCE_END.finditer(text, earliest)]
            after_word = space + 1 if space >= earliest // 2 else len(text)
            end = _after_space(line, filled + (sentences[-1] if sentences else after_word))
        yield start, end
        start = end


def _after_space(line: str, start: int) -> int:
    match = _SPACE.match(line, start)
    return match.end() if match else start


@struct
class _HeadedLines:
    """A heading and the lines up to the next one; lines are indices, `end` is exclusive."""

    start: int
    end: int
    content: int
    """First line that is not a heading, blank or a link definition; `end` if the heading is bare."""
    level: int
    """0 before the first heading."""
    path: tuple[int, ...]
    """Numbers of the enclosing headings, its own last."""


@struct(frozen=False)
class _Piece:
    """Lines that become a chunk; `end` is exclusive."""

    start: int
    end: int
    part: tuple[int, int] | None = None
    """Character span of the last line, if only a part of it belongs here."""


class _Chunker:
    """A document with the line sizes and sections that every step needs."""

    def __init__(self, document: Document) -> None:
        self.document = document
        self.lines = document.lines
        sizes = [size(line) if line else 0 for line in self.lines]
        left = FRONT_MATTER_WORDS
        for index in range(document.body):
            sizes[index] = min(sizes[index], left)
            left -= sizes[index]
        self.sizes = sizes
        self.totals = [0, *accumulate(sizes)]
        self.filled: list[int] = []
        """Indices of lines that are not blank, then the number of lines; computed when something is cut."""
        self.whole: list[tuple[int, int]] = []
        """Line ranges that must not be cut: front matter, and code blocks and tables that fit; computed likewise."""
        headings = document.headings
        bounds = [*[heading.line - 1 for heading in headings], len(self.lines)]
        lead = self._first_text(document.body, bounds[0])
        self.sections = [_HeadedLines(0, bounds[0], lead, 0, ())] if lead < bounds[0] or not headings else []
        path: list[int] = []
        for number, heading in enumerate(headings):
            while path and headings[path[-1]].level >= heading.level:
                path.pop()
            path.append(number)
            # Front matter alone is not a section: it goes with the first one.
            start, end = bounds[number] if self.sections else 0, bounds[number + 1]
            content = self._first_text(heading_end(self.lines, bounds[number]), end)
            self.sections.append(_HeadedLines(start, end, content, heading.level, tuple(path)))
        self.starts = [section.start for section in self.sections]

    def words(self, start: int, end: int) -> int:
        """Return the words of some lines."""
        return self.totals[end] - self.totals[start]

    def _first_text(self, start: int, end: int) -> int:
        index = self.filled_from(start)
        while index < end and LINK_DEFINITION.match(self.lines[index]):
            index = self.filled_from(index + 1)
        return min(index, end)

    def filled_from(self, start: int) -> int:
        """Return the first line from `start` with a size above 0, or the number of lines."""
        return bisect_right(self.totals, self.totals[start]) - 1

    def groups(self) -> Iterator[tuple[int, int]]:
        """Yield the lines of sections that go together: small ones with the subsections or siblings that follow."""
        sections = self.sections
        first = 0
        while first < len(sections):
            start, level = sections[first].start, sections[first].level
            last = first + 1
            while last < len(sections) and sections[last].level >= level:
                before, following = sections[last - 1], sections[last]
                below = following.level > before.level
                small = self.words(start, before.end) < MIN_WORDS
                fits = self.words(start, following.end) <= CHUNK_WORDS
                # A section that must be cut anyway may as well begin with its introduction.
                long = self.words(following.start, following.end) > CHUNK_WORDS
                if not (below and before.content == before.end) and not (small and (fits or (below and long))):
                    break
                last += 1
            yield sections[first].start, sections[last - 1].end
            first = last

    def cut(self, start: int, end: int) -> Iterator[_Piece]:
        """Cut lines that do not fit one chunk."""
        if not self.filled:
            self.filled = [*(index for index, count in enumerate(self.sizes) if count), len(self.lines)]
            blocks = [(first - 1, last) for first, last in (*self.document.fences, *self.document.tables)]
            self.whole = sorted(block for block in blocks if self.words(*block) <= CHUNK_WORDS)
            if self.document.body:
                self.whole.insert(0, (0, self.document.body))
        position = start
        while position < end:
            position = self.filled[bisect_left(self.filled, position)]  # skip blank lines
            if position >= end:
                return
            if self.words(position, end) <= CHUNK_WORDS:
                yield _Piece(position, end)
                return
            cut = self._break(position, end)
            if cut == position or (cut < end and self.sizes[cut] > CHUNK_WORDS and self._is_opening(position, cut)):
                for begin, stop in split_line(self.lines[cut]):
                    yield _Piece(position if begin == 0 else cut, cut + 1, (begin, stop))
                cut += 1
            else:
                yield _Piece(position, cut)
            position = cut

    def _break(self, start: int, end: int) -> int:
        """Return the best line to start the next chunk with; `start` itself if that line is too long for a chunk."""
        limit = self._limit(start, CHUNK_WORDS)
        if limit == start:
            return start
        # A slightly smaller chunk is better than a remainder that is too small.
        earlier = self._limit(start, min(CHUNK_WORDS, self.words(start, end) - MIN_WORDS))
        best = self._best(start, earlier) or self._best(start, limit)
        if best is None or self.words(start, best) < MIN_WORDS:
            best = self._beyond(start, limit, end) or best
        if best is None:
            block = self._block_at(limit)
            best = block[0] if block and block[0] > start else limit
        return best

    def _limit(self, start: int, words: int) -> int:
        """Return the last line up to which there are at most `words` words since `start`."""
        return bisect_right(self.totals, self.totals[start] + words) - 1

    def _best(self, start: int, latest: int) -> int | None:
        """Return the best line up to `latest` to cut before; the nearest one if the window has none."""
        best, best_score = None, 0.0
        for place in range(bisect_right(self.filled, latest) - 1, bisect_right(self.filled, start) - 1, -1):
            line = self.filled[place]
            distance = self.words(line, latest)
            if distance > WINDOW_WORDS and best is not None:
                break
            if self._may_cut(line):
                score = self._worth(line, self.filled[place - 1]) - DISTANCE_COST * distance / WINDOW_WORDS
                if best is None or score > best_score:
                    best, best_score = line, score
        return best

    def _beyond(self, start: int, limit: int, end: int) -> int | None:
        """Return a line shortly after the limit to cut before, so that a heading or introduction keeps its text."""
        if self.sizes[limit] > CHUNK_WORDS:
            return None
        for place in range(bisect_right(self.filled, limit), len(self.filled)):
            line = self.filled[place]
            if line > end or self.words(start, line) > CHUNK_WORDS + MIN_WORDS:
                return None
            if self._may_cut(line):
                return line
        return None

    def _block_at(self, line: int) -> tuple[int, int] | None:
        """Return the block that must stay whole and that a cut before `line` would split."""
        place = bisect_left(self.whole, (line,)) - 1
        return self.whole[place] if place >= 0 and line < self.whole[place][1] else None

    def _may_cut(self, line: int) -> bool:
        """Return whether a chunk may start at a line: not inside a block, and not right after a heading."""
        return self._block_at(line) is None and line > self.sections[bisect_left(self.starts, line) - 1].content

    def _is_opening(self, start: int, line: int) -> bool:
        """Return whether there are only a few words of headings and front matter between two lines."""
        between = self.sections[bisect_right(self.starts, start) - 1 : bisect_left(self.starts, line)]
        if self.words(start, line) > MIN_WORDS or not between or self.words(between[0].start, start):
            return False
        return all(section.content == min(section.end, line) for section in between)

    def _worth(self, line: int, previous: int) -> float:
        """Return the score of a cut between two lines with at most blank ones between them."""
        lines = self.lines
        place = bisect_left(self.starts, line)
        if place < len(self.starts) and self.starts[place] == line:
            return HEADING_WORTH
        if is_rule(lines[previous]):
            return RULE_WORTH
        if lines[previous].rstrip().endswith((":", "：")):
            return INTRODUCTION_WORTH
        if previous < line - 1:
            return INSIDE_WORTH if lines[line][0] in " \t" else BLANK_WORTH
        return ITEM_WORTH if is_item(lines[line]) else 0.0

    def belongs(self, before: _Piece, piece: _Piece) -> bool:
        """Return whether a piece is small, and the previous one is of its parent, sibling or own section."""
        small = self.words(piece.start, piece.end) < MIN_WORDS and self.words(before.start, piece.end) <= CHUNK_WORDS
        if before.part or piece.part or not small:
            return False
        own = self.sections[bisect_right(self.starts, piece.start) - 1].path
        other = self.sections[bisect_right(self.starts, before.start) - 1].path
        return own == other or own[:-1] in (other, other[:-1])

    def headings(self, start: int, end: int) -> tuple[str, ...]:
        """Return the headings shared by all text in a range."""
        first = max(0, bisect_right(self.starts, start) - 1)
        last = bisect_left(self.starts, end)
        shared: tuple[int, ...] | None = None
        for number in range(first, last):
            section = self.sections[number]
            opens = number + 1 < last and self.sections[number + 1].level > section.level
            if section.content == section.end and opens and section.level:
                continue  # a bare heading is part of the path of what follows
            shared = section.path if shared is None else shared_start(shared, section.path)
        return tuple(filter(None, [self.document.headings[number].text for number in shared or ()]))


def chunk_document(document: Document) -> list[Chunk]:
    """Cut a document into chunks, in line order; only a line that is too long for one is in several."""
    cutter, pieces = _Chunker(document), list[_Piece]()
    for start, end in cutter.groups():
        for piece in [_Piece(start, end)] if cutter.words(start, end) <= CHUNK_WORDS else cutter.cut(start, end):
            if pieces and cutter.belongs(pieces[-1], piece):
                pieces[-1].end = piece.end
            else:
                pieces.append(piece)
    chunks, lines, body, totals = list[Chunk](), document.lines, document.body, cutter.totals
    for piece in pieces:
        start = piece.start if piece.start < body else cutter.filled_from(piece.start)
        end = max(bisect_left(totals, totals[piece.end]), body if start < body else 0)
        if start < end:
            final = lines[end - 1] if piece.part is None else lines[end - 1][slice(*piece.part)]
            text = "\n".join((*lines[start : end - 1], final))
            prose = min(len(text), body + sum(map(len, lines[:body]))) if start < body else 0
            chunks.append(Chunk(cutter.headings(start, end), start + 1, end, text, prose))
    return chunks
