"""Requests for an answer, the passages chosen for it, the answer, and its size in tokens."""

from __future__ import annotations

import re
from math import ceil
from typing import Literal

from pydantic import AliasChoices, AliasGenerator, ConfigDict, Field
from pydantic.alias_generators import to_camel

from kbhub.frozen import Model
from kbhub.search.judge import STRONG, WEAK
from kbhub.search.plan import WeightedTerm
from kbhub.types import Skipped, Verdict

_PIECE = re.compile(
    r"(?P<word>[A-Za-z]+)|(?P<number>[0-9]+)|(?P<indent>[ \t]{2,})|(?P<run>([^\w\s])\5*)"
    "|(?P<dense>[\u0e00-\u0eff\u1000-\u109f\u1780-\u17ff\u3040-\u30ff\u3400-\u9fff\uac00-\ud7af\uf900-\ufaff]+)"
    r"|(?P<other>\w+)|(?P<rest>[^\S \t])"
)
"""The pieces of a text; a single blank is part of the word behind it."""
_SIZES = {
    "word": 5,  # common ASCII words of any length are one token, rare ones are split
    "number": 3,  # as most tokenizers group digits
    "indent": 4,
    "run": 4,  # of equal marks (`----`)
    "dense": 1,  # scripts without spaces, and Hangul
    "other": 2,  # other scripts
    "rest": 1,
}
"""Kind of a piece → its characters per token."""

Writer = Literal["sampling", "ollama", "extractive", "none"]
"""The writer: the client's model, a local Ollama, kbhub itself by quoting sentences, or none."""

Tier = Literal["direct", "summarized", "related", "nearest"]
"""Kind of passage: a strong hit, a weaker one, a neighbour of a strong one, or the nearest if nothing is better."""

Outcome = Literal["written", "passages", "not_answered", "not_covered"]

MAX_TOKENS, LEAST_TOKENS, MOST_TOKENS = 500, 50, 4_000
"""Tokens of a written answer: the default and the minimum of knowledgebased, and more than a summary needs."""

LEAST_BUDGET, MOST_BUDGET = 100, 100_000
"""Limits of the budget for packed passages: some lines with their reference, and half of a large context window."""


def estimated_tokens(text: str) -> int:
    """Estimate the tokens of a text for an unknown model.

    Compared with the packaged model's tokenizer, over 12,900 paragraphs of five collections, half of the estimates are
    14 to 32 % too high or more, and 1 of 100 is up to 21 % too low (`benchmarks/answers.py --tokens`). The tokenizers
    of current models were not measured.
    """
    return sum(ceil(len(piece[0]) / _SIZES[piece.lastgroup or ""]) for piece in _PIECE.finditer(text))


class AskOptions(Model):
    """How to answer; rarely needed."""

    model_config = ConfigDict(
        frozen=True,
        extra="forbid",
        populate_by_name=True,
        alias_generator=AliasGenerator(validation_alias=lambda name: AliasChoices(name, to_camel(name))),
    )

    budget: int | None = Field(
        None,
        ge=LEAST_BUDGET,
        le=MOST_BUDGET,
        description="Return the best passages that fit in this many tokens, instead of an answer.",
    )
    written_by: Writer | None = Field(
        None, description="Only this writer: your own model, Ollama, sentences picked without a model, or none."
    )
    threshold: float = Field(WEAK, ge=0, le=1, description="Minimum score of passages to use.")
    direct_threshold: float = Field(STRONG, ge=0, le=1, description="Minimum score of passages to quote in full.")
    max_tokens: int = Field(
        MAX_TOKENS, ge=LEAST_TOKENS, le=MOST_TOKENS, description="Maximum length of the answer, in tokens."
    )


class Source(Model):
    """A part of a document that may answer."""

    number: int = Field(description="Its number in citations, from 1.")
    ref: str = Field(description="Ref of the document.")
    docid: str = Field(description="Its short id.")
    title: str = Field(description="Its title.")
    headings: tuple[str, ...] = Field((), description="Headings above the part, outermost first.")
    start_line: int = Field(description="First line, from 1.")
    end_line: int = Field(description="Last line.")
    score: float | None = Field(description="Score in the search; null for a neighbour that the search did not find.")
    tier: Tier = Field(description="`direct`, `summarized`, `related`, or `nearest` where nothing covers the question.")
    reason: str = Field(description="Why it is included.")
    outdated: str | None = Field(
        None, description="Why it may no longer hold: superseded, expired, to be reviewed, or its file was deleted."
    )
    rejected: bool = Field(False, description="Whether it is a memory of a way that was tried, and not taken.")
    trust: str | None = Field(
        None, description="By its front matter, `generated` (unverified), `machine-confirmed` or `human-reviewed`."
    )
    duplicates: tuple[str, ...] = Field(
        (), description="Refs of copies, translations and other versions, which are left out."
    )


class Passage(Source):
    """The same with its text."""

    in_code: bool = Field(False, description="Whether it begins inside a code block.")
    table_header: str = Field("", description="Header of the table it begins in.")
    text: str = Field(description="The lines, verbatim.")

    @property
    def readable(self) -> str:
        """The text, with the header of a table that it begins within."""
        return f"{self.table_header}\n{self.text}" if self.table_header else self.text


class Reference(Source):
    """One row of the table of references."""

    sent: bool = Field(description="Whether it was sent to a model.")
    cited: bool = Field(description="Whether the answer cites it.")


class Support(Model):
    """What a sentence of the answer rests on."""

    number: int = Field(description="The reference it cites.")
    claim: str = Field(description="The sentence, without its citations.")
    quote: str = Field(description="The part of the passage most similar to it, verbatim.")
    line: int = Field(description="First line of that part in the document.")
    overlap: float = Field(ge=0, le=1, description="Share of the sentence's words that the quote has.")


class Answer(Model):
    """A question, answered as well as can be."""

    question: str = Field(description="The question.")
    outcome: Outcome = Field(
        description="`written`; `passages`, for you to write from; `not_answered`: a model read the passages and says "
        "they do not answer; `not_covered`: nothing here is near enough."
    )
    text: str = Field(
        description="The answer, in Markdown; `[n]` cites reference n for the text before it. Empty for `passages`."
    )
    written_by: Writer = Field(description="Who wrote it.")
    model: str | None = Field(None, description="The model that wrote it, by its own name.")
    why: tuple[str, ...] = Field((), description="Why this writer, as sentences.")
    verdict: Verdict | None = Field(None, description="Whether the bases cover the question, as judged by the search.")
    references: tuple[Reference, ...] = Field((), description="What was found, best first.")
    passages: tuple[Passage, ...] = Field(
        (),
        description="Strong hits, verbatim, unless the text quotes them; with a budget, all that fit; "
        "for `not_covered`, the nearest.",
    )
    support: tuple[Support, ...] = Field((), description="The evidence for each sentence.")
    unmatched: tuple[str, ...] = Field((), description="Words of the question that no document contains.")
    removed: int = Field(0, description="Number of removed citations whose source does not exist.")
    dropped: tuple[str, ...] = Field(
        (), description="Sentences of the model that were removed because they cited nothing."
    )
    tokens: int = Field(0, description="Estimated tokens of `text` and `passages`.")
    searched: tuple[str, ...] = Field((), description="Bases that were searched.")
    skipped: tuple[Skipped, ...] = Field((), description="Bases that were not searched, and why.")
    notes: tuple[str, ...] = Field((), description="Limits of this answer, as sentences.")


class Prepared(Model):
    """A question with the passages chosen for it: all that is needed to have it answered, now or a round trip later."""

    question: str = Field(description="What was asked.")
    options: AskOptions = Field(description="How to answer.")
    outcome: Outcome | None = Field(None, description="The outcome, if there is nothing to write.")
    passages: tuple[Passage, ...] = Field((), description="Best first.")
    sent: tuple[int, ...] = Field((), description="Numbers of those that a model gets.")
    weights: tuple[WeightedTerm, ...] = Field((), description="Words of the question.")
    unmatched: tuple[str, ...] = Field((), description="Those that occur nowhere in the bases.")
    verdict: Verdict | None = Field(None, description="That of the search.")
    searched: tuple[str, ...] = Field((), description="Bases that were searched.")
    skipped: tuple[Skipped, ...] = Field((), description="Bases that were not, and why.")
    notes: tuple[str, ...] = Field((), description="What limits the answer.")


class WritingRequest(Model):
    """What a model is asked."""

    system: str = Field(description="The rules.")
    prompt: str = Field(description="The question and the passages.")
    max_tokens: int = Field(description="Tokens to write at most.")
