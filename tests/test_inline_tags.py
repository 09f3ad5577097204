"""`#tags` in the text are tags like those of the front matter, where the base is a vault or the user says so."""

import json

import pytest

NOTE = "---\ntags: [Ops]\n---\n# Rolling back\n\nRedeploy the tag before. #ops #release/canary\n\n```\n#no\n```\n"


@pytest.fixture
def vault(environment):
    """A project whose knowledge is a vault of Obsidian."""
    environment.write("knowledge/.obsidian/app.json", "{}")
    environment.write("knowledge/rollback.md", NOTE)
    environment.write("knowledge/canary.md", "# Canaries\n\nA canary goes first. #release\n")
    return environment


def configure(environment, **base):
    environment.write(".kbhub.json", json.dumps(base))


def paths(kbhub, *query: str) -> set[str]:
    return {hit["path"] for hit in kbhub("search", *query, "--json").json["hits"]}


def tags_of(kbhub) -> dict[str, tuple[int, int]]:
    return {one["tag"]: (one["count"], one["own"]) for one in kbhub("ls", "--tags", "--json").json["tags"]}


def test_in_a_vault_they_filter_count_and_relate_and_a_pointer_and_the_users_config_decide(vault, kbhub):
    assert paths(kbhub, "tag:release") == {"rollback.md", "canary.md"}
    assert paths(kbhub, "tag:release/canary") == {"rollback.md"}
    assert paths(kbhub, "tag:no") == set()
    assert tags_of(kbhub) == {"release": (2, 1), "release/canary": (1, 1), "Ops": (1, 1)}
    (row,) = [one for one in kbhub("ls", "--json").json["documents"] if one["path"] == "rollback.md"]
    assert row["tags"] == ["Ops", "release/canary"]
    related = kbhub("related", "canary", "--json").json["neighbours"]
    assert [(one["ref"], one["context"]) for one in related if one["kind"] == "tag"] == [("rollback.md", "#release")]

    configure(vault, inlineTags=False)
    assert set(tags_of(kbhub)) == {"Ops"}
    configure(vault)
    assert set(tags_of(kbhub)) == {"Ops", "release", "release/canary"}
    own = {"notes": {"knowledge": str(vault.project / "knowledge"), "inlineTags": False}}
    vault.configure(bases=own, repos={"*": ["notes"]})
    assert set(tags_of(kbhub)) == {"Ops"}


@pytest.mark.parametrize(
    ("place", "found"),
    [
        *((".obsidian", {"found"}), ("knowledge/.obsidian", {"found"})),
        *(("../.obsidian", set()), ("wiki/.obsidian", set()), ("knowledge/deep/.obsidian", set())),
    ],
)
def test_a_vault_is_the_base_or_above_it_in_its_repository(environment, kbhub, place, found):
    environment.write(f"{place}/app.json", "{}")
    if not found:
        environment.write("knowledge/.obsidian", "")
    environment.write("knowledge/a.md", "# A\n\n#found\n")
    assert set(tags_of(kbhub)) == found


def test_bases_of_the_user_have_the_setting_too(environment, kbhub):
    said = {"on": True, "off": False, "unset": None}
    for name in said:
        environment.write(f"{environment.home}/{name}/a.md", f"# A\n\n#{name}\n")
        if name != "on":
            environment.write(f"{environment.home}/{name}/.obsidian/app.json", "{}")
    bases = {name: {"knowledge": f"~/{name}", "inlineTags": tags} for name, tags in said.items()}
    environment.configure(bases=bases, repos={"*": list(bases)})
    assert set(tags_of(kbhub)) == {"on", "unset"}


def test_audit_mends_them_where_they_stand_and_writes_none_with_spaces(vault, kbhub):
    for number in range(3):
        vault.write(f"knowledge/n{number}.md", "---\ntags: [deploy-notes]\n---\n# N\n")
    vault.write("knowledge/odd.md", b"# Odd\r\n\r\nSee `#Deploy_Notes`. #Deploy_Notes, and (#x) #Deploy_Notes\r\n")

    (found,) = kbhub("audit", "--check", "tags", "--json").json["findings"]
    assert (found["path"], found["line"]) == ("odd.md", 3)

    kbhub("audit", "--check", "tags", "--fix", code=0)
    fixed = (vault.project / "knowledge/odd.md").read_bytes()
    assert fixed == b"# Odd\r\n\r\nSee `#Deploy_Notes`. #deploy-notes, and (#x) #deploy-notes\r\n"
    assert kbhub("audit", "--check", "tags", "--json").json["findings"] == []

    for number in range(3):
        vault.write(f"knowledge/n{number}.md", "---\ntags: [deploy notes]\n---\n# N\n")
    odd = vault.write("knowledge/odd.md", "# Odd\n\n#deploy-notes\n")

    error = kbhub("audit", "--check", "tags", "--fix").err

    assert "line 3 has the tag #deploy-notes, and 'deploy notes' cannot be written so" in error
    assert odd.read_text() == "# Odd\n\n#deploy-notes\n"
