"""A signal: documents tagged `draft` rank behind finished ones that match as well."""

from collections.abc import Sequence

from kbhub.search.plan import Candidate, OpenBases, Plan, RankingSignal

NAME = "draft"
"""Name in traces (`kbhub search --trace`)."""

FACTOR = 0.8

EXAMINED = 50


def _add(plan: Plan, bases: OpenBases, hits: Sequence[Candidate]) -> None:
    if NAME in plan.question.split():  # who asks for drafts gets them
        return
    best = hits[:EXAMINED]
    documents = bases.documents([hit.document_key for hit in best])
    for hit in best:
        if "draft" in documents[hit.document_key].tags:
            hit.multiply(NAME, FACTOR)


SIGNAL = RankingSignal((NAME,), _add)
