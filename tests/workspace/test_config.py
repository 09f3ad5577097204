"""The global config, the variables over it, and pointers; to edit one changes one value and no other byte."""

import contextlib
import json
import os
import re
import stat

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from kbhub.errors import ConfigError
from kbhub.workspace import config_edits
from kbhub.workspace.config import id_fault, load_config, parse_jsonc, read_jsonc, read_pointer
from kbhub.workspace.config_edits import add_item, alone, edit_file, remove_value, rename_key, set_value
from kbhub.workspace.files import own_folder, private_directory, write_atomically
from kbhub.workspace.settings import BaseEntry, GlobalConfig, Pointer, in_file


@pytest.fixture
def home(tmp_path):
    """A home directory of its own."""
    folder = tmp_path / "home"
    folder.mkdir()
    return folder


def write(home, data, name=".kbhub.json"):
    file = home / name
    file.write_text(data if isinstance(data, str) else json.dumps(data), encoding="utf-8")
    return file


def load(home, data=None, env=None, path=None):
    if data is not None:
        write(home, data)
    return load_config(path, env or {}, home)


def test_without_a_file_the_defaults_are_in_force_and_comments_trailing_commas_and_a_byte_order_mark_accepted(home):
    loaded = load(home)
    assert loaded.path is None
    assert loaded.settings == GlobalConfig()
    assert (loaded.settings.docs_fallback, loaded.settings.search.limit) == (True, 5)
    assert loaded.settings.limits.file_bytes == 5 * 1024 * 1024

    text = (
        '\ufeff// mine\n{ /* a\n comment */ "bases": {"notes": "~/no//tes/*x*/,]",}, // and, }\n'
        ' "repos": {"*": ["notes",],}, /* x */ "readOnly": true /* y */,\n}'
    )
    loaded = load(home, text)
    assert loaded.settings.bases == {"notes": BaseEntry(knowledge="~/no//tes/*x*/,]")}
    assert loaded.settings.repos == {"*": ("notes",)}
    assert loaded.settings.read_only is True


def test_an_option_wins_over_the_variable_and_that_over_the_file_and_settings_may_be_variables(home, tmp_path):
    write(home, {"search": {"limit": 1}})
    variable = write(tmp_path, {"search": {"limit": 2}}, "variable.json")
    option = write(tmp_path, {"search": {"limit": 3}}, "option.json")
    env = {"KBHUB_CONFIG": str(variable)}
    found = [load(home), load(home, env=env), load(home, env=env, path=option)]
    assert [one.settings.search.limit for one in found] == [1, 2, 3]
    assert [one.path for one in found] == [home / ".kbhub.json", variable, option]
    with pytest.raises(ConfigError, match=r"missing\.json: cannot be read"):
        load(home, env={"KBHUB_CONFIG": str(tmp_path / "missing.json")})

    # A group as a whole comes as JSON; an empty variable counts as not set.
    env = {
        "KBHUB_DOCS_FALLBACK": "false", "KBHUB_READ_ONLY": "1", "KBHUB_SEARCH__LIMIT": "7",
        "KBHUB_EMBEDDER__MODEL": "none", "KBHUB_LIMITS__FILE_BYTES": "1000", "KBHUB_LOG__LEVEL": "DEBUG",
    }  # fmt: skip
    data = {"search": {"limit": 3, "mode": "keyword"}, "docsFallback": True, "limits": {"fileBytes": 5}}
    loaded = load(home, data, env)
    settings = loaded.settings
    assert (settings.docs_fallback, settings.read_only, settings.embedder.model) == (False, True, "none")
    assert (settings.search.limit, settings.search.mode) == (7, "keyword")
    assert (settings.limits.file_bytes, settings.log.level) == (1000, "DEBUG")
    assert loaded.warnings == ()
    for variables, limit in (({"KBHUB_SEARCH": '{"limit": 9}'}, 9), ({"KBHUB_SEARCH__LIMIT": ""}, 3)):
        search = load(home, data, variables).settings.search
        assert (search.limit, search.mode) == (limit, "keyword")


def test_an_error_in_the_json_names_file_line_and_column(tmp_path):
    file = tmp_path / "c.json"
    for text, line, column in (
        ('{"a": 1,\n "b" 2}', 2, 6), ('// first\n{"a": 1, // second\n "b": }', 3, 7),
        ('{"a": {"x": 1},\n "a": 2}', 2, 2), ('{"a": [{"b": 1, "c": {"b": 2}, "b": 3}]}', 1, 32),
        ('{"a": "NaN",\n  "b": NaN}', 2, 8), ("", 1, 1), ('{"a": /* open', 1, 14),
    ):  # fmt: skip
        file.write_text(text, encoding="utf-8")
        with pytest.raises(ConfigError, match=rf"c\.json: line {line}, column {column}: "):
            read_jsonc(file)
    assert parse_jsonc('{"a": {"x": 1}, "b": {"x": 2}}', "c.json") == {"a": {"x": 1}, "b": {"x": 2}}
    with pytest.raises(ConfigError, match="'a' occurs twice"):
        parse_jsonc('{"a": 1, "\\u0061": 2}', "c.json")


@pytest.mark.parametrize("data", [b"\xff\xfe{\x00}\x00", b'{"a": "\xe9"}'])
def test_a_file_that_is_not_utf8_is_an_error(tmp_path, data):
    file = tmp_path / "c.json"
    file.write_bytes(data)
    with pytest.raises(ConfigError, match="line 1: not UTF-8"):
        read_jsonc(file)


@pytest.mark.parametrize("text", ["[" * 200_000, '{"a": ' * 100_000, "1" * 5000, "/* " * 300_000])
def test_hostile_nesting_and_numbers_are_errors_and_no_crash(text):
    """Many open comments would take minutes if each were searched to the end."""
    with pytest.raises(ConfigError, match="malformed JSON"):
        parse_jsonc(text, "c.json")


@pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="needs named pipes")
@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda file: os.mkfifo(file), "Not a regular file"),
        (lambda file: file.mkdir(), "cannot be read"),
        (lambda file: file.symlink_to("gone.json"), "cannot be read"),
        (lambda file: file.write_text(" " * (1024 * 1024) + "{}"), "Larger than"),
    ],
)
def test_what_is_no_file_or_too_large_is_an_error_and_does_not_hang(home, make, message):
    make(home / ".kbhub.json")
    with pytest.raises(ConfigError, match=message):
        load(home)


json_values = st.recursive(
    st.none() | st.booleans() | st.integers(-(10**9), 10**9) | st.text(),
    lambda inner: st.lists(inner) | st.dictionaries(st.text(), inner),
)


@settings(max_examples=40)
@given(json_values)
def test_whatever_json_can_say_is_read_back_unchanged(value):
    assert parse_jsonc(json.dumps(value), "x") == value
    assert parse_jsonc(json.dumps(value, ensure_ascii=False, indent=1) + " // end", "x") == value


@given(st.text(alphabet='{}[]":,/*\\\n ab1-NI', max_size=60))
def test_any_text_is_read_or_refused_with_a_config_error(text):
    with contextlib.suppress(ConfigError):
        parse_jsonc(text, "x")


def test_a_value_of_the_wrong_type_or_an_unknown_or_impossible_base_id_is_an_error_with_file_and_field(home):
    for data, field, expected in (
        ([], "", "expected an object in braces, not []"),
        ('{"bases": {"a": {"knowledge": "~/a", "weight": 1e999}}}', "bases.a.weight", "weight"),
        ({"bases": {"a": 3}}, "bases.a", "expected a path or an object, not 3"),
        ({"bases": {"a": {}}}, "bases.a.knowledge", "needs a folder"),
        ({"bases": {"a": ""}}, "bases.a", "at least 1 character"),
        ({"bases": {"a": "x\u0000y"}}, "bases.a", "control characters"),
        ({"bases": {"a": {"knowledge": "~/a", "weight": 0}}}, "bases.a.weight", "greater than 0"),
        ({"bases": {"a": {"knowledge": "~/a", "weight": "2"}}}, "bases.a.weight", 'a valid number, not "2"'),
        ({"bases": {"a": {"knowledge": "~/a", "kind": "pdf"}}}, "bases.a.kind", "'document' or 'session'"),
        ({"bases": {"a": {"knowledge": "~/a", "include": "*.txt"}}}, "bases.a.include", 'not "*.txt"'),
        ({"bases": {"a": {"knowledge": "~/a", "contexts": {"x": 1}}}}, "bases.a.contexts.x", "a valid string"),
        ({"repos": {"*": {"a": 1}}}, "repos.*", "expected an id or a list of ids"),
        ({"docsFallback": "false"}, "docsFallback", "a valid boolean"),
        ({"search": {"limit": 101}}, "search.limit", "less than or equal to 100"),
        *(({"search": {"limit": one}}, "search.limit", "") for one in (True, 1.0, 10**400)),
        *(({name: one}, name, "") for name, one in (("search", []), ("docsFallback", 1), ("tools", "some"))),
        ({"repos": {"*": [1]}}, "repos.*.0", "expected a valid string"),
        ({"serve": {"port": -(10**400)}}, "serve.port", ""),
    ):
        with pytest.raises(ConfigError) as caught:
            load(home, data)
        assert str(caught.value).startswith(f"{home / '.kbhub.json'}: {field}")
        assert expected in str(caught.value)

    with pytest.raises(ConfigError, match=r"id 'note'; did you mean 'notes'\? `bases` defines: notes, team"):
        load(home, {"bases": {"notes": "~/n", "team": "~/t"}, "repos": {"~/w": ["team", "note"]}})
    for name in HOSTILE_IDS:
        with pytest.raises(ConfigError, match="base id"):
            load(home, {"bases": {name: "~/a"}})
    assert not any(map(id_fault, ("notes", "my-notes", "Notes_2", "ノート", "a.b", "projects")))


HOSTILE_IDS = [
    *("*", "project", "memory", "user", "", "a@b", "a/b", "a b", "a\tb", "a\nb"),
    *("a\x00b", "a\x7fb", "\u200b", "a\u202eb", "\u3000"),
]


@pytest.mark.parametrize("second", ["~/notes", "~/other/../notes", "~/link", "notes/"])
def test_two_ids_for_one_directory_are_an_error_also_where_neither_is_active(home, second):
    (home / "notes").mkdir()
    (home / "other").mkdir()
    (home / "link").symlink_to(home / "notes")
    with pytest.raises(ConfigError, match=r"bases: 'a' and 'b' are the same directory"):
        load(home, {"bases": {"a": "~/notes", "b": {"knowledge": second}}})


def test_an_unknown_field_is_a_warning_with_the_nearest_known_name(home):
    for data, name, meant in (
        ({"docsFalback": True}, "docsFalback", "docsFallback"),
        ({"docs_fallback": True}, "docs_fallback", "docsFallback"),
        ({"search": {"limits": 3}}, "search.limits", "search.limit"),
        ({"bases": {"a": {"knowledge": "~/a", "wight": 2}}}, "bases.a.wight", "bases.a.weight"),
        ({"rerank": {"modle": "x"}}, "rerank.modle", "rerank.model"),
        ({"xyz": 1}, "xyz", None),
    ):
        more = f"did you mean '{meant}'?" if meant else "it has no effect."
        (warning,) = load(home, data).warnings
        assert (warning.subject, warning.message) == (str(home / ".kbhub.json"), f"unknown field '{name}'; {more}")
    assert load(home, {"$schema": "https://example.org/config.schema.json"}).warnings == ()


def test_a_wrong_variable_is_an_error_or_a_warning_that_names_it(home, monkeypatch):
    (warning,) = load(home, env={"KBHUB_SERACH__LIMIT": "3"}).warnings
    assert warning.subject == "KBHUB_SERACH__LIMIT"
    assert "did you mean KBHUB_SEARCH__LIMIT?" in warning.message
    monkeypatch.setenv("KBHUB_SEARCH__LIMIT", "42")
    settings = load(home, env={"SEARCH": "1", "DOCSFALLBACK": "0", "LOG": "x", "KBHUB_READ_ONLY": "1"}).settings
    assert (settings.search.limit, settings.docs_fallback) == (5, True)
    for name, value in (
        *[("KBHUB_SEARCH__LIMIT", "many"), ("KBHUB_SEARCH__LIMIT", "0"), ("KBHUB_SEARCH__MODE", "fast")],
        *[("KBHUB_READ_ONLY", "perhaps"), ("KBHUB_SEARCH", "not json"), ("KBHUB_SEARCH", "[]")],
    ):
        with pytest.raises(ConfigError, match=rf"^{name}: "):
            load(home, env={name: value})


def test_every_field_of_a_pointer_is_read_and_a_wrong_value_is_an_error_with_file_and_field(tmp_path):
    """An empty one means the folder of knowledge beside it."""
    assert read_pointer(write(tmp_path, {})) == (Pointer(), ())
    assert (Pointer().knowledge, Pointer().enabled, Pointer().cache_dir) == ("./knowledge", True, None)
    texts = {"$schema": "https://x/pointer.schema.json", "knowledge": "../k", "cacheDir": "~/c", "name": "N"}
    flags = {"inlineTags": True, "docsFallback": True, "readOnly": True, "enabled": False}
    data = {**texts, "description": "D", "contexts": {"api/": "the API"}, **flags}
    lists = {"include": ["*.txt"], "exclude": ["old/"]}
    pointer, warnings = read_pointer(write(tmp_path, json.dumps({**data, **lists}) + " // a comment"))
    read = {in_file(name): value for name, value in pointer.model_dump().items()}
    assert read == {**data, "include": ("*.txt",), "exclude": ("old/",)}
    assert warnings == ()

    for data, field in (
        ('{"knowledge": }', ""), ("[]", ""), ('{"knowledge": "\\ud800"}', "knowledge"),
        ({"knowledge": 1}, "knowledge"), ({"knowledge": ""}, "knowledge"), ({"knowledge": None}, "knowledge"),
        ({"knowledge": "a\u0000b"}, "knowledge"), ({"enabled": "no"}, "enabled"), ({"exclude": [1]}, "exclude.0"),
    ):  # fmt: skip
        with pytest.raises(ConfigError) as caught:
            read_pointer(write(tmp_path, data))
        assert str(caught.value).startswith(f"{tmp_path / '.kbhub.json'}: {field}")


def test_the_cache_is_where_it_is_named_and_a_field_without_effect_is_a_warning(tmp_path):
    env = {"KBHUB_CACHE_DIR": "~/c", "HOME": str(tmp_path), "USERPROFILE": str(tmp_path)}
    assert own_folder("cache", env, tmp_path / "o") == tmp_path / "o"
    assert own_folder("cache", env) == tmp_path / "c"
    assert own_folder("cache", {}).name == "kbhub" or "kbhub" in own_folder("cache", {}).parts
    assert own_folder("data", {"KBHUB_DATA_DIR": str(tmp_path / "d")}) == tmp_path / "d"
    assert own_folder("data", {}).is_absolute()
    fields = ["writable", "weight", "kind", "keepDeleted"]
    _, (*warnings, unknown) = read_pointer(write(tmp_path, {**dict.fromkeys(fields, True), "knowlege": "x"}))
    assert [one.message.split(";")[0] for one in warnings] == [f"a pointer cannot set {name!r}" for name in fields]
    assert unknown.subject == str(tmp_path / ".kbhub.json")
    assert unknown.message == "unknown field 'knowlege'; did you mean 'knowledge'?"


@pytest.mark.skipif(os.name == "nt", reason="modes are for POSIX")
def test_a_folder_of_ours_and_those_above_it_are_for_the_user_alone(tmp_path):
    folder = private_directory(tmp_path / "a" / "b" / "c")
    for one in (folder, folder.parent, folder.parent.parent):
        assert one.stat().st_mode & 0o777 == 0o700
    folder.chmod(0o755)
    assert private_directory(folder).stat().st_mode & 0o777 == 0o755
    (tmp_path / "file").write_text("")
    with pytest.raises(NotADirectoryError):
        private_directory(tmp_path / "file")


def test_a_file_is_replaced_whole_and_nothing_is_left_beside_it(tmp_path):
    file = tmp_path / "f.json"
    write_atomically(file, "one\n")
    write_atomically(file, "zwei é\r\n")
    assert file.read_bytes() == "zwei é\r\n".encode()
    with pytest.raises(UnicodeEncodeError):
        write_atomically(file, "new \udc80")
    (tmp_path / "folder").mkdir()
    with pytest.raises(OSError, match="folder"):
        write_atomically(tmp_path / "folder", "x")
    assert file.read_bytes() == "zwei é\r\n".encode()
    assert {one.name for one in tmp_path.iterdir()} == {"f.json", "folder"}
    if os.name != "nt":
        assert file.stat().st_mode & 0o777 == 0o600


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


def test_an_edit_keeps_mode_link_and_what_somebody_else_wrote_and_writes_nothing_refused(tmp_path):
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

    file = tmp_path / "config.json"

    def refuse(data):
        raise ConfigError(file, "no")

    with pytest.raises(ConfigError):
        edit_file(file, lambda text: set_value(text, ["a"], 2, file), refuse)
    assert not file.exists()
    file.write_text("{}")
    with pytest.raises(ConfigError, match="try again"):
        edit_file(file, lambda text: set_value(text, ["a"], 2, file), lambda data: file.write_text('{"b": 1}'))
    assert file.read_text() == '{"b": 1}'


def test_only_one_process_edits_at_a_time(tmp_path, monkeypatch):
    monkeypatch.setattr(config_edits, "LOCK_SECONDS", 0.1)
    with alone(tmp_path), pytest.raises(ConfigError, match="another process has held"), alone(tmp_path):
        pass
    with alone(tmp_path):
        pass
