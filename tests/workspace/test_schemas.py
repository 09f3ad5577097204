"""Schemas describe everything, and accept and refuse what kbhub does, also where a file is only taken at a glance."""

import ast
import copy
import dataclasses
import json
import math
import pickle
import re
import tomllib
from pathlib import Path

import jsonschema
import pytest
import yaml
from hypothesis import assume, given, settings
from hypothesis import strategies as st
from pydantic import TypeAdapter

import generate
from kbhub import values
from kbhub.memory.changes import remember
from kbhub.memory.files import FIELDS
from kbhub.types import Base, Hit, Problem, Query, SearchResult, Signal, Span, Trace
from kbhub.values import Value, struct
from kbhub.workspace import validation as located
from kbhub.workspace.config import checked
from kbhub.workspace.settings import GlobalConfig, Pointer, in_file, plainly
from kbhub.workspace.tool_names import ALL
from kbhub.workspace.validation import schema_file, schema_files, validated

ROOT = Path(__file__).parents[2]
SCHEMAS = ROOT / "schemas"
MODELS = generate.MODELS
TOOL_SCHEMAS = [f"tools/{name}.{side}" for name in ALL for side in ("input", "output")]


@pytest.fixture(scope="module")
def generated():
    """Gives the schema of a name as the code has it."""
    return generate.schemas().__getitem__


def properties(schema):
    """Every property of a schema at any depth."""
    if isinstance(schema, dict):
        yield from schema.get("properties", {}).items()
    for inner in schema.values() if isinstance(schema, dict) else schema if isinstance(schema, list) else ():
        yield from properties(inner)


@pytest.mark.parametrize("name", [*MODELS, *TOOL_SCHEMAS])
def test_everything_in_the_schema_is_described(generated, name):
    schema = generated(name)
    jsonschema.Draft202012Validator.check_schema(schema)
    assert schema["title"]
    assert schema["description"]
    assert [name for name, inner in properties(schema) if not inner.get("description")] == []
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


TEXTS = st.sampled_from(["", " ", "a", "~/notes", "hybrid", "core", "a\x00b", "é\n", "\ud800", "5", "null"])
NUMBERS = st.sampled_from([-1, 0, 1, 40, 60, 100, 101, 65535, 10**30, 0.0, 0.5, 60.5, 1e308, math.inf, 10**400, 2**53])
PLAIN = st.none() | st.booleans() | TEXTS | NUMBERS
ANYTHING = st.recursive(PLAIN, lambda inner: st.lists(inner, max_size=2) | st.dictionaries(TEXTS, inner, max_size=2))


def like(declared):
    """Objects that have some of the fields of a declaration, with values of any kind."""
    options = {}
    for one in dataclasses.fields(declared):
        group = one.default_factory
        inner = like(group) if isinstance(group, type) and dataclasses.is_dataclass(group) else ANYTHING
        named = st.dictionaries(st.sampled_from(["a", "*", "~/work"]), inner | ENTRIES, max_size=2)
        options[in_file(one.name)] = named if one.name in ("bases", "repos", "contexts", "models") else inner
    return st.fixed_dictionaries({}, optional=options)


ENTRIES = TEXTS | st.lists(TEXTS) | st.fixed_dictionaries({"knowledge": TEXTS}, optional={"weight": NUMBERS})


@pytest.mark.parametrize("declared", [GlobalConfig, Pointer])
@settings(max_examples=12)
@given(data=st.data())
def test_what_is_plain_is_what_pydantic_says(declared, data):
    value = data.draw(like(declared))
    assume("\ud800" not in json.dumps(value, ensure_ascii=False))  # refused before either looks
    try:
        plain = plainly(declared, value)
    except ValueError:
        return
    assert plain == validated(declared, value)
    assert repr(plain) == repr(validated(declared, value))  # 1 is not 1.0


PLACE = {"ref": "a.md", "docid": "#1", "base": "project", "path": "a.md", "start_line": 1, "end_line": 2}
TRACE = Trace(signals=(Signal(name="keyword", rank=1, value=2.0, contribution=0.5),), factors={"weight": 1.5})
ALSO = (Span(start_line=3, end_line=4),)
HIT = Hit(**PLACE, title="A", excerpt="é", excerpt_line=1, score=0.5, also=ALSO, trace=TRACE)
RESULT = SearchResult(query="é", mode="hybrid", hits=(HIT,))


def test_a_value_is_frozen_compared_and_shown_by_its_fields_and_becomes_json_as_pydantic_makes_it(tmp_path):
    one = Problem(subject="a", message="b")
    assert one == Problem(message="b", subject="a")
    assert one != Problem(subject="a", message="c")
    assert one != Span(start_line=1, end_line=2)
    assert len({one, copy.deepcopy(one), pickle.loads(pickle.dumps(one))}) == 1
    assert repr(one) == "Problem(subject='a', message='b')"
    assert dataclasses.replace(one, message="c") == one.model_copy(update={"message": "c"})
    assert Base(id="a", path=tmp_path, origin="config").contexts == {}
    for change in (lambda: setattr(one, "subject", "c"), lambda: delattr(one, "subject")):
        with pytest.raises(dataclasses.FrozenInstanceError):
            change()
    for wrong, told in (({"subject": "a"}, "needs message"), ({"subject": "a", "message": "b", "x": 1}, "has no x")):
        with pytest.raises(TypeError, match=told):
            Problem(**wrong)

    judge = TypeAdapter(SearchResult)
    for indent in (None, 2):
        assert RESULT.model_dump_json(indent=indent) == judge.dump_json(RESULT, indent=indent).decode()
    assert RESULT.model_dump(mode="json") == judge.dump_python(RESULT, mode="json")
    assert RESULT.model_dump() == judge.dump_python(RESULT)
    assert judge.validate_json(RESULT.model_dump_json()) == RESULT
    also = [{"start_line": 3, "end_line": 4, "excerpt": ""}]
    assert json.loads(HIT.model_dump_json(include={"ref", "also"})) == {"ref": "a.md", "also": also}
    assert Query(text="x", bases=["a"], without=["keyword"]) == Query(text="x", bases=("a",), without=("keyword",))
    assert Query(text="x", limit=7).model_dump(mode="json", exclude={"text"}, exclude_defaults=True) == {"limit": 7}
    assert json.loads(HIT.model_copy(update={"score": math.nan}).model_dump_json())["score"] is None
    with pytest.raises(TypeError, match="name fields of the value itself"):
        RESULT.model_dump(exclude={"hits": {"__all__": {"excerpt"}}})


@pytest.mark.parametrize(
    ("field", "wrong"),
    [
        *[("limit", 0), ("limit", 101), ("limit", 2.5), ("limit", "5"), ("limit", True), ("offset", -1)],
        *[("offset", math.inf), ("recency", 1.5), ("min_score", math.nan), ("text", 5)],
        *[("mode", "Keyword"), ("granularity", "chunks"), ("bases", "notes"), ("bases", [1])],
        ("without", "semantic"),
    ],
)
def test_a_query_has_bounds(field, wrong):
    with pytest.raises(ValueError, match=rf"{field} of a query must be .+, not {re.escape(repr(wrong))}"):
        Query(**{"text": "x", field: wrong})


@struct
class Point:
    x: int
    y: int = 0
    name: str = dataclasses.field(default="", compare=False)


@struct
class Cube(Point):
    z: int = 0


def test_a_struct_is_what_a_frozen_dataclass_with_slots_is():
    """Made by position or name, compared and hashed by its fields, but for those that do not count."""
    assert Point(1, 2, "a") == Point(x=1, y=2, name="b")
    assert Point(1, 2) != Point(1)
    assert Point(1) != Cube(1)
    assert len({Point(1), Point(1, name="a"), Point(2), Cube(1), Cube(1, z=1)}) == 4
    assert repr(Cube(1, name="a")) == "Cube(x=1, y=0, name='a', z=0)"
    assert dataclasses.replace(Point(1), y=3) == Point(1, 3) == copy.deepcopy(Point(1, 3))
    assert pickle.loads(pickle.dumps(Cube(1, z=2))) == Cube(1, z=2)
    with pytest.raises(AttributeError):
        Point(1).other = 1
