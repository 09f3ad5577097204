"""What `kbhub status` tells a person beyond the state of the indexes."""

from __future__ import annotations

import kbhub.cli.commands.basics
from kbhub.cli.commands.basics import overview


def test_status_tells_what_there_is_and_what_changed_since(kbhub, environment):
    environment.write("knowledge/c.md", "# C\n")
    kbhub("admin", "index")
    assert "tags" not in kbhub("status").out
    assert "memories" not in kbhub("status").out
    (environment.project / "knowledge/c.md").unlink()
    environment.write("knowledge/a.md", "---\ntags: [ops, web]\n---\n# A\n")
    environment.write("knowledge/b.md", "---\ntags: [ops]\n---\n# B\n")
    assert kbhub("admin", "index").code == 0
    assert kbhub("remember", "staging restarts at noon").code == 0
    fresh = kbhub("status", "--json").json
    environment.write("knowledge/b.md", "# B is another and longer now\n")
    environment.write("knowledge/c.md", "# C\n")
    (environment.project / "knowledge/a.md").unlink()
    later = kbhub("status", "--json").json
    text = kbhub("status").out

    assert [(one["tag"], one["documents"]) for one in fresh["tags"]] == [("ops", 2), ("web", 1)]
    assert fresh["memories"] == {"memories": 1, "strength": 0.7, "faded": 0, "superseded": 0}
    assert {one["base"]["id"]: one["behind"] for one in fresh["bases"]} == {"project": 0, "memory": 0}
    assert {one["base"]["id"]: one["behind"] for one in later["bases"]} == {"project": 3, "memory": 0}
    assert "3 changes since" in text
    assert "ops 2 · web 1" in text
    assert "1, mean strength 0.70" in text


def test_a_file_that_is_indexed_while_status_looks_is_not_behind(environment, monkeypatch):
    environment.write("knowledge/a.md", "# A\n")
    environment.hub().sync()
    environment.write("knowledge/a.md", "# Another and longer now\n")
    compare, found = kbhub.cli.commands.basics.compare, []

    def then_indexed(*given, **more):
        found.append(compare(*given, **more))
        environment.hub().sync()
        return found[0]

    monkeypatch.setattr(kbhub.cli.commands.basics, "compare", then_indexed)

    assert [one.behind for one in overview(environment.hub()).bases] == [0]
    assert [one.path for one in found[0].suspects] == ["a.md"]
