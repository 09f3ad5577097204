"""Update the trace of a hit whose score was changed after ranking."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

from kbhub.search.hits import SCORE_DIGITS

if TYPE_CHECKING:
    from kbhub.types import Hit, Signal


def with_part(hit: Hit, score: float, part: Signal) -> Hit:
    """Return a hit with a new score, and a trace that still adds up to it.

    Args:
        hit: the original hit.
        score: its new score; cut off at 1.
        part: what changed the score; its contribution is computed here.
    """
    rounded = round(min(1.0, max(0.0, score)), SCORE_DIGITS)
    if hit.trace is None:
        return hit.model_copy(update={"score": rounded})
    factor = math.prod(hit.trace.factors.values())
    rest = rounded / factor - sum(signal.contribution for signal in hit.trace.signals) if factor else 0.0
    signals = (*hit.trace.signals, part.model_copy(update={"contribution": rest}))
    return hit.model_copy(update={"score": rounded, "trace": hit.trace.model_copy(update={"signals": signals})})
