"""HTML as Markdown: structure is kept, chrome is dropped, and no input is too odd or too deep."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from documents.soundness import check_soundness
from kbhub.extensions.formats.html import markdown_of, read_html


@pytest.mark.parametrize(
    ("html", "markdown"),
    [
        ("<h1>Use <em>it</em></h1><p>Now.", "# Use it\n\nNow."),
        ("<h2><p>In a paragraph</p></h2><h3>Not closed<p>text", "## In a paragraph\n\n### Not closed\n\ntext"),
        ("<p>one\n  two<br>three</p>four", "one two\nthree\n\nfour"),
        ("<b>bo</b><b>ld</b> <i> it </i> <strong></strong>x", "**bold** *it* x"),
        ("<b>one<p>two", "**one**\n\n**two**"),
        ("<code>a`b</code> <kbd>Ctrl</kbd>", "``a`b`` `Ctrl`"),
        ('<a href="a b.html#c">t</a> <a href="(x)">u</a>', "[t](a%20b.html#c) [u](%28x%29)"),
        ('<a href="#x">here</a> <a href="javascript:x()">there</a>', "here there"),
        ('<h2>Name<a class="headerlink" href="#name">¶</a></h2>', "## Name"),
        ('<a href="x.html"><h3>Card</h3><p>text</a>', "### [Card](x.html)\n\ntext"),
        ('a<sup><a href="#fn1">[1]</a></sup> 10<sup>-3</sup> H<sub>2</sub>O', "a[^1] 10^-3 H2O"),
        ('<a class="sdfootnotesym" href="#sdfootnote1anc">1</a>The note', "[^1]The note"),
        ('see <img src="x.png" alt="the map"> now', "see the map now"),
        ("<ul><li>a<li>b<ul><li>c</ul></ul>d", "- a\n- b\n  - c\n\nd"),
        ("<ol start=9><li>a<li><p>b<p>c</ol>", "9. a\n10. b\n\n    c"),
        ("<li>no list<p>around", "- no list\n\n  around"),
        ("<ul><li><input type=checkbox checked>done</ul>", "- [x] done"),
        ("<blockquote><p>a<p>b</blockquote><blockquote>c</blockquote>", "> a\n>\n> b\n\n> c"),
        ("<dl><dt>t<dd>d<dd>e<dt>u<dd>f</dl>", "t\n: d\n: e\n\nu\n: f"),
        ('<pre><code class="language-py">x\n  y</code></pre>', "```py\nx\n  y\n```"),
        ('<div class="highlight-sh"><pre>```\n</pre></div>', "````sh\n```\n````"),
        ("<ul><li>a<pre>x\n\ny</pre></ul>", "- a\n\n  ```\n  x\n\n  y\n  ```"),
        ("a<hr>b", "a\n\n***\n\nb"),
        ("&lt;b&gt; &amp;amp; a < b &eacute; &#x41;", "<b> &amp; a < b é A"),
        ("<p># a<p>1. b<p>- c<p>> d<p>| e<p>---<p>```", "\\# a\n\n1\\. b\n\n\\- c\n\n\\> d\n\n\\| e\n\n\\---\n\n\\```"),
        ("<p>&lt;!-- a<p>[r]: x<p>[[n]] [a](b)", "\\<!-- a\n\n\\[r]: x\n\n\\[[n]] [a]\\(b)"),
        ("a<script>if (a<b) x()</script><style>p{}</style><!-- no --><template>no</template>b", "a b"),
        ("<nav><ul><li>Home</ul></nav><p>text", "text"),
        ("<svg><text>label</text></svg>soft\u00adhyphen", "labelsofthyphen"),
    ],
)
def test_elements_become_markdown(html, markdown):
    assert markdown_of(html) == markdown


@pytest.mark.parametrize(
    ("html", "markdown"),
    [
        ("<tr><th>a<th>b<tr><td>c|d<td>e<br>f", "| a | b |\n| --- | --- |\n| c\\|d | e<br>f |"),
        ("<tr><th colspan=2>a<th>b<tr><td>1<td>2<td>3", "| a |  | b |\n| --- | --- | --- |\n| 1 | 2 | 3 |"),
        ("<tr><td>k<td>v<tr><td rowspan=2>a<td>1<tr><td>2", "| k | v |\n| --- | --- |\n| a | 1 |\n| a | 2 |"),
        ("<caption>C</caption><tr><td>a<td>b", "C\n\n| a | b |\n| --- | --- |"),
        ("<tr><td>a<td><ul><li>x<li>y</ul>", "| a | - x<br>- y |\n| --- | --- |"),
        ("<tr><td><h2>Card</h2><p>text", "## Card\n\ntext"),
        ("<tr><td>side<td><table><tr><td>a<td>b</table>", "side\n\n| a | b |\n| --- | --- |"),
        ("<tr><td>a<td>", "| a |  |\n| --- | --- |"),
        ("<tr><td><tr><td>", ""),
    ],
)
def test_tables_become_pipe_tables(html, markdown):
    """Spans fill their cells, a table in a cell or around headings is only an arrangement."""
    assert markdown_of(f"<table>{html}</table>") == markdown


def test_a_page_has_its_title_metadata_and_structure_unclosed_navigation_is_kept_and_odd_bytes_a_problem():
    """What the head of a page says becomes title, tags and front matter; lines count in the Markdown."""
    document = read_html(
        "a/b.html",
        b"<title>The &amp; title</title><meta name=keywords content='x, y z'><meta name=author content=Ann>"
        b"<h1>First</h1><p>Text <a href='../c.md#d'>c</a><pre># no</pre><table><tr><td>1<td>2</table>",
    )

    assert document.title == "The & title"
    assert document.tags == ("x", "y z")
    assert document.front_matter == {"author": "Ann"}
    assert [(heading.level, heading.text, heading.line) for heading in document.headings] == [(1, "First", 1)]
    assert document.fences == ((5, 7),)
    assert document.tables == ((9, 10),)
    assert [(link.target, link.fragment, link.line) for link in document.links] == [("../c.md", "d", 3)]
    assert read_html("a/my-page.html", b"<p>x").title == "my page"
    assert read_html("a.html", b"<h2>Named</h2>").title == "Named"

    assert markdown_of("<nav><p>menu<p>text") == "menu\n\ntext"
    assert markdown_of("<nav>only</nav>") == "only"
    assert "Not valid UTF-8" in read_html("a.html", b"<p>a\xffb").problems[0]
    assert "'nonsense' is unknown" in read_html("a.html", b"<meta charset=nonsense>\xff").problems[0]
    assert read_html("a.html", b"<meta charset=euc-jp>a\xff").problems


@pytest.mark.parametrize(
    ("data", "text"),
    [
        ("<p>é漢".encode(), "é漢"), ("<p>é漢".encode("utf-16"), "é漢"),
        (b"\xef\xbb\xbf<meta charset=latin1><p>\xc3\xa9", "é"),
        (b"<meta charset=iso-8859-1><p>\xe9 \x93x\x94", "é “x”"),
        (b"<meta http-equiv=content-type content='text/html; charset=shift_jis'>\x93\xfa", "日"),
        (b"<?xml version='1.0' encoding='koi8-r'?><p>\xc4\xc1", "да"), (b"<meta charset=utf-16><p>\xc3\xa9", "é"),
        (b"<meta charset=punycode><p>\xc3\xa9", "é"), (b"<meta charset=hex><p>\xc3\xa9", "é"),
    ],
)  # fmt: skip
def test_the_encoding_is_read_as_browsers_do(data, text):
    """A byte order mark comes first, then what the page declares, then UTF-8."""
    document = read_html("a.html", data)
    assert document.lines == (text,)
    assert document.problems == ()


TAGS = ("p", "div", "h1", "h2", "ul", "ol", "li", "dl", "dt", "dd", "blockquote", "pre", "code", "table", "tr", "td",
        "th", "caption", "b", "i", "a href=x", "a href=#x", "sup", "q", "br", "hr", "img alt=i", "nav", "title",
        "td rowspan=3", "th colspan=2", "li/", "p/", "section", "input type=checkbox", "template")  # fmt: skip
pieces = st.one_of(
    st.sampled_from([f"<{tag}>" for tag in TAGS]),
    st.sampled_from([f"</{tag.split()[0].rstrip('/')}>" for tag in TAGS]),
    st.sampled_from(("word", " ", "\n", "a|b", "# x", "[[", "](", "`", "&amp;", "<", "<!--", "-->", "<![CDATA[", "]]>",
                     "<!x", "<?", ">", "<script>", "</script>", "&#99999999999;", "\0", "漢", "<a b='", '"')),
)  # fmt: skip
pages = st.lists(pieces, max_size=60).map("".join)


@given(st.one_of(st.binary(max_size=300), pages.map(str.encode), st.text(max_size=200).map(str.encode)))
def test_any_bytes_parse(data):
    check_soundness(read_html("a.html", data))


tags_alone = st.sampled_from([f"<{tag}>" for tag in TAGS if tag not in ("nav", "template", "title", "pre", "code")])
closing = st.sampled_from([f"</{tag.split()[0].rstrip('/')}>" for tag in TAGS])


@given(st.lists(st.one_of(tags_alone, closing, st.just("word ")), max_size=60))
def test_no_word_is_lost(parts):
    """However tags are nested, each word outside of chrome is in the Markdown (spanning cells may repeat it)."""
    assert markdown_of("".join(parts)).count("word") >= parts.count("word ")


WORST = (
    "<", "<!--", "<![", "<!", "<?", "</", "<a", "<a b='", "<a =", "<div>", "<ul><li>x", "<ol start=99999><li>x",
    "<table><tr><td>", "<table><tr><td>x", "<blockquote>x", "<b>", "<b><i></b>x", "<a href=x>", "</ul>", "<ul></ol>",
    "<dl><dd>", "<pre>", "<script>", "<title>", "&", "&#1", "<td rowspan=1000 colspan=1000>x", "<h1> <div>", "[[",
    "<code>`", "<br>", "<![CDATA[", "<table><caption>", "<ol><li><pre>a\n", "<table><tr><td rowspan=9>x</table>",
    "</script",
)  # fmt: skip


@pytest.mark.parametrize("characters", [20_000, pytest.param(1_000_000, marks=pytest.mark.slow)])
@pytest.mark.parametrize("piece", WORST)
def test_repeated_markup_grows_no_faster_than_its_size(piece, characters):
    """A page of one piece over and over comes out in the time limit of a test, at most some times as long."""
    count = characters // len(piece)
    for start in ("", "<table><tr><td>", "<script>"):
        assert len(markdown_of(f"{start}{piece * count}{start and '>'}")) < 5 * characters
