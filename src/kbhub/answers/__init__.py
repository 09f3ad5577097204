"""Cited answers, written by the client's model, by Ollama, or by kbhub from the documents' own sentences."""

from kbhub.answers.asking import answer_without_client, ask, counted, prepare
from kbhub.answers.models import Answer, AskOptions, Passage, Prepared, Reference, Support, WritingRequest

__all__ = [
    "Answer",
    "AskOptions",
    "Passage",
    "Prepared",
    "Reference",
    "Support",
    "WritingRequest",
    "answer_without_client",
    "ask",
    "counted",
    "prepare",
]
