"""`kbhub ask` says what it finds, in words, streams and exit codes."""

import json

import pytest

from ask_documents import QUESTION, write_documents


@pytest.fixture
def kbhub(kbhub, environment):
    """Runs a command in this process, in a project with some notes."""
    write_documents(environment)
    return kbhub


def test_a_question_is_answered_with_sources_and_noted_like_a_search(kbhub):
    code, out, err = kbhub("ask", *QUESTION.split())
    assert code == 0
    for part in ("Roll back first and ask why later. A rollback takes ninety seconds.", "Sources:", "runbooks/"):
        assert part in out
    assert err.startswith("kbhub: Written by kbhub, from sentences of the documents.\n")

    vain = "who won the football world cup in brazil"
    code, out, _ = kbhub("ask", vain)
    assert code == 1
    assert out.startswith("These bases probably do not cover this, or use other words.")

    unanswered, found = kbhub("dev", "log", "show", "--json").json["queries"]
    assert (unanswered["text"], unanswered["verdict"]) == (vain, "none")
    assert (found["text"], found["client"]) == (QUESTION, "user")
    assert len(found["hits"]) == len(set(found["hits"])) > 0


def test_passages_for_a_budget(kbhub):
    code, out, err = kbhub("ask", QUESTION, "--budget", "400")
    assert (code, err) == (0, "kbhub: Verdict: strong.\n")
    assert out.startswith("[1] runbooks/")
    assert "Roll back first" in out
    code, out, err = kbhub("ask", QUESTION, "--budget", "100")
    assert (code, out.strip()) == (1, "")
    said = "No passage fits in a budget of 100 tokens with its reference; 400 would hold a few lines."
    assert err.endswith(f"kbhub: {said}\n")


def test_json_and_markdown(kbhub):
    code, out, err = kbhub("ask", QUESTION, "--json", "--max-tokens", "100")
    assert (code, err) == (0, "")
    assert json.loads(out)["written_by"] == "extractive"
    code, out, _ = kbhub("ask", QUESTION, "--md")
    assert code == 0
    assert out.startswith(f"# {QUESTION}\n\n**Rolling back a release**\n\nRoll back first")
    assert "| 1 | runbooks/" in out
