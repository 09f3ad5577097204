"""What takes no more than a moment: hits and a document in a real browser, and what is shown of memories."""

import re
from concurrent.futures import ThreadPoolExecutor

import anyio
import pytest
from playwright.sync_api import expect
from starlette.requests import Request

from browsers import PNG
from kbhub.errors import UsageError
from kbhub.extensions.page.app import create_app
from kbhub.extensions.page.memories import alike, merged_text
from kbhub.extensions.page.search import search_page
from kbhub.extensions.page.site import SharedAudit
from kbhub.index.catalogue import named_places
from kbhub.memory.catalog import all_known
from kbhub.memory.changes import remember


def test_search_answers_as_one_types(shared_tab):
    page = shared_tab.go("/")
    page.locator("#q").press_sequentially("zeb")
    expect(page.locator("mark").first).to_have_text("zebra")
    page.locator("#q").fill("")
    page.locator("#q").press_sequentially("rolling back")
    expect(page.locator(".hit").first).to_contain_text("Rolling back")
    expect(page.locator("mark").first).to_have_text("Roll")
    expect(page).to_have_url(f"{shared_tab.opened.origin}/?q=rolling+back&mode=hybrid")
    expect(page.get_by_role("status").filter(visible=True)).to_have_text(re.compile(r"^\d+ hits"))  # read out
    cookies = page.context.cookies()
    page.context.clear_cookies()
    page.locator("#q").fill("zebras")
    expect(page.locator("#results")).to_have_text("Open this page with the address printed by kbhub ui.")
    expect(page.locator("#results h1")).to_have_count(0)
    expect(page).to_have_url(re.compile("rolling"))
    page.context.add_cookies(cookies)
    shared_tab.complaints.clear()


def test_what_is_typed_is_not_searched_for_when_the_browser_no_longer_waits(hub):
    async def left():
        return {"type": "http.disconnect"}

    scope = {"type": "http", "method": "GET", "path": "/", "app": create_app(hub)}
    request = Request({**scope, "query_string": b"q=x", "headers": [(b"x-part", b"1")]}, left)
    with ThreadPoolExecutor(1) as thread:  # without the loop of the browser
        assert thread.submit(anyio.run, search_page, request).result().body == b""


def test_the_hits_of_a_page_stay_when_indexing_ends(shared_tab):
    page = shared_tab.tab
    body = 'data: {"bases": ["project"], "done": 0, "todo": 1}\n\ndata: {"bases": [], "done": 1, "todo": 1}\n\n'
    page.route("**/events", lambda route: route.fulfill(content_type="text/event-stream", body=body), times=1)
    with page.expect_response(lambda answer: "x-part" in answer.request.headers and "/?" in answer.url) as fetched:
        shared_tab.go("/?q=rollback&offset=1")
    assert "offset=1" in fetched.value.url
    expect(page).to_have_url(re.compile("offset=1"))
    page.locator("#q").evaluate("field => { field.value = 'zebra'; return Promise.all([searched(), searchedAgain()]) }")
    expect(page.locator(".hit mark").first).to_have_text("zebra")  # what is typed meanwhile wins
    page.locator(".hit h2 a").first.focus()
    page.locator("#q").evaluate("field => { field.value = 'rollback'; return searched() }")
    expect(page.locator(".hit h2 a").first).to_be_focused()  # not lost with the hit that had it


def test_the_palette_knows_sections_of_one_chunk_too_and_takes_no_comment_for_one(environment):
    text = "# Top\n\n## One `two` {#x}\n\n```\n# no\n```\n\n### C# ## {#c}\n\n# ##\n\nIt.\n\n"
    text += f"# a{' ' * 300}b\n\n# c{' ' * 3_000}d\n"
    environment.write("knowledge/a.md", text)
    (hub := environment.hub()).sync()
    with hub.index(hub.discovery().project).snapshot() as index:
        named = [place[3:] for place in named_places(index)]
    assert named == [("", 1), ("One two", 3), ("C#", 9), ("a b", 15), ("c", 17)]


def test_an_audit_of_the_same_documents_stands_unless_it_failed_or_is_long_ago(environment, hub, clock):
    """A picture that is added changes no index."""
    environment.write("knowledge/a.md", "# A\n\n![b](b.png)\n")
    environment.configure(audit={"ignore": ["orphans", "nothing"]})
    hub.sync()
    audits = SharedAudit(hub)
    with pytest.raises(UsageError, match="nothing"):
        audits.begin("same").result()
    environment.configure(audit={"ignore": ["orphans"]})
    hub.rediscover()
    assert [one.check for one in audits.begin("same").result().findings] == ["links"]
    environment.write("knowledge/b.png", PNG)
    assert audits.begin("same").result().total == 1
    clock.pass_days(1)
    assert audits.begin("same").result().total == 0
    audits.end()


def test_a_document_is_rendered_with_what_is_around_it(shared_tab):
    page = shared_tab.go("/read?ref=rollback.md:11-13")
    expect(page.locator("header .chips")).to_have_text(re.compile(r"^\s*status\s+draft\s*$"))
    expect(page.locator("nav [aria-current]")).to_have_text("Documents")
    expect(page.locator(".outline [aria-current]")).to_have_text("When it fails")
    expect(page.locator(".trail")).to_have_text(re.compile(r"project\s+/\s+Rolling back"))
    expect(page.locator(".body table td").first).to_have_text("it hangs")
    expect(page.locator(".body code .hl-k").first).to_have_text("def")
    assert page.locator(".body img").evaluate("image => image.complete && image.naturalWidth") == 1
    assert page.locator(".body .found").first.evaluate("block => block.getBoundingClientRect().top < innerHeight")
    assert page.locator(".found").count() >= 2
    expect(page.locator(".body").get_by_text("nothing", exact=True)).not_to_have_attribute("href", "missing.md")
    around = page.locator(".around")
    expect(around).to_contain_text("Linked from")
    expect(around.get_by_role("link", name="Roll back with the previous tag").first).to_be_visible()
    expect(around).to_contain_text("missing.md")
    page.get_by_role("link", name="who is on call").click()
    expect(page).to_have_title("On call · kbhub")
    page.go_back()
    page.get_by_role("link", name="deploying", exact=True).click()
    expect(page.locator(".found").first).to_have_text("Take it out")
    expect(shared_tab.go("/read?ref=rollback.md").locator(".outline [aria-current]")).to_have_text("Rolling back")


def test_a_merge_leaves_out_what_is_said_twice_and_nothing_else():
    texts = ["Deploy on Mondays. Ask Ann.", "Ask Ann. Deploy on Mondays at noon, never later.\n\n```\nrun\n```"]
    assert merged_text(texts) == "Ask Ann.\n\nDeploy on Mondays at noon, never later.\n\n```\nrun\n```"


def test_memories_that_are_alike_are_found(hub):
    """Each pair once, and no fact with what was rejected; what another one replaces is not named again."""
    one = remember(hub, "The staging database is wiped on Sundays.").memory
    two = remember(hub, "Every Sunday the staging database is wiped.", rejected=True).memory
    remember(hub, "Releases need the VPN.")
    hub.sync()
    assert alike(hub, all_known(hub)) == []
    remember(hub, id=two.id, rejected=False)
    hub.sync()
    ((first, _, second, _, similarity),) = alike(hub, all_known(hub))
    assert {first.facts.id, second.facts.id} == {one.id, two.id}
    assert 0.65 <= similarity <= 1
    remember(hub, id=one.id, supersedes=[two.id])
    assert alike(hub, all_known(hub)) == []
