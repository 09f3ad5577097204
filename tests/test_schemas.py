"""The files in `schemas/` are what the models say; a run that changes one fails, so that the change is seen."""

from __future__ import annotations

import json
from pathlib import Path

import jsonschema
import pytest

from kbhub.config import GlobalConfig
from kbhub.pointer import Pointer

SCHEMAS = Path(__file__).parent.parent / "schemas"
DIALECT = "https://json-schema.org/draft/2020-12/schema"
MODELS = {"pointer": Pointer, "config": GlobalConfig}


def generated(name):
    return {"$schema": DIALECT, **MODELS[name].model_json_schema(by_alias=True)}


def properties(schema, where=""):
    """Every property of a schema, with its path."""
    for name, inner in schema.get("properties", {}).items():
        yield f"{where}{name}", inner
    for name, inner in schema.get("$defs", {}).items():
        yield from properties(inner, f"{name}.")


@pytest.mark.parametrize("name", MODELS)
def test_the_published_schema_is_what_the_model_says(name):
    file = SCHEMAS / f"{name}.schema.json"
    text = json.dumps(generated(name), indent=2, ensure_ascii=False) + "\n"
    before = file.read_text("utf-8") if file.exists() else ""
    if text != before:
        file.write_text(text, "utf-8")
    assert text == before, f"{file.name} was out of date and has been written anew; look at the difference"


@pytest.mark.parametrize("name", MODELS)
def test_the_schema_is_valid_and_accepts_its_examples(name):
    schema = generated(name)
    jsonschema.Draft202012Validator.check_schema(schema)
    assert schema["examples"]
    for example in schema["examples"]:
        jsonschema.validate(example, schema, jsonschema.Draft202012Validator)
        MODELS[name].model_validate_json(json.dumps(example), strict=True, by_name=False)


@pytest.mark.parametrize("name", MODELS)
def test_everything_in_the_schema_is_described(name):
    schema = generated(name)
    assert schema["title"]
    assert schema["description"]
    assert [path for path, inner in properties(schema) if not inner.get("description")] == []


@pytest.mark.parametrize(
    ("name", "wrong"),
    [
        ("pointer", {"knowledge": ""}),
        ("pointer", {"enabled": "no"}),
        ("pointer", {"include": "*.txt"}),
        ("config", {"bases": {"a@b": "~/a"}}),
        ("config", {"bases": {"project": "~/a"}}),
        ("config", {"bases": {"a": {"weight": 2}}}),
        ("config", {"bases": {"a": {"knowledge": "~/a", "weight": 0}}}),
        ("config", {"repos": {"*": 1}}),
        ("config", {"search": {"limit": 0}}),
    ],
)
def test_the_schema_refuses_what_kbhub_refuses(name, wrong):
    with pytest.raises(jsonschema.ValidationError):
        jsonschema.validate(wrong, generated(name), jsonschema.Draft202012Validator)


def test_a_config_may_name_one_id_or_a_list():
    for value in ("a", ["a", "b"]):
        jsonschema.validate({"repos": {"*": value}}, generated("config"), jsonschema.Draft202012Validator)
