"""An answer without a model reads as its documents do: in their order, each once, with what belongs to it."""

import pytest

from ask_documents import passage, prepared
from conftest import synced
from kbhub.answers import AskOptions, ask, prepare
from kbhub.answers.extractive import extract
from kbhub.models.embedding import packaged_embedder
from kbhub.render import model, terminal
from kbhub.render.search import answer_report

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


@pytest.fixture(scope="module")
def embedder():
    return packaged_embedder()


def written(*passages, **options):
    return extract(prepared(*passages, **options), None).text


def test_sentences_of_a_line_stand_in_its_order():
    """The one that answers best may be the last of a runbook's line."""
    text = "Call back first. Then roll it back. Roll back only once."

    assert written(passage(1, text)) == f"{text} [1]"


def test_passages_that_follow_each_other_are_told_as_in_their_document():
    """What is done first is told first, even if a later step comes nearer to the question."""
    later = passage(1, "Then roll back the code.", start_line=20, end_line=20, docid="#aaaaaa", score=0.9)
    sooner = passage(2, "First roll back the flag.", start_line=18, end_line=18, docid="#aaaaaa", score=0.8)
    other = passage(3, "They roll back too.", docid="#bbbbbb", score=0.85)

    text = written(later, sooner, other)

    assert text.index("First roll back") < text.index("Then roll back") < text.index("They roll back")


def test_passages_far_from_each_other_are_told_best_first():
    """The answer comes before what stands above it in a long document."""
    best = passage(1, "We roll back the code.", start_line=200, end_line=200, docid="#aaaaaa", score=0.9)
    above = passage(2, "They roll back the flag.", start_line=18, end_line=18, docid="#aaaaaa", score=0.8)

    assert written(best, above).startswith("We roll back the code.")


def test_a_sentence_left_out_is_marked_and_a_short_one_is_told():
    short = "We roll back code. It takes a minute. We roll back data."
    between = " ".join(f"The sky of day {number} is blue and high and far away." for number in range(9))

    assert written(passage(1, short)) == f"{short} [1]"
    assert written(passage(1, f"We roll back code. {between} We roll back data.")) == (
        "We roll back code. … We roll back data. [1]"
    )


def test_sections_are_named_and_each_is_cited_once():
    """A step without its heading can be taken for another one."""
    text = "# Deploying\n\nWe roll back. We go back.\n\n## If it fails\n\nRoll back at once.\n"

    assert written(passage(1, text)) == (
        "**Deploying**\n\nWe roll back. We go back. [1]\n\n**If it fails**\n\nRoll back at once. [1]"
    )
    assert written(passage(1, "We roll back.")) == "We roll back. [1]"


def test_a_document_is_named_by_its_file_where_its_title_names_none():
    """Every proposal begins with a summary."""
    text = "## How\n\nWe roll back.\n\n## When\n\nThey go back.\n"

    assert written(passage(1, text, title="Summary")).startswith("**p1 › How**\n\nWe roll back. [1]\n\n**When**")


def test_pictures_and_mere_pointers_are_not_quoted():
    text = (
        "[![roll back](https://a.example/roll.png)](https://a.example/back)\n\nSee [how to roll back](back.md).\n\n"
        "For more on how to roll back, see [the manual](roll.md) for details.\n\n"
        "[roll](a.md), [back](b.md)\n\nRoll back by tag. ![back](a.png)\n"
    )

    assert written(passage(1, text)) == "Roll back by tag. [1]"


def test_what_announces_something_that_is_not_told_is_left_out():
    """A colon at the end of an answer leads nowhere."""
    items = "".join(f"- The sky of day {number} is blue and high and far away.\n" for number in range(20))
    text = f"We roll back by tag.\n\nTo roll back, these are needed:\n\n{items}"

    assert written(passage(1, text)) == "We roll back by tag. [1]"


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


def test_a_row_is_found_by_meaning_where_no_word_is_the_same(embedder):
    """Of a long table; a short one is given whole."""
    question = prepared(passage(1, STATUSES), question="which code for a rate limit", words=("status",))
    text = extract(question, embedder).text

    assert "| 429 | too many requests |" in text
    assert text.count("\n|") < STATUSES.count("\n|")


def test_rows_left_out_between_two_are_marked():
    text = written(passage(1, STATUSES), question="malformed or forbids", words=("malform", "forbid"))

    assert "| 400 | the request is malformed |\n| … |\n| 409 | the state forbids it |" in text


def test_a_table_that_begins_before_the_passage_has_its_header(environment):
    """Rows alone are numbers without a name, for a reader and for a model."""
    rows = "".join(
        f"| part {number} | costs {number} euros and is delivered by the {number}th |\n" for number in range(150)
    )
    environment.write(
        "knowledge/prices.md", f"# Prices\n\n| Spare part | Price |\n|---|---|\n{rows}| gasket | 7 euros |\n"
    )
    hub = synced(environment)
    options = AskOptions(threshold=0.0, direct_threshold=0.0)
    made = prepare(hub, "what does a gasket cost", options=options)
    answer = ask(hub, "what does a gasket cost", options=options)

    assert made.passages[0].start_line > 5
    assert made.passages[0].readable.startswith("| Spare part | Price |\n|---|---|\n| part")
    assert "| Spare part | Price |\n|---|---|\n| gasket | 7 euros |" in answer.text


@pytest.fixture
def linked(environment):
    """A runbook that links to a decision, and weaker hits enough to fill every place."""
    environment.write(
        "knowledge/roll.md", "# Roll back a release\n\nRoll back a release by its tag, as [decided](why.md).\n"
    )
    environment.write("knowledge/why.md", "# Tags\n\nEvery build keeps its name for a year, to roll back to.\n")
    for number in range(20):
        environment.write(
            f"knowledge/n{number}.md", f"# Note {number}\n\nA release of day {number} had {number} faults.\n"
        )
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
    quoted = {one.number for one in answer.support}

    assert quoted
    assert quoted.isdisjoint(one.number for one in answer.passages)
    text = model.answer(answer_report(answer))[0]
    assert text.count("Roll back a release by its tag") == 1
    assert "linked from roll.md" in text


def test_an_empty_handed_answer_shows_the_nearest_passage_and_is_short(environment):
    """Whoever asked sees at once whether it was near enough after all; the part that is nearest, not the first one."""
    filler = "".join(
        f"\n\nNames of day {number} are kept for {number} years in the archive of the house." for number in range(12)
    )
    environment.write("knowledge/api.md", f"# API\n\nFor all services.{filler}\n\n{STATUSES}")
    for number in range(5):
        environment.write(
            f"knowledge/n{number}.md", f"# Requests {number}\n\nServices of team {number} have requests.\n"
        )
    hub = synced(environment)
    answer = ask(hub, "too many requests quota zebra", options=AskOptions(threshold=1.0, direct_threshold=1.0))
    told, shown = model.answer(answer_report(answer))[0], terminal.text(answer_report(answer))

    assert (answer.outcome, len(answer.passages), len(answer.references)) == ("not_covered", 1, 6)
    assert "No document contains: quota, zebra." in told
    assert "No document contains: quota, zebra." in shown
    assert len(told.encode()) < 2_000
    assert shown.count("\n") < 30
