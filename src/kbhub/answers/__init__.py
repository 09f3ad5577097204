"""Cited answers, written by the client's model, by Ollama, or by kbhub from the documents' own sentences."""

from kbhub.answers.answer import Answer, AskOptions, Passage, Prepared, Reference, Support, WritingRequest
from kbhub.answers.question import answer_without_client, ask, counted, prepare

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
