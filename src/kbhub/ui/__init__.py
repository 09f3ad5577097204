"""The page for people: a hub in the browser of this machine. Translates and decides nothing.

`serve` opens it, `access` keeps others out, `app` has its routes, `site` what the pages share; then there is a module
per page.
"""
