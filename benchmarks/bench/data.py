"""Bases of any size made of real vaults: the files as they are, then again and again in other words.

Plain repetition would let every term occur in a fixed share of the chunks and every chunk many times. So each further
round over the vaults is a perturbed one: frequent words stay, for they are as frequent in every collection; the others
give way, a word everywhere alike in a round, to another real word about as frequent or to a new one; paragraphs move
between documents, and headings get new words. Vocabulary and document frequencies then grow with the size as they do
in real text, and no two chunks are alike.
"""

from __future__ import annotations

import json
import random
import re
import zlib
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

from kbhub.documents.chunking import chunk_document
from kbhub.documents.markdown import parse_document

SEED = 20_261_122
"""Of everything random here: the same vaults give the same bases."""

FREQUENT = 1500
"""Words, by document frequency, that no round changes: function words and the trade's own."""

KEPT, SWAPPED = 0.35, 0.40
"""Shares of the other words that stay, and that give way to a real one; the rest is new. The vocabulary then grows with
the 0.45th power of the size (Heaps' law; .4 to .6 in real text)."""

BAND = 0.25
"""How far, as a share of its rank, a real word may be from the one it stands for."""

MOVED = 0.25
"""Share of paragraphs that come from another document."""

NAMED = 0.5
"""Share of headings that get a new word."""

WORD = re.compile(r"[A-Za-z]{3,}")
"""What is perturbed; other scripts and short words stay."""

SUFFIX = ".md"


@dataclass(frozen=True, slots=True)
class Source:
    """A document of a vault."""

    vault: str
    path: str
    """Relative to the vault."""
    text: str
    chunks: int
    """That kbhub makes of it."""


@dataclass(frozen=True)
class Corpus:
    """The documents of all vaults, and their words."""

    sources: tuple[Source, ...]

    @cached_property
    def ranked(self) -> list[str]:
        """The words, most documents first."""
        counts: Counter[str] = Counter()
        for source in self.sources:
            counts.update({word.lower() for word in WORD.findall(source.text)})
        return sorted(counts, key=lambda word: (-counts[word], word))

    @cached_property
    def rarer(self) -> list[str]:
        """The words that a round may change; of a tiny corpus, all."""
        return self.ranked[FREQUENT:] or self.ranked

    @cached_property
    def rank(self) -> dict[str, int]:
        """Word → its place in `ranked`."""
        return {word: place for place, word in enumerate(self.ranked)}

    @cached_property
    def paragraphs(self) -> dict[str, list[str]]:
        """Vault → paragraphs of prose that can stand in any of its documents."""
        found: dict[str, list[str]] = {}
        for source in self.sources:
            plain = [part for part, prose in _parts(source.text) if prose]
            found.setdefault(source.vault, []).extend(plain)
        return found


def read_corpus(vaults: dict[str, Path], cache: Path) -> Corpus:
    """Read vaults, and count the chunks of their documents, which is remembered.

    Args:
        vaults: name → folder.
        cache: file for the counts.
    """
    known = json.loads(cache.read_text("utf-8")) if cache.exists() else {}
    counts: dict[str, int] = {}
    sources = []
    for name, folder in sorted(vaults.items()):
        for file in sorted(folder.rglob(f"*{SUFFIX}")):
            if not file.is_file():
                continue
            data = file.read_bytes()
            path = file.relative_to(folder).as_posix()
            key = f"{name}/{path}/{zlib.crc32(data)}"
            counts[key] = known.get(key) or len(chunk_document(parse_document(path, data)))
            sources.append(Source(name, path, data.decode("utf-8", "replace"), counts[key]))
    if counts.keys() != known.keys():
        cache.parent.mkdir(parents=True, exist_ok=True)
        cache.write_text(json.dumps(counts), "utf-8")
    return Corpus(tuple(sources))


def documents(corpus: Corpus, chunks: int) -> Iterator[tuple[str, str]]:
    """Give (path, text) of documents with about so many chunks together; fewer are the beginning of more."""
    made = number = 0
    while made < chunks:
        order = list(corpus.sources)
        random.Random(f"{SEED} {number}").shuffle(order)
        change = Round(corpus, number)
        for source in order:
            yield f"{number}/{source.vault}/{source.path}", change.apply(source) if number else source.text
            made += source.chunks
            if made >= chunks:
                return
        number += 1


def make_bases(corpus: Corpus, folders: Sequence[Path], chunks: int) -> None:
    """Write a base, or several that share the documents out among them, unless they are there.

    Args:
        corpus: what they are made of.
        folders: where; one for each base.
        chunks: about so many, of all together.
    """
    if all(folder.exists() for folder in folders):
        return
    partial = [folder.with_name(f"{folder.name}.partial") for folder in folders]
    for number, (path, text) in enumerate(documents(corpus, chunks)):
        write(partial[number % len(partial)] / path, text)
    for one, folder in zip(partial, folders, strict=True):
        one.rename(folder)


def write(file: Path, text: str) -> None:
    """Write a document, and the folders that it lies in."""
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text(text, "utf-8", newline="\n")


class Round:
    """One perturbed copy of a corpus.

    Args:
        corpus: what is perturbed.
        number: which copy; each has its own words.
    """

    def __init__(self, corpus: Corpus, number: int) -> None:
        self.corpus, self.number = corpus, number
        self._instead: dict[str, str] = {}

    def apply(self, source: Source) -> str:
        """Give the text of a document in this round."""
        choose = random.Random(f"{SEED} {self.number} {source.vault} {source.path}")
        foreign = self.corpus.paragraphs[source.vault]
        parts = []
        for part, prose in _parts(source.text):
            text = choose.choice(foreign) if prose and foreign and choose.random() < MOVED else part
            if text.startswith("#") and choose.random() < NAMED:
                line, end, rest = text.partition("\n")
                text = f"{line} in {choose.choice(self.corpus.rarer)}{end}{rest}"
            parts.append(text)
        return WORD.sub(self._word, "\n\n".join(parts))

    def _word(self, found: re.Match[str]) -> str:
        word = found.group()
        lower = word.lower()
        new = self._instead.get(lower)
        if new is None:
            new = self._instead[lower] = self._other(lower)
        if new is lower:
            return word
        return new.upper() if word.isupper() else new.capitalize() if word[0].isupper() else new

    def _other(self, word: str) -> str:
        rank, ranked = self.corpus.rank.get(word, 0), self.corpus.ranked
        if rank < FREQUENT:
            return word
        choose = random.Random(f"{SEED} {self.number} {word}")
        fate = choose.random()
        if fate < KEPT:
            return word
        low, high = max(FREQUENT, int(rank * (1 - BAND))), min(len(ranked) - 1, int(rank * (1 + BAND)))
        other = ranked[choose.randint(low, high)]
        if fate < KEPT + SWAPPED:
            return other
        # Of two real words, so that it looks like one, and with the round, so that no other round has it.
        return f"{word[: len(word) // 2 + 1]}{other[len(other) // 2 :]}{_letters(self.number)}"


def _letters(number: int) -> str:
    text = ""
    while number:
        number, digit = divmod(number, 20)
        text += "bcdfghjklmnpqrstvwxz"[digit]
    return text


def _parts(text: str) -> Iterator[tuple[str, bool]]:
    """Give the blocks between blank lines, and whether each is plain prose outside of code and front matter."""
    fenced, first = False, True
    for part in text.split("\n\n"):
        ticks = sum(line.lstrip().startswith(("```", "~~~")) for line in part.split("\n"))
        front, first = first and part.startswith("---"), False
        yield part, not (fenced or ticks or front) and part[:1].isalpha()
        fenced ^= ticks % 2 == 1


def vocabulary(texts: Iterable[str]) -> tuple[int, int]:
    """Count (different words, words) of texts, to see how the vocabulary grows."""
    seen: set[str] = set()
    total = 0
    for text in texts:
        words = WORD.findall(text.lower())
        seen.update(words)
        total += len(words)
    return len(seen), total
