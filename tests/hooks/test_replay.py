"""A past session shows what hooks would have said, and changes nothing."""

from __future__ import annotations

import pytest

from hook_events import claude_log, event
from kbhub.errors import UsageError
from kbhub.hooks.delivery import SESSION_TOKENS, deliver
from kbhub.hooks.inbox import waiting
from kbhub.hooks.replay import replay
from kbhub.memory.remember import remember

TURNS = (
    ("user", "On which day are refunds booked in the ledger?"),
    ("assistant", "I look."),
    ("Read", {"file_path": "src/pay.py"}),
    ("user", "On which day are refunds booked in the ledger, again?"),
    ("user", "From now on, run make check before every commit in this repository."),
    ("Bash", {"command": "cat src/hooks.py"}),
    ("Bash", {"command": "ls"}),
)


@pytest.fixture
def log(environment, tmp_path):
    return claude_log(tmp_path / "session.jsonl", *TURNS, cwd=environment.project)


def test_a_session_is_replayed_event_by_event(shop, environment, log):
    ref = remember(shop, "charge() must not round.", about=["src/pay.py"]).memory.ref

    found = replay(shop, log)

    assert [(one.event, one.line, bool(one.text)) for one in found.events] == [
        ("session-start", 0, True),
        ("prompt", 1, True),
        ("tool", 2, True),
        ("prompt", 4, False),
        ("prompt", 5, False),
        ("tool", 6, False),
    ]
    assert ref in found.events[2].text
    assert found.tokens == sum(one.tokens for one in found.events) <= SESSION_TOKENS
    assert found.proposals == ("From now on, run make check before every commit in this repository.",)
    assert found.notes == ()


def test_a_replay_says_what_the_hooks_say(shop, environment, log):
    replayed = replay(shop, log)
    said = deliver(shop, event("prompt", environment.project, prompt=TURNS[0][1]))

    assert replayed.events[1].text == said.text


def test_a_replay_notes_nothing(shop, environment, log):
    replay(shop, log)

    assert waiting(shop) == ()
    assert not (environment.home.parent / "data" / "hooks").exists()


def test_a_replay_where_nothing_may_speak_says_so(shop, environment, log, kbhub):
    kbhub("trust", "--revoke", str(environment.project), code=0)

    done = kbhub("hooks", "--replay", str(log), code=0)

    assert "kbhub trust --documents" in done.err
    assert "refunds.md" in done.out


def test_a_replay_on_a_terminal_counts_what_stayed_silent(shop, log, kbhub):
    out = kbhub("hooks", "--replay", str(log), code=0).out

    assert "line 1 · prompt · " in out
    assert "would propose to remember" in out
    assert (
        f"6 events, 3 with nothing to deliver; {kbhub('hooks', '--replay', str(log), '--json').json['tokens']} of 1,500"
        in out
    )


@pytest.mark.parametrize("content", ["", "no json", '{"type": "other"}\n'])
def test_what_is_no_log_of_a_session_is_refused(shop, tmp_path, kbhub, content):
    file = tmp_path / "x.jsonl"
    file.write_text(content)

    with pytest.raises(UsageError, match="contains no session"):
        replay(shop, file)
    with pytest.raises(UsageError, match="Cannot read"):
        replay(shop, tmp_path / "none.jsonl")
    assert kbhub("hooks", "--replay", str(file), code=2).err
