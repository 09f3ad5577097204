"""`kbhub ask` says what it finds, in words, streams and exit codes."""

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
