"""What only a documentation site understands is neither an excerpt nor an answer, and any renderer shows the rest."""

import pytest

from kbhub.documents.markdown import parse_document
from kbhub.documents.shown_text import TAB, readable, renderable

UNSEEN = [
    ('import Table from "@site/src/Table";', ""),
    ("import {\n  A,\n} from '@site/x'", "\n\n"),
    ("export const rows = [\n  1,\n];", "\n\n"),
    ("<AdrTable frontMatter={frontMatter}></AdrTable>", ""),
    ('<Tabs\n  groupId="os"\n>', "\n\n"),
    ("<Grid\n  rows={[\n{ a: [{ b: [{ c: {} }] }] }]}\n/>\n\n  /> \n<Community>\nAsk.", "\n\n\n\n\n\n\nAsk."),
    ("#### <!-- md:option a -->\n\n`a`\n\n:   What it is.\n\nA : b", "\n\n`a`\n\nWhat it is.\n\nA : b"),
    ("Before <Icon name={{ a: 1 }} /> after", "Before  after"),
    ("# Roll back {#undo}", "# Roll back"),
    ("# Roll back {/*undo*/}\n{/* not\nthis */}", "# Roll back\n\n"),
    ('*Undo it.*{ style="display: inline" }', "*Undo it.*"),
    ('<a name="undo"></a>Undo it.', "Undo it."),
    ("one <!-- not\nthis --> two", "one \n two"),
    (":::tip\n\nUse it.\n\n:::", "\n\nUse it.\n\n"),
    (":::warning[Mind this]\nIt hurts.\n:::", "Mind this\nIt hurts.\n"),
    ('!!! note inline "Mind this"\n\n    It hurts.', "Mind this\n\nIt hurts."),
    ('=== "Linux"\n\n    apt', "Linux\n\napt"),
    ("```mermaid\ngraph TD\n```\n\nText.", "\n\n\n\nText."),
    ("```rust\n{{#rustdoc_include ../listings/main.rs:here}}\n```\n{{#include a.md}}\n\nText.", "\n\n\n\n\nText."),
    ("See [the guide][g] and [g].\n\n[g]: guide.md\n[long]:\n  guide.md", "See the guide and g.\n\n\n\n"),
    ("![[diagram.png]]", ""),
    ('{{% alert title="Mind" %}}\nIt {{< param v >}} hurts.\n{{% /alert %}}', "Mind\nIt  hurts.\n"),
    ("{% note %}\n\nIt hurts.\n\n{% endnote %}\n{{< tabs >}}", "\n\nIt hurts.\n\n\n"),
    ("{% if x %}\nOnly *then*.\n{%- endif %}", "\nOnly *then*.\n"),
    ('See [a `b`]({{< ref "b#c" >}}) and ![c]({{ "/c.png" | relative_url }}).', "See a `b` and c."),
    (".. _Guide: https://a.example\n.. _far:\n   https://b.example\n\nText.", "\n\n\n\nText."),
    ("[[TOC]]\n\n[toc]\n\n* x\n{:toc}\n\n[[toc]] [TOC] in text", "\n\n\n\n\n\n\n[[toc]] [TOC] in text"),
    (".. toctree::\n   :titlesonly:\n\n   one\n   two\n\nText.", "\n\n\n\n\n\nText."),
    ("Title\n-----\n\n.. code-block:: sh\n   :caption: x\n\n   run", "Title\n\n\n\n\n\n   run"),
]


@pytest.mark.parametrize(("text", "seen"), UNSEEN)
def test_what_only_a_site_understands_is_not_seen(text, seen):
    assert readable(text) == seen


def test_a_link_that_the_build_of_a_site_computes_leads_to_the_page_that_it_names():
    """What only the build knows is no link."""
    text = """[a]({{< relref "../a.md#x" >}} "A") [b]({% link _docs/b.md %}) [c]({{ '/c/#y' | relative_url }})
[d]({{ site.baseurl }}/d/) [e](/docs/{{< param v >}}/e/) [f]({{ site.repository }}/f) [g]({% post_url 2010-07-21-g %})
[h][]

[h]: {{< ref "h" >}}
"""
    named = [(link.target, link.fragment) for link in parse_document("x.md", text.encode()).links]

    assert named[:3] == [("../a.md", "x"), ("_docs/b.md", ""), ("/c/", "y")]
    assert named[3:] == [("/d/", ""), ("2010-07-21-g", ""), ("h", "")]


@pytest.mark.parametrize(
    "text",
    [
        "```\n```\n```hbs\n{{#let x}}\n```\n```rust\n{{#include a.rs}}\nrun();\n```",
        "```md\n:::tip\n<Foo />\n[g]: guide.md\n```",
        "Write `<Foo />`, `{#id}` and Vec<String>; then {{#if x}}, {#if x}, a[i][j] and [^1].",
        "- [ ] Ask [her] about [it](it.md), [[Notes]] and the import of 'goods'.",
        "Title\n===\n\na ::: b",
        "Press <Ctrl> and then <Enter>, set <Name> to the host; a list of <T extends X>, {.Name} and {{.Name}} in it.",
        'import the data into "warehouse"',
        "export function of the pump is vital.\nMore of it.",
        "Say :on-call: to all.\n\n[WARNING]: stop",
        "A match of [a-z][0-9] counts.",
        "Write `{{< ref >}}`; {{ message }} and ${{ secrets.KEY }} stay.",
    ],
)
def test_code_and_what_looks_similar_stays(text):
    assert readable(text) == text


def test_admonitions_are_quotes_and_tabs_headed_for_a_renderer_and_admonitions_that_nothing_closes_quote_nothing_more():
    """Links keep their definitions, and every line its number."""
    text = '!!! tip\n\n    Do it.\n\n    ```sh\n    ls\n    ```\n\n=== "Linux"\n\n    apt\n\nEnd [x].\n\n[x]: x.md'
    quoted = "> **Tip**\n>\n> Do it.\n>\n> ```sh\n> ls\n> ```\n\n**Linux**\n\napt\n\nEnd [x].\n\n[x]: x.md"
    listed = "1. One\n\n   :::info\n\n   Two.\n\n   :::\n\n2. Three"

    warning = '{{< warning title="Mind" >}}\nIt hurts.\n{{< /warning >}}\nEnd.'
    assert renderable(warning) == "> **Mind**\n> It hurts.\n\nEnd."
    assert renderable("{{< note >}} stays open") == " stays open"
    assert renderable(text) == quoted
    assert renderable(listed) == "1. One\n\n   > **Info**\n   >\n   > Two.\n   >\n\n\n2. Three"

    assert renderable(":::tip\n\nUse it.\n\nMore.") == "**Tip**\n\nUse it.\n\nMore."
    assert len(renderable("::: a\n" * 4_000)) < 100_000
    assert len(renderable("::: a\n" * 4_000 + ":::\n" * 4_000)) < 400_000


def test_tabs_are_quotes_for_the_page():
    """Those of MkDocs and of Docusaurus, apart from what comes after; other renderers have their titles."""
    mkdocs = '=== "One"\n\n    a\n\n=== "Two"\n    b\n\n!!! tip\n    c'
    docusaurus = (
        '<Tabs>\n<TabItem value="a" label="A">\n\nx\n\n</TabItem>\n<TabItem\n  value="b">\nb\n</TabItem>\n</Tabs>'
    )

    shown = [renderable(text, tabs=True).replace(TAB, "@") for text in (mkdocs, docusaurus)]
    assert shown[0] == "> ###### @One\n>\n> a\n\n> ###### @Two\n> b\n\n> **Tip**\n> c"
    assert shown[1] == "\n> ###### @A\n>\n> x\n>\n\n> ###### @b\n>\n> b\n\n"
    assert renderable(mkdocs).startswith("**One**\n\na\n\n**Two**\nb\n")


@pytest.mark.parametrize(
    "part",
    ["<!--", "<A b={[{", '<A b="', "[", "[a", "{#a b=", "import ", ":a-", "[a]: ", "`", "<a id=", "{/* a ", "<A\t/>"],
)
def test_a_hostile_text_takes_no_time(part):
    text = f"{part * 50_000}\n- {' ' * 400_000}-"

    assert readable(text).count("\n") == renderable(text).count("\n") == 1
