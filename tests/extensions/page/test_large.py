"""A base of more than ten thousand files is looked at like a small one."""

import pytest
from playwright.sync_api import expect

from browsers import Watched, served

FILES = 10_374

pytestmark = [pytest.mark.slow, pytest.mark.timeout(600)]


def test_ten_thousand_files(environment, chromium):
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
