"""What `kbhub status` tells a person beyond the state of the indexes."""

from __future__ import annotations


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
