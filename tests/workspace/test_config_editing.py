"""Editing a configuration changes one value and no other byte."""

import json
import re
import stat

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kbhub.errors import ConfigError
from kbhub.workspace import config_edits
from kbhub.workspace.config import parse_jsonc
from kbhub.workspace.config_edits import add_item, alone, edit_file, remove_value, rename_key, set_value

CONFIG = """\
{
  // what I keep
  "bases": {
    "notes": "~/notes", // the first
    "ops": { "knowledge": "~/ops" } /* shared */
  },
  "repos": { "*": ["a", "b"], "~": ["c"] }, // where
}
"""


def read(text):
    return parse_jsonc(text, "config")


OPS = '"ops": { "knowledge": "~/ops" } /* shared */'

EDITS = {
    "a new member comes after the last and its comment": (
        (set_value, ["bases", "team"], "~/team"), {OPS: OPS.replace(" /*", ", /*") + '\n    "team": "~/team"'},
    ),
    "a trailing comma is kept as the file's habit": (
        (set_value, ["contexts"], {"": "mine"}), {"// where\n": '// where\n  "contexts": {\n    "": "mine"\n  },\n'},
    ),
    "a value is replaced where it stands": ((set_value, ["bases", "notes"], "~/n"), {'"~/notes"': '"~/n"'}),
    "an item is added in its line": ((add_item, ["repos", "~"], "team"), {'["c"]': '["c", "team"]'}),
    "the first item is removed": ((remove_value, ["repos", "*", 0]), {'["a", "b"]': '["b"]'}),
    "the last item is removed": ((remove_value, ["repos", "*", 1]), {'["a", "b"]': '["a"]'}),
    "a member is removed and never a comment": (
        (remove_value, ["bases", "notes"]), {'"notes": "~/notes", // the first': "// the first"},
    ),
    "the last member is removed with the comma before it": (
        (remove_value, ["bases", "ops"]), {'"~/notes", //': '"~/notes" //', OPS: "/* shared */"},
    ),
    "a key is renamed in place": ((rename_key, ["bases", "ops"], "öps"), {'"ops": {': '"öps": {'}),
}  # fmt: skip


@pytest.mark.parametrize(("edit", "changes"), EDITS.values(), ids=EDITS)
def test_an_edit_changes_nothing_else(edit, changes):
    change, *arguments = edit
    expected = CONFIG
    for old, new in changes.items():
        expected = expected.replace(old, new)
    assert change(CONFIG, *arguments, "config") == expected != CONFIG


@pytest.mark.parametrize("commented", [True, False])
def test_what_is_passed_over_may_hold_anything(commented):
    """Braces, commas and marks of comments in deep values and strings lead nowhere, however much of it there is."""
    odd = ["}, ]", {"mcp": {"kbhub": '// no " {'}}, [[], {}, "/* ["], -1.5e3, None]
    deep = {"a": odd, "ü": {"mcp": [1, 2]}}
    before, after = (json.dumps({f"{side}{n}": deep for n in range(300)}, indent=2)[2:-2] for side in "ab")
    middle = '  "mcp": {\n    "other": { "args": ["x"] }\n  }'
    if commented:
        before = before.replace("null\n", 'null, // }, "mcp": {\n')
    text = f"{{\n{before},\n{middle},\n{after}\n}}\n"

    added = set_value(text, ["mcp", "kbhub"], {"args": []}, "config")
    assert added == text.replace(middle, middle.replace("] }\n", '] },\n    "kbhub": {\n      "args": []\n    }\n'))
    changed = set_value(added, ["mcp", "kbhub", "args"], ["serve"], "config")
    assert changed == added.replace('"args": []', '"args": ["serve"]')
    assert remove_value(added, ["mcp", "kbhub"], "config") == text
    assert rename_key(text, ["b299"], "last", "config") == text.replace('"b299"', '"last"')


@pytest.mark.parametrize(
    ("before", "after"),
    [
        ("{}", '{\n  "a": {\n    "b": 1\n  }\n}'),
        ("{\n}\n", '{\n  "a": {\n    "b": 1\n  }\n}\n'),
        ("{\r\n\t// c\r\n}\r\n", '{\r\n\t// c\r\n\t"a": {\r\n\t\t"b": 1\r\n\t}\r\n}\r\n'),
        ('{"x":1}', '{"x":1, "a": {"b": 1}}'),
        ('{"a": {}, }', '{"a": {\n  "b": 1\n}, }'),
        ('{"a": {"b": [1, // c\n 2]}}', '{"a": {"b": 1}}'),
        ('{"x": "// no comment, }" // one\n}', '{"x": "// no comment, }", "a": {"b": 1} // one\n}'),
    ],
)
def test_objects_on_the_way_are_made_in_the_files_style(before, after):
    assert set_value(before, ["a", "b"], 1, "config") == after


@pytest.mark.parametrize(
    ("text", "line"), [('{\n"a": 1\n"b": 2\n}', "line 3"), ('{\n\n"a": 1, "a": 2}', "line 3"), ("{", "line 1")]
)
def test_a_malformed_file_is_refused_with_its_line(text, line, tmp_path):
    file = tmp_path / "config.json"
    file.write_text(text)
    with pytest.raises(ConfigError, match=line):
        edit_file(file, lambda text: set_value(text, ["a"], 1, file), lambda data: None)
    assert file.read_text() == text


@pytest.mark.parametrize("text", ['{"a": []}', '{"a": 1}', "[]", '"a"'])
def test_a_way_through_something_else_than_an_object_is_refused(text):
    with pytest.raises(ConfigError, match="expected an object"):
        set_value(text, ["a", "b"], 1, "config")


names = st.sampled_from(["a", "b", "c d", "é", 'q"'])
values = st.one_of(st.integers(0, 9), st.sampled_from(["", "x // y", "}", "a,b"]), st.lists(names, max_size=3))
edits = st.lists(st.tuples(st.sampled_from(["set", "remove", "rename"]), names, names, values), max_size=8)
gaps = st.sampled_from(["", " ", "\n", "\n  ", " // note, }\n  ", "/* [ */", "\r\n\t"])


def written(draw, value):
    """Write a value as somebody might by hand."""
    gap = lambda: draw(gaps)  # noqa: E731
    if not isinstance(value, dict):
        return json.dumps(value, ensure_ascii=False)
    members = [f"{gap()}{json.dumps(key)}{gap()}:{gap()}{written(draw, one)}{gap()}" for key, one in value.items()]
    last = "," + gap() if members and draw(st.booleans()) else gap()
    return "{" + ",".join(members) + last + "}"


@st.composite
def files(draw):
    data = draw(st.dictionaries(names, st.one_of(values, st.dictionaries(names, values, max_size=3)), max_size=4))
    return draw(gaps) + written(draw, data) + draw(st.sampled_from(["", "\n", "// end"])), data


@given(files(), edits)
def test_any_edits_of_any_file_do_what_they_say_and_keep_every_comment(file, steps):
    text, data = file
    comments = re.findall(r"// note, }|/\* \[ \*/|// end", text)
    for what, outer, inner, value in steps:
        holder = data.get(outer)
        path = [outer, inner] if isinstance(holder, dict) else [outer]
        target = holder if isinstance(holder, dict) else data
        if what == "set":
            if isinstance(target.get(path[-1]), dict):
                continue  # replacing an object replaces the comments in it
            text, target[path[-1]] = set_value(text, path, value, "config"), value
        elif path[-1] in target and what == "remove" and not isinstance(target[path[-1]], dict):
            text = remove_value(text, path, "config")
            del target[path[-1]]
        elif path[-1] in target and what == "rename" and inner not in target:
            text = rename_key(text, path, inner, "config")
            target[inner] = target.pop(path[-1])
        assert read(text) == data
    # Between a key and its value, a comment goes with the member.
    assert [one for one in comments if one == "// end"] == re.findall("// end", text)


@given(files(), names, values)
def test_adding_keeps_every_byte(file, name, value):
    text, data = file
    if name in data:
        return
    new = set_value(text, [name], value, "config")
    kept = iter(new)

    # Between the braces of an empty object, blanks are no one's words.
    assert all(any(character == other for other in kept) for character in text if not character.isspace())
    assert read(new) == {**data, name: value}


def test_a_file_keeps_its_mode_and_a_link_stays_a_link(tmp_path):
    real = tmp_path / "dotfiles.json"
    real.write_bytes(b'\xef\xbb\xbf{"a": 1}\r\n')
    real.chmod(0o640)
    link = tmp_path / "link.json"
    link.symlink_to(real)

    assert edit_file(link, lambda text: set_value(text, ["a"], 2, link), lambda data: None)

    assert link.is_symlink()
    assert real.read_bytes() == b'\xef\xbb\xbf{"a": 2}\r\n'
    assert stat.S_IMODE(real.stat().st_mode) == 0o640
    assert sorted(path.name for path in tmp_path.iterdir()) == ["dotfiles.json", "link.json"]


def test_what_the_check_refuses_is_not_written_and_a_change_by_somebody_else_is_never_lost(tmp_path):
    file = tmp_path / "config.json"

    def refuse(data):
        raise ConfigError(file, "no")

    with pytest.raises(ConfigError):
        edit_file(file, lambda text: set_value(text, ["a"], 2, file), refuse)

    assert not file.exists()

    file = tmp_path / "config.json"
    file.write_text("{}")
    with pytest.raises(ConfigError, match="try again"):
        edit_file(file, lambda text: set_value(text, ["a"], 2, file), lambda data: file.write_text('{"b": 1}'))
    assert file.read_text() == '{"b": 1}'


def test_only_one_process_edits_at_a_time(tmp_path, monkeypatch):
    monkeypatch.setattr(config_edits, "LOCK_SECONDS", 0.1)
    with alone(tmp_path), pytest.raises(ConfigError, match="another process has held it"), alone(tmp_path):
        pass
    with alone(tmp_path):
        pass
