"""Measure search quality: data sets with known answers, standard metrics, and significance tests."""

from kbhub.evaluation.datasets import load_dataset
from kbhub.evaluation.measurement import Options, evaluate
from kbhub.evaluation.report import EvalReport

__all__ = ["EvalReport", "Options", "evaluate", "load_dataset"]
