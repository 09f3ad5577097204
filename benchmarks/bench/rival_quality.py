"""How good what comes back is: questions with known answers, asked of everybody's server, judged as `kbhub dev eval` does."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from bench.common import report_step
from bench.rival_places import Collection, Place, index, place_of
from bench.rival_tools import OWN, key, own_arguments, own_reworded, ranking
from kbhub.extensions.lab.datasets import SECTION_MARK, Dataset, EvalQuery, load_dataset
from kbhub.extensions.lab.measurement import METRICS, judge, randomisation_p

NDCG = METRICS.index("ndcg10")

REWORDED = ", several wordings"
"""After the name of a tool that is given other wordings with the question."""


@dataclass
class Rankings:
    """What a tool gave for each question."""

    found: list[list[str]] = field(default_factory=list)
    failed: int = 0
    """Questions that it answered with an error; they count as empty."""


def measure_quality(
    work: Path, places: Sequence[Place], datasets: Sequence[Path], patience: float
) -> list[dict[str, Any]]:
    """Ask everybody the questions of data sets.

    A data set that is called as one of the vaults is asked of all vaults together; another is indexed for itself.

    Args:
        work: folder of all tools.
        places: who is asked, with the vaults.
        datasets: folders in the format of `kbhub dev eval`.
        patience: seconds for a first index.
    """
    found = []
    for folder in datasets:
        dataset = load_dataset(folder)
        whole = places[0].collection
        inside = dataset.name in whole.parts
        collection = whole if inside else _written(work, dataset)
        prefix = f"{dataset.name}/" if inside else ""
        paths = {document.id: prefix + document.path for document in dataset.documents}
        questions = [query for query in dataset.queries if query.gold]
        golds = [gold_of(query, paths) for query in questions]
        asked: dict[str, Rankings] = {}
        indexed = {}
        for one in places:
            place = one if inside else place_of(work, collection, one.name, one.rival, one.env)
            indexed[one.name] = index(place, patience)
            asked |= _asked(place, questions, {key(path): path for path in paths.values()})
        kept = work / f"rankings-{dataset.name}.json"
        kept.write_text(json.dumps({name: one.found for name, one in asked.items()}), "utf-8")
        found.append({
            "name": dataset.name, "documents": len(collection.files), "questions": len(questions),
            "strata": {kind: sum(one.stratum == kind for one in questions) for kind in _kinds(questions)},
            "indexed": {name: [one["files"], one["of"]] for name, one in indexed.items()},
            "tools": figures_of(asked, questions, golds, exponential=dataset.exponential),
        })  # fmt: skip
    return found


def gold_of(query: EvalQuery, paths: Mapping[str, str]) -> dict[str, int]:
    """Give path → gain; a section's gain is its document's, for not every tool says where in a document it is."""
    gold: dict[str, int] = {}
    for answer, gain in query.gold.items():
        path = paths.get(answer.partition(SECTION_MARK)[0], answer)
        gold[path] = max(gain, gold.get(path, 0))
    return gold


def figures_of(
    asked: Mapping[str, Rankings],
    questions: Sequence[EvalQuery],
    golds: Sequence[Mapping[str, int]],
    *,
    exponential: bool,
) -> dict[str, dict[str, Any]]:
    """Judge rankings.

    Returns:
        Tool → the means of the metrics, nDCG@10 of each kind of question, how many got no hit or an error, and the p of
        the difference of nDCG@10 to the first tool's.
    """
    values = {
        name: np.array([judge(ranked, gold, exponential=exponential) for ranked, gold in zip(one.found, golds, strict=True)])
        for name, one in asked.items()
    }  # fmt: skip
    first = next(iter(values.values()))
    kinds = _kinds(questions)
    rows = {}
    for name, one in values.items():
        strata = {kind: float(one[[q.stratum == kind for q in questions], NDCG].mean()) for kind in kinds}
        rows[name] = {
            **{metric: float(mean) for metric, mean in zip(METRICS, one.mean(axis=0), strict=True)},
            "strata": strata,
            "empty": sum(not ranked for ranked in asked[name].found),
            "failed": asked[name].failed,
            "p": float(randomisation_p(first, one)[NDCG]) if one is not first else None,
        }
    return rows


def _asked(place: Place, questions: Sequence[EvalQuery], known: Mapping[str, str]) -> dict[str, Rankings]:
    """Ask the server of a tool all questions, and again with other wordings if it takes and they have some."""
    plain = place.rival.arguments if place.rival else own_arguments(OWN[place.name])
    reworded = place.rival.reworded if place.rival else own_reworded(OWN[place.name])
    tool = place.rival.tool if place.rival else "search"
    calls = {place.name: [plain(query.text, place.folder) for query in questions]}
    if reworded and any(query.wordings for query in questions):
        calls[place.name + REWORDED] = [reworded(query.text, query.wordings) for query in questions]
    found = {}
    with place.serve() as server:
        server.handshake()
        for name, wanted in calls.items():
            rankings = found[name] = Rankings()
            for arguments in wanted:
                try:
                    names = place.paths(server.call(tool, arguments))
                except (RuntimeError, ValueError, KeyError):
                    names, rankings.failed = [], rankings.failed + 1
                rankings.found.append(ranking(names, known))
            report_step(f"{name}: {sum(not one for one in rankings.found)} of {len(questions)} without a hit")
    return found


def _kinds(questions: Sequence[EvalQuery]) -> list[str]:
    return list(dict.fromkeys(query.stratum for query in questions if query.stratum))


def _written(work: Path, dataset: Dataset) -> Collection:
    """Write the documents of a data set, once."""
    target = work / "source" / dataset.name
    if not target.exists():
        partial = target.with_name(f"{dataset.name}.partial")
        for document in dataset.documents:
            file = partial / document.path
            file.parent.mkdir(parents=True, exist_ok=True)
            file.write_bytes(document.data)
        partial.rename(target)
    return Collection(dataset.name, target)
