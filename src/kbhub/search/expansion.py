"""Query expansion by a language model of Ollama; optional and off by default."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

from pydantic import BaseModel, Field

from kbhub.errors import ModelUnavailable
from kbhub.frozen import Model
from kbhub.index.query.parser import parse_query
from kbhub.index.query.tokens import normalise
from kbhub.models.inference import Deadline, Prompt, fence_mark, quoted, quoting_rule
from kbhub.models.ollama import Ollama, StoredAnswers
from kbhub.search.search import search

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping
    from pathlib import Path

    from kbhub.hub import Hub
    from kbhub.types import Query, SearchResult
    from kbhub.workspace.settings import ExpansionSettings

MOST_QUERIES = 3
"""Alternative queries; each costs two searches, and later ones drift off topic."""

QUERY_CHARACTERS, PASSAGE_CHARACTERS = 120, 800
"""Length limits of an alternative query and of the passage; longer output repeats itself."""

MOST_TOKENS = 300
"""Limit of the answer: three queries and a passage of three sentences, with room to spare."""

ASKED_CHARACTERS = 1000
"""Characters of the query that the model sees; enough to tell what a pasted page is about."""

ALREADY_STRONG = "Not expanded: the query already finds strong hits."
"""Note on an answer that needed no expansion."""

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
    note: str | None = Field(None, description="Why there are no other words.")
    cached: bool = Field(False, description="Whether they came from the cache.")


class _Answer(BaseModel):
    """The form of the model's answer. Lengths are checked afterwards: a grammar that counts letters is very slow."""

    queries: Annotated[list[str], Field(min_length=1, max_length=MOST_QUERIES)]
    passage: str


def expand(text: str, settings: ExpansionSettings, env: Mapping[str, str], cache: Path) -> Expansion:
    """Ask a model for other wordings of a query; on any failure, return an empty expansion with a note.

    Filters and exclusions of the query are not shown to the model. The caller checks `settings.enabled`. `OLLAMA_HOST`
    in `env` says where Ollama is; `cache` is kbhub's cache directory, where answers are stored by model, prompt and
    query.
    """
    question = _question(text)
    if not question:
        return Expansion(note="Not expanded: the query has no words to find others for.")
    prompt = expansion_prompt(question)
    asked = ("expansion", settings.model, prompt.system, prompt.user)
    stored = StoredAnswers(cache)
    if cached := stored.load(Expansion, asked):
        return cached.model_copy(update={"cached": True})
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
        return Expansion(note=f"Not expanded: {settings.model!r} found no other words. Try another model.")
    stored.save(expansion, asked)
    return expansion


def search_expanding(hub: Hub, query: Query, settings: ExpansionSettings) -> SearchResult:
    """Search; unless the hits are strong, ask a model for other wordings and search for them, too."""
    result = search(hub, query)
    if is_strong(result):
        return result.model_copy(update={"notes": (*result.notes, ALREADY_STRONG)})
    expansion = expand(query.text, settings, hub.options.env, hub.cache)
    notes = [expansion.note] if expansion.note else []
    if expansion.queries or expansion.passage:
        result = search(hub, query.model_copy(update={"queries": expansion.queries, "passage": expansion.passage}))
        notes.append(f"Also searched for: {'; '.join(expansion.queries or ('a hypothetical answer',))}.")
    return result.model_copy(update={"notes": (*result.notes, *notes)})


def expansion_prompt(question: str) -> Prompt:
    """Build the prompt for a question without filters; deterministic, since it is part of the cache key."""
    mark = fence_mark([question])
    return Prompt(f"{_TASK} {quoting_rule(mark)}", quoted(question, mark, "query"))


def is_strong(result: SearchResult) -> bool:
    """Return whether a first search is so good that expanding the query can only do harm."""
    return result.verdict == "strong" and bool(result.hits)


def plain_words(text: str) -> str:
    """Strip quotes, leading dashes and colons, so that a text is not parsed as phrases, exclusions or filters."""
    words = (word.lstrip("-") for word in normalise(text).replace('"', " ").replace(":", " ").split())
    return " ".join(word for word in words if word)


def printable(text: str) -> str:
    """Return a text on one line, without control and text-direction characters."""
    return "".join(character for character in " ".join(text.split()) if character.isprintable())


def _question(text: str) -> str:
    """Return the query's text without filters and exclusions."""
    return " ".join(parse_query(text).text.split())[:ASKED_CHARACTERS]


def _checked(answer: _Answer, question: str) -> Expansion:
    """Turn a model's answer into plain, distinct queries and a passage of limited length."""
    queries = dict.fromkeys(_short(plain_words(printable(query)), QUERY_CHARACTERS) for query in answer.queries)
    original = normalise(question).casefold()
    others = [query for query in queries if query and normalise(query).casefold() != original]
    return Expansion(
        queries=_distinct(others),
        passage=_short(plain_words(printable(answer.passage)), PASSAGE_CHARACTERS),
    )


def _distinct(queries: Iterable[str]) -> tuple[str, ...]:
    """Drop queries that are the same words in another order."""
    kept: dict[frozenset[str], str] = {}
    for query in queries:
        words = frozenset(term.text.casefold() for term in parse_query(query).terms)
        if words:
            kept.setdefault(words, query)
    return tuple(kept.values())[:MOST_QUERIES]


def _short(text: str, most: int) -> str:
    """Truncate a text at a word boundary."""
    return text if len(text) <= most else (text[:most].rpartition(" ")[0] or text[:most])
