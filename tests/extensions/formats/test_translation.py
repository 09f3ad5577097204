"""Text formats are written as Markdown, each line where it was."""

import pytest

from kbhub.workspace.formats import in_markdown

RST = """
Install
=======

.. _install:
.. _far:
   https://b.example

See :ref:`the guide <guide>`, :doc:`Setup </setup>`, :pep:`440` and `the site
<https://example.org>`_. Call :func:`~shop.api.pay` with ``strict``::

    ```

.. note::

   Once only [1]_.

   .. code-block:: bash
      :caption: shell

      shop pay

.. warning:: Keep the key.
.. tab:: macOS

   #. Open it.

:Since: 3
.. math:: a = b
.. toctree::
   :maxdepth: 1

   setup

.. [1] Per order.
.. versionadded:: 3.2
.. function:: pay(order)

   Pays it.

=====  =====
Code   Says
=====  =====
1      no
=====  =====

.. A comment.
"""
RST_SHOWN = """
# Install


See the guide, [Setup](/setup.rst), PEP 440 and [the
site](https://example.org). Call `pay` with `strict`:
````
```
````
!!! note "Note"

    Once only [1].


    ````bash
    shop pay
    ````
**Warning:** Keep the key.
=== "macOS"

    1. Open it.
**Since:** 3
`a = b`
[1] Per order.
**New in version** 3.2
`pay(order)`

Pays it.
````
=====  =====
Code   Says
=====  =====
1      no
=====  =====
````
"""
ADOC = """
= Shop
:toc:

== Run it [[run]]

NOTE: See xref:setup.adoc[the setup], <<run,above>> and https://example.org[the site^].

.Start
[source,bash]
----
$ shop run
----

* *One* `+a+b+`
** Two
. First

term:: What it is.

|===
|a |b
|===

// A comment.
"""
ADOC_SHOWN = """
# Shop

## Run it

**NOTE:** See [the setup](setup.adoc), above and [the site](https://example.org).

**Start**

```bash
$ shop run
```

* **One** `a+b`
   * Two
1. First

**term:** What it is.

```
|a |b
```
"""
ORG = """
* TODO Shop
:PROPERTIES:
:ID: 1
:END:
See [[file:setup.org][the setup]], =code=, *bold* and /soft/.
#+begin_src sh
shop run
#+end_src
| a | b |
|---+---|
# A comment.
"""
ORG_SHOWN = """
# Shop
See [the setup](setup.org), `code`, **bold** and *soft*.
```sh
shop run
```
| a | b |
|---|---|
"""


def filled(text):
    return [line for line in text.split("\n") if line.strip()]


@pytest.mark.parametrize(
    ("path", "text", "shown"),
    [("a.rst", RST, RST_SHOWN), ("a.adoc", ADOC, ADOC_SHOWN), ("a.org", ORG, ORG_SHOWN)],
    ids=["rst", "adoc", "org"],
)
def test_a_text_format_is_written_as_markdown_line_by_line(path, text, shown):
    written = in_markdown(text, path)
    assert filled(written) == filled(shown)
    assert written.count("\n") == text.count("\n")
    assert in_markdown(text, "a.md") == in_markdown(text, "a.txt") == text


@pytest.mark.parametrize("line", ["Install", "   Once only", "Pays it", "shop pay"])
def test_what_is_said_stays_in_its_line(line):
    at = next(number for number, text in enumerate(RST.split("\n")) if line in text)
    assert line.strip() in in_markdown(RST, "a.rst").split("\n")[at]


@pytest.mark.parametrize("start", range(0, 40, 3))
def test_a_part_of_a_document_is_written_as_far_as_it_tells(start):
    part = "\n".join(RST.split("\n")[start : start + 9])
    assert in_markdown(part, "a.rst").count("\n") == part.count("\n")
