"""`kbhub dev rerank` and `kbhub dev embed`, for pipelines."""

import json
from functools import partial

import numpy as np
import pytest

from kbhub.models.embedding import packaged_embedder


@pytest.fixture
def server(ollama):
    ollama.say = lambda body: '{"grade": 3}' if "image" in body["messages"][1]["content"] else '{"grade": 0}'
    return ollama


@pytest.fixture
def kbhub(kbhub, environment, server, monkeypatch):
    """Runs a command in a project with two notes, with a server of models; it is to end well, unless told otherwise."""
    for name, value in server.env.items():
        monkeypatch.setenv(name, value)
    environment.write("lunch.md", "# Lunch\n")
    environment.write("revert.md", "words " * 2000 + "\nRedeploy the old image to roll back.\n")
    return partial(kbhub, code=0)


def test_files_are_ordered_by_grade_those_without_one_last_and_without_a_model_it_fails_with_what_to_do(kbhub, server):
    asked = ("dev", "rerank", "roll back", "lunch.md", "revert.md")
    assert kbhub(*asked).out == "3\trevert.md\n0\tlunch.md\n"
    assert all(len(body["messages"][1]["content"]) < 2000 for body in server.asked("/api/chat"))
    server.models["judge"] = "4" * 64
    out = kbhub(*asked, "--model", "judge", "--json").json
    assert (out["model"], out["note"]) == ("judge", None)
    assert out["files"] == [{"file": "revert.md", "grade": 3}, {"file": "lunch.md", "grade": 0}]
    server.say = lambda body: '{"grade": 0}' if "image" in body["messages"][1]["content"] else "no"
    server.models["other"] = "5" * 64  # of which no grade is known
    shown = kbhub(*asked, "--model", "other")
    assert shown.out == "0\trevert.md\n-\tlunch.md\n"
    assert "1 of 2 files graded" in shown.err

    server.models.clear()
    assert "`ollama pull qwen3:0.6b`" in kbhub("dev", "rerank", "x", "lunch.md", code=1).err


def test_a_text_has_a_vector_unless_there_is_no_embedder(kbhub, monkeypatch):
    lines = kbhub("dev", "embed", "roll back", "lunch").out.splitlines()
    expected = packaged_embedder().embed(["roll back", "lunch"])
    assert np.allclose([json.loads(line) for line in lines], expected, atol=1e-5)
    assert kbhub("dev", "embed", stdin=b"roll\nback\n").out.count("\n") == 1
    assert "No text to embed" in kbhub("dev", "embed", stdin=b" \n", code=2).err
    assert "knows none of its words" in kbhub("dev", "embed", "წიგნი").err
    monkeypatch.setenv("KBHUB_EMBEDDER__MODEL", "none")
    assert "No embedder" in kbhub("dev", "embed", "x", code=2).err
