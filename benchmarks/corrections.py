"""What is found of facts that were corrected: `python benchmarks/corrections.py [--json] [--misses]`.

Made-up facts of a software project (`corrections.jsonl`), each corrected later: in the same words, reworded, or by
another speaker; one half on the same day, one half twelve days later. Each has a question. Beside 40 of them stands a
fact that resembles it and contradicts nothing, and beside all a change of something else about the same thing.

As memories: how often the newest statement comes first, and above the old one; the same with `supersedes`; how many
corrections `remember` names as similar to what they correct, for how many of the facts and changes beside it names
anything, and how many of these facts an answer calls outdated. In dialogues: how often the newer statement is above the older one, where the two are turns of one session, of
two sessions of a day, of sessions of two days, or lines of two dated Markdown conversations. A newer statement without
the older one counts as above it.
"""

from __future__ import annotations

import json
import tempfile
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path

from bench.common import environment, parser
from kbhub.api import Hub
from kbhub.hub import HubOptions
from kbhub.memory.changes import remember
from kbhub.types import Query, SearchResult

FIRST = datetime(2026, 3, 2, 9, tzinfo=UTC)
HOURS, DAYS = timedelta(hours=5), timedelta(days=12)
NOW = FIRST + timedelta(days=20)
ACKNOWLEDGED = ("Noted.", "Thanks, I will keep to that.", "Good to know, I go on with the tests.")
CHATTER = (
    "The build is green again after the flaky test was fixed.",
    "Let us look at the stack trace of the failed job first.",
    "I renamed the variables in the parser, please run the linter.",
    "Can you explain what this regular expression does?",
)


@dataclass(frozen=True)
class Fact:
    """A fact and its correction."""

    kind: str
    question: str
    old: str
    new: str
    aside: str
    beside: str = ""


FACTS = [Fact(**json.loads(line)) for line in Path(__file__).with_suffix(".jsonl").read_text("utf-8").splitlines()]


def later(number: int) -> timedelta:
    """How long after a fact its correction comes."""
    return DAYS if number % 2 else HOURS


def opened(top: Path, now: list[datetime], bases: dict[str, dict[str, str]] | None = None) -> Hub:
    """Open a hub of its own, whose clock says the time in `now`."""
    project = top / "shop"
    (project / ".git").mkdir(parents=True)
    (top / ".kbhub.json").write_text(json.dumps({"bases": bases or {}, "repos": {"*": list(bases or {})}}))
    return Hub(HubOptions(cwd=project, home=top, env=environment(top, top), clock=lambda: now[0].timestamp()))


def corrected_memories(top: Path, *, supersedes: bool) -> tuple[dict[str, list[bool]], dict[str, list[bool]]]:
    """Remember everything in the order of time; return what was found and what was named, each by kind of figure."""
    now = [FIRST]
    hub = opened(top, now)
    ids: dict[str, str] = {}
    corrections, besides, changes = list[bool](), list[bool](), list[bool]()
    for number, fact in enumerate(FACTS):
        now[0] = FIRST + timedelta(minutes=number)
        ids[fact.old] = remember(hub, fact.old).memory.id
    for number, fact in enumerate(FACTS):
        now[0] = FIRST + timedelta(hours=2, minutes=number)
        if fact.beside:
            answer = remember(hub, fact.beside)
            ids[fact.beside] = answer.memory.id
            besides.append(bool(answer.near))
    for number, fact in sorted(enumerate(FACTS), key=lambda pair: later(pair[0])):
        now[0] = FIRST + later(number) + timedelta(minutes=number)
        answer = remember(hub, fact.new, supersedes=[ids[fact.old]] if supersedes else ())
        ids[fact.new] = answer.memory.id
        corrections.append(any(one.id == ids[fact.old] for one in answer.near))
    now[0] = NOW
    hub.sync()
    first, above, outdated = [], [], []
    for fact in FACTS:
        hits = hub.search(Query(text=fact.question, limit=10)).hits
        places = [
            next((n for n, hit in enumerate(hits) if ids[text] in hit.path), None) for text in (fact.new, fact.old)
        ]
        first.append(places[0] == 0)
        above.append(stands_above(*places))
        if fact.beside:
            outdated.append(any(hit.outdated for hit in hits if ids[fact.beside] in hit.path))
    found = {"newest statement first": first, "newer above older": above, "facts beside called outdated": outdated}
    replacing = list[bool]()
    for fact in FACTS:
        answer = remember(hub, fact.aside)
        about = {ids[fact.old], ids[fact.new]}
        changes.append(any(one.id in about for one in answer.near))
        replacing.append(not about.isdisjoint(answer.memory.may_supersede))
    return found, {
        "corrections named as similar": corrections,
        "facts beside named as similar": besides,
        "changes of something else named as similar": changes,
        "changes of something else said to replace": replacing,
    }


def stands_above(new: int | None, old: int | None) -> bool:
    return new is not None and (old is None or new < old)


def place(result: SearchResult, text: str) -> int | None:
    return next((number for number, hit in enumerate(result.hits) if text in " ".join(hit.excerpt.split())), None)


def write_session(file: Path, turns: Iterable[tuple[datetime, str, str]]) -> None:
    """Write a session log: time, role and text of each turn."""
    rows = [{"role": role, "timestamp": at.isoformat(), "content": text} for at, role, text in turns]
    file.write_text("".join(f"{json.dumps(row)}\n" for row in rows), "utf-8")


def write_conversation(file: Path, turns: Iterable[tuple[datetime, str, str]]) -> None:
    """Write a Markdown conversation, with its date in the title."""
    rows = list(turns)
    lines = (f"{'Ann' if role == 'user' else 'Ben'}: {text}" for _, role, text in rows)
    file.write_text(f"# Call on {rows[0][0]:%Y-%m-%d}\n\n" + "\n".join(lines) + "\n", "utf-8")


def turns_of(statements: Iterable[tuple[Fact, str]], start: datetime) -> list[tuple[datetime, str, str]]:
    """Return the turns of a dialogue: each statement, an acknowledgement, and two turns of something else."""
    turns: list[tuple[datetime, str, str]] = []
    for number, (fact, text) in enumerate(statements):
        speakers = (
            ("assistant", "user") if fact.kind == "another speaker" and text == fact.new else ("user", "assistant")
        )
        said = (text, ACKNOWLEDGED[number % len(ACKNOWLEDGED)], CHATTER[number % len(CHATTER)], "Done.")
        turns += [
            (start + timedelta(minutes=2 * number, seconds=20 * place), speakers[place % 2], one)
            for place, one in enumerate(said)
        ]
    return turns


def corrected_dialogues(
    top: Path, write: Callable[[Path, Iterable[tuple[datetime, str, str]]], None], gap: timedelta | None
) -> list[bool]:
    """Say the facts in four dialogues and correct them after a gap, or at the end of the same dialogue."""
    logs, ending = top / "logs", "jsonl" if write is write_session else "md"
    kind = {"kind": "session"} if write is write_session else {}
    hub = opened(top, [NOW], {"logs": {"knowledge": str(logs), **kind}})
    logs.mkdir()
    for number in range(4):
        facts, start = FACTS[number::4], FIRST + timedelta(days=number // 2, hours=number % 2)
        old, new = [(fact, fact.old) for fact in facts], [(fact, fact.new) for fact in facts]
        if gap is None:
            write(logs / f"{number}.{ending}", turns_of([*old, *new], start))
        else:
            write(logs / f"{number}-a.{ending}", turns_of(old, start))
            write(logs / f"{number}-b.{ending}", turns_of(new, start + gap))
    hub.sync()
    found = []
    for fact in FACTS:
        result = hub.search(Query(text=fact.question, limit=10, granularity="chunk"))
        found.append(stands_above(place(result, fact.new), place(result, fact.old)))
    return found


def measured() -> dict[str, list[bool]]:
    """Return figure → outcome of each fact."""
    figures = {}
    with tempfile.TemporaryDirectory() as folder:
        top = Path(folder).resolve()
        for supersedes in (False, True):
            found, named = corrected_memories(top / f"memories-{supersedes}", supersedes=supersedes)
            suffix = ", with supersedes" if supersedes else ""
            figures |= {f"memories: {name}{suffix}": values for name, values in found.items()}
            figures |= {} if supersedes else {f"remember: {name}": values for name, values in named.items()}
        for name, write, gap in (
            ("turns of one session", write_session, None),
            ("sessions of one day", write_session, HOURS),
            ("sessions of two days", write_session, DAYS),
            ("Markdown conversations of two days", write_conversation, DAYS),
        ):
            dialogues = top / name.replace(" ", "-")
            figures[f"dialogues: newer above older, {name}"] = corrected_dialogues(dialogues, write, gap)
    return figures


def main() -> None:
    arguments = parser(__doc__)
    arguments.add_argument("--json", action="store_true", help="print figure → kind → [count, of]")
    arguments.add_argument("--misses", action="store_true", help="also print the questions that fail each figure")
    options = arguments.parse_args()
    report: dict[str, dict[str, tuple[int, int]]] = {}
    figures = measured()
    for name, values in figures.items():
        facts = [fact for fact in FACTS if fact.beside] if "beside" in name else FACTS
        if "corrections named" in name:  # in the order in which they were written
            facts = [fact for _, fact in sorted(enumerate(FACTS), key=lambda pair: later(pair[0]))]
        groups: dict[str, list[bool]] = {"all": values}
        for number, (fact, value) in enumerate(zip(facts, values, strict=True)):
            groups.setdefault(fact.kind, []).append(value)
            if name.startswith("memories"):
                groups.setdefault("later day" if number % 2 else "same day", []).append(value)
        report[name] = {group: (sum(some), len(some)) for group, some in groups.items()}
        if not options.json:
            print(f"{name}: " + "; ".join(f"{group} {got} of {of}" for group, (got, of) in report[name].items()))
            wanted = "beside" in name or "changes" in name
            for fact, value in zip(facts, values, strict=True):
                if options.misses and value == wanted:
                    print(f"  {fact.question}")
    if options.json:
        print(json.dumps(report, indent=2))


if __name__ == "__main__":
    main()
