"""A chat answer becomes a document that is found, with links to what is near it."""

import io
import re
import sys

import pytest

from conftest import synced
from kbhub.documents.markdown import parse_document
from kbhub.editing.chat_answers import distil, folder_name, model_name
from kbhub.errors import BaseNotFound, UsageError, WriteRefused
from kbhub.memory.changes import remember
from kbhub.types import Query

ANSWER = "# Rolling back\n\nTo roll back a release, start the rollback job and wait until it is done.\n"


@pytest.fixture
def hub(environment):
    environment.write("knowledge/rollback.md", "# Rollback\n\nTo roll back a release, run the rollback job.\n")
    environment.write("knowledge/soup.md", "# Soup\n\nFry onions slowly in butter, then add broth.\n")
    environment.write(f"{environment.home}/notes/release.md", "# Releases\n\nA release can be rolled back by a job.\n")
    environment.configure(
        bases={"notes": {"knowledge": "~/notes", "writable": True}},
        repos={"*": "notes"},
        distil={"models": {"claude": "claude-opus-5", "local": "llama3:8b"}},
    )
    return synced(environment, clock=lambda: 1_795_000_000.0)


def document(hub, saved):
    folder = next(base.path for base in hub.discovery().bases if base.id == saved.base)
    return parse_document(saved.path, (folder / saved.path).read_bytes())


def test_an_answer_is_saved_with_what_is_known_about_it_and_aliases_stand_for_models(hub):
    """Place, date, status, id and model, and the text unchanged; it is found at once, and a second one is another."""
    saved = distil(hub, "c", ANSWER)
    made = document(hub, saved)
    assert re.fullmatch(r"llm-completions/claude-opus-5/20261118-\d{6}-[0-9a-f]{6}\.md", saved.path)
    assert ("project", "claude-opus-5", saved.path) == (saved.base, saved.model, saved.ref)
    known = {"title": "Rolling back", "date": "2026-11-18", "status": "raw", "id": saved.id, "model": "claude-opus-5"}
    assert known == {key: made.front_matter[key] for key in known}
    assert "\n".join(made.lines[made.body :]).strip() == ANSWER.strip()
    assert saved.indexed
    assert saved.ref in [hit.ref for hit in hub.search(Query(text="rollback job done")).hits]
    assert distil(hub, "c", ANSWER).path != saved.path

    made = document(hub, distil(hub, "c", "---\naudience: ops\n---\nText.\n"))
    assert ("ops", "raw") == (made.front_matter["audience"], made.front_matter["status"])

    # Letters and names, as the config says; any other name is itself.
    given = "c claude Claude x g local mistral-large"
    names = "claude-opus-5 claude-opus-5 claude-opus-5 codex gemini llama3:8b mistral-large"
    models = hub.config().settings.distil.models
    assert names.split() == [model_name(one, models) for one in given.split()]
    given = ["llama3:8b", "../../etc/passwd", "org/model", ".hidden", "モデル v2", "a" * 300]
    assert [folder_name(one) for one in given] == ["llama3-8b", "etc-passwd", "org-model", "hidden", "v2", "a" * 80]
    for name in ("", "..", "///", "モデル"):
        with pytest.raises(UsageError, match="not a valid model name"):
            distil(hub, name, ANSWER)


def test_related_documents_are_those_near_in_meaning(environment, hub):
    """Those of the base that gets the answer, by its first hundred words; nothing that is far."""
    assert ("rollback.md",) == distil(hub, "c", ANSWER).related
    assert ("release.md",) == distil(hub, "c", ANSWER.replace("wait", "stay"), base="notes").related
    assert () == distil(hub, "c", "Quarks are bound by gluons. " * 25 + ANSWER * 5).related
    environment.configure(embedder={"model": "none"})
    saved = distil(environment.hub(), "c", ANSWER)
    assert () == saved.related
    assert "no vectors" in saved.notes[0]


def test_a_projects_document_names_nothing_that_only_this_user_has(hub):
    """Neither memories nor the user's own bases, however near; the answer says that they are left out."""
    remember(hub, "To roll back a release, start the rollback job.")
    remember(hub, "To roll back a release, start the rollback job and wait.", scope="user")
    saved = distil(hub, "c", ANSWER)
    text = (next(base.path for base in hub.discovery().bases if base.id == "project") / saved.path).read_text()
    assert ("rollback.md",) == saved.related
    assert "@" not in text
    left = "Only documents of project are added as related, not those of your other bases (notes, memory, user)."
    assert left in saved.notes


def test_without_a_writable_project_it_goes_to_the_users_data(environment):
    """There is always a place, and it is searched from then on."""
    environment.write("docs/guide.md", "# Guide\n\nA fallback base is read only.\n")
    hub = synced(environment)
    saved = distil(hub, "c", "Zymurgy is the craft of brewing.")
    assert "completions" == saved.base
    assert saved.ref == environment.hub().search(Query(text="zymurgy")).hits[0].ref
    assert not list(environment.project.glob("docs/llm*"))


def test_nothing_is_written_where_the_user_did_not_allow_it(environment, hub):
    with pytest.raises(BaseNotFound):
        distil(hub, "c", ANSWER, base="nowhere")
    with pytest.raises(WriteRefused):
        distil(environment.hub(env=environment.env | {"KBHUB_READ_ONLY": "true"}), "c", ANSWER)
    environment.configure(bases={"notes": "~/notes"}, repos={"*": "notes"})
    with pytest.raises(WriteRefused):
        distil(environment.hub(), "c", ANSWER, base="notes")


@pytest.fixture
def command(hub, kbhub, monkeypatch):
    """Runs the command in the project, in a terminal unless it has a standard input."""
    monkeypatch.setattr(sys, "stdin", io.StringIO())
    monkeypatch.setattr(sys.stdin, "isatty", lambda: True, raising=False)
    return lambda *arguments, **options: kbhub("doc", "distil", *arguments, **options)


def test_the_argument_comes_first_and_standard_input_is_read(command):
    """UTF-8, or nothing is saved."""
    saved = command("c", "Mead takes months.", "--json", stdin=b"other text", code=0).json
    assert ("claude-opus-5", True) == (saved["model"], saved["indexed"])
    assert "Saved llm-completions/claude-opus-5/" in command("c", stdin="Café rollback\n".encode(), code=0).out
    for given, said in (
        (b"Caf\xe9 rollback\n", "kbhub: Standard input is not UTF-8 (byte 3). Convert it first.\n"),
        (b" \n", "kbhub: Nothing to save: standard input is empty.\n"),
    ):
        assert command("c", stdin=given) == (2, "", said)
    code, out, err = command("c", "Caf\udce9 rollback")
    assert (code, out) == (2, "")
    assert "is not UTF-8" in err


@pytest.mark.parametrize(
    ("text", "code", "says"),
    [
        ("From the clipboard: zymurgy.", {0}, "Saved llm-completions/codex/"),
        (None, {1, 2}, "the clipboard cannot be read here"),
        ("  ", {1, 2}, "the clipboard is empty"),
    ],
)
def test_the_clipboard_is_last(command, monkeypatch, text, code, says):
    """In a terminal, without an argument; it belongs to the desktop, which tests do not have."""
    import pyperclip

    def paste():
        if text is None:
            raise pyperclip.PyperclipException("no mechanism")
        return text

    monkeypatch.setattr(pyperclip, "paste", paste)
    done = command("x")
    assert done.code in code
    assert says in done.out + done.err
    assert ("standard input" in done.err) == (done.code != 0)
