"""Schemas describe everything, and accept and refuse what kbhub does."""

import ast
import json
import tomllib
import zipfile
from pathlib import Path

import jsonschema
import pytest
import yaml

import generate
from kbhub import values
from kbhub.errors import UsageError
from kbhub.memory.changes import remember
from kbhub.memory.files import FIELDS
from kbhub.types import Query
from kbhub.values import Value
from kbhub.workspace import validation as located
from kbhub.workspace.config import checked
from kbhub.workspace.tool_names import ALL
from kbhub.workspace.validation import schema_file, schema_files, validated
from wheels import UV

ROOT = Path(__file__).parents[2]
SCHEMAS = ROOT / "schemas"
MODELS = generate.MODELS
TOOL_SCHEMAS = [f"tools/{name}.{side}" for name in ALL for side in ("input", "output")]


@pytest.fixture(scope="module")
def generated():
    """Gives the schema of a name as the code has it."""
    return generate.schemas().__getitem__


def properties(schema, where=""):
    """Every property of a schema at any depth, with its path."""
    for name, inner in schema.get("properties", {}).items():
        yield f"{where}{name}", inner
        yield from properties(inner, f"{where}{name}.")
    for name, inner in schema.get("$defs", {}).items():
        yield from properties(inner, f"{name}.")
    for key in ("items", "additionalProperties"):
        if isinstance(schema.get(key), dict):
            yield from properties(schema[key], f"{where}{key}.")
    for key in ("anyOf", "oneOf", "allOf", "prefixItems"):
        for inner in schema.get(key, []):
            yield from properties(inner, where)


@pytest.mark.parametrize("name", [*MODELS, *TOOL_SCHEMAS])
def test_everything_in_the_schema_is_described(generated, name):
    schema = generated(name)
    jsonschema.Draft202012Validator.check_schema(schema)
    assert schema["title"]
    assert schema["description"]
    assert [path for path, inner in properties(schema) if not inner.get("description")] == []
    assert "x-brief" not in json.dumps(schema)


@pytest.mark.parametrize("name", MODELS)
def test_the_schema_accepts_its_examples(generated, name):
    schema = generated(name)
    assert schema["examples"]
    for example in schema["examples"]:
        jsonschema.validate(example, schema, jsonschema.Draft202012Validator)
        if issubclass(MODELS[name], Value):
            assert validated(MODELS[name], example) == checked(MODELS[name], example, name)
        else:
            MODELS[name].model_validate_json(json.dumps(example), strict=True, by_name=False)


@pytest.mark.parametrize(
    ("name", "wrong"),
    [
        ("pointer", {"knowledge": ""}), ("pointer", {"enabled": "no"}), ("pointer", {"include": "*.txt"}),
        ("config", {"bases": {"a@b": "~/a"}}), ("config", {"bases": {"project": "~/a"}}),
        ("config", {"bases": {"a": {"weight": 2}}}), ("config", {"bases": {"a": {"knowledge": "~/a", "weight": 0}}}),
        ("config", {"repos": {"*": 1}}), ("config", {"search": {"limit": 0}}), ("memory", {"source": "hearsay"}),
        ("memory", {"tags": [1]}), ("tools/search.input", {}), ("tools/search.input", {"query": "x", "limit": 0}),
        ("tools/search.input", {"query": "x", "explain": True}),
        ("tools/search.output", {"query": "x", "mode": "guess"}),
    ],
)  # fmt: skip
def test_the_schema_refuses_what_kbhub_refuses(generated, name, wrong):
    with pytest.raises(jsonschema.ValidationError):
        jsonschema.validate(wrong, generated(name), jsonschema.Draft202012Validator)


def test_what_is_remembered_has_the_front_matter_of_the_schema(environment, generated):
    environment.write("knowledge/deploy.md", "# Deploying\n")
    hub = environment.hub()
    first = remember(hub, "Releases need the VPN.", tags=("deploy",), about=("deploy.md",), origin="a talk")
    second = remember(hub, "Releases no longer need the VPN.", supersedes=(first.memory.id,), namespace="ops")
    schema = generated("memory")
    for memory in (first.memory, second.memory):
        text = (Path(hub.discovery().bases[-1].path) / memory.ref.rpartition("@")[2]).read_text("utf-8")
        front = yaml.safe_load(text.split("---\n")[1])

        jsonschema.validate(front, schema, jsonschema.Draft202012Validator)
        assert set(front) <= set(schema["properties"]) == set(FIELDS)


def test_a_checkout_has_every_schema_by_its_name_and_the_build_puts_them_where_they_are_looked_for():
    """One source: the wheel takes the folder of the repository into the package."""
    files = schema_files()
    assert list(files)[: len(MODELS)] == sorted(MODELS)
    assert set(files) == {*MODELS, *(name.removeprefix("tools/") for name in TOOL_SCHEMAS)}
    assert schema_file("search.input") == SCHEMAS / "tools" / "search.input.schema.json"

    build = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["tool"]["hatch"]["build"]["targets"]
    assert build["wheel"]["force-include"] == {"schemas": "kbhub/schemas"}
    assert "schemas" in build["sdist"]["include"]
    assert [str(path) for path in located.FOLDERS] == [str(ROOT / "src" / "kbhub" / "schemas"), str(SCHEMAS)]
    assert not located.FOLDERS[0].exists()  # no second copy


def test_a_wheel_has_them_in_the_package(tmp_path, monkeypatch):
    """What is installed wins over a folder that happens to lie beside it, and nothing at all is said."""
    package, beside = tmp_path / "lib" / "kbhub" / "schemas", tmp_path / "schemas"
    for folder in (package, beside):
        folder.mkdir(parents=True)
        (folder / "config.schema.json").write_text("{}")
    monkeypatch.setattr(located, "FOLDERS", (package, beside))
    assert schema_file("config").parent == package

    monkeypatch.setattr(located, "FOLDERS", (tmp_path / "nothing", tmp_path / "nor this"))
    with pytest.raises(UsageError, match="not installed completely"):
        schema_file("config")


@pytest.mark.slow
@pytest.mark.skipif(UV is None, reason="uv builds the wheel, and there is none")
def test_the_wheel_contains_them(wheel):
    names = set(zipfile.ZipFile(wheel).namelist())
    assert {f"kbhub/schemas/{name}.schema.json" for name in (*MODELS, *TOOL_SCHEMAS)} <= names
    assert "kbhub/py.typed" in names


def test_the_command_prints_a_schema_its_path_or_what_there_is(environment, kbhub):
    assert kbhub("dev", "schema", "pointer").json["title"] == "Pointer"
    assert Path(kbhub("dev", "schema", "pointer", "--path").out.strip()) == SCHEMAS / "pointer.schema.json"
    assert kbhub("dev", "schema", "pointer", "--path", "--json").json["path"] == str(SCHEMAS / "pointer.schema.json")
    environment.configure(**{"$schema": kbhub("dev", "schema", "config", "--path").out.strip()})
    assert environment.hub().config().warnings == ()  # it is no unknown field
    lines = kbhub("dev", "schema", code=0).out.splitlines()
    assert len(lines) == len(schema_files())
    assert lines[0].startswith("config ")
    listed = kbhub("dev", "schema", "--json").json["schemas"]
    assert [one["name"] for one in listed] == list(schema_files())
    assert all(Path(one["path"]).is_file() and one["description"] for one in listed)

    assert "No schema 'poiner'. Schemas: config, memory, pointer, " in kbhub("dev", "schema", "poiner", code=2).err


def test_a_thread_that_parses_meanwhile_loses_no_description(monkeypatch):
    parse, failures = ast.parse, iter([True, False, True])

    def fail_now_and_then(*arguments, **options):
        if next(failures, False):
            raise SystemError("AST constructor recursion depth mismatch")
        return parse(*arguments, **options)

    whole = values._texts(Query)
    monkeypatch.setattr(ast, "parse", fail_now_and_then)

    assert values._texts(Query) == whole
    assert whole["text"] == "Any string."
