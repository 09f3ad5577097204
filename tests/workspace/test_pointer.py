"""A pointer is read and checked; what it asks for is decided elsewhere."""

import json

import pytest

from kbhub.errors import ConfigError
from kbhub.workspace.config import read_pointer
from kbhub.workspace.settings import Pointer, in_file


def pointer_file(folder, data):
    file = folder / ".kbhub.json"
    file.write_text(data if isinstance(data, str) else json.dumps(data), encoding="utf-8")
    return file


def test_an_empty_pointer_means_the_knowledge_folder_beside_it(tmp_path):
    pointer, warnings = read_pointer(pointer_file(tmp_path, {}))
    assert pointer == Pointer()
    assert (pointer.knowledge, pointer.enabled, pointer.cache_dir) == ("./knowledge", True, None)
    assert warnings == ()


def test_every_field_is_read(tmp_path):
    texts = {"$schema": "https://x/pointer.schema.json", "knowledge": "../k", "cacheDir": "~/c", "name": "N"}
    flags = {"inlineTags": True, "docsFallback": True, "readOnly": True, "enabled": False}
    data = {**texts, "description": "D", "contexts": {"api/": "the API"}, **flags}
    lists = {"include": ["*.txt"], "exclude": ["old/"]}
    pointer, warnings = read_pointer(pointer_file(tmp_path, json.dumps({**data, **lists}) + " // a comment"))
    read = {in_file(name): value for name, value in pointer.model_dump().items()}
    assert read == {**data, "include": ("*.txt",), "exclude": ("old/",)}
    assert warnings == ()


@pytest.mark.parametrize(
    ("data", "field"),
    [
        ('{"knowledge": }', ""), ("[]", ""), ('{"knowledge": "\\ud800"}', "knowledge"),
        ({"knowledge": 1}, "knowledge"), ({"knowledge": ""}, "knowledge"), ({"knowledge": None}, "knowledge"),
        ({"knowledge": "a\u0000b"}, "knowledge"), ({"enabled": "no"}, "enabled"),
        ({"inlineTags": "auto"}, "inlineTags"), ({"include": "*.txt"}, "include"), ({"exclude": [1]}, "exclude.0"),
        ({"contexts": ["a"]}, "contexts"), ({"name": 5}, "name"), ({"cacheDir": []}, "cacheDir"),
    ],
)  # fmt: skip
def test_a_wrong_value_is_an_error_with_file_and_field(tmp_path, data, field):
    with pytest.raises(ConfigError) as caught:
        read_pointer(pointer_file(tmp_path, data))
    assert caught.value.where == tmp_path / ".kbhub.json"
    assert (caught.value.field or "") == field


def test_an_unknown_field_is_a_warning_with_the_nearest_name(tmp_path):
    _, (warning,) = read_pointer(pointer_file(tmp_path, {"knowlege": "x"}))
    assert warning.subject == str(tmp_path / ".kbhub.json")
    assert warning.message == "unknown field 'knowlege'; did you mean 'knowledge'?"


@pytest.mark.parametrize("field", ["writable", "weight", "kind", "keepDeleted"])
def test_what_only_the_user_may_set_is_a_warning_that_says_so(tmp_path, field):
    _, (warning,) = read_pointer(pointer_file(tmp_path, {field: True}))
    assert warning.message.startswith(f"a pointer cannot set {field!r}")
