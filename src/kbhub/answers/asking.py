"""The path from question to answer: search, choose passages, have a writer answer, check the text."""

from __future__ import annotations

from typing import TYPE_CHECKING

from kbhub.answers.extractive import best_line
from kbhub.answers.models import AskOptions, Prepared, Weight
from kbhub.answers.packing import fitting, packed
from kbhub.answers.prompts import request_of
from kbhub.answers.tiers import SEARCHED_HITS, in_short, nearest, tiered
from kbhub.answers.writers import Written, finish_extracted, finish_unwritten, finish_written
from kbhub.errors import EmbedderError, ModelUnavailable, UsageError
from kbhub.index.query import beginning
from kbhub.memory.known import count_refs
from kbhub.memory.querylog.recording import record
from kbhub.models.embedding import StaticEmbedder, packaged_embedder
from kbhub.models.inference import Deadline, Ollama, Prompt
from kbhub.search.llm_assistance import search_assisted
from kbhub.search.notes import LEADING_NOTES
from kbhub.search.search import term_weights
from kbhub.types import Query
from kbhub.workspace.settings import DEFAULT_OLLAMA_MODEL

if TYPE_CHECKING:
    from collections.abc import Sequence

    from kbhub.answers.models import Answer
    from kbhub.hub import Hub
    from kbhub.models.embedding import Embedder
    from kbhub.types import SearchResult

PROMPT_TOKENS = 3_000
"""Estimated tokens of the passages sent to a model: with the rules and 500 tokens of answer they fit the context of
4,096 that local models are run with.
"""

BUDGET = 2_000
"""Estimated tokens of passages if no answer is to be written and no budget is given."""

ROOMY = 400
"""Tokens that fit a passage of some lines with its reference, however long the names."""

NOTHING_FITS = "No passage fits a budget of {budget} tokens with its reference; {roomy} hold some lines."
FORCED = "It was asked for."
NO_CLIENT = "Nobody's own model can be asked from here: that takes an MCP client that offers sampling."
CONFIGURED = "A model of Ollama is configured (`answers.model`)."
NO_OLLAMA = "No model of Ollama is configured (`answers.model`)."


def ask(
    hub: Hub,
    question: str,
    *,
    queries: Sequence[str] = (),
    bases: Sequence[str] = (),
    options: AskOptions | None = None,
    asker: str | None = None,
) -> Answer:
    """Answer a question from the bases, by a local model if there is one, else by their own sentences.

    Args:
        hub: what knows the bases; its indexes are taken as they are.
        question: what is asked.
        queries: other wordings of the question, as of `Query`.
        bases: ids of the bases to look in; none for all.
        options: how to answer.
        asker: as for `prepare`.

    Raises:
        UsageError: there is no question, or the options contradict each other.
        BaseNotFound: a base is not active.
    """
    prepared = prepare(hub, question, queries=queries, bases=bases, options=options, asker=asker)
    why = (NO_CLIENT,) if prepared.options.written_by == "sampling" else ()
    return answer_without_client(hub, prepared, why)


def prepare(
    hub: Hub,
    question: str,
    *,
    queries: Sequence[str] = (),
    bases: Sequence[str] = (),
    options: AskOptions | None = None,
    asker: str | None = None,
) -> Prepared:
    """Search, and choose the passages that answer a question.

    Args:
        hub: hub to search with.
        question: the question.
        queries: other wordings of the question, as of `Query`.
        bases: ids of the bases to search; none for all.
        options: how to answer.
        asker: name for the query log: an MCP client, or `USER`; None to skip logging.

    Returns:
        All that a writer needs, without another look at the bases.

    Raises:
        UsageError, BaseNotFound: as for `ask`.
    """
    options = options or AskOptions()
    _check(question, options)
    question = question.encode("utf-8", "replace").decode("utf-8").strip()
    mode = hub.config().settings.search.mode
    query = Query(
        text=question,
        queries=tuple(queries),
        bases=tuple(bases),
        mode=mode,
        limit=SEARCHED_HITS,
        granularity="chunk",
    )
    result = search_assisted(hub, query)
    if asker:
        record(hub, result, query, asker)
    prepared = Prepared(
        question=beginning(question),
        options=options,
        verdict=result.verdict,
        searched=result.searched,
        skipped=result.skipped,
        unmatched=result.unmatched,
        notes=tuple(note for note in result.notes if note not in LEADING_NOTES),
    )
    covered = result.verdict != "none" and any(hit.score >= options.threshold for hit in result.hits)
    if not covered:
        candidates = nearest(hub, result)
        weighted = prepared.model_copy(update={"passages": candidates, "weights": _weights(hub, result, queries)})
        line = best_line(weighted, _sentence_embedder(hub)) if candidates else None
        return prepared.model_copy(
            update={"outcome": "not_covered", "passages": in_short(hub, result, candidates, line)}
        )
    if options.budget or options.written_by == "none":
        budget = options.budget or BUDGET
        passages = packed(hub, result, options, budget)
        notes = prepared.notes if passages else (NOTHING_FITS.format(budget=budget, roomy=ROOMY), *prepared.notes)
        return prepared.model_copy(update={"outcome": "passages", "passages": passages, "notes": notes})
    passages = tiered(hub, result, options)
    sent = fitting(passages, PROMPT_TOKENS)
    return prepared.model_copy(update={"passages": passages, "sent": sent, "weights": _weights(hub, result, queries)})


def answer_without_client(hub: Hub, prepared: Prepared, why: Sequence[str] = ()) -> Answer:
    """Answer a prepared question, with a local model if one is configured, else by quoting sentences.

    Args:
        hub: hub it was prepared with.
        prepared: the question with its passages.
        why: why the client's own model did not write, if it should have.
    """
    reasons = list(why)
    writer = prepared.options.written_by
    if prepared.outcome:
        return counted(hub, finish_unwritten(prepared, [FORCED] if writer == "none" else []))
    if writer in (None, "ollama"):
        finished = _by_ollama(hub, prepared, [*reasons, FORCED if writer else CONFIGURED])
        if not isinstance(finished, str):
            return counted(hub, finished)
        reasons.append(finished)
    if writer == "extractive":
        reasons.append(FORCED)
    return counted(hub, finish_extracted(prepared, _sentence_embedder(hub), reasons))


def counted(hub: Hub, answer: Answer) -> Answer:
    """Count a use of each memory that an answer cites or returns as a passage; return the answer."""
    refs = {reference.ref for reference in answer.references if reference.cited or answer.outcome == "passages"}
    count_refs(hub, refs)
    return answer


def _by_ollama(hub: Hub, prepared: Prepared, why: Sequence[str]) -> Answer | str:
    """Return the answer of a local model, or why there is none."""
    settings = hub.config().settings.answers
    model = settings.model or (DEFAULT_OLLAMA_MODEL if prepared.options.written_by else None)
    if model is None:
        return NO_OLLAMA
    request = request_of(prepared)
    try:
        text = Ollama(hub.options.env).generate(
            model,
            Prompt(request.system, request.prompt),
            Deadline(settings.seconds, "answers.seconds"),
            most_tokens=request.max_tokens,
        )
    except ModelUnavailable as error:
        return str(error)
    finished = finish_written(prepared, Written(text, "ollama", model), why)
    return f"{model!r} of Ollama was asked, but {finished}." if isinstance(finished, str) else finished


def _check(question: str, options: AskOptions) -> None:
    if not question.strip():
        raise UsageError("There is no question to answer.")
    if options.direct_threshold < options.threshold:
        raise UsageError(
            f"direct_threshold ({options.direct_threshold:g}) is below threshold ({options.threshold:g}); "
            "what is quoted whole must be at least as good as what is used."
        )
    if options.budget and options.written_by not in (None, "none"):
        raise UsageError(f"A budget gives passages and no answer by {options.written_by}; leave one of the two out.")


def _weights(hub: Hub, result: SearchResult, queries: Sequence[str]) -> tuple[Weight, ...]:
    """Weigh the words of the question and its other wordings over the bases that were searched."""
    terms = term_weights(hub, result.searched, " ".join((result.query, *queries)))
    return tuple(Weight(text=term.text, stems=term.stems, weight=term.weight) for term in terms)


def _sentence_embedder(hub: Hub) -> Embedder | None:
    """Return the embedder for sentences, which is the packaged model, or None if embedding is off."""
    try:
        own = hub.embedder()
    except EmbedderError:
        return None
    return own if own is None or isinstance(own, StaticEmbedder) else packaged_embedder()
