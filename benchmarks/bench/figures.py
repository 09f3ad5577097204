"""Times taken side by side, and what they say: quantiles, ratios, and how far both vary between rounds."""

from __future__ import annotations

import gc
import math
import resource
import statistics
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any


def quantile(values: Iterable[float], share: float) -> float:
    """Give the smallest value that at least a share of all do not exceed (nearest rank)."""
    ordered = sorted(values)
    return ordered[max(0, math.ceil(share * len(ordered)) - 1)] if ordered else math.nan


def middle(values: Iterable[float]) -> float:
    """Give the median."""
    found = list(values)
    return statistics.median(found) if found else math.nan


def cpu_seconds() -> float:
    """Give the CPU time of this process and of the children it has waited for."""
    children = resource.getrusage(resource.RUSAGE_CHILDREN)
    return time.process_time() + children.ru_utime + children.ru_stime


@dataclass
class Series:
    """What one thing took, round by round, in milliseconds."""

    wall: list[list[float]] = field(default_factory=list)
    cpu: list[list[float]] = field(default_factory=list)

    def round(self) -> None:
        """Begin a round."""
        self.wall.append([])
        self.cpu.append([])

    def add(self, wall: float, cpu: float) -> None:
        """Note a measurement of this round."""
        self.wall[-1].append(wall)
        self.cpu[-1].append(cpu)

    def time(self, call: Callable[[], Any]) -> Any:
        """Call something and note what it took; gives what it gave."""
        cpu, wall = cpu_seconds(), time.perf_counter()
        result = call()
        self.add((time.perf_counter() - wall) * 1000, (cpu_seconds() - cpu) * 1000)
        return result

    def summary(self) -> dict[str, Any]:
        """Give the quantiles over all rounds, and the lowest and highest median of a round."""
        found: dict[str, Any] = {"n": sum(map(len, self.wall))}
        for name, rounds in (("wall", self.wall), ("cpu", self.cpu)):
            every = [value for one in rounds for value in one]
            found |= {f"{name}_p{share}": quantile(every, share / 100) for share in (50, 95, 99)}
            medians = [middle(one) for one in rounds if one]
            found[f"{name}_low"], found[f"{name}_high"] = min(medians, default=math.nan), max(medians, default=math.nan)
            found[f"{name}_rounds"] = medians
        return found


def side_by_side(
    cases: Mapping[str, Callable[[Any], Any]], rounds: Sequence[Sequence[Any]], warm: Sequence[Any] = ()
) -> dict[str, Series]:
    """Time cases on the same inputs in turn: forwards in one round, backwards in the next.

    Args:
        cases: name → what is called with each input.
        rounds: the inputs of each round.
        warm: inputs that are not timed, before the first round.
    """
    series = {name: Series() for name in cases}
    for name in cases:
        for one in warm:
            cases[name](one)
    gc.collect()
    gc.freeze()  # as a server does; here the data of the benchmark would be looked through, too
    for number, inputs in enumerate(rounds):
        for name in list(cases) if number % 2 == 0 else reversed(list(cases)):
            series[name].round()
            call = cases[name]
            for one in inputs:
                series[name].time(lambda call=call, one=one: call(one))
    return series


def ratio(one: Mapping[str, Any], other: Mapping[str, Any], what: str = "cpu") -> tuple[float, float, float]:
    """Give how many times one summary's median is another's: over the rounds the median, the lowest, the highest."""
    pairs = zip(one[f"{what}_rounds"], other[f"{what}_rounds"], strict=False)
    found = [a / b for a, b in pairs if b]
    return (middle(found), min(found), max(found)) if found else (math.nan,) * 3
