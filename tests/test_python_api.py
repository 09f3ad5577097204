"""The Python API: few names, typed and documented, that cost nothing until they are used."""

import ast
import inspect
import os
import sys
from pathlib import Path
from typing import get_type_hints

import pytest

import kbhub
from conftest import ran
from kbhub.errors import KbhubError, UsageError, WriteRefused
from kbhub.types import Query

ROOT = Path(__file__).parent.parent
API = [name for name in kbhub.__all__ if name != "__version__"]


@pytest.fixture
def user(environment, kbhub):
    """The environment of a script's process: an empty home, and two documents in the project."""
    environment.write("knowledge/rollback.md", "# Rolling back\n\nRun `shop rollback`.\n")
    environment.write("knowledge/food.md", "# Lunch\n\nOn Mondays there is soup.\n")
    return environment


@pytest.mark.parametrize("name", API)
def test_every_name_is_there_documented_and_typed(name):
    found = getattr(kbhub, name)
    assert name in dir(kbhub)
    assert found.__doc__
    assert found.__name__ == {"Hub": "KnowledgeHub"}.get(name, name)
    if inspect.isfunction(found):
        signature = inspect.signature(found)
        assert all(one.annotation is not inspect.Parameter.empty for one in signature.parameters.values())
        assert signature.return_annotation is not inspect.Signature.empty
    elif hasattr(found, "model_fields"):
        assert set(get_type_hints(found)) >= set(found.model_fields)


def test_type_checkers_see_the_same_names_and_no_others():
    with pytest.raises(AttributeError, match="module 'kbhub' has no attribute 'serach'"):
        kbhub.serach
    tree = ast.parse((ROOT / "src" / "kbhub" / "__init__.py").read_text("utf-8"))
    (typing,) = [node for node in tree.body if isinstance(node, ast.If)]
    seen = {node.module.removeprefix("kbhub."): {one.name for one in node.names} for node in typing.body}
    assert seen == {place: set(names) for place, names in kbhub._PLACES.items()}
    assert sorted(name for names in kbhub._PLACES.values() for name in names) == sorted(API)
    assert (ROOT / "src" / "kbhub" / "py.typed").is_file()


def test_the_package_costs_nothing_until_a_name_is_used():
    script = (
        "import sys; before = set(sys.modules); import kbhub; new = set(sys.modules) - before\n"
        "assert new == {'kbhub'}, new\n"
        "from kbhub import KbhubError; print(*sorted(name for name in sys.modules if name.startswith('kbhub')))\n"
    )
    env = {**os.environ, "PYTHONPATH": str(ROOT / "src")}
    # -S: what an installed package does at the start of every program is not ours.
    done = ran(sys.executable, "-S", "-c", script, env=env)
    assert (done.out.split(), done.err) == (["kbhub", "kbhub.errors"], "")


def test_failures_have_one_root_and_folders_may_be_strings_with_a_tilde(user, monkeypatch):
    assert kbhub.KbhubError is KbhubError
    with pytest.raises(UsageError, match="is not a directory"):
        kbhub.Hub.open("/does/not/exist").search("x")
    with pytest.raises(KbhubError, match="project"):
        kbhub.Hub.open(bases={"project": "~/x"})
    with pytest.raises(WriteRefused):
        kbhub.remember(kbhub.Hub.open(read_only=True), "Nothing is written.")

    user.write(f"{user.home}/ops/a.md", "# Pager\n")
    user.write(f"{user.home}/notes/b.md", "# Idea\n")
    user.write(f"{user.home}/other.json", '{"search": {"mode": "keyword", "limit": 1}}')
    monkeypatch.setenv("KBHUB_BASES", f"notes={user.home / 'notes'}")
    hub = kbhub.Hub.open("~/ops", bases={"ops": "~/ops"}, config="~/other.json", cache="~/indexes")
    hub.sync()
    found = hub.search("pager idea")
    assert {base.id for base in hub.discovery().bases} >= {"ops", "notes"}
    assert any((user.home / "indexes").iterdir())
    assert (found.mode, len(found.hits)) == ("keyword", 1)
    assert len(hub.search(Query(text="pager idea", mode="keyword")).hits) == 2


@pytest.mark.slow
def test_a_strict_type_checker_accepts_a_script(tmp_path):
    from mypy import api

    wrong = tmp_path / "wrong.py"
    wrong.write_text("from kbhub import Hub\n\nHub.open().search(3)\nHub.open().search('x').hits[0].socre\n")
    config = ["--config-file", str(ROOT / "pyproject.toml"), "--cache-dir", str(tmp_path / "cache")]
    for file in sorted((ROOT / "examples" / "python-api").glob("*.py")):
        out, _, code = api.run([*config, str(file)])
        assert code == 0, out
    out, _, _ = api.run([*config, str(wrong)])
    assert 'Argument 1 to "search" of "Hub" has incompatible type "int"' in out
    assert '"Hit" has no attribute "socre"' in out
