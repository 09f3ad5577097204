"""A query → other words for it, by a language model of Ollama: off unless asked for, and never needed."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

from pydantic import BaseModel, Field

from kbhub.errors import ModelUnavailable
from kbhub.frozen import Model
from kbhub.inference import Deadline, Ollama, Prompt, StoredAnswers, fence_mark, quoted, quoting_rule
from kbhub.query import normalise, parse_query

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping
    from pathlib import Path

    from kbhub.model_settings import ExpansionSettings
    from kbhub.types import SearchResult

MOST_QUERIES = 3
"""Other queries; each costs two searches, and later ones stray."""

QUERY_CHARACTERS, PASSAGE_CHARACTERS = 120, 800
"""Of another query and of the passage; what goes on longer repeats itself."""

MOST_TOKENS = 300
"""Length of the answer: three queries and a passage of three sentences, with room."""

ASKED_CHARACTERS = 1000
"""Of the query that the model sees; a pasted page says within that what it is about."""

ALREADY_STRONG = "Not expanded: the query as it stands finds strong hits."
"""Note of an answer for which no model was asked."""

_TASK = (
    "You help a search engine over technical documents and notes. You get a search query. Answer with one JSON object "
    'and nothing else: {"queries": [...], "passage": "..."}. "queries" are two or three short keyword queries that '
    "ask for the same in other words: synonyms, names of the things meant, the terms that an expert would use. "
    '"passage" is two or three sentences such as a document that answers the query would contain. Write in the '
    "language of the query."
)


class Expansion(Model):
    """Other words for a query."""

    queries: tuple[str, ...] = Field((), description="Keyword queries that ask for the same, at most three.")
    passage: str = Field("", description="What a document that answers might say; empty if there is none.")
    note: str | None = Field(None, description="Why there are no other words, in a sentence.")
    cached: bool = Field(False, description="Whether they were known from an earlier time.")


class _Answer(BaseModel):
    """The form of the model's answer. Lengths are checked afterwards: a grammar that counts letters takes for ever."""

    queries: Annotated[list[str], Field(min_length=1, max_length=MOST_QUERIES)]
    passage: str


def expand(text: str, settings: ExpansionSettings, env: Mapping[str, str], cache: Path) -> Expansion:
    """Find other words for a query.

    Args:
        text: the query, as the user wrote it; its filters and exclusions are not shown to the model.
        settings: which model, and how long to wait; whether it is wanted at all is for the caller to know.
        env: environment variables; `OLLAMA_HOST` says where Ollama is.
        cache: kbhub's cache directory, where answers are kept by model, prompt and query.

    Returns:
        The words; whatever goes wrong, none and a note.
    """
    question = _question(text)
    if not question:
        return Expansion(note="Not expanded: the query has no word to find others for.")
    prompt = expansion_prompt(question)
    asked = ("expansion", settings.model, prompt.system, prompt.user)
    stored = StoredAnswers(cache)
    if known := stored.load(Expansion, asked):
        return known.model_copy(update={"cached": True})
    try:
        answer = Ollama(env).generate_as(
            _Answer,
            settings.model,
            prompt,
            Deadline(settings.seconds, "expansion.seconds"),
            most_tokens=MOST_TOKENS,
        )
    except ModelUnavailable as error:
        return Expansion(note=f"Not expanded: {error}")
    expansion = _checked(answer, question)
    if not expansion.queries and not expansion.passage:
        return Expansion(note=f"Not expanded: {settings.model!r} found no other words; try another model.")
    stored.save(expansion, asked)
    return expansion


def expansion_prompt(question: str) -> Prompt:
    """Give what the model is asked: the same for the same question.

    Args:
        question: the query without filters.
    """
    mark = fence_mark([question])
    return Prompt(f"{_TASK} {quoting_rule(mark)}", quoted(question, mark, "query"))


def is_strong(result: SearchResult) -> bool:
    """Say whether a first search found enough that other words for the query can only do harm.

    Args:
        result: of the query as it stands.
    """
    return result.verdict == "strong" and bool(result.hits)


def plain_words(text: str) -> str:
    """Give a text without what the language of queries would take for a phrase, an exclusion or a filter.

    Args:
        text: any string, say of a model.
    """
    words = (word.lstrip("-") for word in normalise(text).replace('"', " ").replace(":", " ").split())
    return " ".join(word for word in words if word)


def printable(text: str) -> str:
    """Give a text on one line, without characters that move cursors or turn the direction of writing."""
    return "".join(character for character in " ".join(text.split()) if character.isprintable())


def _question(text: str) -> str:
    """Give the words of a query that have a meaning, without its filters and exclusions."""
    return " ".join(parse_query(text).text.split())[:ASKED_CHARACTERS]


def _checked(answer: _Answer, question: str) -> Expansion:
    """Give what can be searched for: no commands of the query language, no repetitions, nothing endless."""
    queries = dict.fromkeys(_short(plain_words(printable(one)), QUERY_CHARACTERS) for one in answer.queries)
    said = normalise(question).casefold()
    others = [one for one in queries if one and normalise(one).casefold() != said]
    return Expansion(
        queries=_distinct(others),
        passage=_short(plain_words(printable(answer.passage)), PASSAGE_CHARACTERS),
    )


def _distinct(queries: Iterable[str]) -> tuple[str, ...]:
    """Give queries that are not the same words in another order."""
    kept: dict[frozenset[str], str] = {}
    for query in queries:
        words = frozenset(term.text.casefold() for term in parse_query(query).terms)
        if words:
            kept.setdefault(words, query)
    return tuple(kept.values())[:MOST_QUERIES]


def _short(text: str, most: int) -> str:
    """Give the beginning of a text, cut between words."""
    return text if len(text) <= most else (text[:most].rpartition(" ")[0] or text[:most])
