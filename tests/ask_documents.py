"""A small base for questions: runbooks that link to decisions, a copy, and things that nobody asks about."""

from kbhub.answers.answer import AskOptions, Passage, Prepared
from kbhub.search.plan import WeightedTerm

QUESTION = "how do we roll back a release"

ROLLBACK = (
    "# Rolling back a release\n\nRoll back first and ask why later. A rollback takes ninety seconds.\n\n"
    "```sh\nship rollback production --to v1\n```\n\n"
    "## When a rollback is not possible\n\nSwitch the [feature flag](../decisions/flags.md) off instead.\n"
)
DOCUMENTS = {
    **dict.fromkeys(("runbooks/rollback.md", "runbooks/copy.md"), ROLLBACK),
    "runbooks/deploy.md": "# Deploying\n\nA release goes out every Tuesday, in three waves.\n\nWatch the dashboard.\n",
    "decisions/flags.md": "# Feature switches\n\nWe decided on switches for unfinished work, kept for a month.\n",
    "kitchen.md": "# Kitchen\n\nThe coffee machine is descaled on Fridays. Milk is in the left fridge.\n",
}


def write_documents(environment):
    """Write them into the project's knowledge, and give the environment."""
    for path, text in DOCUMENTS.items():
        environment.write(f"knowledge/{path}", text)
    return environment


ROLL_BACK = "Redeploy the tag before. A canary takes five minutes.\n\n```sh\nship --to v1\n```\n"


def passage(number=1, text=ROLL_BACK, **fields):
    values = {
        "ref": f"runbooks/p{number}.md", "docid": f"#{number:06x}", "title": "Deploying", "start_line": 10,
        "end_line": 10 + text.count("\n"), "score": 0.9, "tier": "direct", "reason": "score 0.90 ≥ 0.7",
    }  # fmt: skip
    return Passage(number=number, text=text, **{**values, **fields})


def prepared(*passages, question="how do we roll back", options=None, words=("roll", "back")):
    weights = tuple(WeightedTerm(word, (word,), 1.0) for word in words)
    numbers = tuple(one.number for one in passages)
    return Prepared(
        question=question, options=options or AskOptions(), passages=passages, sent=numbers, weights=weights
    )
