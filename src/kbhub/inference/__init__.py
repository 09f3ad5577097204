"""Language models that run elsewhere: an Ollama server, asked under a deadline, and what it says taken with care.

Nothing here runs unless somebody asked for it, and any failure is one sentence (`errors.ModelUnavailable`) that the
caller turns into a note. Texts of documents go into a prompt only as quoted material (`quoted`), never as instructions.
"""

from kbhub.inference.deadline import Deadline
from kbhub.inference.prompts import Prompt, fence_mark, quoted, quoting_rule, seen, sendable, without_thinking
from kbhub.inference.server import Ollama
from kbhub.inference.stored import StoredAnswers

__all__ = [
    "Deadline",
    "Ollama",
    "Prompt",
    "StoredAnswers",
    "fence_mark",
    "quoted",
    "quoting_rule",
    "seen",
    "sendable",
    "without_thinking",
]
