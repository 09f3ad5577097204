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
  .filter(one => one.getBoundingClientRect().right > innerWidth + 1)
  .filter(one => !one.closest("pre, .scroll, .body table, .unseen, .skip, svg, .graph"))
  .map(one => one.outerHTML.slice(0, 120))
"""

CUT = """
[...document.querySelectorAll(".top nav a, .hit h2 > :first-child, .places span")]
  .filter(one => {
    const { left, right, height } = one.getBoundingClientRect(), around = one.closest("nav, h2, .places a");
    const end = Math.min(innerWidth, around.getBoundingClientRect().right);
    return left < 0 || right > end + 1 || (height > 40 && !one.textContent.includes(" "));
  })
  .map(one => one.textContent)
"""  # names that are not whole, or of one word in several lines


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


@pytest.mark.parametrize("width", [360, 1280])
def test_all_of_it_is_shown_at_any_width_and_nothing_jumps(project, chromium, opened, width):
    """While a page loads, its parts stay where they appeared (CLS)."""
    path = "knowledge/a-folder/with/long/names/of/its-folders/siren.md"
    project.write(path, f"# Siren {'of the rollback ' * 4}\n\n## Rollback\n")
    project.hub().sync()
    tab = Watched(chromium, opened, viewport={"width": width, "height": 740})
    tab.enter()
    for path in PATHS:
        page = settled(tab, path)
        assert page.evaluate(WIDE) == [], path
        assert page.evaluate(CUT) == [], path
        assert page.evaluate(SHIFTS) < (0.05 if width == 360 else 0.02), path
        assert page.evaluate("document.documentElement.scrollWidth") <= width, path
    tab.go("/").keyboard.press("Control+k")
    page.keyboard.type("l")
    page.locator(".places small", has_text="siren.md").wait_for()
    assert page.evaluate(CUT) == []
    tab.context.close()
