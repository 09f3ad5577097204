"""A chat answer becomes a document that is found, with links to what is near it."""

from __future__ import annotations

import io
import json
import re
import sys

import pytest

from kbhub.cli.app import run
from kbhub.documents.markdown import parse_document
from kbhub.editing.intake import distil, folder_name, model_name
from kbhub.errors import BaseNotFound, KbhubError, UsageError, WriteRefused
from kbhub.memory.changes import remember
from kbhub.types import Query

ANSWER = "# Rolling back\n\nTo roll back a release, start the rollback job and wait until it is done.\n"


@pytest.fixture
def hub(environment):
    """A project with two documents, and a base of the user's."""
    environment.write("knowledge/rollback.md", "# Rollback\n\nTo roll back a release, run the rollback job.\n")
    environment.write("knowledge/soup.md", "# Soup\n\nFry onions slowly in butter, then add broth.\n")
    environment.write(
        environment.home / "notes" / "release.md", "# Releases\n\nA release can be rolled back by a job.\n"
    )
    environment.write(
        environment.home / ".kbhub.json",
        '{"bases": {"notes": {"knowledge": "~/notes", "writable": true}}, "repos": {"*": "notes"},'
        ' "distil": {"models": {"claude": "claude-opus-5", "local": "llama3:8b"}}}',
    )
    made = environment.hub(clock=lambda: 1_795_000_000.0)
    made.sync()
    return made


def document(hub, saved):
    folder = next(base.path for base in hub.discovery().bases if base.id == saved.base)
    return parse_document(saved.path, (folder / saved.path).read_bytes())


def test_an_answer_is_saved_with_what_is_known_about_it(hub):
    """Place, date, status, id, model and related documents, and the text unchanged."""
    saved = distil(hub, "c", ANSWER)
    made = document(hub, saved)

    assert re.fullmatch(r"llm-completions/claude-opus-5/20261118-\d{6}-[0-9a-f]{6}\.md", saved.path)
    assert ("project", "claude-opus-5", saved.path) == (saved.base, saved.model, saved.ref)
    assert {
        "title": "Rolling back",
        "date": "2026-11-18",
        "status": "raw",
        "id": saved.id,
        "model": "claude-opus-5",
    } == {key: made.front_matter[key] for key in ("title", "date", "status", "id", "model")}
    assert "\n".join(made.lines[made.body :]).strip() == ANSWER.strip()


def test_related_documents_are_those_near_in_meaning(hub):
    """Those of the base that gets the answer, the nearest first; nothing that is far."""
    assert ("rollback.md",) == distil(hub, "c", ANSWER).related
    assert ("release.md",) == distil(hub, "c", ANSWER.replace("wait", "stay"), base="notes").related
    assert () == distil(hub, "c", "Quarks are bound by gluons.").related


def test_a_projects_document_names_nothing_that_only_this_user_has(hub):
    """Neither memories nor the user's own bases, however near; the answer says that they are left out."""
    remember(hub, "To roll back a release, start the rollback job.")
    remember(hub, "To roll back a release, start the rollback job and wait.", scope="user")
    saved = distil(hub, "c", ANSWER)
    text = (next(base.path for base in hub.discovery().bases if base.id == "project") / saved.path).read_text()

    assert ("rollback.md",) == saved.related
    assert "@" not in text
    assert (
        "Only documents of project are added as related, not those of your other bases (notes, memory, user)."
        in saved.notes
    )


@pytest.mark.parametrize(
    ("text", "says"),
    [
        (
            "Mead of honey is fried in a pan of butter.",
            "Not added as related, because their similarity is below 0.50: soup.md (0.",
        ),
        ("Quarks are bound by gluons.", "No document of project is similar enough in meaning to be added as related."),
    ],
)
def test_what_is_not_near_enough_is_left_out_and_said(hub, text, says):
    """With how near it is, for a person to judge."""
    saved = distil(hub, "c", text)

    assert saved.related == ()
    assert saved.notes[0].startswith(says)


def test_only_the_beginning_counts(hub):
    """What follows the first hundred words does not draw in other documents."""
    long = "Quarks are bound by gluons. " * 25 + ANSWER * 5

    assert () == distil(hub, "c", long).related


def test_a_saved_answer_is_found(hub):
    """At once, without another command."""
    saved = distil(hub, "g", "The zymurgy of mead takes months.")

    assert saved.indexed
    assert saved.ref == hub.search(Query(text="zymurgy")).hits[0].ref


def test_two_equal_answers_are_two_documents(hub):
    """Within one second, too."""
    assert distil(hub, "c", ANSWER).path != distil(hub, "c", ANSWER).path


@pytest.mark.parametrize(
    ("given", "name"),
    [
        ("c", "claude-opus-5"),
        ("claude", "claude-opus-5"),
        ("Claude", "claude-opus-5"),
        ("x", "codex"),
        ("g", "gemini"),
        ("local", "llama3:8b"),
        ("mistral-large", "mistral-large"),
    ],
)
def test_aliases_stand_for_models(hub, given, name):
    """Letters and names, as the config says; any other name is itself."""
    assert name == model_name(given, hub.config().settings.distil.models)


@pytest.mark.parametrize(
    ("model", "folder"),
    [
        ("llama3:8b", "llama3-8b"),
        ("../../etc/passwd", "etc-passwd"),
        ("org/model", "org-model"),
        (".hidden", "hidden"),
        ("モデル v2", "v2"),
        ("a" * 300, "a" * 80),
    ],
)
def test_a_model_name_is_no_path(model, folder):
    """Whatever it holds, it makes one folder with a plain name."""
    assert folder == folder_name(model)


@pytest.mark.parametrize("model", ["", "..", "///", "モデル"])
def test_a_name_of_which_nothing_is_left_is_refused(hub, model):
    """With what to give instead."""
    with pytest.raises(UsageError, match="not a valid model name"):
        distil(hub, model, ANSWER)


def test_without_a_writable_project_it_goes_to_the_users_data(environment):
    """There is always a place, and it is searched from then on."""
    environment.write("docs/guide.md", "# Guide\n\nA fallback base is read only.\n")
    hub = environment.hub()
    hub.sync()
    saved = distil(hub, "c", "Zymurgy is the craft of brewing.")

    assert "completions" == saved.base
    assert saved.ref == environment.hub().search(Query(text="zymurgy")).hits[0].ref
    assert not list(environment.project.glob("docs/llm*"))


def test_a_base_that_is_not_writable_refuses(environment, hub):
    """Nothing is written where the user did not allow it."""
    with pytest.raises(BaseNotFound):
        distil(hub, "c", ANSWER, base="nowhere")
    environment.write(environment.home / ".kbhub.json", '{"bases": {"notes": "~/notes"}, "repos": {"*": "notes"}}')
    with pytest.raises(WriteRefused):
        distil(environment.hub(), "c", ANSWER, base="notes")


def test_read_only_is_obeyed(environment, hub):
    """The setting takes this away, too."""
    with pytest.raises(WriteRefused):
        distil(environment.hub(env=environment.env | {"KBHUB_READ_ONLY": "true"}), "c", ANSWER)


def test_an_answer_with_front_matter_keeps_it(hub):
    """What a model wrote at its head stays."""
    made = document(hub, distil(hub, "c", "---\naudience: ops\n---\nText.\n"))

    assert ("ops", "raw") == (made.front_matter["audience"], made.front_matter["status"])


def test_without_vectors_it_is_saved_all_the_same(environment, hub):
    """And says that nothing was compared."""
    environment.write(environment.home / ".kbhub.json", '{"embedder": {"model": "none"}}')
    saved = distil(environment.hub(), "c", ANSWER)

    assert () == saved.related
    assert "no vectors" in saved.notes[0]


# The command


@pytest.fixture
def command(environment, hub, monkeypatch, capsys):
    """Runs the command in the project with a standard input."""
    for name, value in environment.env.items():
        monkeypatch.setenv(name, value)
    monkeypatch.chdir(environment.project)

    def call(*arguments, stdin=None):
        class Terminal(io.StringIO):
            def isatty(self):
                return True

        monkeypatch.setattr(sys, "stdin", Terminal() if stdin is None else io.TextIOWrapper(io.BytesIO(stdin)))
        code = run(["distil", *arguments])
        return code, capsys.readouterr()

    return call


def test_the_argument_comes_first(command):
    """Then nothing else is read."""
    code, printed = command("c", "Mead takes months.", "--json", stdin=b"other text")
    saved = json.loads(printed.out)

    assert (0, "claude-opus-5", True) == (code, saved["model"], saved["indexed"])


def test_standard_input_is_read(command, environment):
    """UTF-8, or nothing is saved."""
    code, printed = command("c", stdin="Café rollback\n".encode())
    assert code == 0
    assert "Saved llm-completions/claude-opus-5/" in printed.out

    code, printed = command("c", stdin=b"Caf\xe9 rollback\n")
    assert (code, printed.out) == (2, "")
    assert printed.err == "kbhub: Standard input is not UTF-8 (byte 3). Convert it first.\n"
    code, printed = command("c", "Caf\udce9 rollback")
    assert (code, printed.out) == (2, "")
    assert "is not UTF-8" in printed.err


def test_an_empty_standard_input_is_an_error(command):
    code, printed = command("c", stdin=b" \n")

    assert (2, "kbhub: Nothing to save: standard input is empty.\n") == (code, printed.err)


@pytest.fixture
def clipboard(monkeypatch):
    """A clipboard with a text, or none that can be read: it belongs to the desktop, which tests do not have."""
    import pyperclip

    def set_to(text):
        def paste():
            if text is None:
                raise pyperclip.PyperclipException("no mechanism")
            return text

        monkeypatch.setattr(pyperclip, "paste", paste)

    return set_to


def test_the_clipboard_is_last(command, clipboard):
    """In a terminal, without an argument."""
    clipboard("From the clipboard: zymurgy.")
    code, printed = command("x")

    assert code == 0
    assert "Saved llm-completions/codex/" in printed.out


@pytest.mark.parametrize(
    ("text", "says"), [(None, "the clipboard cannot be read here"), ("  ", "the clipboard is empty")]
)
def test_no_clipboard_is_an_error(command, clipboard, text, says):
    clipboard(text)
    code, printed = command("x")

    assert code in (1, 2)
    assert says in printed.err
    assert "standard input" in printed.err


def test_a_foreseen_failure_is_a_kbhub_error(hub):
    with pytest.raises(KbhubError, match="Nothing to save"):
        distil(hub, "c", " \n")
