"""What a search, `read` and `ask` found, in words."""

from __future__ import annotations

import re
import sys
from collections.abc import Callable, Sequence
from functools import partial
from itertools import dropwhile
from math import inf
from typing import TYPE_CHECKING

from kbhub.documents.shown_text import REJECTED, TITLE_BYTES, atx_text, cut, fenced, outdated_mark, without_markup
from kbhub.index.query.excerpts import spans
from kbhub.index.query.parser import Term, stems, terms_of
from kbhub.index.references import STALE_DAYS
from kbhub.render import terminal
from kbhub.render.report import (
    ANSWER_BYTES,
    ERROR_BYTES,
    FULL_ANSWER_BYTES,
    LINE_BYTES,
    Bare,
    Call,
    Item,
    Line,
    Name,
    Names,
    Quote,
    Ref,
    Report,
    Text,
    model_answer,
    model_line,
    say,
)
from kbhub.render.terminal import neutralised, visible_line
from kbhub.search.judge import LEADING_NOTES, NEAR_ONLY, is_unfinished, rewording_helps
from kbhub.types import Hit, Query, SearchResult, Signal, Skipped
from kbhub.values import age_text, counted

if TYPE_CHECKING:
    from kbhub.answers.answer import Answer, Source, Support
    from kbhub.reading.reports import Reading, ReadResult

EXCERPT_BYTES = 2_600
"""UTF-8 bytes of the first hit's excerpt for a model; excerpts of Latin or Chinese text are shorter."""

GLANCE_BYTES = 480
"""UTF-8 bytes of the line for each other hit."""

NEARLY_AS_GOOD = 0.7
"""Share of a certain answer's score from which another hit is quoted, too; with .9, of 160 lines 3 fewer are seen."""

OTHERS = 3

QUOTED = 3
"""Hits that are quoted to a model where the first is no certain answer."""

MOST_HITS = 25
"""Hits on a page for a model, as most are only refs, but a client that takes the result as data gets their excerpts."""

HEADING_BYTES = 60
"""UTF-8 bytes of the title and the last heading of each other hit for a model."""

WRITERS = {
    "sampling": "your own model",
    "ollama": "Ollama",
    "extractive": "kbhub, from sentences of the documents",
    "none": "nobody",
}

RANKED = {"keyword": "words", "semantic": "meaning"}
"""Signal → what its ranking compares."""

WHY = {
    "keyword": "its words match", "semantic": "its meaning is close", "second_look": "the reranker prefers it",
    "name": "the query names its file", "title": "its title matches", "about": "its title matches",
    "phrase": "it has words of the query side by side", "together": "the words are close together",
    "identifier": "it has the exact name", "definition": "it defines the name", "date": "its date is near {}",
    "next": "the passage beside it matches", "adjacent": "a session beside it matches",
    "newer": "it replaces an older hit", "stated": "it says more than links do",
}  # fmt: skip
"""First word of a signal → the clause that says so."""

ORDINALS = ("first", "second", "third")
CARDINALS = ("both", "all three", "all four", "all five", "all six", "all seven", "all eight", "all nine")

LEAST_REASON = 0.1
"""Share of a score from which its part is a reason."""

_HEADING = re.compile(r"^#{1,6}[ \t]+(.*?):?[ \t]*$", re.MULTILINE)
_PARAGRAPHS = re.compile(r"\n[ \t]*\n")


def heading_path(title: str, headings: Sequence[str]) -> list[str]:
    """Return a document's title and the headings below it, without repeating a first heading that is the title."""
    repeats = headings and headings[0].casefold() == title.casefold()
    return [title, *(headings[1:] if repeats else headings)]


def contribution_of(signal: Signal) -> str:
    """Return a signal's contribution to the score, with its sign; never `-0.0000`."""
    return f"{round(signal.contribution, 4) + 0.0:+.4f}"


def why(hit: Hit, terms: Sequence[str], place: int) -> str:
    """Say what a hit owes its place (from 1) to, most important first."""
    signals = sorted(hit.trace.signals if hit.trace else (), key=lambda signal: -signal.contribution)
    least = LEAST_REASON * sum(max(one.contribution, 0) for one in signals)
    signals = [one for one in signals if one.contribution > least and one.name != "meaning"]  # it is in semantic
    signals = [one for one in signals if (one.rank or 0) <= place + 2][:3]
    ranks = {RANKED[one.name]: _ordinal(one.rank) for one in signals if one.rank and one.name in RANKED}
    ranked = " and ".join(f"{rank} by {name}" for name, rank in ranks.items())
    if len(set(ranks.values())) < len(ranks):
        ranked = f"{next(iter(ranks.values()))} by {' and '.join(ranks)}"
    words = {term.tokens: term for term in terms_of(terms)}.values()
    together = 1 < len(words) < len(CARDINALS) + 2 and any(
        all(spans(text, (word,)) for word in words) for text in _PARAGRAPHS.split(hit.excerpt)
    )
    reasons = [f"{CARDINALS[len(words) - 2]} words are in one paragraph"] if together else []
    for one in signals:
        name, _, about = one.name.partition(" ")
        clause = WHY.get(name, f"the {name} signal lifts it").format(about)
        reasons.append(f"it ranks {ranked}" if one.rank and name in RANKED else clause)
    *before, last = list(dict.fromkeys(reasons))[:3] or [""]
    comma = "," if len(before) > 1 or " and " in f"{before}{last}" else ""
    start = f"{', '.join(before)}{comma} and " if before else ""
    return f"{_ordinal(place).capitalize()} because {start}{last}." if last else "The parts of its score:"


def _ordinal(number: int) -> str:
    ending = "th" if number // 10 % 10 == 1 else {1: "st", 2: "nd", 3: "rd"}.get(number % 10, "th")
    return ORDINALS[number - 1] if number <= len(ORDINALS) else f"{number}{ending}"


def verdict_words(verdict: str) -> str:
    """Return a sentence with the verdict, for formats that have no field for it."""
    meaning = ", the bases may not cover this" if verdict == "weak" else ""
    return f"Verdict: {verdict}{meaning}."


def _total(result: SearchResult) -> str:
    return str(result.total) if result.total_exact else f"at least {result.total}"


def search_answer(
    result: SearchResult, query: Query, cursor: Callable[[int], str], *, full: bool = False
) -> tuple[str, SearchResult]:
    """Return the answer to a search for a model, each hit in full if `full`, and the result with the hits that fit."""
    report = search_report(result, query, cursor, full=full, quote_all=full)
    text, shown = model_answer(report, FULL_ANSWER_BYTES if full else ANSWER_BYTES)
    end = query.offset + len(shown.hits)
    more = shown.hits and end < result.total and (full or not _empty_handed(result))
    return text, shown.model_copy(update={"cursor": cursor(end)}) if more else shown


def search_report(
    result: SearchResult,
    query: Query,
    cursor: Callable[[int], str] = str,
    *,
    full: bool = False,
    quote_all: bool = True,
) -> Report:
    """Return hits: the first or, if `full` or `quote_all`, more are quoted; all are refs if none covers the query."""
    nearest = _empty_handed(result) and not full
    if nearest:  # without excerpts, which a model would take for an answer
        hits = tuple(hit.model_copy(update={"excerpt": "", "also": ()}) for hit in result.hits)
        result = result.model_copy(update={"hits": hits})
    terms, items = terms_of(result.terms), list[Item]()
    for number, hit in enumerate(result.hits[:MOST_HITS]):
        limit = FULL_ANSWER_BYTES if full else GLANCE_BYTES
        if number == 0:
            limit = FULL_ANSWER_BYTES * 3 // 4 if full else EXCERPT_BYTES
        text, above = (hit.excerpt, 0) if quote_all else _below_headings(hit)
        lines = None if hit.whole else (hit.excerpt_line + above, hit.start_line + above, hit.end_line)
        behind = result.verdict == "strong" and hit.score < NEARLY_AS_GOOD * result.hits[0].score
        bare = nearest or ((behind or number >= QUOTED) and not quote_all)
        quote = None if bare else Quote(text, limit, full or number == 0, terms, lines)
        items.append(_item(hit, query.offset + number + 1, quote, scored=not result.listed, brief=not quote_all))

    summary = partial(_summary, result, query, None if nearest else cursor)
    calls, reword = list[Text](), False
    if result.hits and not nearest:
        reword = result.verdict == "weak" and not query.queries and not query.offset
    elif not result.searched:
        calls = ["`status` shows indexing progress and problems."]
    elif query.offset:
        calls = [f"There are {_total(result)} hits in total; search without `cursor` for the first."]
    elif is_unfinished(result.notes):
        calls = ["Search again in a moment; `status` shows how far indexing is."]
    else:
        calls, reword = ["`status` lists the bases and what is indexed."], rewording_helps(result.notes)
    calls += [_reworded("search", "query", "")] if reword else []
    return Report(parts=items, summary=summary, calls=calls, notes=_notes(result), data=result, lists=("hits",))


def _empty_handed(result: SearchResult) -> bool:
    """Return whether no hit covers the query, so that only refs are shown, unless scores were asked for."""
    return result.verdict == "none" and not any(hit.trace for hit in result.hits)


def search_notes(result: SearchResult, query: Query) -> list[str]:
    """Return notes on a search for a person: its limits, why nothing was found, what to do next."""
    notes, page = _notes(result), query.offset // query.limit + 1
    if not result.hits and result.searched:
        none = "Nothing found yet" if is_unfinished(result.notes) else "No hits"
        counts = f"only {result.total} {'in total' if result.total_exact else 'listed'}"
        beyond = f" on page {page}, {counts}" if result.total else ""
        notes.insert(0, say(f"{none}{beyond}. Searched: {{}}.", Names(result.searched)))
    end = query.offset + len(result.hits)
    if result.hits and end < result.total and not _empty_handed(result):
        of = _total(result)
        notes.append(f"Showing hits {query.offset + 1} to {end} of {of}; `--page {page + 1}` shows more.")
    unsure = result.searched and result.verdict in ("weak", "none")
    if unsure and not (query.queries or query.offset) and rewording_helps(result.notes):
        notes.append(_reworded("search", "query", '--also "WORDING"'))
    return [*map(terminal.line, notes)]


def _notes(result: SearchResult) -> list[Text]:
    """Return the notes on a result, except those before the hits."""
    notes: list[Text] = [Line(note) for note in result.notes if note not in LEADING_NOTES]
    if result.unmatched and result.searched and NEAR_ONLY not in result.notes:
        notes.append(say("No document contains: {}.", Names(result.unmatched)))
    return [*notes, *map(_not_searched, result.skipped)]


def _not_searched(skip: Skipped) -> Text:
    """Return that a base was not searched, and why."""
    return say("Not searched: {}. {}", Bare(skip.base), Line(skip.reason))


def _reworded(tool: str, question: str, command: str) -> Text:
    """Return the next step after a weak answer: the call with other wordings to fill in."""
    call = Call(tool, {question: ..., "queries": ["…", "…"]}, command)
    return say("Try other wordings: {}", call)


def _summary(result: SearchResult, query: Query, cursor: Callable[[int], str] | None, shown: int) -> list[Text]:
    """Return the first lines for a model that gets so many hits; without a cursor, there is no other page."""
    where, first, end = Names(result.searched), query.offset + 1, query.offset + shown
    more, leading = "more " if query.offset else "", [note for note in result.notes if note in LEADING_NOTES]
    head: Text
    verdict = f" {verdict_words(result.verdict)}" if result.verdict and not result.listed else ""
    if not result.searched:
        head = "No hits: no base could be searched."
    elif not result.hits:
        none = f"Nothing {more}found yet" if is_unfinished(result.notes) else f"No {more}hits"
        head = say(f"{none} in {{}}.{verdict}", where)
    else:
        order = "newest first" if result.listed else "" if result.mode == "hybrid" else result.mode
        follow = f'cursor="{cursor(end)}" for more' if cursor and end < result.total else ""
        manner = "; ".join(filter(None, (order, follow)))
        range_ = f"Hit {first}" if shown == 1 else f"Hits {first}-{end}"
        head = say(f"{range_} of {_total(result)} in {{}}{f' ({manner})' if manner else ''}.{verdict}", where)
    return [head, *(["", *leading] if leading else []), *([""] if result.hits else [])]


def _run_on(text: str) -> str:
    """Return an excerpt on one line, a colon after each heading, and with `…` where it ends within a sentence."""
    line = " ".join(without_markup(_HEADING.sub(r"\1:", text)).split())
    return line if line.endswith(tuple(".!?:;…)")) else f"{line}…"


def _below_headings(hit: Hit) -> tuple[str, int]:
    """Return an excerpt without the headings at its beginning that are beside the ref, and how many lines they take."""
    lines, above = hit.excerpt.split("\n"), {hit.title, *hit.headings}
    below = [*dropwhile(lambda line: not line or (line[0] == "#" and atx_text(line.lstrip("#")) in above), lines)]
    return ("\n".join(below), len(lines) - len(below)) if below else (hit.excerpt, 0)


def _names(hit: Hit, number: int, *, brief: bool) -> str:
    """Return title and headings of the first hit, or title and last heading; if `brief`, no title that the ref has."""
    above = heading_path(hit.title, hit.headings)
    if number > 1:
        above = [cut(name, HEADING_BYTES) for name in dict.fromkeys((above[0], above[-1]))]
    if brief and len(above) > 1 and set(stems(hit.ref)).issuperset(stems(hit.title)):
        del above[0]
    return " › ".join([name[:TITLE_BYTES] for name in above])


def _item(hit: Hit, number: int, quote: Quote | None, *, scored: bool, brief: bool) -> Item:
    spans = [(f"{span.start_line}-{span.end_line}", span.excerpt) for span in hit.also]
    also = ", ".join([lines for lines, shown in spans if not shown])
    details: list[Text] = [f"also lines {also}"] if also and number == 1 else []
    names = _names(hit, number, brief=brief)
    if brief and hit.kind == "memory" and quote and quote.fenced and quote.text.startswith(names.rstrip(" …")):
        names = ""  # a memory's title is its beginning
    details += [say(f"lines {lines}: {{}}", Name(_run_on(shown), GLANCE_BYTES)) for lines, shown in spans if shown]
    if hit.replaces:
        details.append(say("replaces {}", Line(", ".join(hit.replaces))))
    if hit.duplicates:
        details.append(_elsewhere(hit.duplicates, number))
    signals = [
        f"{signal.name}{f' #{signal.rank}' if signal.rank else ''} ({signal.value:.3g}) {contribution_of(signal)}"
        f"{f' ({signal.reason})' if signal.reason else ''}"
        for signal in (hit.trace.signals if hit.trace else ())
    ]
    factors = [f" × {name} {value:g}" for name, value in hit.trace.factors.items()] if hit.trace else []
    return Item(
        Ref(hit.ref, hit.docid, f":{hit.start_line}-{hit.end_line}"),
        Name(names) if names else "",
        f"{hit.score:.2f}" if scored else "",
        marks=(age_text(days) if hit.stale and (days := hit.age_days or 0) >= STALE_DAYS else "", hit.trust or ""),
        warning=_warning(hit),
        details=tuple(details),
        trace=" · ".join(signals) + "".join(factors),
        number=number,
        context=Name(" › ".join(hit.contexts), LINE_BYTES) if hit.contexts else "",
        quote=quote,
        of=hit,
    )


def _elsewhere(refs: Sequence[str], number: int = 1) -> Text:
    """Name one place of a copy, a translation or another version, if it is of the first hit, and count the others."""
    if number > 1:
        return f"also at {counted(len(refs), 'other place')}"
    more = f" and {counted(len(refs) - 1, 'other place')}" if refs[1:] else ""
    return say(f"also at {{}}{more}", Line(refs[0]))


def _warning(one: Hit | Source) -> Text:
    outdated = f"outdated: {one.outdated}" if one.outdated else ""
    return Bare("; ".join(filter(None, (REJECTED if one.rejected else "", outdated))))


def read_answer(result: ReadResult, refs: str | Sequence[str] = "", *, line_numbers: bool = False) -> str:
    """Return the answer to `read`; `refs` are the requested ones, for the call for the next page."""
    parts = [model_line(say("Note: {}", Line(note))) for note in result.notes]
    for reading in result.readings:
        lines = f"lines {reading.start_line}-{reading.end_line} of {reading.total_lines}"
        if reading.offset:
            lines += f", from character {reading.offset + 1} of line {reading.start_line}"
        marks = (reading.docid, lines if reading.total_lines else "empty", Name(reading.title))
        head = Item(Ref(reading.ref), marks=(*marks, f"hash {reading.hash}") if reading.hash else marks)
        about = Name(" › ".join(reading.contexts), LINE_BYTES)
        below: list[Text] = [say("context: {}", about)] if reading.contexts else []
        below += [Line(f"note: {reading.deleted}")] if reading.deleted else []
        text, _ = model_answer(Report(head, below), inf)
        parts.append(text + "\n" + fenced(numbered(reading) if line_numbers else reading.text))
        if reading.rest is not None:
            rest = Ref(reading.ref, reading.docid, reading.rest.removeprefix(reading.ref))
            parts[-1] += f"\n{model_line(say('continues: {}', Call('read', {'refs': rest})))}"
    for unread in result.unread:
        said = Line(unread.message, ERROR_BYTES)
        named = say("{}", said) if unread.ref in unread.message else say("{}: {}", Name(unread.ref, LINE_BYTES), said)
        parts.append(model_line(say("Not read: {}", named)))
    if result.cursor:
        numbers = {"line_numbers": True} if line_numbers else {}
        call = Call("read", {"refs": refs if isinstance(refs, str) else [*refs], **numbers, "cursor": result.cursor})
        parts.append(model_line(say(f"Next page, of {result.total} documents: {{}}", call)))
    return "\n\n".join(parts)


def numbered(reading: Reading) -> str:
    """Return the text of a reading with the line number in the document before each line."""
    width = len(str(reading.end_line))
    lines = reading.text.split("\n") if reading.end_line >= reading.start_line else []
    return "\n".join(f"{number:>{width}}: {line}" for number, line in enumerate(lines, reading.start_line))


def read_text(
    readings: Sequence[Reading], *, headers: bool, verbatim: bool, draw: Callable[[str], str] = neutralised
) -> str:
    """Return documents, below names if `headers`; `verbatim` as in the file, else as `draw` lays them out."""
    blocks = []
    for reading in readings:
        text = f"{reading.text}\n" if reading.end_line >= reading.start_line else ""
        lines = f"{reading.ref}:{reading.start_line}-{reading.end_line} of {reading.total_lines}"
        header = visible_line(f"==> {lines}  {reading.docid}  {reading.title} <==") + "\n" if headers else ""
        blocks.append(header + (text if verbatim else draw(text)))
    return "\n".join(blocks) if headers else "".join(blocks)


def answer_report(
    answer: Answer, queries: Sequence[str] = (), *, terms: tuple[Term, ...] = (), whole: bool = True
) -> Report:
    """Return an answer with its sources, cited ones first, and its passages if `whole`; `queries` are wordings."""
    calls = _asked_again(answer, queries)
    question, passages = Name(answer.question), [_source(one, one.readable, terms) for one in answer.passages]
    notes: list[Text] = [Line(why) for why in answer.why]
    notes += [f"Removed {counted(answer.removed, 'invalid citation')}."] if answer.removed else []
    notes += [f"Removed {counted(len(answer.dropped), 'sentence')} without a source."] if answer.dropped else []
    notes += [*(Line(note) for note in answer.notes), *map(_not_searched, answer.skipped)]
    if answer.outcome == "passages":
        number = counted(len(passages), "passage")
        head = say(f"{number} for {{}}, best first. Write the answer from them, and cite refs.", question)
        return Report(parts=passages, summary=[head], calls=calls, notes=notes, data=answer)
    if answer.outcome == "not_covered":
        parts: list[Text | Item | Quote] = [say(answer.text)]
        if answer.unmatched:
            parts = [say(f"{answer.text} No document contains: {{}}.", Names(answer.unmatched))]
        if answer.references:
            rest = [_source(source) for source in answer.references[len(passages) :]]
            parts += ["", "Not an answer, but the nearest passages:", *passages, *rest]
        return Report(parts=parts, calls=calls, notes=notes, data=answer)
    parts = [Quote(answer.text, sys.maxsize, terms=terms)]
    summary = [say("Answer to {}, written by {}; [n] is a source below.", question, _writer(answer))]
    if answer.outcome == "not_answered":
        summary, parts = [], [say("According to {}, the nearest passages do not answer this.", _writer(answer))]
    parts += passages if whole else []
    cited = [source for source in answer.references if source.cited] if answer.outcome == "written" else []
    others = [source for source in answer.references if source not in cited]
    support = sorted(answer.support, key=lambda one: one.overlap, reverse=True) if answer.model else []
    for label, sources in (("Sources:", cited), ("Also found:" if cited else "Sources:", others[:OTHERS])):
        if sources:
            quotes = [next((one for one in support if one.number == source.number), None) for source in sources]
            parts += ["", label, *(_source(source, of=quote) for source, quote in zip(sources, quotes, strict=True))]
    parts += [f"… and {len(others) - OTHERS} more"] if len(others) > OTHERS else []
    return Report(parts=parts, summary=summary, calls=calls, notes=notes, data=answer)


def answer_notes(answer: Answer, queries: Sequence[str] = ()) -> list[str]:
    """Return notes on the writer of an answer, on removed sentences, on limits, and what to do next."""
    written = [say("Written by {}.", _writer(answer))] if answer.outcome in ("written", "not_answered") else []
    verdict = [verdict_words(answer.verdict)] if answer.verdict else []
    noted = [*answer_report(answer).notes, *_asked_again(answer, queries)]
    return [*map(terminal.line, written), *verdict, *map(terminal.line, noted)]


def _asked_again(answer: Answer, queries: Sequence[str]) -> list[Text]:
    """Return the next step after an uncertain answer to a question that was asked in one wording."""
    if queries or not answer.searched or answer.verdict not in ("weak", "none"):
        return []
    return [_reworded("ask", "question", '--also "WORDING"')]


def answer_markdown(answer: Answer) -> str:
    """Return an answer as a Markdown document: the text, then a table of sources."""
    parts = [f"# {model_line(Line(answer.question, TITLE_BYTES))}", *([answer.text] if answer.text else [])]
    if answer.outcome == "passages":
        parts += [f"## [{one.number}] {_place(one)}\n\n{fenced(one.readable)}" for one in answer.passages]
    rows = ["| # | ref | score | tier | reason | sent |", "|---|---|---|---|---|---|"]
    for source in answer.references:
        score = "" if source.score is None else f"{source.score:.2f}"
        reason = source.reason + (f"; {outdated_mark(source.outdated)}" if source.outdated else "")
        reason += f"; {REJECTED}" if source.rejected else ""
        cells = (_place(source), score, source.tier, _cell(reason), "yes" if source.sent else "no")
        rows.append(f"| {source.number} | {' | '.join(cells)} |")
    return "\n\n".join([*parts, "\n".join(rows)] if answer.references else parts)


def _source(source: Source, text: str = "", terms: tuple[Term, ...] = (), of: Support | None = None) -> Item:
    reason = Line(source.reason if source.tier == "related" else f"score {source.score:.2f}")
    ref = Ref(source.ref, source.docid, f":{source.start_line}-{source.end_line}", both=True)
    title, label = Name(" › ".join(heading_path(source.title, source.headings))), f"[{source.number}]"
    cited = say(f"line {of.line}: {{}}", Name(of.quote, LINE_BYTES)) if of else ""
    elsewhere = _elsewhere(source.duplicates) if source.duplicates else ""
    marks, quote = (elsewhere, source.trust or "", "" if text else reason, cited), Quote(text, sys.maxsize, terms=terms)
    shown = quote if text else None
    return Item(ref, title, marks=marks, warning=_warning(source), label=label, bullet="", quote=shown)


def _writer(answer: Answer) -> Text:
    name = WRITERS[answer.written_by]
    return say(f"{name} ({{}})", Line(answer.model)) if answer.model else name


def _place(source: Source) -> str:
    return f"{_cell(source.ref)}:{source.start_line}-{source.end_line}"


def _cell(text: str) -> str:
    return model_line(Line(text)).replace("|", "\\|").replace("`", "'")
