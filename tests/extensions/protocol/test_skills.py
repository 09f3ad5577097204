"""Skills of bases over MCP: listed with digests, read as they are on disk, a clone's only after consent."""

import hashlib

import pytest
from mcp import Client, MCPError
from mcp.types import Request
from pydantic import BaseModel, ConfigDict

from kbhub.extensions.protocol.skills import MOST_FILES
from kbhub.hooks.sessions import let_speak
from kbhub.server.server import KbhubServer

pytestmark = pytest.mark.anyio

SKILL = "---\nname: {name}\ndescription: How we {name} here.\nmetadata:\n  version: '2'\n---\n\nSee its steps.\n"


class Result(BaseModel):
    """Whatever the server answers."""

    model_config = ConfigDict(extra="allow")


async def ask(client, method, **params):
    """Send a request of the extension; give the result as sent."""
    request = Request[dict, str](method=method, params=params)
    return (await client.session.send_request(request, Result)).model_dump()


def write_skill(environment, folder, name=None, text=SKILL):
    return environment.write(f"{folder}/SKILL.md", text.format(name=name or folder.rpartition("/")[2]))


@pytest.fixture
def own(environment):
    """A user with a base of their own, in a project that may not speak."""
    environment.configure(bases={"notes": "~/notes"}, repos={"*": ["notes"]})
    notes = f"{environment.home}/notes"
    write_skill(environment, f"{notes}/skills/deploy")
    environment.write(f"{notes}/skills/deploy/references/steps.md", "# Steps\n")
    environment.write(f"{notes}/skills/deploy/scripts/run it.sh", b"#!/bin/sh\necho \xff\n")
    environment.write(f"{notes}/plain.md", "# Plain\n")
    write_skill(environment, "knowledge/review")
    return environment


async def test_a_skill_is_listed_with_all_its_files_and_read_as_it_is(own, mode):
    async with Client(KbhubServer(own.hub()), mode=mode) as client:
        declared = client.server_capabilities.extensions
        (entry,) = (await ask(client, "skills/list"))["skills"]
        read = {file["uri"]: (await client.read_resource(file["uri"])).contents[0] for file in entry["resources"]}
        one = await ask(client, "skills/get", uri=entry["uri"])

    assert mode == "legacy" or declared["io.modelcontextprotocol/skills"] == {"directoryRead": True}
    assert entry["uri"] == "skill://notes/skills/deploy/SKILL.md"
    described = {"name": "deploy", "description": "How we deploy here."}
    assert entry["frontmatter"] == {**described, "metadata": {"version": "2"}}
    folder = own.home / "notes/skills/deploy"
    files = {file["uri"].removeprefix("skill://notes/skills/deploy/"): file for file in entry["resources"]}
    assert list(files) == ["SKILL.md", "references/steps.md", "scripts/run%20it.sh"]
    for path, file in files.items():
        data = (folder / path.replace("%20", " ")).read_bytes()
        assert (file["size"], file["digest"]) == (len(data), f"sha256:{hashlib.sha256(data).hexdigest()}")
    texts = [getattr(content, "text", None) for content in read.values()]
    assert [content.mime_type for content in read.values()][:2] == ["text/markdown"] * 2
    assert texts[0].startswith("---\nname: deploy\n")
    assert texts[1:] == ["# Steps\n", None]
    assert one["skill"] == entry


async def test_a_clones_skills_are_served_only_after_consent(own):
    hub = own.hub()
    async with Client(KbhubServer(hub)) as client:
        before = [skill["uri"] for skill in (await ask(client, "skills/list"))["skills"]]
        for method in ("skills/get", "resources/directory/read"):
            with pytest.raises(MCPError):
                await ask(client, method, uri="skill://project/review/SKILL.md")
        with pytest.raises(MCPError):
            await client.read_resource("skill://project/review/SKILL.md")
        let_speak(hub)
        after = [skill["uri"] for skill in (await ask(client, "skills/list"))["skills"]]
    assert before == ["skill://notes/skills/deploy/SKILL.md"]
    assert after == ["skill://project/review/SKILL.md", *before]


async def test_folders_are_read_level_by_level_and_an_inner_skill_is_one_of_its_own_and_part_of_the_outer(own):
    async with Client(KbhubServer(own.hub())) as client:
        root = await ask(client, "resources/directory/read", uri="skill://notes/skills/deploy")
        inner = await ask(client, "resources/directory/read", uri="skill://notes/skills/deploy/references")
    kinds = {"SKILL.md": "text/markdown", **dict.fromkeys(("references", "scripts"), "inode/directory")}
    assert [(one["name"], one["mimeType"]) for one in root["resources"]] == [*kinds.items()]
    assert [one["uri"] for one in inner["resources"]] == ["skill://notes/skills/deploy/references/steps.md"]
    write_skill(own, f"{own.home}/notes/skills/deploy/canary")
    async with Client(KbhubServer(own.hub())) as client:
        listed = {skill["uri"]: skill for skill in (await ask(client, "skills/list"))["skills"]}
    inner, outer = "skill://notes/skills/deploy/canary/SKILL.md", "skill://notes/skills/deploy/SKILL.md"
    assert set(listed) == {inner, outer}
    assert inner in [file["uri"] for file in listed[outer]["resources"]]


@pytest.mark.parametrize(
    "uri",
    [
        "skill://notes/plain.md", "skill://notes/skills/deploy/../../plain.md",
        "skill://notes/skills/deploy/%2e%2e/%2e%2e/plain.md", "skill://notes/skills/deploy/.hidden",
        "skill://notes/skills/deploy/link.md", "skill://notes/skills/deploy/references", "skill://notes//etc/passwd",
        "skill://nobody/skills/deploy/SKILL.md", "skill://", "skill://notes/\0", "skill:///etc/passwd",
    ],
)  # fmt: skip
async def test_nothing_but_files_of_skills_is_read(own, uri):
    own.write(f"{own.home}/notes/skills/deploy/.hidden", "secret")
    (own.home / "notes/skills/deploy/link.md").symlink_to("/etc/passwd")
    async with Client(KbhubServer(own.hub())) as client:
        with pytest.raises(MCPError):
            await client.read_resource(uri)
        with pytest.raises(MCPError):
            await ask(client, "skills/get", uri=uri)


@pytest.mark.parametrize(
    "text",
    [
        "# No front matter\n", "---\nname: other\ndescription: x\n---\n", "---\nname: wrong\n---\n",
        "---\nname: wrong\ndescription: ''\n---\n", "---\nname: [wrong]\ndescription: x\n---\n",
        "---\nname: wrong\ndescription: " + "x" * 1025 + "\n---\n", "---\nname: wrong\n",
    ],
)  # fmt: skip
async def test_a_faulty_skill_is_not_served(own, text):
    own.write(f"{own.home}/notes/wrong/SKILL.md", text)
    async with Client(KbhubServer(own.hub())) as client:
        listed = (await ask(client, "skills/list"))["skills"]
        with pytest.raises(MCPError, match="no skill is available there"):
            await ask(client, "skills/get", uri="skill://notes/wrong/SKILL.md")
    assert [skill["frontmatter"]["name"] for skill in listed] == ["deploy"]


async def test_a_skill_with_too_many_files_is_not_served(own):
    write_skill(own, f"{own.home}/notes/many")
    for number in range(MOST_FILES):
        own.write(f"{own.home}/notes/many/{number}.txt", "x")
    async with Client(KbhubServer(own.hub())) as client:
        assert len((await ask(client, "skills/list"))["skills"]) == 1
        (own.home / "notes/many/0.txt").unlink()
        assert len((await ask(client, "skills/list"))["skills"]) == 2


async def test_skills_come_in_pages(own):
    names = [f"skill-{number:03}" for number in range(120)]
    for name in names:
        write_skill(own, f"{own.home}/notes/{name}")
    async with Client(KbhubServer(own.hub())) as client:
        pages = [await ask(client, "skills/list")]
        while cursor := pages[-1].get("nextCursor"):
            pages.append(await ask(client, "skills/list", cursor=cursor))
        with pytest.raises(MCPError, match="cursor"):
            await ask(client, "skills/list", cursor="made up")
    found = [skill["frontmatter"]["name"] for page in pages for skill in page["skills"]]
    assert (sorted(found), len(pages)) == (sorted([*names, "deploy"]), 3)
