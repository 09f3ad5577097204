"""The user's own bases and what is said of their paths, changed from the command line: every other byte is kept."""

import json

import pytest

from kbhub.errors import ConfigError, UsageError
from kbhub.setup.bases import add_base, list_bases, remove_base, rename_base, show_base
from kbhub.setup.contexts import ContextTarget, add_context, list_contexts, parse_place, remove_context
from kbhub.workspace.discovery import matching

CONFIG = """\
{
  // what I keep
  "bases": { "notes": "~/notes" }, // more to come
  "repos": { "*": ["notes"], "~/work": "notes" }
}
"""


@pytest.fixture
def folders(environment):
    """A user with notes and a handbook, and an empty config."""
    environment.write(environment.home / "notes" / "a.md", "# A\n")
    environment.write(environment.home / "team" / "handbook" / "b.md", "# B\n")
    return environment


def config_of(environment):
    return (environment.home / ".kbhub.json").read_text()


def test_all_fields_are_written_and_nothing_else_an_entry_inside_is_named_and_a_second_place_added(folders):
    folders.write(folders.home / ".kbhub.json", CONFIG)
    told = {"include": ("*.txt",), "exclude": ("old/",), "name": "Ops", "writable": True}
    places = (str(folders.home / "team"),)
    change = add_base(folders.hub(), "ops=~/team/handbook", places=places, description="runbooks", **told)

    text = config_of(folders)
    start = '{\n  // what I keep\n  "bases": { "notes": "~/notes", "ops": {"knowledge": "~/team/handbook"'
    assert text.startswith(start)
    assert "}, // more to come\n" in text
    assert '"~/work": "notes", "~/team": ["ops"]' in text
    assert (change.active, change.places) == (False, ("~/team",))
    shown = show_base(folders.hub(cwd=folders.home / "team"), "ops")
    assert shown.active
    assert told == {name: getattr(shown, name) for name in told}

    inner = folders.home / "team" / "handbook"
    folders.configure(repos={"~/team/handbook": []})
    change = add_base(folders.hub(), "~/notes", places=("~/team",))
    assert change.notes == ("This does not apply below ~/team/handbook, which has its own entry in `repos`.",)
    assert "notes" not in [base.id for base in folders.hub(cwd=inner).discovery().bases]
    folders.configure(bases={"h": "~/team/handbook"}, repos={"~/team": "h"})
    add_base(folders.hub(), "~/notes", places=("~/team",))
    change = add_base(folders.hub(), "h=~/team/handbook", places=("~/notes",))
    assert json.loads(config_of(folders))["repos"] == {"~/team": ["h", "notes"], "~/notes": ["h"]}
    assert change.changed


@pytest.mark.parametrize(
    ("text", "more", "message"),
    [
        ("~/nowhere", {}, "nowhere does not exist; a base is a folder of Markdown. Create it first."),
        ("~/notes/a.md", {}, "a.md is not a directory; a base is a folder of Markdown. Name its folder."),
        ("n2=~/notes", {}, "kbhub base rename notes n2"),
        ("notes=~/team", {}, "Choose another id"),
        ("project=~/team", {}, "reserved"),
        ("a/b=~/team", {}, "must not have"),
        ("a=~/team", {"id_": "b"}, "different ids"),
        ("~/team", {"places": ("~/nowhere",)}, "does not exist"),
        ("~/notes", {"writable": True}, "other settings"),
    ],
)
def test_what_cannot_be_a_base_is_refused_with_what_to_do(folders, text, more, message):
    folders.write(folders.home / ".kbhub.json", CONFIG)
    with pytest.raises(UsageError, match=message):
        add_base(folders.hub(), text, **more)
    assert config_of(folders) == CONFIG


def test_renaming_keeps_place_comments_and_index_and_removing_takes_a_base_out_but_leaves_its_documents(folders):
    folders.write(folders.home / ".kbhub.json", CONFIG)
    folders.hub().sync(("notes",))
    index = show_base(folders.hub(), "notes").index
    rename_base(folders.hub(), "notes", "mine")
    assert config_of(folders) == CONFIG.replace('"notes"', '"mine"')
    assert show_base(folders.hub(), "mine").index == index
    with pytest.raises(UsageError, match="did you mean 'mine'"):
        rename_base(folders.hub(), "mina", "x")

    folders.write(folders.home / ".kbhub.json", CONFIG)
    change = remove_base(folders.hub(), "notes")
    without = CONFIG.replace('{ "notes": "~/notes" }', "{ }").replace('["notes"]', "[]")
    assert config_of(folders) == without.replace(': "notes"', ": []")
    assert (folders.home / "notes" / "a.md").exists()
    assert "untouched" in change.notes[0]


def test_all_bases_are_listed_active_or_not_and_those_that_no_file_names_cannot_be_changed(folders):
    folders.write("knowledge/x.md", "# X\n")
    bases = '{"bases": {"notes": "~/notes", "gone": "~/gone", "h": "~/team/handbook"}, "repos": {"*": "notes"}}'
    folders.write(folders.home / ".kbhub.json", bases)
    listed = list_bases(folders.hub()).bases
    places = {"project": (True, ()), "gone": (False, ()), "h": (False, ()), "notes": (True, ("*",))}
    assert {one.id: (one.active, one.places) for one in listed} == places
    assert [one.id for one in listed] == list(places)
    assert "does not exist" in listed[1].problem
    with pytest.raises(UsageError, match="discovered, not configured"):
        remove_base(folders.hub(), "project")
    with pytest.raises(UsageError, match="named by --base"):
        remove_base(folders.hub(bases={"extra": folders.home / "team"}), "extra")


def test_the_config_that_is_in_force_is_edited_and_a_folder_becomes_a_base_of_every_project(folders):
    named = folders.write(folders.home / "other.json", "{}\n")
    add_base(folders.hub(config=named), "~/notes")
    assert json.loads(named.read_text())["bases"] == {"notes": "~/notes"}
    assert not (folders.home / ".kbhub.json").exists()

    hub = folders.hub()
    change = add_base(hub, str(folders.home / "notes"))
    assert (change.id, change.changed, change.active, change.places) == ("notes", True, True, ("*",))
    assert json.loads(config_of(folders)) == {"bases": {"notes": "~/notes"}, "repos": {"*": ["notes"]}}
    assert [base.id for base in hub.discovery().bases] == ["notes"]
    before = config_of(folders)
    again = add_base(folders.hub(), "~/notes")
    assert (again.changed, config_of(folders)) == (False, before)
    assert "already says so" in again.notes[0]


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


def test_contexts_are_listed_with_their_files_a_broken_pointer_is_not_edited_and_inside_a_base_no_name_needed(notes):
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
