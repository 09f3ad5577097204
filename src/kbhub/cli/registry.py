"""The commands of the application, in the order in which they are suggested.

Each is named by its import path: cyclopts loads its module, and all that this needs (SQLite, numpy, pydantic), when
the command is parsed, and no other module of commands.
"""

from __future__ import annotations

from cyclopts import App

from kbhub.cli.app import app

__all__ = ["app", "load"]

bases = App(
    name="bases",
    help="List, add, remove and rename your own bases, in ~/.kbhub.json.\n\nWithout a command, `list`.",
    usage="kbhub bases [COMMAND]",
)
context = App(
    name="context",
    help="Say what lies where, for people and agents.\n\nWithout a command, `list`.",
    usage="kbhub context [COMMAND]",
)
log = App(
    name="log",
    help="Show or clear the log of this project's queries. It never leaves this machine.\n\nWithout a command, `show`.",
    usage="kbhub log [COMMAND]",
)

app.command("kbhub.cli.commands.asking:ask", name="ask", usage="kbhub ask [OPTIONS] QUESTION…")
app.command("kbhub.cli.commands.auditing:audit", name="audit", usage="kbhub audit [OPTIONS] [BASE…]")
app.command(bases)
app.command(context)
bases.command("kbhub.cli.commands.bases:list_", name="list", usage="kbhub bases list [OPTIONS]")
bases.command("kbhub.cli.commands.bases:add", name="add", usage="kbhub bases add [OPTIONS] PATH|ID=PATH")
bases.command("kbhub.cli.commands.bases:remove", name="remove", usage="kbhub bases remove [OPTIONS] ID")
bases.command("kbhub.cli.commands.bases:rename", name="rename", usage="kbhub bases rename [OPTIONS] OLD NEW")
bases.command("kbhub.cli.commands.bases:show", name="show", usage="kbhub bases show [OPTIONS] ID")
app.command("kbhub.cli.commands.bases:ls", name="ls", usage="kbhub ls [OPTIONS] [BASE[/PATH]]")
context.command(
    "kbhub.cli.commands.bases:add_context", name="add", usage="kbhub context add [OPTIONS] [BASE[/PATH]] TEXT"
)
context.command(
    "kbhub.cli.commands.bases:list_contexts", name="list", usage="kbhub context list [OPTIONS] [BASE[/PATH]]"
)
context.command(
    "kbhub.cli.commands.bases:remove_context", name=("rm", "remove"), usage="kbhub context rm [OPTIONS] [BASE[/PATH]]"
)
app.command("kbhub.cli.commands.bases:cleanup", name="cleanup", usage="kbhub cleanup [OPTIONS]")
app.command("kbhub.cli.commands.searching:search", name="search", usage="kbhub search [OPTIONS] QUERY…")
app.command("kbhub.cli.commands.basics:read", name="read", usage="kbhub read [OPTIONS] REF…")
app.command("kbhub.cli.commands.indexing:index", name="index", usage="kbhub index [OPTIONS] [BASE…]")
app.command("kbhub.cli.commands.basics:status", name="status", usage="kbhub status [OPTIONS]")
app.command("kbhub.cli.commands.doctor:doctor", name="doctor", usage="kbhub doctor [OPTIONS]")
app.command("kbhub.cli.commands.basics:init", name="init", usage="kbhub init [OPTIONS]")
app.command("kbhub.cli.commands.basics:trust", name="trust", usage="kbhub trust [OPTIONS] [POINTER]")
app.command("kbhub.cli.commands.daemon:serve", name="serve", usage="kbhub serve [OPTIONS]")
app.command("kbhub.cli.commands.daemon:stop", name="stop", usage="kbhub stop [OPTIONS]")
app.command("kbhub.cli.commands.editing:write", name="write", usage="kbhub write [OPTIONS] REF")
app.command("kbhub.cli.commands.editing:delete", name="delete", usage="kbhub delete [OPTIONS] REF")
app.command("kbhub.cli.commands.editing:restore", name="restore", usage="kbhub restore [OPTIONS] [NAME]")
app.command("kbhub.cli.commands.editing:rename", name="rename", usage="kbhub rename [OPTIONS] REF NEW")
app.command("kbhub.cli.commands.evaluating:evaluate", name="eval", usage="kbhub eval [OPTIONS] [DATASET…]")
app.command("kbhub.cli.commands.graph:related", name="related", usage="kbhub related [OPTIONS] REF")
app.command("kbhub.cli.commands.graph:tags", name="tags", usage="kbhub tags [OPTIONS] [TAG…]")
app.command("kbhub.cli.commands.memories:memories_app", name="memories")
app.command("kbhub.cli.commands.memories:remember", name="remember", usage="kbhub remember [OPTIONS] TEXT… | -")
app.command("kbhub.cli.commands.memories:recall", name="recall", usage="kbhub recall [OPTIONS] QUERY…")
app.command("kbhub.cli.commands.memories:forget", name="forget", usage="kbhub forget [OPTIONS] [ID…]")
app.command("kbhub.cli.commands.models:rerank", name="rerank", usage="kbhub rerank [OPTIONS] QUERY FILE…")
app.command("kbhub.cli.commands.models:embed", name="embed", usage="kbhub embed [OPTIONS] TEXT…")
app.command(log)
log.command("kbhub.cli.commands.querylog:show", name="show", usage="kbhub log show [OPTIONS]")
log.command("kbhub.cli.commands.querylog:clear", name="clear", usage="kbhub log clear [OPTIONS]")
app.command("kbhub.cli.commands.querylog:gaps", name="gaps", usage="kbhub gaps [OPTIONS]")
app.command("kbhub.cli.commands.setup:setup", name="setup", usage="kbhub setup [OPTIONS]")
app.command("kbhub.cli.commands.shell:completion", name="completion", usage="kbhub completion [OPTIONS] SHELL")
app.command("kbhub.cli.commands.shell:schema", name="schema", usage="kbhub schema [OPTIONS] [NAME]")
app.command("kbhub.cli.commands.sources:distil", name="distil", usage="kbhub distil [OPTIONS] MODEL [TEXT]")


def load(group: App) -> None:
    """Import every command of a group: in a list of commands, cyclopts describes only those that are loaded."""
    for name, command in group.resolved_commands().items():
        if not name.startswith("-"):
            load(command)
