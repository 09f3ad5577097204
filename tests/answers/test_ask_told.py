"""An answer without a model reads as its documents do: in their order, each once, with what belongs to it."""

import os

import pytest
from mcp import Client

from ask_documents import passage, prepared
from conftest import synced
from corpus import EMBEDDER
from kbhub.answers.answer import AskOptions
from kbhub.answers.citations import request_of
from kbhub.answers.extractive import extract
from kbhub.answers.question import ask, prepare
from kbhub.render import terminal
from kbhub.render.report import model_answer
from kbhub.render.search import answer_report
from kbhub.server.server import KbhubServer
from test_server import text_of

STATUSES = """\
| Status | When |
|---|---|
| 400 | the request is malformed |
| 404 | there is no such thing |
| 409 | the state forbids it |
| 422 | a value is not acceptable |
| 429 | too many requests |
| 503 | try again later |
| 504 | too late |
"""


def written(*passages, **options):
    return extract(prepared(*passages, **options), None).text


def test_what_follows_each_other_is_told_in_its_order_and_other_passages_best_first():
    """The one that answers best may be the last of a runbook's line.

    What is done first is told first, even if a later step comes nearer; not what stands far above the answer.
    """
    text = "Call back first. Then roll it back. Roll back only once."

    assert written(passage(1, text)) == f"{text} [1]"

    def at(line, number, text, score, docid="#aaaaaa"):
        return passage(number, text, start_line=line, end_line=line, docid=docid, score=score)

    later, sooner = at(20, 1, "Then roll back the code.", 0.9), at(18, 2, "First roll back the flag.", 0.8)
    text = written(later, sooner, at(10, 3, "They roll back too.", 0.85, "#bbbbbb"))

    assert text.index("First roll back") < text.index("Then roll back") < text.index("They roll back")
    assert written(at(200, 1, "We roll back the code.", 0.9), sooner).startswith("We roll back the code.")


def test_a_sentence_left_out_is_marked_and_a_short_one_is_told():
    short = "We roll back code. It takes a minute. We roll back data."
    between = " ".join(f"The sky of day {number} is blue and high and far away." for number in range(9))

    assert written(passage(1, short)) == f"{short} [1]"
    assert written(passage(1, f"We roll back code. {between} We roll back data.")) == (
        "We roll back code. … We roll back data. [1]"
    )


def test_sections_are_named_and_each_is_cited_once_and_a_document_is_named_by_its_file_where_its_title_names_none():
    """A step without its heading can be taken for another one. Every proposal begins with a summary."""
    text = "# Deploying\n\nWe roll back. We go back.\n\n## If it fails\n\nRoll back at once.\n"

    assert written(passage(1, text)) == (
        "**Deploying**\n\nWe roll back. We go back. [1]\n\n**If it fails**\n\nRoll back at once. [1]"
    )
    assert written(passage(1, "We roll back.")) == "We roll back. [1]"

    text = "## How\n\nWe roll back.\n\n## When\n\nThey go back.\n"

    assert written(passage(1, text, title="Summary")).startswith("**p1 › How**\n\nWe roll back. [1]\n\n**When**")


def test_pictures_mere_pointers_and_what_announces_nothing_are_not_quoted():
    """A colon at the end of an answer leads nowhere."""
    text = (
        "[![roll back](https://a.example/roll.png)](https://a.example/back)\n\nSee [how to roll back](back.md).\n\n"
        "For more on how to roll back, see [the manual](roll.md) for details.\n\n"
        "[roll](a.md), [back](b.md)\n\nRoll back by tag. ![back](a.png)\n"
    )
    items = "".join(f"- The sky of day {number} is blue and high and far away.\n" for number in range(20))
    announced = f"We roll back by tag.\n\nTo roll back, these are needed:\n\n{items}"

    assert written(passage(1, text)) == "Roll back by tag. [1]"
    assert written(passage(1, announced)) == "We roll back by tag. [1]"


@pytest.mark.parametrize(
    ("question", "words", "row"),
    [
        ("what is said if the state forbids it", ("state", "forbid"), "| 409 | the state forbids it |"),
        ("what does 422 mean", ("422", "mean"), "| 422 | a value is not acceptable |"),
    ],
)
def test_a_table_gives_its_header_and_the_row_that_answers(question, words, row):
    text = written(passage(1, STATUSES), question=question, words=words)

    assert text == f"| Status | When |\n|---|---|\n{row}\n\n[1]"


def test_a_row_is_found_by_meaning_where_no_word_is_the_same_and_rows_left_out_between_two_are_marked():
    """Of a long table; a short one is given whole."""
    question = prepared(passage(1, STATUSES), question="which code for a rate limit", words=("status",))
    text = extract(question, EMBEDDER).text

    assert "| 429 | too many requests |" in text
    assert text.count("\n|") < STATUSES.count("\n|")

    text = written(passage(1, STATUSES), question="malformed or forbids", words=("malform", "forbid"))

    assert "| 400 | the request is malformed |\n| … |\n| 409 | the state forbids it |" in text


def test_a_table_that_begins_before_the_passage_has_its_header(environment):
    """Rows alone are numbers without a name, for a reader and for a model."""
    rows = "".join(f"| part {n} | costs {n} euros and is delivered by the {n}th |\n" for n in range(150))
    head = "| Spare part | Price |\n|---|---|\n"
    environment.write("knowledge/prices.md", f"# Prices\n\n{head}{rows}| gasket | 7 euros |\n")
    hub, options = synced(environment), AskOptions(threshold=0.0, direct_threshold=0.0)
    first = prepare(hub, "what does a gasket cost", options=options).passages[0]

    assert first.start_line > 5
    assert first.readable.startswith(f"{head}| part")
    assert f"{head}| gasket | 7 euros |" in ask(hub, "what does a gasket cost", options=options).text


@pytest.fixture
def linked(environment):
    """A runbook that links to a decision, and weaker hits enough to fill every place."""
    text = "# Roll back a release\n\nRoll back a release by its tag, as [decided](why.md).\n"
    environment.write("knowledge/roll.md", text)
    environment.write("knowledge/why.md", "# Tags\n\nEvery build keeps its name for a year, to roll back to.\n")
    for day in range(20):
        environment.write(f"knowledge/n{day}.md", f"# Note {day}\n\nA release of day {day} had {day} faults.\n")
    return synced(environment)


@pytest.mark.parametrize("budget", [None, 2_000])
def test_what_an_answer_links_to_comes_before_weak_hits(linked, budget):
    """A weak hit has words of the question, a linked document belongs to the answer."""
    options = AskOptions(budget=budget, threshold=0.0, direct_threshold=0.6)
    tiers = [one.tier for one in prepare(linked, "how do I roll back a release", options=options).passages]

    assert tiers[:2] == ["direct", "related"]
    assert set(tiers[2:]) == {"summarized"}


def test_nothing_is_told_twice(linked):
    answer = ask(linked, "how do I roll back a release")
    quoted, text = {one.number for one in answer.support}, model_answer(answer_report(answer))[0]

    assert quoted
    assert quoted.isdisjoint(one.number for one in answer.passages)
    assert (text.count("Roll back a release by its tag"), "linked from roll.md" in text) == (1, True)


def test_an_empty_handed_answer_shows_the_nearest_passage_and_is_short(environment):
    """Whoever asked sees at once whether it was near enough after all; the part that is nearest, not the first one."""
    filler = "".join(f"\n\nNames of day {n} are kept for {n} years in the archive of the house." for n in range(12))
    environment.write("knowledge/api.md", f"# API\n\nFor all services.{filler}\n\n{STATUSES}")
    for team in range(5):
        environment.write(f"knowledge/n{team}.md", f"# Requests {team}\n\nServices of team {team} have requests.\n")
    options = AskOptions(threshold=1.0, direct_threshold=1.0)
    answer = ask(synced(environment), "too many requests quota zebra", options=options)
    told, shown = model_answer(answer_report(answer))[0], terminal.text(answer_report(answer))

    assert (answer.outcome, len(answer.passages), len(answer.references)) == ("not_covered", 1, 6)
    assert all("No document contains: quota, zebra." in text for text in (told, shown))
    assert (len(told.encode()) < 2_000, shown.count("\n") < 30) == (True, True)


MARK = "outdated: superseded by api.md"


@pytest.fixture
def outdated(environment):
    """A project with a document that names the one in its place, and one past its day."""
    environment.write("knowledge/ops.md", "---\nsuperseded_by: api.md\n---\n# Ops\n\nDeploy things by hand.\n")
    environment.write("knowledge/old.md", "---\nexpires: 2020-01-01\n---\n# Old\n\nDeploy boxes at night.\n")
    environment.write("knowledge/new.md", "# New\n\nDeploy ships in the morning.\n")
    return environment


@pytest.mark.parametrize("options", [[], ["--md"], ["--budget", "500"]])
def test_sources_are_marked_in_a_terminal(kbhub, outdated, options):
    out = kbhub("ask", "deploy things by hand", *options, code=0).out

    assert MARK in out
    assert "old.md" not in out or "outdated: expires 2020-01-01" in out


@pytest.mark.anyio
@pytest.mark.usefixtures("patient")
async def test_hits_and_sources_are_marked_for_a_model(outdated):
    """On the line that names the document, in place of an age that says nothing."""
    outdated.env["KBHUB_TOOLS"] = "all"
    asked = {"question": "deploy things by hand"}
    calls = (("search", {"query": "deploy"}), ("ask", asked), ("ask", {**asked, "options": {"budget": 500}}))
    async with Client(KbhubServer(outdated.hub())) as client:
        told = [text_of(await client.call_tool(*call)) for call in calls]

    assert all(f" · {MARK}\n" in text for text in told)
    assert "stale" not in told[0]


def test_a_model_that_writes_is_told_and_an_empty_successor_supersedes_nothing(outdated):
    outdated.write("knowledge/zebra.md", '---\nsuperseded_by: ""\n---\n# Zebras\n\nStripes.\n')
    hub = synced(outdated)

    assert MARK in request_of(prepare(hub, "deploy things by hand")).prompt
    assert hub.search("zebras").hits[0].outdated is None


DECISIONS = {
    "notes/front.md": ("---\nstatus: accepted\n---\n# Queue\n\nWe deploy by queue.\n", None),
    "notes/madr.md": ("# Queue two\n\n* Status: Accepted\n* Date: 2020-01-01\n\nWe deploy by two queues.\n", None),
    "notes/nygard.md": ("# Queue three\n\n## Status\n\nAccepted\n\n## Context\n\nWe deploy by three.\n", None),
    "docs/ADR/0001-queue.md": ("# Queue four\n\nWe deploy by four queues.\n", None),
    "docs/decisions/0002-queue.md": (
        "# Queue five\n\n## Status\n\nSuperseded by [ADR 7](0007-queue.md)\n\nWe deploy by five.\n",
        "superseded by ADR 7",
    ),
    "notes/deprecated.md": ("---\nstatus: Deprecated\n---\n# Queue six\n\nWe deploy by six queues.\n", "deprecated"),
    "notes/plain.md": ("# Queue seven\n\nWe deploy by seven queues.\n", ""),
    "notes/log.md": ("# Queue eight\n\n" + "We deploy by eight.\n\n" * 20 + "status: accepted\n\nA log.\n", ""),
}
"""Path → its text, and why it is stale: none where it is not, empty for age alone."""


def test_a_decision_does_not_go_stale_by_age(environment, kbhub):
    """What was accepted holds until its own word says otherwise: in hits, and in an audit."""
    for path, (text, _) in DECISIONS.items():
        file = environment.write(f"knowledge/{path}", text)
        os.utime(file, (1_500_000_000, 1_500_000_000))
    hits = {hit["path"]: hit for hit in kbhub("search", "queue deploy", "-n", "20", "--json", code=0).json["hits"]}
    audited = kbhub("audit", "--check", "stale", "--json").json["findings"]
    told = {one["path"]: one["message"] for one in audited}

    stale = {path for path, (_, why) in DECISIONS.items() if why is not None}
    assert {path: hits[path]["outdated"] for path in DECISIONS} == {
        path: why or None for path, (_, why) in DECISIONS.items()
    }
    assert {path for path in DECISIONS if hits[path]["stale"]} == stale
    assert set(told) == stale
    assert "superseded by ADR 7" in told["docs/decisions/0002-queue.md"]
