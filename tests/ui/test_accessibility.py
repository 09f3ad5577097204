"""WCAG 2.2 AA as far as a program can tell, from a phone's width on, dark and light, without jumps."""

import pytest
from axe_playwright_python.sync_playwright import Axe

from browsers import Watched

pytestmark = pytest.mark.slow

PATHS = (
    *("/", "/?q=rollback", "/documents?base=project"),
    *("/read?ref=rollback.md:11-13", "/graph?near=1", "/memories", "/gaps", "/health"),
    *("/ask?q=how+do+I+roll+back", "/nowhere"),
)

RULES = {
    "runOnly": {"type": "tag", "values": ["wcag2a", "wcag2aa", "wcag21a", "wcag21aa", "wcag22aa", "best-practice"]}
}

SHIFTS = """
new Promise(done => {
  let sum = 0;
  const add = entry => { if (!entry.hadRecentInput) sum += entry.value; };
  new PerformanceObserver(list => list.getEntries().forEach(add))
    .observe({type: "layout-shift", buffered: true});
  requestAnimationFrame(() => requestAnimationFrame(() => done(sum)));
})
"""


WIDE = """
[...document.body.querySelectorAll("*")]
  .filter(one => one.getBoundingClientRect().right > 361)
  .filter(one => !one.closest("pre, .scroll, .body table, .unseen, .skip, svg, .graph"))
  .map(one => one.outerHTML.slice(0, 120))
"""


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
    if path.startswith("/ask?"):
        page.locator("#answer[aria-busy=false]").wait_for()
    if path == "/health":
        page.locator("#audit .summary").wait_for()
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


def test_a_phone_shows_all_of_it(project, chromium, opened):
    tab = Watched(chromium, opened, viewport={"width": 360, "height": 740})
    tab.enter()
    for path in PATHS:
        page = settled(tab, path)
        wide = page.evaluate(WIDE)
        assert wide == [], path
        assert page.evaluate("document.documentElement.scrollWidth") <= 360, path
    tab.context.close()


def test_nothing_jumps(project, tab):
    """While a page loads, its parts stay where they appeared (CLS below .02)."""
    for path in PATHS:
        page = settled(tab, path)
        assert page.evaluate(SHIFTS) < 0.02, path
