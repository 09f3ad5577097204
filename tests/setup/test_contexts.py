"""What is said of a path, and where it is written down."""

import json

import pytest

from kbhub.errors import ConfigError, UsageError
from kbhub.setup.contexts import ContextTarget, add_context, list_contexts, parse_place, remove_context
from kbhub.workspace.discovery import matching


@pytest.mark.parametrize(
    ("contexts", "everywhere", "path", "expected"),
    [
        ({"api/": "REST"}, {}, "api/x.md", ("REST",)),
        ({"api": "REST"}, {}, "api/v1/x.md", ("REST",)),
        ({"./api": "REST"}, {}, "api/x.md", ("REST",)),
        ({"api": "REST"}, {}, "apis/x.md", ()),
        ({"api": "REST"}, {}, "v1/api/x.md", ()),
        ({"x.md": "the one"}, {}, "x.md", ("the one",)),
        ({"api/v1": "old", "": "all", "api/": "REST"}, {}, "api/v1/x.md", ("all", "REST", "old")),
        ({"": "the base"}, {"": "mine", "api": "everywhere"}, "api/x.md", ("mine", "the base", "everywhere")),
        ({"": "same", "api": "same"}, {}, "api/x.md", ("same",)),
        ({"/": "all", "api/": ""}, {}, "api/x.md", ("all",)),
    ],
)
def test_all_contexts_of_a_path_match_the_longest_last(contexts, everywhere, path, expected):
    assert matching(contexts, everywhere, path) == expected


@pytest.fixture
def notes(environment):
    """A user with a base of notes that has two folders, and a project with knowledge."""
    environment.write(environment.home / "notes" / "api" / "a.md", "# A\n")
    environment.write(environment.home / "notes" / "b.md", "# B\n")
    environment.write("knowledge/x.md", "# X\n")
    bases = '{\n  "bases": { "notes": "~/notes" }, // mine\n  "repos": { "*": "notes" }\n}\n'
    environment.write(environment.home / ".kbhub.json", bases)
    return environment


def test_a_context_of_a_global_base_goes_into_the_config(notes):
    change = add_context(notes.hub(), ContextTarget("notes", "api"), "REST\n reference")
    assert (change.context.path, change.context.context) == ("api/", "REST reference")
    assert "}, // mine\n" in (notes.home / ".kbhub.json").read_text()
    assert notes.hub().select(("notes",))[0].contexts == {"api/": "REST reference"}
    assert not add_context(notes.hub(), ContextTarget("notes", "api"), "REST reference").changed
    assert add_context(notes.hub(), ContextTarget("notes", "api"), "GraphQL").changed
    assert notes.hub().select(("notes",))[0].contexts == {"api/": "GraphQL"}


def test_a_context_of_the_project_makes_a_pointer_that_means_the_same(notes):
    """The base stays what and where it was; the next context goes into the same file."""
    before = notes.hub().select(("project",))[0]

    add_context(notes.hub(), ContextTarget("project", ""), "the shop")
    add_context(notes.hub(), ContextTarget("project", "x.md"), "an example")

    pointer = notes.project / ".kbhub.json"
    assert json.loads(pointer.read_text()) == {"contexts": {"": "the shop", "x.md": "an example"}}
    after = notes.hub().select(("project",))[0]
    assert (after.path, after.writable, after.name) == (before.path, before.writable, before.name)
    assert after.contexts == {"": "the shop", "x.md": "an example"}


def test_where_no_pointer_would_mean_the_same_it_says_what_to_do(environment):
    """Knowledge elsewhere than in ./knowledge needs a pointer that names it."""
    environment.write("docs/x.md", "# X\n")
    with pytest.raises(UsageError, match="kbhub init --knowledge docs"):
        add_context(environment.hub(), ContextTarget("project", ""), "the docs")
    assert not (environment.project / ".kbhub.json").exists()


def test_removing_a_context_leaves_the_others_and_no_empty_object(notes):
    for path, text in (("api", "REST"), ("b.md", "B")):
        add_context(notes.hub(), ContextTarget("notes", path), text)

    remove_context(notes.hub(), ContextTarget("notes", "api"))
    assert notes.hub().select(("notes",))[0].contexts == {"b.md": "B"}
    with pytest.raises(UsageError, match=r"no context for 'notes/api'; it has contexts for: 'notes/b\.md'"):
        remove_context(notes.hub(), ContextTarget("notes", "api"))
    remove_context(notes.hub(), ContextTarget("notes", "b.md"))
    assert "contexts" not in (notes.home / ".kbhub.json").read_text()


def test_contexts_are_listed_with_their_files(notes):
    hub = notes.hub()
    add_context(hub, ContextTarget(None, ""), "ours")
    add_context(hub, ContextTarget("notes", "api"), "REST")
    add_context(hub, ContextTarget("notes", "b.md"), "B")
    add_context(hub, ContextTarget("project", ""), "the shop")

    assert notes.hub().config().settings.contexts == {"": "ours"}  # that of every base
    listed = {(one.base, one.path) for one in list_contexts(notes.hub())}
    assert listed == {(None, ""), ("notes", "api/"), ("notes", "b.md"), ("project", "")}
    assert [one.context for one in list_contexts(notes.hub(), ContextTarget("notes", "api/a.md"))] == ["ours", "REST"]
    assert {one.file.parent for one in list_contexts(notes.hub())} == {notes.home, notes.project}


@pytest.mark.parametrize(
    ("text", "place"),
    [
        ("notes", ContextTarget("notes", "")),
        ("notes/api/", ContextTarget("notes", "api")),
        ("notes@api", ContextTarget("notes", "api")),
        ("/", ContextTarget(None, "")),
        ("project/x.md", ContextTarget("project", "x.md")),
    ],
)
def test_a_place_is_named_by_base_and_path(notes, text, place):
    assert parse_place(notes.hub(), text) == place
    for wrong in ("nots/api", "notes/../../etc", None):
        with pytest.raises(UsageError):
            parse_place(notes.hub(), wrong)


def test_beside_the_project_base_a_path_that_it_has_needs_no_name(environment):
    environment.write("knowledge/runbooks/rollback.md", "# Roll back\n")
    hub = environment.hub()
    assert parse_place(hub, "runbooks") == ContextTarget("project", "runbooks")
    assert parse_place(hub, "runbooks/rollback.md") == ContextTarget("project", "runbooks/rollback.md")
    for text in ("nosuch", "../shop", "a\0b"):
        with pytest.raises(UsageError, match="No base"):
            parse_place(hub, text)


def test_a_broken_pointer_is_not_edited_and_inside_a_base_its_name_is_not_needed(notes):
    notes.write(".kbhub.json", '{\n"knowledge": "./knowledge"\n"name": 1}')
    with pytest.raises((ConfigError, UsageError)):
        add_context(notes.hub(), ContextTarget("project", ""), "x")
    assert (notes.project / ".kbhub.json").read_text().endswith('"name": 1}')

    inside = notes.hub(cwd=notes.home / "notes" / "api")
    assert parse_place(inside, None) == ContextTarget("notes", "api")
    assert parse_place(inside, "a.md") == ContextTarget("notes", "api/a.md")
    assert parse_place(inside, "../b.md") == ContextTarget("notes", "b.md")
    with pytest.raises(UsageError, match="is outside"):
        parse_place(inside, "../../..")
