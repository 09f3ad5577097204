"""Language models on a server such as Ollama, called with a deadline and with their answers validated.

All of it is opt-in. Any failure is an `errors.ModelUnavailable` with one sentence, which the caller turns into a note.
Document texts are only quoted in prompts (`quoted`), never used as instructions.
"""

from kbhub.models.inference.calls import Deadline
from kbhub.models.inference.prompts import Prompt, fence_mark, quoted, quoting_rule, seen, sendable, without_thinking
from kbhub.models.inference.server import Ollama, StoredAnswers

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
