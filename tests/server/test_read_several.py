"""`kbhub read` and the tool `read` take the same refs, in a project that was never indexed, too."""

import pytest
from mcp import Client

from kbhub.server.server import create_server

SAME = [
    ("runbooks/canary.md,glossary.md", ["runbooks/canary.md", "glossary.md"]),
    ("glossary.md, ops@vpn.md", ["glossary.md", "ops@vpn.md"]),
    ("runbooks/*.md", ["runbooks/canary.md", "runbooks/rollback.md"]),
    ("runbooks/r*.md,glossary", ["runbooks/rollback.md", "glossary.md"]),
    ("{glossary,runbooks/canary}.md", ["glossary.md", "runbooks/canary.md"]),
    ("project/glossary.md", ["glossary.md"]),
    ("ops/vpn.md", ["ops@vpn.md"]),
    ("ops/vpn.md:1-1", ["ops@vpn.md"]),
    ("ops/*.md", ["ops@dns.md", "ops@vpn.md"]),
    ("ops/Tunnels", ["ops@vpn.md"]),
    ("a, b.md", ["a, b.md"]),
    ("Words, explained", ["glossary.md"]),
]


@pytest.fixture
def several(environment):
    """A project with a base of the user's beside it; neither was indexed."""
    for name in ("runbooks/rollback", "runbooks/canary"):
        environment.write(f"knowledge/{name}.md", f"# The {name}\n")
    environment.write("knowledge/glossary.md", "# Words, explained\n")
    environment.write("knowledge/a, b.md", "# Both\n")
    environment.write(f"{environment.home}/handbook/vpn.md", "# Tunnels\n\nTwo.\n")
    environment.write(f"{environment.home}/handbook/dns.md", "# Names\n")
    config = '{"bases": {"ops": "~/handbook"}, "repos": {"*": ["ops"]}, "docsFallback": false}'
    environment.write(f"{environment.home}/.kbhub.json", config)
    return environment


@pytest.mark.anyio
@pytest.mark.usefixtures("patient")
async def test_the_tool_and_the_command_read_the_same(several, kbhub, mode):
    for refs, found in SAME:
        assert [one["ref"] for one in kbhub("read", refs, "--json", code=0).json["readings"]] == found
    async with Client(create_server(several.hub(), structured=True), mode=mode) as client:
        for refs, found in SAME:
            for form in (refs, [refs]):
                result = await client.call_tool("read", {"refs": form})
                assert [one["ref"] for one in result.structured_content["readings"]] == found


def test_a_pattern_from_the_working_directory_matches_what_is_new_too(several, kbhub):
    kbhub("read", "runbooks/*.md", code=0)
    several.write("knowledge/runbooks/deploy.md", "# Deploy\n")
    done = kbhub("read", "knowledge/runbooks/*.md", "--json", code=0)

    assert [one["ref"] for one in done.json["readings"]] == [
        *("runbooks/canary.md", "runbooks/deploy.md", "runbooks/rollback.md")
    ]


def test_a_folder_of_a_base_wins_over_a_base_of_its_name(several, kbhub):
    several.write("knowledge/ops/vpn.md", "# Ours\n")

    assert kbhub("read", "ops/vpn.md", code=0).out == "# Ours\n"
    assert kbhub("read", "ops@vpn.md", code=0).out == "# Tunnels\n\nTwo.\n"
