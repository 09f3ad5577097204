"""From question to answer: search, choose passages, write the answer, check it."""

from __future__ import annotations

import time
from collections.abc import Callable, Collection, Sequence

from kbhub.answers.answer import (
    Answer,
    AskOptions,
    Outcome,
    Passage,
    Prepared,
    Reference,
    Source,
    Writer,
    estimated_tokens,
)
from kbhub.answers.citations import Checked, check, request_of, says_no_answer
from kbhub.answers.extractive import extract
from kbhub.answers.passages import SEARCHED_HITS, fitting, nearest, packed, tiered, with_decisions
from kbhub.errors import EmbedderError, ModelUnavailable, UsageError
from kbhub.hub import Hub
from kbhub.index.query.excerpts import ASKS_DECISION
from kbhub.index.query.parser import STOP_WORDS, beginning, stems
from kbhub.index.query.spelling import known_stems
from kbhub.memory.catalog import count_refs
from kbhub.models.embedding import Embedder, StaticEmbedder, packaged_embedder
from kbhub.search.evidence import QueryTerms, lacking, rarity, words_of
from kbhub.search.judge import LEADING_NOTES, NEWEST, STRONG, is_unfinished
from kbhub.search.plan import TermWeights
from kbhub.search.search import NO_LLM_INSTALLED, LlmOptions, search_assisted
from kbhub.types import Query
from kbhub.usage.log import record
from kbhub.values import struct
from kbhub.workspace.extensions import extensions, load
from kbhub.workspace.settings import DEFAULT_OLLAMA_MODEL

SHOWN_PASSAGES, SHOWN_TOKENS = 3, 900
"""Limits of direct passages shown verbatim with an answer, and of their estimated tokens; the first is always shown."""

NEAREST_TEXT = "This is the nearest found; it may not be an answer."
"""First sentence of an answer without a model, unless its best score is `STRONG`: docs/how-to/ask.md."""

NEAREST_QUOTED = 3

LACKING = 0.4
"""Rarity of the asked word, above the score of the best passage that lacks it, from which nothing is composed."""

LACKING_SHARE = 0.18
"""Least share of that word in the rarity of all: a long question says with its other words what it asks."""

ENGLISH = 0.5
"""Least share of known words in an English question; ordinary words of other languages would count as rare."""

NOT_COVERED_TEXT = "These bases probably do not cover this, or use other words."
NOT_SEEN_TEXT = "Nothing that was searched covers this."
NOT_YET_TEXT = "Nothing found yet that covers this."
NOT_SEARCHED_TEXT = "No base could be searched."
NOT_ANSWERED_TEXT = "The nearest passages do not answer this."

FOUND = ("verdict", "searched", "skipped", "unmatched")

PROMPT_TOKENS = 3_000
"""Estimated tokens of the passages sent to a model: with the rules and 500 tokens of answer they fit the context of
4,096 that local models are run with.
"""

BUDGET, ROOMY = 2_000, 400
"""Estimated tokens of passages if no answer is to be written and no budget is given, and those that fit a passage of
some lines with its reference, however long the names."""

NOTHING_FITS = "No passage fits in a budget of {budget} tokens with its reference; {roomy} would hold a few lines."

FORCED = "You requested it."

NO_CLIENT = "No client model is available here; that takes an MCP client that offers sampling."

CONFIGURED = "An Ollama model is configured (`answers.model`)."

NO_OLLAMA = "No Ollama model is configured (`answers.model`)."


@struct
class ModelText:
    """A model's text."""

    text: str
    by: Writer
    model: str | None


def finish_written(prepared: Prepared, written: ModelText, why: Sequence[str]) -> Answer | str:
    """Build an answer from a model's text, with the reasons for this writer, or return why the text is unusable."""
    if says_no_answer(written.text):
        return _answer(prepared, "not_answered", NOT_ANSWERED_TEXT, written.by, why, model=written.model)
    sent = [passage for passage in prepared.passages if passage.number in prepared.sent]
    checked = check(written.text, sent, prepared.options.max_tokens)
    if checked is None:
        return "what it wrote cites too little of the passages" if written.text.strip() else "it wrote nothing"
    return _answer(prepared, "written", checked.text, written.by, why, model=written.model, checked=checked)


def finish_unwritten(prepared: Prepared, why: Sequence[str] = ()) -> Answer:
    """Build an answer of passages alone, or one that says there are none."""
    text = ""
    if prepared.outcome == "not_covered":
        text = NOT_COVERED_TEXT if prepared.verdict else NOT_SEEN_TEXT  # no verdict: some bases were not searched
        text = NOT_YET_TEXT if is_unfinished(prepared.notes) else text
        text = text if prepared.searched else NOT_SEARCHED_TEXT
    return _answer(prepared, prepared.outcome or "passages", text, "none", why)


def finish_extracted(prepared: Prepared, embedder: Embedder | None, why: Sequence[str]) -> Answer:
    """Build an answer from sentences of the passages, or of passages alone if they have no sentence."""
    uncertain = prepared.verdict != "strong" and max([one.score or 0.0 for one in prepared.passages]) < STRONG
    if uncertain and _lacks_asked_word(prepared):
        return finish_unwritten(prepared.model_copy(update={"outcome": "not_covered"}), why)
    nearest = prepared.passages[:NEAREST_QUOTED] if uncertain else prepared.passages
    room = prepared.options.max_tokens - (estimated_tokens(NEAREST_TEXT) if uncertain else 0)
    options = prepared.options.model_copy(update={"max_tokens": room})
    draft = extract(prepared.model_copy(update={"passages": nearest, "options": options}), embedder)
    if draft is None:
        return finish_unwritten(prepared, (*why, "The passages have no sentence to quote."))
    text = f"{NEAREST_TEXT}\n\n{draft.text}" if uncertain else draft.text
    return _answer(prepared, "written", text, "extractive", why, checked=draft)


def _lacks_asked_word(prepared: Prepared) -> bool:
    """Return whether an English question turns on a word that its best passage lacks, with nothing that resembles it.

    A word weighs by its rarity in the language and in the bases: a product's name often goes without saying.
    """
    asked, known, best = prepared.question.lower().split(), known_stems(), prepared.passages[0]
    english = [word for word in asked if word in STOP_WORDS or known.issuperset(stems(word))]
    if len(english) < ENGLISH * len(asked):
        return False
    most = max((term.weight for term in prepared.weights), default=1.0)
    weights = {term.text: rarity(term.text) * term.weight / most for term in prepared.weights}
    names = words_of(best.ref)
    missing = QueryTerms(prepared.weights).examine(best.text, best.headings, best.title, (names,)).missing
    text = "\n".join((best.title, *best.headings, names, best.text))
    rarest = max(lacking([(word, weights[word]) for word, _ in missing], text), default=0.0)
    return rarest >= max(LACKING + (best.score or 0.0), LACKING_SHARE * sum(map(rarity, weights)))


def _answer(
    prepared: Prepared,
    outcome: Outcome,
    text: str,
    by: Writer,
    why: Sequence[str],
    *,
    model: str | None = None,
    checked: Checked | None = None,
) -> Answer:
    support = checked.support if checked else ()
    cited = {quote.number for quote in support}
    received = prepared.sent if by in ("sampling", "ollama") else ()
    passages = prepared.passages if outcome == "passages" else _shown(prepared, cited if by == "extractive" else ())
    sources = [(one.number, one.model_dump(include=set(Source.model_fields))) for one in prepared.passages]
    return Answer(
        question=prepared.question,
        outcome=outcome,
        text=text,
        written_by=by,
        model=model,
        why=tuple(why),
        references=tuple(Reference(**source, sent=at in received, cited=at in cited) for at, source in sources),
        passages=passages,
        support=support,
        removed=checked.removed if checked else 0,
        dropped=checked.dropped if checked else (),
        tokens=estimated_tokens(text) + sum(estimated_tokens(passage.readable) for passage in passages),
        notes=prepared.notes,
        **{name: getattr(prepared, name) for name in FOUND},
    )


def _shown(prepared: Prepared, quoted: Collection[int]) -> tuple[Passage, ...]:
    """Return the passages to show whole: unquoted direct ones, or the nearest if none covers the question."""
    if prepared.outcome == "not_covered":
        return prepared.passages[:1]
    room = SHOWN_TOKENS
    shown: list[Passage] = []
    for passage in prepared.passages:
        size = estimated_tokens(passage.readable)
        if passage.number in quoted or passage.tier != "direct":
            continue
        if len(shown) < SHOWN_PASSAGES and (size <= room or not (shown or quoted)):
            shown.append(passage)
            room -= size
    return tuple(shown)


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
    rewords: bool = True,
) -> Prepared:
    """Search, and choose the passages that answer a question; a writer needs no further look at the bases.

    `asker` is the name for the query log: an MCP client, or `USER`; None skips logging. `rewords` lets a local model
    reword what finds nothing. See `ask`.
    """
    options = options or AskOptions()
    _check(question, options)
    question = question.encode("utf-8", "replace").decode("utf-8").strip()
    mode, chosen = hub.config().settings.search.mode, tuple(bases)
    query = Query(
        text=question, queries=tuple(queries), bases=chosen, mode=mode, limit=SEARCHED_HITS, granularity="chunk"
    )
    began = time.perf_counter()
    weights = TermWeights(" ".join((question, *queries)))
    result = search_assisted(hub, query, weights=weights)
    local = rewords and options.written_by in (None, "ollama") and _local_model(hub, options)
    asked = queries or hub.config().settings.expansion.enabled or not any(one.searches for one in extensions())
    if local and not asked and result.searched and result.verdict == "none":
        result = search_assisted(hub, query, LlmOptions(expand=True, expand_model=local), weights)
    if ASKS_DECISION.search(question):
        result = result.model_copy(update={"hits": with_decisions(result.hits)})
    if asker:
        record(hub, result, query, asker, took=time.perf_counter() - began)
    prepared = Prepared(
        question=beginning(question),
        options=options,
        **{name: getattr(result, name) for name in FOUND},
        weights=tuple(weights.terms),
        notes=tuple(note for note in result.notes if note not in LEADING_NOTES),
    )
    covered = result.verdict != "none" and any(hit.score >= options.threshold for hit in result.hits)
    if not covered:
        passages = () if NEWEST in result.notes else nearest(hub, result, prepared, _sentence_embedder(hub))
        return prepared.model_copy(update={"outcome": "not_covered", "passages": passages})
    if options.budget or options.written_by == "none":
        budget = options.budget or BUDGET
        passages = packed(hub, result, options, budget)
        notes = prepared.notes if passages else (NOTHING_FITS.format(budget=budget, roomy=ROOMY), *prepared.notes)
        return prepared.model_copy(update={"outcome": "passages", "passages": passages, "notes": notes})
    passages = tiered(hub, result, options)
    sent = fitting(passages, PROMPT_TOKENS)
    return prepared.model_copy(update={"passages": passages, "sent": sent})


def answer_without_client(
    hub: Hub, prepared: Prepared, why: Sequence[str] = (), *, on_text: Callable[[str], object] | None = None
) -> Answer:
    """Answer a prepared question, with a local model if one is configured, else by quoting sentences.

    `why`: the client's own model did not write. `on_text` gets each piece of a model's text, citations unchecked.
    """
    reasons = list(why)
    writer = prepared.options.written_by
    if prepared.outcome:
        return counted(hub, finish_unwritten(prepared, [FORCED] if writer == "none" else []))
    if writer in (None, "ollama"):
        finished = _by_ollama(hub, prepared, [*reasons, FORCED if writer else CONFIGURED], on_text)
        if not isinstance(finished, str):
            return counted(hub, finished)
        reasons.append(finished)
    if writer == "extractive":
        reasons.append(FORCED)
    return counted(hub, finish_extracted(prepared, _sentence_embedder(hub), reasons))


def counted(hub: Hub, answer: Answer) -> Answer:
    """Count a use of each memory that an answer cites or returns as a passage; return the answer."""
    count_refs(hub, {one.ref for one in answer.references if one.cited or answer.outcome == "passages"})
    return answer


def _by_ollama(
    hub: Hub, prepared: Prepared, why: Sequence[str], on_text: Callable[[str], object] | None
) -> Answer | str:
    """Return the answer of a local model, or why there is none."""
    model = _local_model(hub, prepared.options)
    if model is None:
        return NO_OLLAMA
    write = next((name for extension in extensions() for name in extension.writers), None)
    if write is None:
        return NO_LLM_INSTALLED
    try:
        text = load(write)(hub, model, request_of(prepared), on_text)
    except ModelUnavailable as error:
        return str(error)
    finished = finish_written(prepared, ModelText(text, "ollama", model), why)
    return f"The Ollama model {model!r} was asked, but {finished}." if isinstance(finished, str) else finished


def _local_model(hub: Hub, options: AskOptions) -> str | None:
    """Return the Ollama model that may be asked, that of the settings first."""
    return hub.config().settings.answers.model or (DEFAULT_OLLAMA_MODEL if options.written_by == "ollama" else None)


def _check(question: str, options: AskOptions) -> None:
    if not question.strip():
        raise UsageError("No question given.")
    if options.direct_threshold < options.threshold:
        raise UsageError(
            f"direct_threshold ({options.direct_threshold:g}) is below threshold ({options.threshold:g}). Set it "
            "to at least the threshold."
        )
    if options.budget and options.written_by not in (None, "none"):
        raise UsageError(
            f"A budget returns passages, so there is no answer by {options.written_by}. Use only one of the two."
        )


def _sentence_embedder(hub: Hub) -> Embedder | None:
    """Return the embedder for sentences, which is the packaged model, or None if embedding is off."""
    try:
        own = hub.embedder()
    except EmbedderError:
        return None
    return own if own is None or isinstance(own, StaticEmbedder) else packaged_embedder()
