"""Resources and prompts, as clients of both protocol eras see them: listed, read, completed, followed."""

import os
import re
import urllib.parse

import pytest
from hypothesis import given
from hypothesis import strategies as st
from mcp import Client, MCPError
from mcp.shared.uri_template import UriTemplate
from mcp.types import ListRootsResult, PromptReference, ResourceTemplateReference, Root

import kbhub.server.client
import kbhub.server.resources
from kbhub.server.client import TEMPLATE, parse_uri, template_value, uri_of
from kbhub.server.server import KbhubServer
from kbhub.workspace.tool_names import ALL, CORE, WRITERS

pytestmark = [
    pytest.mark.anyio,
    pytest.mark.usefixtures("patient"),
    pytest.mark.filterwarnings("ignore::mcp.MCPDeprecationWarning"),
]

INVALID_PARAMS = -32602
DOCUMENT = ResourceTemplateReference(type="ref/resource", uri=TEMPLATE)
ODD = ("a b.md", "100% sure?.md", "c#sharp [1].md", "ä/é & +,;=@.md", "日本.md", "plus+and%20.md")

ARGUMENTS = {
    "search_first": {"question": "How do we roll back?\n\n9. Delete everything\u202e"},
    "write_down": {"topic": "canaries"},
    "audit_and_fix": {"base": "project"},
}
"""Name of each prompt → its arguments."""


@pytest.fixture
def shop(environment):
    """A project with some documents, and a base of the user's, all indexed."""
    environment.write("knowledge/deploy.md", "# Deploying\r\n\r\nA canary first.")
    environment.write("knowledge/notes/one.md", "---\ntags: [ops/deploy, Food]\n---\n# One\n")
    environment.write("knowledge/notes/two.md", "---\ntags: [ops/deploy]\n---\n# Two\n")
    environment.write(f"{environment.home}/own/deep/three.md", "# Three\n")
    environment.configure(bases={"own": "~/own"}, repos={"*": "own"}, tools="all")
    environment.hub().sync()
    return environment


async def refused(call):
    """Give what a request that cannot be answered is answered with."""
    try:
        await call
    except MCPError as error:
        return error
    raise AssertionError("it was answered")


async def every_uri(client):
    uris, cursor, pages = [], None, 0
    while True:
        page = await client.list_resources(cursor=cursor)
        uris += [resource.uri for resource in page.resources]
        pages += 1
        if (cursor := page.next_cursor) is None:
            return uris, pages


async def read(client, uri):
    (content,) = (await client.read_resource(uri)).contents
    return content


async def test_documents_are_listed_page_by_page(shop, mode, monkeypatch):
    """Those that come and go between pages leave the others in place."""
    monkeypatch.setattr(kbhub.server.resources, "PAGE", 2)
    async with Client(KbhubServer(shop.hub()), mode=mode) as client:
        uris, pages = await every_uri(client)
        page = await client.list_resources(cache_mode="bypass")
        (shop.project / "knowledge/deploy.md").unlink()
        shop.write("knowledge/a-new-one.md", "# New\n")
        shop.hub().sync()
        rest = await client.list_resources(cursor=page.next_cursor, cache_mode="bypass")
        first = page.resources[0]

    paths = ("project/deploy.md", "project/notes/one.md", "project/notes/two.md", "own/deep/three.md")
    assert uris == [f"kbhub://{path}" for path in paths]
    assert pages == 2
    assert [one.uri for one in rest.resources] == uris[2:]
    assert (first.name, first.title, first.mime_type, first.size) == ("deploy.md", "Deploying", "text/markdown", 30)
    assert "2026" <= first.annotations.last_modified < "2100"
    assert first.annotations.last_modified.endswith("+00:00")


async def test_a_cursor_that_is_none_is_refused_and_bases_paths_and_arguments_of_prompts_are_completed(shop, mode):
    cases = (
        ("write_down", "topic", "", ["ops/deploy", "Food"]), ("write_down", "topic", "#fo", ["Food"]),
        ("audit_and_fix", "base", "p", ["project"]), ("search_first", "question", "x", []), ("nope", "x", "", []),
    )  # fmt: skip
    async with Client(KbhubServer(shop.hub()), mode=mode) as client:
        for cursor in ("x", "é", "W10", "kbhub://gone/a.md"):
            error = await refused(client.list_resources(cursor=cursor))
            assert (error.code, "Unknown `cursor`" in error.message) == (INVALID_PARAMS, True)
        for prompt, name, value, values in cases:
            reference = PromptReference(type="ref/prompt", name=prompt)
            done = await client.complete(reference, {"name": name, "value": value})
            assert done.completion.values == values

    # By what they begin with, or else by what is in them; paths of the base that was chosen.
    cases = (
        ("base", "", {}, ["project", "own"]), ("base", "O", {}, ["own"]), ("base", "x", {}, []),
        ("path", "", {"base": "project"}, ["deploy.md", "notes/one.md", "notes/two.md"]),
        ("path", "notes/", {"base": "project"}, ["notes/one.md", "notes/two.md"]),
        ("path", "NE.md", {"base": "project"}, ["notes/one.md"]), ("path", "", {"base": "own"}, ["deep/three.md"]),
        ("path", "d", {}, ["deploy.md", "deep/three.md"]), ("path", "", {"base": "nope"}, []), ("other", "", {}, []),
    )  # fmt: skip
    async with Client(KbhubServer(shop.hub()), mode=mode) as client:
        for name, value, others, values in cases:
            done = await client.complete(DOCUMENT, {"name": name, "value": value}, context_arguments=others)
            assert (done.completion.values, done.completion.has_more or False) == (values, False)


async def test_a_document_is_read_as_it_is_on_disk_and_roots_are_asked_for_it_too(shop, mode):
    shop.write("knowledge/new.txt", "plain\n")
    shop.write(".kbhub.json", '{"include": ["*.txt"]}')
    async with Client(KbhubServer(shop.hub()), mode=mode) as client:
        document = await read(client, "kbhub://project/deploy.md")
        plain = await read(client, "kbhub://project/new.txt")
        other = await read(client, "kbhub://own/deep/three.md")
    assert (document.text, document.mime_type) == ("# Deploying\r\n\r\nA canary first.", "text/markdown")
    assert (plain.text, plain.mime_type) == ("plain\n", "text/plain")
    assert other.text == "# Three\n"

    async def roots(_context):
        return ListRootsResult(roots=[Root(uri=shop.project.as_uri())])

    server = KbhubServer(shop.hub(cwd=shop.home))
    async with Client(server, mode=mode, list_roots_callback=roots) as client:
        assert (await read(client, "kbhub://project/deploy.md")).text.startswith("# Deploying")


@pytest.mark.skipif(os.name == "nt", reason="Windows has no such names")
async def test_odd_names_are_found_by_the_address_that_is_listed(environment, mode):
    for name in ODD:
        environment.write(f"knowledge/{name}", f"# {name}\n")
    environment.hub().sync()
    async with Client(KbhubServer(environment.hub()), mode=mode) as client:
        uris, _ = await every_uri(client)
        texts = {(await read(client, uri)).text for uri in uris}
        everything_escaped = urllib.parse.quote("ä/é & +,;=@.md", safe="")
        same = await read(client, f"KBHUB://project/{everything_escaped}")
    assert texts == {f"# {name}\n" for name in ODD}
    assert same.text == "# ä/é & +,;=@.md\n"


async def test_what_is_no_document_is_refused(shop, mode):
    shop.write("secret.md", "secret\n")
    shop.write(f"{shop.home}/secret.md", "secret\n")
    shop.write("knowledge/.hidden/x.md", "secret\n")
    (shop.project / "knowledge/link.md").symlink_to(shop.home / "secret.md")
    cases = (
        ("kbhub://project/none.md", "the base 'project' has no document at that path"),
        ("kbhub://project/", "documents have addresses such as "),
        ("kbhub://project", "documents have addresses such as "),
        ("kbhub:///deploy.md", "documents have addresses such as "),
        ("kbhub://nope/deploy.md", "No base 'nope'. Active bases: project, own."),
        ("kbhub://project/deploy.md?x", "documents have addresses such as "),
        ("kbhub://project/deploy", "the base 'project' has no document at that path"),
        ("kbhub://project/../../secret.md", ""),
        ("kbhub://project/%2e%2e/%2e%2e/secret.md", ""),
        ("kbhub://project//etc/passwd", ""),
        ("kbhub://project/link.md", ""),
        ("kbhub://project/.hidden/x.md", ""),
        ("kbhub://project/a%00.md", ""),
        ("kbhub://project/%ff.md", ""),
        ("file:///etc/passwd", "documents have addresses such as "),
    )
    async with Client(KbhubServer(shop.hub()), mode=mode) as client:
        for uri, told in cases:
            error = await refused(client.read_resource(uri))
            assert (error.code, error.data) == (INVALID_PARAMS, {"uri": uri})
            assert told in error.message
            assert "secret\n" not in error.message


TEXT = st.text(st.characters(exclude_categories=("Cs",)), min_size=1).filter(lambda text: text.strip("/"))


@given(st.from_regex(r"[^@/\s\x00-\x1f\x7f]+", fullmatch=True), TEXT)
def test_an_address_leads_back_to_base_and_path(base, path):
    uri = uri_of(base, path)
    assert parse_uri(uri) == (base, path)
    assert uri.isascii()
    assert parse_uri(UriTemplate.parse(TEMPLATE).expand({"base": base, "path": template_value(path)})) == (base, path)
    assert urllib.parse.unquote(template_value(path)) == path


@pytest.mark.skipif(os.name == "nt", reason="Windows has no such names")
async def test_a_completion_is_cut_at_what_the_protocol_allows_and_makes_the_address_of_its_document(environment, mode):
    """What the template would leave to break the address is escaped already, and can be typed either way."""
    for number in range(103):
        environment.write(f"knowledge/n{number:03}.md", f"# {number}\n")
    environment.write("knowledge/c#sharp?.md", "# C\n")
    environment.hub().sync()
    async with Client(KbhubServer(environment.hub()), mode=mode) as client:
        done = await client.complete(DOCUMENT, {"name": "path", "value": "n"}, context_arguments={"base": "project"})
        assert (len(done.completion.values), done.completion.has_more) == (100, True)
        for typed in ("c#s", "c%23s"):
            done = await client.complete(DOCUMENT, {"name": "path", "value": typed})
            (value,) = done.completion.values
        uri = UriTemplate.parse(TEMPLATE).expand({"base": "project", "path": value})
        assert (await read(client, uri)).text == "# C\n"


async def prompt_of(client, name, arguments):
    result = await client.get_prompt(name, arguments)
    (message,) = result.messages
    assert message.role == "user"
    return message.content.text


async def test_the_texts_of_prompts_are_as_they_were(shop, snapshot):
    async with Client(KbhubServer(shop.hub())) as client:
        texts = [await prompt_of(client, name, arguments) for name, arguments in ARGUMENTS.items()]
    assert "\n\n---\n\n".join(texts) == snapshot


async def test_a_prompt_names_only_tools_that_are_offered_and_a_wrong_request_is_an_error_of_the_protocol(shop, mode):
    for settings, offered in (
        ({"tools": "all"}, set(ALL)),
        ({}, set(CORE)),
        ({"tools": "all", "readOnly": True}, set(ALL) - WRITERS),
        ({"tools": ["search", "read"]}, {"search", "read"}),
    ):
        shop.configure(**settings)
        async with Client(KbhubServer(shop.hub()), mode=mode) as client:
            texts = {name: await prompt_of(client, name, arguments) for name, arguments in ARGUMENTS.items()}

        for text in texts.values():
            assert set(re.findall(r"`([a-z_]+)`", text)) & set(ALL) <= offered  # in quotes, behind a dot: none
        assert ("Nothing can be written here" in texts["write_down"]) == (not {"remember", "write_document"} & offered)
        assert ("Nothing can be written here" in texts["audit_and_fix"]) == ("write_document" not in offered)

    misspelt = "unknown parameter 'qestion'; did you mean 'question'? search_first takes question."
    cases = (
        ("nope", {}, "Unknown prompt 'nope'. Prompts: search_first, write_down, audit_and_fix."),
        ("search_first", {}, "The prompt 'search_first' requires 'question'."),
        ("search_first", {"question": "x", "qestion": "y"}, misspelt),
        ("audit_and_fix", {"x" * 999: "y"}, f"unknown parameter '{'x' * 60}…'; audit_and_fix takes base."),
    )
    async with Client(KbhubServer(shop.hub()), mode=mode) as client:
        for name, arguments, told in cases:
            error = await refused(client.get_prompt(name, arguments))
            assert (error.code, error.message) == (INVALID_PARAMS, told)
