"""`benchmarks/replay.py` shows what hooks would have said during a past session, and changes nothing."""

from __future__ import annotations

import importlib
from pathlib import Path

import pytest

from hook_events import claude_log, event
from kbhub.hooks.delivery import deliver
from kbhub.hooks.inbox import waiting
from kbhub.memory.changes import remember

BENCHMARKS = Path(__file__).parents[2] / "benchmarks"

pytestmark = pytest.mark.skipif(not BENCHMARKS.is_dir(), reason="a source distribution has no benchmarks")

TURNS = (
    ("user", "On which day are refunds booked in the ledger?"),
    ("assistant", "I look."),
    ("Read", {"file_path": "src/pay.py"}),
    ("user", "On which day are refunds booked in the ledger, again?"),
    ("Bash", {"command": "ls"}),
)


@pytest.fixture
def replays(monkeypatch):
    monkeypatch.syspath_prepend(str(BENCHMARKS))
    return importlib.import_module("replay")


def test_a_session_is_replayed_event_by_event_and_nothing_is_noted(shop, environment, tmp_path, replays):
    log = claude_log(tmp_path / "session.jsonl", *TURNS, cwd=environment.project)
    ref = remember(shop, "charge() must not round.", about=["src/pay.py"]).memory.ref

    found = list(replays.replay(shop, replays.transcript_of(shop, log)))

    assert [(one.name, line, bool(said)) for line, one, said in found] == [
        ("session-start", 0, True),
        ("prompt", 1, True),
        ("tool", 2, True),
        ("prompt", 4, False),
    ]
    assert ref in found[2][2].text
    assert waiting(shop) == ()
    assert not (environment.home.parent / "data" / "hooks").exists()
    assert found[1][2].text == deliver(shop, event("prompt", environment.project, prompt=TURNS[0][1])).text
