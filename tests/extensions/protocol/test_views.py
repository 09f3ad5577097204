"""A view in the sandbox of a host that speaks MCP Apps, and WCAG 2.2 AA as far as a program can tell."""

from pathlib import Path

import pytest
from anyio.from_thread import start_blocking_portal
from axe_playwright_python.sync_playwright import Axe
from mcp import Client
from mcp.client.extension import advertise
from mcp.server.apps import APP_MIME_TYPE, EXTENSION_ID
from playwright.sync_api import expect

from browsers import Watched
from kbhub.memory.lists import memories
from kbhub.server.server import KbhubServer

pytestmark = pytest.mark.slow

HOST = Path(__file__).with_name("host.html")

POLICY = (
    "default-src 'none'; script-src 'self' 'unsafe-inline'; style-src 'self' 'unsafe-inline'; img-src 'self' data:; "
    "media-src 'self' data:; object-src 'none'; connect-src 'none'"
)
"""What a host allows a view that declares nothing."""


@pytest.fixture
def server(project, patient):
    """What a client that shows views gets; it is in another thread, as playwright has a loop in the test's own."""
    client = Client(KbhubServer(project.hub()), extensions=[advertise(EXTENSION_ID, {"mimeTypes": [APP_MIME_TYPE]})])
    with start_blocking_portal() as portal, portal.wrap_async_context_manager(client):
        sent = {"mode": "json", "by_alias": True, "exclude_none": True}
        yield lambda method, *given: portal.call(getattr(client, method), *given).model_dump(**sent)


@pytest.fixture
def view(server, chromium):
    """Opens a view in a host; tool calls of the view reach the server after the browser has waited for them."""
    context = chromium.new_context()
    tab = context.new_page()
    complaints = []
    tab.on("console", lambda said: complaints.append(said.text) if said.type == "error" else None)
    tab.on("pageerror", lambda error: complaints.append(str(error)))

    def open_view(tool: str, **arguments):
        html = server("read_resource", f"ui://kbhub/{tool}")["contents"][0]["text"]
        secured = html.replace("<head>", f'<head><meta http-equiv="Content-Security-Policy" content="{POLICY}">', 1)
        result = server("call_tool", tool, arguments)
        tab.evaluate("([html, wanted, result]) => open_view(html, wanted, result)", [secured, arguments, result])
        return tab.frame_locator("#view")

    tab.expose_function("callTool", lambda tool, arguments: server("call_tool", tool, arguments))
    tab.set_content(HOST.read_text("utf-8"))
    yield tab, open_view
    assert complaints == []
    context.close()


def test_hits_are_shown_and_read_in_the_client(view):
    tab, open_view = view
    frame = open_view("search", query="rollback")

    expect(frame.locator(".hit").first).to_contain_text("Rolling back")
    frame.locator(".hit summary").first.click()
    expect(frame.locator(".trace tbody tr").first).to_contain_text("keyword")
    assert frame.locator("html").evaluate("root => getComputedStyle(root).colorScheme") == "dark"
    assert frame.locator("body").evaluate("body => getComputedStyle(body).minHeight") == "0px"  # as high as its content
    methods = [message.get("method") for message in tab.evaluate("seen")]
    assert methods[0] == "ui/initialize"
    assert "ui/notifications/initialized" in methods
    expect(tab.locator("#view")).not_to_have_attribute("height", "150")
    frame.locator("[data-read]").first.click()
    expect(frame.locator("#opened-text")).to_contain_text("orchard rollback")
    frame.get_by_role("button", name="Back").click()
    expect(frame.locator(".hit").first).to_be_visible()


def test_memories_are_reviewed_in_the_client(view, project):
    _, open_view = view
    frame = open_view("memories")
    expect(frame.locator(".memory")).to_have_count(2)
    frame.get_by_role("button", name="Confirm The staging").click()
    expect(frame.locator(".memory").first).to_contain_text("1 use")
    frame.get_by_role("button", name="Forget Roll back").click()
    expect(frame.locator(".memory")).to_have_count(1)
    (left,) = memories(project.hub()).memories
    assert (left.title, left.uses) == ("The staging database is wiped on Sundays", 1)


PATHS = (
    *("/", "/?q=rollback", "/documents", "/documents?base=project&folder=people", "/#palette", "/graph?near=1"),
    *("/read?ref=rollback.md:11-13", "/memories", "/memories#one", "/memories#merge", "/gaps", "/health"),
    *("/?mode=ask&q=how+do+I+roll+back", "/nowhere"),
)

RULES = {
    "runOnly": {"type": "tag", "values": ["wcag2a", "wcag2aa", "wcag21a", "wcag21aa", "wcag22aa", "best-practice"]}
}


@pytest.fixture(params=["light", "dark"])
def looked(project, chromium, opened, request):
    """A tab in one of two colour schemes."""
    tab = Watched(chromium, opened, color_scheme=request.param)
    tab.enter()
    yield tab
    tab.context.close()


def settled(tab, path: str):
    """Open a page and wait for what it fetches."""
    page = tab.go(path)
    if path.startswith("/?mode=ask"):
        page.locator("#answer[aria-busy=false]").wait_for()
    if path == "/health":
        page.locator("#audit .summary").wait_for()
    if path == "/#palette":
        page.keyboard.press("Control+k")
        page.keyboard.type("l")
        page.locator(".places small").first.wait_for()
    if path == "/memories#one":
        page.locator(".memory h2 a").first.click()
        page.wait_for_url("**/memories/one?**")
    if path == "/memories#merge":
        for box in page.locator(".memory input").all():
            box.check()
        page.get_by_role("button", name="Merge into one").click()
        page.wait_for_url("**/memories/merge?**")
    return page


def test_no_page_violates_the_guidelines(looked):
    found = {}
    for path in PATHS:
        page = settled(looked, path)
        page.evaluate("document.querySelectorAll('details').forEach(one => one.open = true)")
        violations = Axe().run(page, options=RULES).response["violations"]
        if violations:
            found[path] = [(one["id"], [node["html"][:160] for node in one["nodes"][:3]]) for one in violations]
    assert found == {}


@pytest.mark.parametrize("width", [360, 1280])
def test_all_of_it_is_shown_at_any_width_and_nothing_jumps(project, chromium, opened, width):
    """While a page loads, its parts stay where they appeared (CLS)."""
    path = "knowledge/a-folder/with/long/names/of/its-folders/siren.md"
    project.write(path, f"# Siren {'of the rollback ' * 4}\n\n## Rollback\n")
    project.write("knowledge/list.txt", "not indexed, as the page of health says\n")
    project.hub().sync()
    tab = Watched(chromium, opened, viewport={"width": width, "height": 740})
    tab.context.add_init_script(path=HOST.with_name("layout.js"))
    tab.enter()
    for path in PATHS:
        page = settled(tab, path)
        assert page.evaluate("wide()") == [], path
        assert page.evaluate("cut()") == [], path
        assert page.evaluate("shifts()") < (0.05 if width == 360 else 0.02), path
        assert page.evaluate("document.documentElement.scrollWidth") <= width, path
    tab.context.close()
