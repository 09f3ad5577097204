"""What `kbhub eval` does."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

from kbhub.cli.console import progress_bars, show_json, show_text
from kbhub.cli.hubs import hub_options
from kbhub.document_words import SIGNAL as NAME
from kbhub.errors import UsageError
from kbhub.evaluation import Options, load_dataset
from kbhub.evaluation import evaluate as measure
from kbhub.evaluation.corpus import Setup
from kbhub.evaluation.logged import logged_dataset
from kbhub.evidence import AMOUNTS
from kbhub.fusion import SIGNALS
from kbhub.hub import Hub
from kbhub.render.evaluation import evaluation_text
from kbhub.second_look import SIGNAL as SECOND_LOOK

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    from kbhub.cli.options import Common
    from kbhub.evaluation.asking import EvalMode

DEFAULT_MODES: tuple[EvalMode, ...] = ("keyword", "semantic", "hybrid")


def evaluate(
    datasets: Sequence[Path],
    *,
    log: bool,
    modes: tuple[EvalMode, ...],
    without: Sequence[str],
    bases: int,
    none: Sequence[Path],
    limit: int | None,
    depth: int,
    run: Path | None,
    compare: Path | None,
    floor: float | None,
    without_answers: bool,
    fresh: bool,
    common: Common,
) -> int:
    """Measure and print the figures; 1 if a floor was set and something is below it."""
    if not datasets and not log:
        raise UsageError("Nothing to measure on. Name a folder: kbhub eval DATASET; or --log, for what was asked here.")
    chosen = tuple(dict.fromkeys(modes)) or DEFAULT_MODES
    signals = (*SIGNALS, *AMOUNTS, NAME, SECOND_LOOK)
    for name in (name.strip() for group in without for name in group.split(",")):
        if name not in signals:
            raise UsageError(f"There is no signal {name!r} to leave out; there are {', '.join(signals)}.")
    options = Options(
        modes=chosen,
        main=chosen if modes else ("hybrid",),
        without=tuple(tuple(part.strip() for part in signals.split(",") if part.strip()) for signals in without),
        parts=bases,
        depth=depth,
        limit=limit,
        run=run,
        compare=compare,
        floor=floor,
        without_answers=without_answers,
    )
    judged, unanswerable = [load_dataset(folder) for folder in datasets], [load_dataset(folder) for folder in none]
    judged += [logged_dataset(Hub(hub_options(common)))] if log else []
    with progress_bars("") as progress:
        setup = Setup(dict(os.environ), common.cache_dir, common.config, fresh=fresh, progress=progress)
        report = measure(judged, unanswerable, options, setup)
    if common.json:
        show_json(report.model_dump_json(indent=2))
    else:
        show_text(evaluation_text(report))
    return 1 if report.below else 0
