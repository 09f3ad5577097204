"""The page for people: a hub in the browser of this machine. Translates and decides nothing.

`app` has its routes and opens it, `access` keeps others out, `site` has what the pages share; then there is a module
per page.
"""

from kbhub.workspace.extensions import Extension, commands_in

EXTENSION = Extension(
    commands=commands_in("kbhub.extensions.page.commands:", "ui | ui | [OPTIONS] | Open kbhub in the browser."),
    apps={"page": "kbhub.extensions.page.app:serve_for_command"},
)
