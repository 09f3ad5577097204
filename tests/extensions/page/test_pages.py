"""What a person does on each page, in a real browser."""

import json
import re
import time

import pytest
from playwright.sync_api import expect

from browsers import Watched, served
from kbhub.editing.audit import audit
from kbhub.memory.changes import remember
from kbhub.memory.lists import memories
from ollama_server import running_ollama

pytestmark = pytest.mark.slow


def test_filters_are_facets_and_chips_and_a_word_that_occurs_nowhere_is_named(shared_tab):
    page = shared_tab.go("/?q=rollback+deploy")
    page.locator(".facets").get_by_role("link", name="#ops").click()
    expect(page.locator("#q")).to_have_value("rollback deploy tag:ops")
    expect(page.locator(".hit")).to_have_count(1)
    page.locator(".chips a").click()
    expect(page.locator("#q")).to_have_value("rollback deploy")
    page = shared_tab.go("/?q=rollback+lang:qwertzuiop")
    expect(page.get_by_text("No document contains")).to_contain_text("lang:qwertzuiop")
    expect(page.locator(".chips")).to_have_count(0)  # it is no filter here
    expect(page.locator(".verdict")).to_have_text("Verdict: none.")
    expect(shared_tab.go("/gaps").locator("td .verdict.none").first).to_have_text("none")


def test_a_trace_is_a_bar_of_its_parts(shared_tab):
    page = shared_tab.go("/?q=rollback")
    hit = page.locator(".hit").first
    hit.locator("summary").click()
    parts = hit.locator(".bar rect")
    widths = map(float, parts.evaluate_all("all => all.map(part => part.getAttribute('width'))"))
    score = float(hit.locator(".score").inner_text())
    assert abs(sum(widths) / 100 - score) < 0.01
    expect(hit.locator(".trace tbody tr").first).to_contain_text("keyword")
    expect(hit.locator("details p").first).to_have_text(re.compile("First because .*it ranks (first|second) by"))


def test_everything_is_reached_by_keys(shared_tab):
    """/ to the field, j and Enter to a hit, g and a letter to a page, ? for help."""
    page = shared_tab.go("/memories")
    page.keyboard.press("g")
    page.keyboard.press("s")
    expect(page).to_have_url(f"{shared_tab.opened.origin}/")
    page.locator("main").click(position={"x": 5, "y": 300})
    page.keyboard.press("/")
    expect(page.locator("#q")).to_be_focused()
    page.keyboard.type("rollback")
    expect(page).to_have_url(f"{shared_tab.opened.origin}/?q=rollback&mode=hybrid")
    page.keyboard.press("Escape")
    page.keyboard.press("j")
    expect(page.locator("[data-item].current")).to_have_count(1)
    page.keyboard.press("?")
    expect(page.locator("#keys")).to_be_visible()
    page.keyboard.press("Escape")
    page.keyboard.press("Enter")
    expect(page.locator("article.document")).to_be_visible()


def test_hits_are_walked_with_arrows_and_none_is_fetched_while_one_types_or_passes_it(project, tab):
    """The one that is chosen is shown in its document, with the words of the query marked."""
    tab.go("/?q=rollback").locator(".hit").first.wait_for()
    page = tab.go("/")
    page.clock.install()
    page.clock.pause_at(time.time() + 3600)
    fetched = []
    page.on("request", lambda request: fetched.append(request.url) if "/read?" in request.url else None)
    for typed in ("rollback", "rollback deploy", "rollback"):
        page.locator("#q").fill(typed)
        page.clock.run_for(30)
        expect(page.get_by_role("button", name=f"Save the search {typed}", exact=True)).to_be_visible()
        page.clock.run_for(50)
        expect(page.locator(".hit.current")).to_have_count(1)
    assert fetched == []
    page.clock.run_for(250)
    expect(page.locator("#preview article")).to_contain_text("Rolling back")
    expect(page.locator("#preview mark").first).to_have_text("rollback")
    for key, current in (("ArrowDown", 0), ("ArrowDown", 1), ("ArrowUp", 0)):
        page.keyboard.press(key)
        expect(page.locator(".hit").nth(current)).to_have_class(re.compile("current"))
    page.clock.run_for(250)
    assert len(fetched) == 1
    page.keyboard.press("ArrowUp")
    expect(page.locator("#q")).to_be_focused()
    page.keyboard.press("ArrowDown")
    page.keyboard.press("Enter")
    expect(page.locator("article.document")).to_be_visible()


def test_the_palette_goes_to_pages_commands_documents_and_memories(shared_tab):
    page = shared_tab.go("/read?ref=rollback.md")
    page.keyboard.press("Control+k")
    page.keyboard.type("fails")  # a heading of this document, once and without its title
    expect(page.locator("#places li", has_text="When it fails")).to_have_text("When it fails")
    page.keyboard.press("Escape")
    titles = {"around": "Graph", "take it": "Deploying", "sync": "Health", "on ca": "On call", "staging": "The staging"}
    for typed, title in titles.items():
        page.keyboard.press("Control+k")
        page.keyboard.type(typed)
        page.keyboard.press("Enter")  # before the list has only what fits
        expect(page).to_have_title(re.compile(title))
        page.wait_for_load_state("domcontentloaded")  # the script takes keys from then on
    page.keyboard.press("Control+k")
    expect(page.locator("#places li").first).to_be_visible()
    for key in ("ArrowDown", "ArrowDown", "Enter"):
        page.keyboard.press(key)
    expect(page).to_have_title("Documents · kbhub")
    for key in ("Control+k", "m", "Escape"):
        page.keyboard.press(key)
    expect(page.locator("#palette")).to_be_hidden()


def test_a_search_starts_with_what_was_asked_and_what_changed(project, tab):
    for words in ("who+carries+the+pager", "deploying", "who+carries+the+pager"):
        tab.go(f"/?q={words}")
    page = tab.go("/")
    recent = page.locator(".start section", has_text="Recent searches")
    expect(recent.get_by_role("link")).to_have_text(["who carries the pager", "deploying"])
    expect(page.get_by_role("link", name="Deploying", exact=True)).to_be_visible()
    expect(page.locator(".start .chips")).to_contain_text("#deploy 3")
    page.keyboard.press("ArrowDown")
    page.keyboard.press("Enter")
    expect(page.locator("#q")).to_have_value("who carries the pager")


def test_one_tab_of_a_document_is_shown_at_a_time(shared_tab):
    """By click and by key; one that was found is shown at once."""
    page = shared_tab.go("/read?ref=rollback.md:24-24")
    hand, script = (page.locator(".tabs").get_by_text(text) for text in ("Ring the bell.", "sound --siren"))
    expect(hand).to_be_visible()
    expect(script).to_be_hidden()
    page.get_by_text("By script").click()
    expect(script).to_be_visible()
    expect(hand).to_be_hidden()
    page.get_by_text("By hand").focus()
    page.keyboard.press("Enter")
    expect(hand).to_be_visible()
    page = shared_tab.go("/read?ref=rollback.md:29-29")
    expect(script).to_be_visible()


def test_a_diagram_is_drawn_and_its_text_stays(chromium, shared, shared_tab):
    page = shared_tab.go("/read?ref=rollback.md")
    diagram = page.frame_locator(".diagram")
    expect(diagram.locator("svg")).to_contain_text("by pager")
    expect(diagram.locator("svg")).to_contain_text("On call")
    source = page.get_by_text("flowchart LR")
    expect(source).to_be_hidden()
    page.get_by_text("Source of the diagram").click()
    expect(source).to_be_visible()
    plain = Watched(chromium, shared[1], java_script_enabled=False)
    plain.context.add_cookies(shared_tab.context.cookies())
    expect(plain.go("/read?ref=rollback.md").get_by_text("flowchart LR")).to_be_visible()
    plain.context.close()


def test_documents_have_a_tree_of_folders_and_many_are_listed_in_pages(project, tab):
    project.write("knowledge/people/away/leave.md", "---\ndate: 2024-05-01\nstatus: Accepted\n---\n# On leave\n")
    for number in range(250):
        project.write(f"knowledge/many/{number:03}.md", f"# Many {number:03}\n")
    for number in range(201):
        project.write(f"knowledge/wide/{number:03}/it.md", f"# Wide {number:03}\n")
    project.hub().sync()
    page = tab.go("/documents")
    page.locator(".tree").get_by_role("link", name="people").click()
    tree = ("project *456", "many *250", "people *3", "away *1", "wide *201", "memory *2")
    expect(page.locator(".tree li")).to_have_text([re.compile(name) for name in tree])
    page.locator(".tree").get_by_role("link", name="away").click()
    expect(page.locator(".tree [aria-current]")).to_have_text("away")
    expect(page.locator(".list li")).to_have_text(re.compile("On leave.*accepted.*leave.md.*2024-05-01", re.DOTALL))
    page.locator(".tree").get_by_role("link", name="many").click()
    expect(page.locator(".list li")).to_have_count(200)
    expect(page.get_by_text("1–200 of 250")).to_be_visible()
    page.get_by_role("link", name="Next").click()
    expect(page.locator(".list li > a").first).to_have_text("Many 200")
    expect(page.locator(".list li")).to_have_count(50)
    page.get_by_role("link", name="Previous").click()
    expect(page.locator(".list li > a").first).to_have_text("Many 000")
    tab.go("/documents?base=project&folder=wide")
    page.locator(".tree").get_by_role("link", name="1 more").click()
    page.get_by_role("link", name="200/").click()
    expect(page.locator(".tree [aria-current]")).to_have_text("200")


def test_a_ref_is_copied_a_file_opens_in_an_editor_and_hits_are_read_one_after_the_other(shared, shared_tab):
    page = shared_tab.go("/read?ref=rollback.md")
    page.locator("[data-copy]").click()
    assert page.evaluate("navigator.clipboard.readText()") == "rollback.md"
    expected = f"vscode://file{shared[0].project}/knowledge/rollback.md:1"
    expect(page.get_by_role("link", name="Open in editor")).to_have_attribute("href", expected)

    page = shared_tab.go("/?q=rollback+deploy")
    first, second = (page.locator(".hit h2 a").nth(number).get_attribute("href") for number in (0, 1))
    page.locator(".hit h2 a").first.click()
    expect(page).to_have_url(f"{shared_tab.opened.origin}{first}")
    page.keyboard.press("n")
    expect(page).to_have_url(f"{shared_tab.opened.origin}{second}")
    page.get_by_role("link", name="Back to results").click()
    expect(page.locator(".hit.current h2 a")).to_have_attribute("href", second)
    page = shared_tab.go("/read?ref=people/alone.md")
    expect(page.locator("#back")).to_be_hidden()
    expect(page.locator("header .chip")).to_have_text(["by Ann, Bob on 2026-01-02 03:04", "reviewed 2026-01-02"])


def test_the_graph_is_drawn(shared_tab):
    page = shared_tab.go("/graph?near=1")
    expect(page.locator("#graph")).to_have_attribute("data-drawn", "4")
    page.get_by_text("Orphans (").click()
    expect(page.get_by_role("link", name="Alone")).to_be_visible()
    shared_tab.go("/graph")
    expect(page.locator("#graph")).to_have_attribute("data-drawn", "3")
    page.get_by_label("orphans").check()
    expect(page.locator("#graph")).to_have_attribute("data-drawn", "6")
    paths = ["readme.md", *(f"locales/{name}/{number}.md" for name in ("en", "fr") for number in (1, 2, 3))]
    groups = page.evaluate("foldersOf", paths)  # below a folder that has nearly all
    assert groups == ["", *["locales/en"] * 3, *["locales/fr"] * 3]
    assert page.evaluate("foldersOf", ["a@b/c.md", "d.md"]) == ["a/b", ""]
    page = shared_tab.go("/graph?around=people/oncall.md")
    expect(page.locator("#graph")).to_have_attribute("data-drawn", "3")


def test_the_graph_stays_still_when_a_document_is_added(project, tab):
    places = "Object.fromEntries(Object.entries(JSON.parse(localStorage['graph  '])))"
    page = tab.go("/graph")
    expect(page.locator("#graph")).to_have_attribute("data-drawn", "3")
    before = page.evaluate(places)
    project.write("knowledge/bell.md", "# Bell\n\nRing it as in [rolling back](rollback.md).\n")
    project.hub().sync()
    tab.go("/graph")
    expect(page.locator("#graph")).to_have_attribute("data-drawn", "4")
    after = page.evaluate(places)
    assert after.pop("bell.md") not in before.values()
    assert after == before
    assert tab.complaints == []


def test_a_search_is_saved_with_a_star(project, tab):
    page = tab.go("/?q=rollback+deploy&mode=keyword")
    star = page.get_by_role("button", name="Save the search rollback deploy")
    star.click()
    expect(star).to_have_attribute("aria-pressed", "true")
    page = tab.go("/")
    saved = page.locator(".start section", has_text="Saved searches")
    saved.get_by_role("link", name="rollback deploy").click()
    expect(page.get_by_label("keyword")).to_be_checked()
    expect(star).to_have_attribute("aria-pressed", "true")
    tab.go("/")
    saved.get_by_role("button").click()
    expect(saved).to_have_count(0)
    page.request.post(f"{tab.opened.origin}/saved?q=", form={"saved": "1"}, headers={"Origin": tab.opened.origin})
    tab.go("/")
    expect(page.get_by_text("Recent searches")).to_be_visible()
    expect(saved).to_have_count(0)
    assert tab.complaints == []


def test_a_kind_of_finding_is_ignored_and_checked_again(project, tab):
    """As `audit.ignore` of the config says, which the command reads, too."""
    page = tab.go("/health")
    page.get_by_role("button", name="Ignore links").click()
    expect(page.get_by_text("Not checked (audit.ignore): links.")).to_be_visible()
    expect(page.get_by_text("missing.md")).to_have_count(0)
    assert json.loads((project.home / ".kbhub.json").read_text()) == {"audit": {"ignore": ["links"]}}
    assert "links" not in audit(project.hub()).checks
    assert audit(project.hub(), checks=["links"]).total == 1
    page.get_by_role("button", name="Check links again").click()
    expect(page.get_by_text("missing.md").first).to_be_visible()
    assert tab.complaints == []


def test_memories_are_confirmed_edited_merged_moved_forgotten_and_restored(project, tab):
    page = tab.go("/memories")
    expect(page.locator(".memory")).to_have_count(2)
    page.get_by_role("link", name="The staging database").click()
    expect(page.locator(".curve")).to_have_count(0)
    page.locator("textarea").fill("The staging database is wiped on Mondays.")
    page.get_by_role("button", name="Save").click()
    page.get_by_role("button", name="Confirm").click()
    (changed,) = [one for one in memories(project.hub(), whole=True).memories if "staging" in one.text]
    assert changed.text == "The staging database is wiped on Mondays."
    assert (changed.uses, changed.by) == (2, "user")
    page.get_by_label("Move to").select_option("user")
    page.get_by_role("button", name="Move").click()
    expect(page.locator(".properties")).to_contain_text("user@")
    (moved,) = memories(project.hub(), scope="user").memories
    assert (moved.id, moved.uses) == (changed.id, 2)
    page.get_by_role("button", name="Forget").click()
    assert tab.dialogs == ["Forget this memory? Its file stays in the trash for a while."]
    expect(page.locator(".memory")).to_have_count(1)
    page.get_by_role("button", name="Restore The staging database").click()
    assert [one.id for one in memories(project.hub(), scope="user").memories] == [changed.id]
    page.get_by_label("Move to").select_option("project")
    page.get_by_role("button", name="Move").click()

    tab.go("/memories")
    forget, merge = (page.get_by_role("button", name=name) for name in ("Forget", "Merge into one"))
    expect(forget).to_be_disabled()
    for box in page.locator(".memory input[type=checkbox]").all():
        expect(merge).to_be_disabled()
        box.check()
    expect(forget).to_be_enabled()
    merge.click()
    expect(page.locator("textarea")).to_have_value(re.compile("Mondays(.|\n)*previous tag|previous tag(.|\n)*Mondays"))
    assert not any(one.superseded_by for one in memories(project.hub()).memories)
    page.locator("textarea").fill("Roll back with the previous tag, but the database is wiped on Mondays.")
    page.get_by_role("button", name="Merge", exact=True).click()
    expect(page.locator(".chain")).to_contain_text("replaces")
    (merged,) = [one for one in memories(project.hub()).memories if not one.superseded_by]
    assert merged.text == "Roll back with the previous tag, but the database is wiped on Mondays."
    assert merged.tags == ("deploy",)
    tab.go("/memories")
    expect(page.locator(".memory").filter(visible=True)).to_have_count(1)
    page.get_by_text("Superseded", exact=True).click()
    for box in page.get_by_role("checkbox").all():
        box.check()
    expect(page.get_by_role("button", name="Merge into one")).to_be_disabled()
    page.locator(".memory h2 a").first.click()
    page.get_by_role("button", name="Undo").click()
    expect(page.locator(".memory").filter(visible=True)).to_have_count(2)
    assert not any(one.superseded_by for one in memories(project.hub()).memories)
    assert tab.complaints == []


def test_superseded_memories_are_neither_counted_nor_proposed(project, tab):
    hub = project.hub()
    first = remember(hub, "Deploy the shop on Tuesdays after the standup.", about=["rollback.md"]).memory
    remember(hub, "Deploy the shop on Thursdays after the standup.", supersedes=[first.id])
    other = remember(hub, "Deploy the shop on Thursdays before the standup.").memory
    project.write("knowledge/rollback.md", "# Rolling back\n\nIt changed.\n")
    hub.sync()
    page = tab.go("/memories")
    expect(page.locator(".summary")).to_contain_text("4 memories, 1 with a changed subject, and 1 superseded.")
    expect(page.locator(".memory")).to_have_count(5)
    expect(page.get_by_role("button", name="Merge Deploy the shop on Tuesdays")).to_have_count(0)
    page = tab.go(f"/memories/merge?id={first.id}&id={other.id}")
    expect(page.get_by_role("alert")).to_contain_text("was replaced")


def test_a_gap_becomes_a_document(project, tab):
    """What is asked in vain is counted; its answer is started on the page, as a file of the base."""
    for wording in ("where is the zeppelin moored", "where is the zeppelin moored?", "zeppelin mooring place") * 3:
        tab.go(f"/?q={wording.replace(' ', '+')}")
    page = tab.go("/gaps")
    expect(page.get_by_role("cell", name="zeppelin mooring place")).to_have_count(1)
    form = {"base": "project", "path": "zeppelin.md", "question": "where is the zeppelin moored?"}
    answer = page.request.post(
        f"{tab.opened.origin}/gaps/start", form=form, headers={"Origin": tab.opened.origin}, max_redirects=0
    )
    assert (answer.status, answer.headers["location"]) == (303, "/read?ref=zeppelin.md")
    assert "# Where is the zeppelin moored" in (project.project / "knowledge/zeppelin.md").read_text()


def test_health_shows_indexing_as_it_happens(project, tab):
    page = tab.go("/health")
    expect(page.locator("#audit summary").first).to_have_text(re.compile(r"^\w+\s+\d+$"))
    expect(page.get_by_text("missing.md").first).to_be_visible()
    for number in range(1500):
        project.write(f"knowledge/many/{number}.md", f"# Many {number}\n\n" + "words of it\n" * 50)
    with page.expect_request("**/health/index"):
        page.get_by_role("button", name="Sync changed files").click()
    expect(page.locator("#indexing")).to_be_visible(timeout=20_000)
    expect(page.locator("#indexing")).to_be_hidden(timeout=60_000)
    tab.go("/health")
    expect(page.locator(".facts").get_by_text("1504 documents")).to_be_visible()
    assert tab.complaints == []


def test_a_long_audit_shows_how_far_it_is(project, tab):
    """Also for fixes; the findings take the place of the bar, and stay until something changes."""
    words = " ".join(f"password{number} = tokens of {number} keys" for number in range(1500))
    for number in range(80):
        project.write(f"knowledge/many/{number}.md", f"# Many {number}\n\n{words}\n\n[a](../Deploy.md)\n")
    project.hub().sync()
    page = tab.go("/health")
    expect(page.locator(".auditing progress")).to_be_visible()
    expect(page.locator("main .summary")).to_contain_text("finding", timeout=60_000)
    assert "finding" in page.request.get(f"{tab.opened.origin}/health/audit").text()
    page.get_by_role("button", name="Fix 80 of them").click(timeout=60_000)
    expect(page.locator(".auditing progress")).to_be_visible()
    expect(page.locator("#audit .summary")).to_contain_text("finding", timeout=60_000)
    expect(page.get_by_role("button", name="of them")).to_have_count(0)
    assert "(../deploy.md)" in (project.project / "knowledge/many/7.md").read_text()
    assert tab.complaints == []


def test_an_answer_comes_with_its_sources_first(shared_tab):
    page = shared_tab.go("/?mode=ask&q=what+do+I+do+when+the+rollback+hangs")
    expect(page.get_by_label("ask")).to_be_checked()
    expect(page.locator("#answer")).to_have_attribute("aria-busy", "false")
    expect(page.locator("#answer .sources a", has_text="Rolling back").first).to_have_text("Rolling back")
    page.locator("#answer .cite").first.click()
    expect(page.locator("article.document")).to_be_visible()
    page = shared_tab.go("/?mode=ask&q=who+brings+the+cake+on+call")
    expect(page.locator("#answer .passage .body p")).to_have_text("Who carries the pager: see rollback.")
    expect(page.locator("#answer .note")).to_have_count(0)


def test_what_a_model_writes_is_streamed(project, chromium):
    config = project.home / ".kbhub.json"
    config.write_text(json.dumps({"answers": {"model": "qwen3:0.6b"}}))
    with running_ollama() as server, served(project, OLLAMA_HOST=server.url) as opened:
        server.say = lambda _body: "Run `orchard rollback` and see deploying [1]."
        tab = Watched(chromium, opened)
        tab.enter()
        page = tab.go("/")
        events = page.request.get(f"{opened.origin}/ask/stream?q=how+do+I+roll+back").text()
        kinds = [line.removeprefix("event: ") for line in events.splitlines() if line.startswith("event: ")]
        assert (kinds[0], set(kinds[1:-1]), kinds[-1]) == ("sources", {"text"}, "answer")
        page = tab.go("/?mode=ask&q=how+do+I+roll+back")
        expect(page.locator("#answer > .body")).to_contain_text("Run orchard rollback")
        expect(page.get_by_text("Written by qwen3:0.6b")).to_be_visible()
        tab.context.close()


def test_opening_is_noted_as_typing_is_not(project, tab):
    page = tab.tab
    page.locator("#q").press_sequentially("rollback")
    expect(page.locator(".hit").first).to_be_visible()
    with page.expect_event("load"):
        page.locator("#q").press("Enter")
    page.locator(".hit h2 a").first.click()
    tab.go("/gaps")
    expect(page.locator("section tbody tr")).to_have_text([re.compile("^rollback.*1 of")])


FILES = 10_374


@pytest.mark.timeout(600)
def test_a_base_of_more_than_ten_thousand_files_is_looked_at_like_a_small_one(environment, chromium):
    """Commands in folders, each linked to the one before."""
    for number in range(FILES):
        folder = f"knowledge/part{number % 23}"
        words = f"What command{number} does to file{number % 97}. See [before](command{number - 23}.md)."
        file = environment.project / folder / f"command{number}.md"
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(f"# command{number}\n\n{words}\n")
    environment.hub().sync()
    with served(environment) as opened:
        tab = Watched(chromium, opened)
        tab.enter()
        page = tab.go("/?q=command5000")
        expect(page.locator(".hit h2").first).to_contain_text("command5000")
        page = tab.go("/documents?base=project")
        expect(page.locator(".list li")).to_have_count(23)
        page.get_by_role("link", name="part7/").click()
        expect(page.locator(".list li").first).to_be_visible()
        page = tab.go("/graph?near=1")
        expect(page.get_by_text(f"{FILES} documents")).to_contain_text("the 5000 with the most links are drawn")
        expect(page.locator("#graph")).to_have_attribute("data-drawn", "5000", timeout=60_000)
        page = tab.go("/health")
        expect(page.locator(".facts").get_by_text(f"{FILES} documents")).to_be_visible(timeout=60_000)
        expect(page.locator("#audit .summary")).to_be_visible(timeout=60_000)
        assert tab.complaints == []
        tab.context.close()
