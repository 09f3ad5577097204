"""Measure what search finds: data sets with known answers, the standard figures, and whether a difference is chance."""

from kbhub.evaluation.datasets import load_dataset
from kbhub.evaluation.measuring import Options, evaluate
from kbhub.evaluation.report import EvalReport

__all__ = ["EvalReport", "Options", "evaluate", "load_dataset"]
