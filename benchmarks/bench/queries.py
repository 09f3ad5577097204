"""What is asked: questions made of headings, a few words of a text, names of code, and questions that people wrote."""

from __future__ import annotations

import json
import random
import re
from itertools import cycle, islice
from pathlib import Path

from bench.data import FREQUENT, SEED, WORD, Corpus, documents
from bench.words import QUESTIONS

HEADING = re.compile(r"^#{1,4} (.+)$", re.MULTILINE)
NAME = re.compile(r"`([A-Za-z_][\w:.#/()-]{2,38})`")

WORDS_OF_A_HEADING = range(2, 7)
"""Shorter ones are boilerplate ("Motivation"), longer ones nobody types."""

MIX = ("question", "words", "name", "question", "words")
"""Kinds in turn: of five, two questions, two of a few words, one name."""


def made_queries(corpus: Corpus, chunks: int, count: int) -> list[str]:
    """Give queries that documents of a base answer, all different, in a random order.

    Args:
        corpus: what the base was made of.
        chunks: size of the base.
        count: how many.
    """
    choose = random.Random(SEED)
    texts = [text for _, text in documents(corpus, chunks)]
    kinds = {
        "question": _shuffled(choose, (_question(choose, one) for text in texts for one in _headings(text))),
        "words": _shuffled(choose, (_words(choose, corpus, text) for text in texts)),
        "name": _shuffled(
            choose, (_name(choose, text, one) for text in texts for one in sorted(set(NAME.findall(text))))
        ),
    }
    sources = {kind: cycle(found or ["deploy"]) for kind, found in kinds.items()}
    found = dict.fromkeys(next(sources[kind]) for kind in islice(cycle(MIX), 2 * count))
    return list(found)[:count]


def read_queries(files: list[Path]) -> list[str]:
    """Give the queries of data sets: JSON Lines with `text` or `query`."""
    rows = [json.loads(line) for file in files for line in file.read_text("utf-8").splitlines() if line.strip()]
    return [text for row in rows if (text := row.get("text") or row.get("query"))]


def rounds_of(queries: list[str], rounds: int, each: int) -> list[list[str]]:
    """Cut queries into rounds; each has its own as far as there are enough."""
    endless = cycle(queries)
    return [list(islice(endless, each)) for _ in range(rounds)]


def _shuffled(choose: random.Random, queries) -> list[str]:
    found = sorted({one for one in queries if one})
    choose.shuffle(found)
    return found


def _headings(text: str) -> list[str]:
    plain = [re.sub(r"[`*_\[\]]|\(.*?\)|\{.*?\}", "", one).strip() for one in HEADING.findall(text)]
    return [one for one in plain if one.isascii() and len(one.split()) in WORDS_OF_A_HEADING]


def _question(choose: random.Random, heading: str) -> str:
    return choose.choice(QUESTIONS).format(heading.lower())


def _words(choose: random.Random, corpus: Corpus, text: str) -> str:
    usual = sorted({word.lower() for word in WORD.findall(text) if len(word) > 3 and text.isascii()})
    known = [word for word in usual if 50 < corpus.rank.get(word, 0) < 10 * FREQUENT]
    return " ".join(choose.sample(known, choose.randint(2, 4))) if len(known) > 4 else ""


def _name(choose: random.Random, text: str, name: str) -> str:
    if not re.search(r"[_:.#/()-]|[a-z][A-Z]", name):
        return ""
    other = choose.choice(WORD.findall(text) or [""])
    return f"{name} {other.lower()}" if choose.random() < 0.5 else name
