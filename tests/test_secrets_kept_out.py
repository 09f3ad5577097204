"""What looks like a credential does not get into memories, answers, logs of sessions, exports and shared bases."""

import io
import json
import re

import pytest

from documents.secret_corpus import secrets
from kbhub.documents.source import read_source
from kbhub.editing.audit import audit
from kbhub.editing.chat_answers import distil
from kbhub.errors import SecretFound
from kbhub.memory.changes import remember
from kbhub.memory.lists import memories
from kbhub.memory.transfer import export, import_
from kbhub.sync.freshness import sync
from kbhub.types import Base

TOKEN = next(re.search(r"ghp_\w+", text)[0] for name, text in secrets(400, seed=1) if name == "github classic")
TEXT = f"The deploy bot\nuses {TOKEN} since March."


def test_a_memory_its_change_or_an_answer_with_a_credential_is_refused(environment):
    hub = environment.hub()
    with pytest.raises(SecretFound, match=r"line 2 .*GitHub token, ghp_…") as refused:
        remember(hub, TEXT)
    made = remember(hub, "The deploy bot has a token.").memory
    with pytest.raises(SecretFound):
        remember(hub, TEXT, id=made.id)
    with pytest.raises(SecretFound):
        distil(hub, "claude", TEXT)

    assert TOKEN not in str(refused.value)
    assert [one.text for one in memories(hub).memories] == ["The deploy bot has a token."]
    assert not list(environment.home.rglob("llm-completions"))
    assert distil(hub, "claude", TEXT, allow_secret=True).path


def test_an_export_leaves_credentials_out(environment):
    hub = environment.hub()
    remember(hub, TEXT, allow_secret=True)

    assert "The deploy bot\nuses [GitHub token left out] since March." in export(hub).memories[0].file
    whole = export(hub, allow_secret=True)
    assert TEXT in whole.memories[0].file

    text = whole.model_dump_json().replace("since March", "since April")
    (problem,) = import_(hub, text).failed
    assert "GitHub token" in problem.message
    assert import_(hub, text, allow_secret=True).added == 1


def test_a_log_of_a_session_is_indexed_without_them():
    records = [
        {"type": "user", "sessionId": "s", "message": {"role": "user", "content": f"use {TOKEN} for the upload"}},
        {"type": "user", "message": {"content": [{"type": "tool_result", "content": f"TOKEN={TOKEN}"}]}},
    ]
    data = "\n".join(map(json.dumps, records)).encode()

    base = Base(id="logs", path="/logs", origin="config", kind="session")
    document, _ = read_source(base, "a.jsonl", io.BytesIO(data), len(data))

    text = "\n".join(document.lines)
    assert text.count("[GitHub token left out]") == 2
    assert TOKEN not in text + document.title


def test_audit_lists_those_that_are_there(environment):
    environment.write("knowledge/ops.md", f"# Ops\n\nThe bot uses\n{TOKEN}.\n")
    hub = environment.hub()
    sync(hub)

    (finding,) = audit(hub, checks=["secrets"]).findings

    assert (finding.severity, finding.path, finding.line) == ("error", "ops.md", 4)
    assert "GitHub token, ghp_…" in finding.message
    assert TOKEN not in finding.model_dump_json()
