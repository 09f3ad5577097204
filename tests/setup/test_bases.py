"""The user's own bases, changed from the command line: the config keeps every other byte."""

import json

import pytest

from kbhub.errors import ConfigError, UsageError
from kbhub.setup.bases import add_base, list_bases, remove_base, rename_base, show_base

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


def test_a_folder_becomes_a_base_of_every_project(folders):
    hub = folders.hub()

    change = add_base(hub, str(folders.home / "notes"))

    assert (change.id, change.changed, change.active, change.places) == ("notes", True, True, ("*",))
    assert json.loads(config_of(folders)) == {"bases": {"notes": "~/notes"}, "repos": {"*": ["notes"]}}
    assert [base.id for base in hub.discovery().bases] == ["notes"]
    before = config_of(folders)
    again = add_base(folders.hub(), "~/notes")
    assert (again.changed, config_of(folders)) == (False, before)
    assert "already says so" in again.notes[0]


def test_all_fields_are_written_and_nothing_else_is_touched(folders):
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


def test_an_entry_for_a_folder_inside_is_named(folders):
    inner = folders.home / "team" / "handbook"
    folders.configure(repos={"~/team/handbook": []})
    change = add_base(folders.hub(), "~/notes", places=("~/team",))
    assert change.notes == ("This does not apply below ~/team/handbook, which has its own entry in `repos`.",)
    assert "notes" not in [base.id for base in folders.hub(cwd=inner).discovery().bases]


def test_a_second_place_is_added_to_the_first(folders):
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


def test_a_malformed_config_is_never_edited(folders):
    folders.write(folders.home / ".kbhub.json", '{\n"bases": {"a" "b"}\n}')
    with pytest.raises(ConfigError, match="line 2"):
        add_base(folders.hub(), "~/notes")
    assert config_of(folders) == '{\n"bases": {"a" "b"}\n}'


def test_removing_takes_a_base_out_of_everything_but_leaves_its_documents(folders):
    folders.write(folders.home / ".kbhub.json", CONFIG)
    change = remove_base(folders.hub(), "notes")
    without = CONFIG.replace('{ "notes": "~/notes" }', "{ }").replace('["notes"]', "[]")
    assert config_of(folders) == without.replace(': "notes"', ": []")
    assert (folders.home / "notes" / "a.md").exists()
    assert "untouched" in change.notes[0]


def test_renaming_keeps_place_comments_and_index(folders):
    folders.write(folders.home / ".kbhub.json", CONFIG)
    folders.hub().sync(("notes",))
    index = show_base(folders.hub(), "notes").index

    rename_base(folders.hub(), "notes", "mine")

    assert config_of(folders) == CONFIG.replace('"notes"', '"mine"')
    assert show_base(folders.hub(), "mine").index == index
    with pytest.raises(UsageError, match="did you mean 'mine'"):
        rename_base(folders.hub(), "mina", "x")


def test_all_bases_are_listed_active_or_not(folders):
    folders.write("knowledge/x.md", "# X\n")
    bases = '{"bases": {"notes": "~/notes", "gone": "~/gone", "h": "~/team/handbook"}, "repos": {"*": "notes"}}'
    folders.write(folders.home / ".kbhub.json", bases)

    listed = list_bases(folders.hub()).bases

    places = {"project": (True, ()), "gone": (False, ()), "h": (False, ()), "notes": (True, ("*",))}
    assert {one.id: (one.active, one.places) for one in listed} == places
    assert [one.id for one in listed] == list(places)
    assert "does not exist" in listed[1].problem


def test_bases_that_no_file_names_cannot_be_changed(folders):
    folders.write("knowledge/x.md", "# X\n")
    with pytest.raises(UsageError, match="discovered, not configured"):
        remove_base(folders.hub(), "project")
    with pytest.raises(UsageError, match="named by --base"):
        remove_base(folders.hub(bases={"extra": folders.home / "notes"}), "extra")


def test_the_config_that_is_in_force_is_the_one_that_is_edited(folders):
    named = folders.write(folders.home / "other.json", "{}\n")
    add_base(folders.hub(config=named), "~/notes")
    assert json.loads(named.read_text())["bases"] == {"notes": "~/notes"}
    assert not (folders.home / ".kbhub.json").exists()
