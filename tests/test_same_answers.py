"""The same knowledge gives the same answers: whoever asks, in whatever order, however the index came to be."""

import random

import pytest

import kbhub.hub
import kbhub.sync.freshness
import kbhub.sync.sync
from conftest import synced
from corpus import sentences
from kbhub.types import Query

pytestmark = pytest.mark.usefixtures("always_fresh")

WORDS = ("deploy", "database", "canary", "rollback", "index", "token", "kafka", "billing", "latency", "widget")
ENDINGS = ("deployed", "deploying", "deploys", "indexed", "indexing", "rollbacks", "tokens", "widgets", "latencies")
"""Of which documents and queries are made, beside the sentences."""

SIZES = {"short": (40, 1, 6), "long": (160, 6, 1)}
"""Documents; times that they are edited; one query in so many is asked."""


def text_of(choose: random.Random, number: int) -> str:
    """Give a document of some sections; many are alike, word for word."""
    if choose.random() < 0.2:
        return f"# {choose.choice(WORDS)}\n\nThe same words stand here and there.\n"
    text = f"---\ntags: [{choose.choice(WORDS)}]\n---\n# Note {number}\n"
    for _ in range(choose.randint(1, 5)):
        words = " ".join(choose.choices(WORDS, k=12))
        text += f"\n## {' '.join(choose.choices(WORDS, k=2))}\n\n{words} {choose.choice(ENDINGS)}\n"
    return text


def queries(choose: random.Random) -> list[Query]:
    """Give queries of every kind: words, questions, slips, filters, names, in each mode."""
    texts = [
        *(" ".join(choose.sample(WORDS, k=choose.randint(1, 4))) for _ in range(16)),
        *(f"how do we {choose.choice(ENDINGS)} the {choose.choice(WORDS)}" for _ in range(8)), "deploiment",
        "depoly canary", "indxing", "rolback", "widgts", "latecies", "tokns bill", "kafak", "tag:deploy",
        "tag:index widget", "-canary deploy", '"same words stand"', "path:d1 token", "Note 17", "zzzzyx",
    ]  # fmt: skip
    modes = ("hybrid", "keyword", "semantic")
    return [Query(text=text, mode=mode, limit=10, explain=True) for text in texts for mode in modes]


def answer(hub, query):
    """Give all of an answer that a reader sees, with every score."""
    result = hub.search(query)
    hits = [hit.model_dump(mode="json", exclude={"age_days", "explain"}) for hit in result.hits]
    return hits, result.total, result.verdict, result.unmatched, result.corrections, result.notes


def answers(hub, asked, order=None):
    """Ask in an order, and give the answers in that of the queries."""
    places = order.sample(range(len(asked)), len(asked)) if order else range(len(asked))
    found = {place: answer(hub, asked[place]) for place in places}
    return [found[place] for place in range(len(asked))]


class Killed(BaseException):
    """Ends a sync as a signal would, between two transactions."""


def cutting(batches):
    left = iter(range(batches))

    def progress(_base, _done, _todo):
        if next(left, None) is None:
            raise Killed

    return progress


def edit(environment, choose, numbers):
    folder = environment.project / "knowledge"
    for _ in range(40):
        number = choose.randrange(numbers)
        file = folder / f"d{number % 7}" / f"n{number}.md"
        act = choose.random()
        if act < 0.6 or not file.exists():
            environment.write(f"knowledge/d{number % 7}/n{number}.md", text_of(choose, number))
        elif act < 0.8:
            file.unlink()
        else:
            (folder / "moved").mkdir(exist_ok=True)
            file.rename(folder / "moved" / f"r{number}.md")


def differing(asked, one, other):
    return [(query.text, query.mode) for query, mine, theirs in zip(asked, one, other, strict=True) if mine != theirs]


@pytest.mark.parametrize(
    ("seed", "size"), [(0, "short"), *(pytest.param(seed, "long", marks=pytest.mark.slow) for seed in range(12))]
)
def test_answers_depend_on_the_files_alone(environment, monkeypatch, seed, size):
    monkeypatch.setattr(kbhub.sync.sync, "BATCH_FILES", 8)
    choose, (numbers, rounds, step) = random.Random(seed), SIZES[size]
    for number in range(numbers):
        environment.write(f"knowledge/d{number % 7}/n{number}.md", text_of(choose, number))
    for name, text in sentences(60).items():
        environment.write(f"knowledge/s/{name}", f"# {name}\n\n{text}\n")
    asked = queries(choose)[::step]
    warm = synced(environment)
    answers(warm, asked, choose)
    for _ in range(rounds):
        edit(environment, choose, numbers)
        try:
            environment.hub().sync(progress=cutting(choose.randrange(4)))
        except Killed:
            answers(warm, asked[:12], choose)
        environment.hub().sync()
        answers(warm, asked[:30], choose)

    warm_answers, cold = answers(warm, asked, choose), answers(environment.hub(), asked)
    other = synced(environment, cache=environment.home / "anew")
    anew = answers(other, asked, choose)

    assert differing(asked, warm_answers, cold) == []
    assert differing(asked, cold, anew) == []
