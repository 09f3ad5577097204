"""kbhub: local search over your Markdown for coding agents.

The Python API is what `__all__` lists: it is stable within a major version. Everything else may change.
"""

# As type checkers know it, too; `typing` would cost ten times what the rest of this file does.
TYPE_CHECKING = False
if TYPE_CHECKING:
    from kbhub.answers.answer import Answer, AskOptions
    from kbhub.answers.question import ask
    from kbhub.api import Hub
    from kbhub.errors import KbhubError
    from kbhub.memory.changes import forget, remember
    from kbhub.memory.lists import memories
    from kbhub.memory.results import Forgotten, Memory, MemoryList, Remembered
    from kbhub.reading.read import ReadOptions
    from kbhub.reading.reports import Reading, ReadResult, Status
    from kbhub.sync.comparison import SyncReport
    from kbhub.types import Hit, Query, SearchResult

__version__ = "0.1.0"

__all__ = [
    "Answer", "AskOptions", "Forgotten", "Hit", "Hub", "KbhubError", "Memory", "MemoryList", "Query", "ReadOptions",
    "ReadResult", "Reading", "Remembered", "SearchResult", "Status", "SyncReport", "__version__", "ask", "forget",
    "memories", "remember",
]  # fmt: skip

_PLACES = {
    "answers.question": ("ask",),
    "answers.answer": ("Answer", "AskOptions"),
    "errors": ("KbhubError",),
    "api": ("Hub",),
    "memory.changes": ("forget", "remember"),
    "memory.lists": ("memories",),
    "memory.results": ("Forgotten", "Memory", "MemoryList", "Remembered"),
    "reading.read": ("ReadOptions",),
    "reading.reports": ("ReadResult", "Reading", "Status"),
    "sync.comparison": ("SyncReport",),
    "types": ("Hit", "Query", "SearchResult"),
}
"""Module → names of the API in it. They are loaded when they are first asked for: the command line, which imports
this package before it knows what to do, must not wait for SQLite and numpy."""


def __getattr__(name: str) -> object:
    place = next((place for place, names in _PLACES.items() if name in names), None)
    if place is None:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    # With a name in `fromlist` it gives the inner module; `importlib` would cost twice what the rest of this file does.
    found: object = getattr(__import__(f"kbhub.{place}", fromlist=(name,)), name)
    globals()[name] = found
    return found


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
