"""A question → an answer: search, choose passages, have somebody write, check what was written."""

from __future__ import annotations

from contextlib import ExitStack
from typing import TYPE_CHECKING

from kbhub.answers.extractive import best_line
from kbhub.answers.models import AskOptions, Prepared, Weight
from kbhub.answers.packing import fitting, packed
from kbhub.answers.prompts import request_of
from kbhub.answers.tiers import SEARCHED_HITS, in_short, nearest, tiered
from kbhub.answers.writers import Written, finish_extracted, finish_unwritten, finish_written
from kbhub.assisted import search_assisted
from kbhub.embedding import StaticEmbedder, packaged_embedder
from kbhub.errors import EmbedderError, IndexUnavailable, ModelUnavailable, UsageError
from kbhub.inference import Deadline, Ollama, Prompt
from kbhub.memory.known import count_refs
from kbhub.model_settings import DEFAULT_OLLAMA_MODEL
from kbhub.query import beginning, parsed
from kbhub.querylog.recording import record
from kbhub.retrieval import keyword_ranking
from kbhub.search import LEADING_NOTES
from kbhub.types import Query

if TYPE_CHECKING:
    from collections.abc import Sequence

    from kbhub.answers.models import Answer
    from kbhub.embedding import Embedder
    from kbhub.hub import Hub
    from kbhub.types import SearchResult

PROMPT_TOKENS = 3_000
"""Estimated tokens of the passages that a model gets: with the rules and 500 tokens of answer they fit the 4,096 of
context that local models are run with."""

BUDGET = 2_000
"""Estimated tokens of passages where nobody is to write and no budget is given."""

ROOMY = 400
"""Tokens that hold a passage of some lines with its reference, however long its names are."""

NOTHING_FITS = "No passage fits a budget of {budget} tokens with its reference; {roomy} hold some lines."
FORCED = "It was asked for."
NO_CLIENT = "Nobody's own model can be asked from here: that takes an MCP client that offers sampling."
CONFIGURED = "A model of Ollama is configured (`answers.model`)."
NO_OLLAMA = "No model of Ollama is configured (`answers.model`)."


def ask(
    hub: Hub,
    question: str,
    *,
    bases: Sequence[str] = (),
    options: AskOptions | None = None,
    asker: str | None = None,
) -> Answer:
    """Answer a question from the bases, by a local model if there is one, else by their own sentences.

    Args:
        hub: what knows the bases; its indexes are taken as they are.
        question: what is asked.
        bases: ids of the bases to look in; none for all.
        options: how to answer.
        asker: as for `prepare`.

    Raises:
        UsageError: there is no question, or the options contradict each other.
        BaseNotFound: a base is not active.
    """
    prepared = prepare(hub, question, bases=bases, options=options, asker=asker)
    why = (NO_CLIENT,) if prepared.options.written_by == "sampling" else ()
    return answer_without_client(hub, prepared, why)


def prepare(
    hub: Hub,
    question: str,
    *,
    bases: Sequence[str] = (),
    options: AskOptions | None = None,
    asker: str | None = None,
) -> Prepared:
    """Search, and choose the passages that answer a question.

    Args:
        hub: what searches.
        question: what is asked.
        bases: ids of the bases to look in; none for all.
        options: how to answer.
        asker: who asks, for the query log: the name of an MCP client, or `USER`; none if it is not to be noted.

    Returns:
        What is needed to have it answered, without another look at the bases.

    Raises:
        UsageError, BaseNotFound: as for `ask`.
    """
    options = options or AskOptions()
    _check(question, options)
    question = question.encode("utf-8", "replace").decode("utf-8").strip()
    mode = hub.config().settings.search.mode
    query = Query(text=question, bases=tuple(bases), mode=mode, limit=SEARCHED_HITS, granularity="chunk")
    result = search_assisted(hub, query)
    if asker:
        record(hub, result, query, asker)
    made = Prepared(
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
        found = nearest(hub, result)
        weighed = made.model_copy(update={"passages": found, "weights": _weights(hub, result)})
        line = best_line(weighed, _sentence_embedder(hub)) if found else None
        return made.model_copy(update={"outcome": "not_covered", "passages": in_short(hub, result, found, line)})
    if options.budget or options.written_by == "none":
        budget = options.budget or BUDGET
        passages = packed(hub, result, options, budget)
        notes = made.notes if passages else (NOTHING_FITS.format(budget=budget, roomy=ROOMY), *made.notes)
        return made.model_copy(update={"outcome": "passages", "passages": passages, "notes": notes})
    passages = tiered(hub, result, options)
    sent = fitting(passages, PROMPT_TOKENS)
    return made.model_copy(update={"passages": passages, "sent": sent, "weights": _weights(hub, result)})


def answer_without_client(hub: Hub, prepared: Prepared, why: Sequence[str] = ()) -> Answer:
    """Answer what was prepared, by a local model if one is configured, else by sentences of the passages.

    Args:
        hub: what it was prepared with.
        prepared: the question with its passages.
        why: why the client's own model did not write, if it was to.
    """
    reasons = list(why)
    wanted = prepared.options.written_by
    if prepared.outcome:
        return counted(hub, finish_unwritten(prepared, [FORCED] if wanted == "none" else []))
    if wanted in (None, "ollama"):
        finished = _by_ollama(hub, prepared, [*reasons, FORCED if wanted else CONFIGURED])
        if not isinstance(finished, str):
            return counted(hub, finished)
        reasons.append(finished)
    if wanted == "extractive":
        reasons.append(FORCED)
    return counted(hub, finish_extracted(prepared, _sentence_embedder(hub), reasons))


def counted(hub: Hub, answer: Answer) -> Answer:
    """Count a use of each memory that an answer cites, or gives to be written from, and give the answer."""
    count_refs(hub, {one.ref for one in answer.references if one.cited or answer.outcome == "passages"})
    return answer


def _by_ollama(hub: Hub, prepared: Prepared, why: Sequence[str]) -> Answer | str:
    """Have a local model write the answer, or say why there is none."""
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


def _weights(hub: Hub, result: SearchResult) -> tuple[Weight, ...]:
    """Give the words of a question with their weight over the bases that were searched."""
    with ExitStack() as stack:
        indexes = []
        for base in hub.select(result.searched):
            index = hub.index(base)
            try:
                stack.enter_context(index.snapshot())
            except IndexUnavailable:
                continue
            indexes.append(index)
        try:
            terms = keyword_ranking(indexes, parsed(result.query).terms).terms
        except IndexUnavailable:  # damaged since it was searched: every word counts the same
            terms = keyword_ranking([], parsed(result.query).terms).terms
    return tuple(Weight(text=term.text, stems=term.stems, weight=term.weight) for term in terms)


def _sentence_embedder(hub: Hub) -> Embedder | None:
    """Give what compares sentences: the packaged model, which takes no time; none if the user wants no embedder."""
    try:
        own = hub.embedder()
    except EmbedderError:
        return None
    return own if own is None or isinstance(own, StaticEmbedder) else packaged_embedder()
