"""What a file says is taken at a glance only where pydantic would take it, and then for the same."""

import copy
import dataclasses
import json
import math
import pickle
import re

import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st
from pydantic import TypeAdapter, ValidationError

from kbhub.errors import ConfigError
from kbhub.types import Base, Hit, Problem, Query, SearchResult, Signal, Span, Trace
from kbhub.values import struct
from kbhub.workspace.config import checked
from kbhub.workspace.settings import GlobalConfig, Pointer, in_file, plainly
from kbhub.workspace.validation import validated

TEXTS = st.sampled_from(["", " ", "a", "~/notes", "hybrid", "core", "a\x00b", "é\n", "\ud800", "5", "null"])
NUMBERS = st.sampled_from(
    [-1, 0, 1, 2, 40, 60, 100, 101, 65535, 10**30, 0.0, 0.5, 60.5, 1e308, math.inf, 10**400, 2**53]
)
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


ENTRIES = (
    TEXTS | st.lists(TEXTS, max_size=2) | st.fixed_dictionaries({"knowledge": TEXTS}, optional={"weight": NUMBERS})
)


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


@pytest.mark.parametrize(
    "value",
    [
        *({"search": limit} for limit in ({"limit": 0}, {"limit": True}, {"limit": 1.0}, {"limit": 10**400}, [])),
        *({"bases": {"a": {"weight": "2"}}}, {"bases": {"a": ""}}, {"docsFallback": 1}, {"repos": {"*": [1]}}),
        *({"tools": "some"}, {"serve": {"port": -(10**400)}}),
    ],
)
def test_what_is_wrong_is_never_plain(value):
    with pytest.raises(ValueError, match=r"."):
        plainly(GlobalConfig, value)
    with pytest.raises(ValidationError):
        validated(GlobalConfig, value)
    with pytest.raises(ConfigError, match=next(iter(value))):
        checked(GlobalConfig, value, "x.json")


PLACE = {"ref": "a.md", "docid": "#1", "base": "project", "path": "a.md", "start_line": 1, "end_line": 2}
TRACE = Trace(signals=(Signal(name="keyword", rank=1, value=2.0, contribution=0.5),), factors={"weight": 1.5})
ALSO = (Span(start_line=3, end_line=4),)
HIT = Hit(**PLACE, title="A", excerpt="é", excerpt_line=1, score=0.5, also=ALSO, trace=TRACE)
RESULT = SearchResult(query="é", mode="hybrid", hits=(HIT,))


def test_a_value_is_frozen_compared_and_shown_by_its_fields(tmp_path):
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


@pytest.mark.parametrize(
    ("given", "told"), [({"subject": "a"}, "needs message"), ({"subject": "a", "message": "b", "x": 1}, "has no x")]
)
def test_a_value_with_other_fields_is_refused(given, told):
    with pytest.raises(TypeError, match=told):
        Problem(**given)


def test_a_value_becomes_json_as_pydantic_makes_it():
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
        *[("offset", math.inf), ("recency", 1.5), ("min_signals", 3), ("min_score", math.nan), ("text", 5)],
        *[("mode", "Keyword"), ("granularity", "chunks"), ("fusion", "RRF"), ("bases", "notes"), ("bases", [1])],
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
