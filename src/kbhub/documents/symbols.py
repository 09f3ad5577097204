"""Check whether a source file defines a symbol: Python by its syntax tree, other languages by patterns.

No code is run. A nested symbol is looked up in the lines of the outer one, which are those indented below it.
"""

from __future__ import annotations

import ast
import difflib
import re
import warnings
from collections.abc import Collection, Iterator, Sequence
from functools import cached_property
from typing import Literal

from kbhub.values import struct

Found = Literal["defined", "named", "missing"]
"""The file defines it; only mentions it; does not even mention it."""

GRAMMAR_CHARACTERS = 500_000
"""Characters of the longest Python file that is parsed (0.5 s and 50 MB); longer ones are matched by line."""

MOST_PLACES = 1000
"""Occurrences of a name in a file that are examined."""

LINE_CHARACTERS = 200
"""Characters of a line that are examined on either side of a name; only generated lines are longer."""

NEAR_ENOUGH = 0.6
"""Similarity (0 to 1, difflib's ratio) from which a defined name is suggested."""

_WORD = re.compile(r"[A-Za-z_$][\w$]*")
_COMMENT = re.compile(r"\s*(?://|/\*|\*(?:\s|$)|--(?!\w)|#(?!\[|\s*define\b))")
_CLOSING = re.compile(r"\s*[\])}{]")


@struct
class Lookup:
    """The result of looking up a symbol."""

    found: Found
    symbol: str = ""
    """The first of the names that is not defined in the expected scope."""
    near: str = ""
    """A similar name that is defined there."""


class Code:
    """A source file in which symbols are looked up; its suffix determines the language."""

    def __init__(self, path: str, text: str) -> None:
        self._text = text
        self._suffix = path.lower().rpartition(".")[2]

    def look_up(self, symbols: Sequence[str]) -> Lookup:
        """Look up a symbol: names, each nested in the previous one (`Outer.inner` is two)."""
        parts = [part for symbol in symbols for part in re.split(r"::|\.", symbol)]
        names = [name for part in parts if (name := part.strip("() \t"))]
        if self._tree is not None:
            lookup = _in_python(self._tree, names)
        elif (language := _LANGUAGES.get(self._suffix)) is not None:
            lookup = _in_lines(self._lines, language, names)
        else:
            missing = next((name for name in names if not self._is_named(name)), None)
            return Lookup("missing", missing) if missing else Lookup("defined")
        if lookup.found != "defined" and not self._is_named(lookup.symbol):
            return Lookup("missing", lookup.symbol, lookup.near)
        return lookup

    @cached_property
    def _tree(self) -> ast.Module | None:
        return _parsed(self._text) if self._suffix in ("py", "pyi") else None

    @cached_property
    def _lines(self) -> list[str]:
        return self._text.splitlines()

    def _is_named(self, name: str) -> bool:
        return re.search(rf"(?<!\w){re.escape(name)}(?!\w)", self._text) is not None


# -- Python ------------------------------------------------------------------------------------------------------------


def _parsed(text: str) -> ast.Module | None:
    """Parse Python; None if it is invalid, for another version, or too long."""
    if len(text) > GRAMMAR_CHARACTERS:
        return None
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # such as invalid escapes in the user's code
            return ast.parse(text)
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return None


def _in_python(tree: ast.Module, names: Sequence[str]) -> Lookup:
    scopes: list[ast.AST] = [tree]
    for name in names:
        definitions = [definition for scope in scopes for definition in _defined_in(scope)]
        inner = [node for defined, node in definitions if defined == name]
        if not inner:
            return _undefined(name, {defined for defined, _ in definitions})
        scopes = inner
    return Lookup("defined")


def _undefined(name: str, defined: Collection[str]) -> Lookup:
    near = difflib.get_close_matches(name, defined, n=1, cutoff=NEAR_ENOUGH)
    return Lookup("named", name, near[0] if near else "")


def _defined_in(scope: ast.AST) -> Iterator[tuple[str, ast.AST]]:
    """Yield the names that a module, class or function defines, without imported ones."""
    pending = list(ast.iter_child_nodes(scope))
    while pending:
        node = pending.pop()
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
            yield node.name, node
            if isinstance(scope, ast.ClassDef) and not isinstance(node, ast.ClassDef):
                yield from _attributes(node)
            continue
        if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store):
            yield node.id, node
        if not isinstance(node, ast.Lambda | ast.ListComp | ast.SetComp | ast.DictComp | ast.GeneratorExp):
            pending.extend(ast.iter_child_nodes(node))


def _attributes(method: ast.AST) -> Iterator[tuple[str, ast.AST]]:
    """Yield the attributes that a method sets on its object."""
    for node in ast.walk(method):
        if isinstance(node, ast.Attribute) and isinstance(node.ctx, ast.Store):
            owner = node.value
            if isinstance(owner, ast.Name) and owner.id in ("self", "cls"):
                yield node.attr, node


# -- other languages ---------------------------------------------------------------------------------------------------


@struct
class _Rule:
    """Patterns of a line that defines a name: its text before and after the name."""

    before: re.Pattern[str]
    """Matches up to the name."""
    after: re.Pattern[str]
    inside_only: bool = False
    """Whether it only applies within another definition."""


@struct
class _Language:
    rules: tuple[_Rule, ...]
    reopens: str = r"(?!)"
    """Pattern before the name of a symbol on a line that adds members to it, such as Rust's `impl`."""
    outer: str = r"(?!)"
    """Pattern before a member that is defined outside its outer symbol, whose name replaces `OUTER`."""


_ANY = re.compile("")


def _rule(before: str, after: str = "", *, inside: bool = False) -> _Rule:
    return _Rule(re.compile(f"(?:{before})$"), re.compile(after) if after else _ANY, inside)


def _words(words: str) -> _Rule:
    return _rule(rf"(?:^|[^\w.$])(?:{words})[ \t]+")


_NO_TYPE = (
    r"(?!(?:return|new|else|throw|await|yield|case|goto|delete|import|using|package|if|while|for|switch|echo|"
    r"raise|print|in|is|as|not|and|or|assert|use|typeof|do)\b)"
)
_TYPED = _rule(
    rf"^[ \t]*{_NO_TYPE}(?:[\w.<>\[\],?&*:@~$]+[ \t]+)+[*&]*(?:\w+(?:<[^<>]*>)?::)*~?", r"[ \t]*(?:\(|=(?!=)|;|\{|\[)"
)
_UNTYPED = _rule(
    r"^[ \t]*(?:(?:public|private|protected|internal|explicit|constexpr|inline|static)[ \t]+)*",
    r"[ \t]*\([^;]*$",
    inside=True,
)
_INLINE = _rule(r"\{(?:[^(){}]*,)?[ \t]*", r"[ \t]*[,}=(]", inside=True)
_MEMBER = _rule(r"^[ \t]*(?:pub(?:\([^)]*\))?[ \t]+)?", r"[ \t]*(?:[,({=:]|$)", inside=True)

_SCRIPT = _Language(
    (
        _words(r"class|interface|type|enum|namespace|module|function\*?|const|let|var"),
        _rule(
            r"^[ \t]*(?:(?:export|default|public|private|protected|static|async|get|set|readonly|override|abstract|"
            r"declare|accessor)[ \t]+)*\*?#?",
            r"[?!]?(?:<[^()]*>)?[ \t]*(?:\((?:(?!=>|function)[^;])*\{[^;]*$|\((?:(?!=>|function)[^;{}])*\)[^;{}()]*\{|"
            r"\([^;]*\)[ \t]*:[^;=]*;?$|:|=(?![=>]))",
        ),
        _rule(r"\b(?:exports|prototype|this)\.", r"[ \t]*=(?!=)"),
        _MEMBER,
        _INLINE,
    ),
    outer=r"\bOUTER\.(?:prototype\.)?",
)
_GO = _Language(
    (
        _words("func|type|const|var"),
        _rule(r"^func[ \t]*\([^)]*\)[ \t]*"),
        _rule(r"^[ \t]+", r"[ \t]*(?:=(?!=)|$)|[ \t]+[\w*\[\]]"),
        _rule(r"^[ \t]+", r"\(", inside=True),
    ),
    outer=r"^func[ \t]*\([^)]*\bOUTER\b[^)]*\)[ \t]*",
)
_RUST = _Language(
    (_words(r"fn|struct|enum|trait|type|const|static|mod|union|macro_rules!|mut"), _MEMBER, _INLINE),
    reopens=r"\bimpl\b.*",
)
_JVM = _Language(
    (_words(r"class|interface|@interface|enum|record|struct|delegate|namespace"), _TYPED, _UNTYPED, _MEMBER, _INLINE)
)
_C = _Language(
    (
        _words(r"class|struct|enum|union|namespace|concept|using|define"),
        _TYPED,
        _UNTYPED,
        _rule(r"^[ \t]*\}[ \t]*", r"[ \t]*;"),
        _MEMBER,
        _INLINE,
    ),
    outer=r"\bOUTER(?:<[^<>]*>)?::~?",
)
_RUBY = _Language(
    (
        _rule(r"\bdef[ \t]+(?:\w+\.)?"),
        _rule(r"^[ \t]*(?:class|module)[ \t]+(?:\w+::)*"),
        _rule(r"^[ \t]*", r"[ \t]*=(?![=~])"),
        _rule(r"\b(?:attr_\w+|scope|has_\w+|belongs_to|alias_method|delegate)\b.*:"),
    )
)
_PHP = _Language(
    (
        _rule(r"\bfunction[ \t]+&?"),
        _words("class|interface|trait|enum|const|case"),
        _rule(r"\b(?:public|private|protected|static|var|readonly)\b[^;()]*\$"),
        _rule(r"\bdefine\(['\"]"),
    )
)
_KOTLIN = _Language(
    (
        _words("class|interface|object|typealias|val|var|fun|trait|def|type"),
        _rule(r"\b(?:fun|val|var)\b[^=({]*[ .>]"),
        _MEMBER,
        _INLINE,
    )
)
_SWIFT = _Language(
    (_words("func|class|struct|enum|protocol|actor|let|var|typealias|case|associatedtype"),),
    reopens=r"\bextension[ \t]+",
)
_SHELL = _Language(
    (_words("function"), _rule(r"^[ \t]*", r"[ \t]*\(\)|="), _words("export|local|declare|alias|readonly"))
)
_PYTHON = _Language((_words("def|class"), _rule(r"^[ \t]*", r"[ \t]*(?::[^=]+)?=(?!=)")))

_LANGUAGES: dict[str, _Language] = {
    **dict.fromkeys(("js", "jsx", "ts", "tsx", "mjs", "cjs", "mts", "cts", "vue", "svelte"), _SCRIPT),
    **dict.fromkeys(("java", "cs"), _JVM),
    **dict.fromkeys(("c", "h", "cc", "cpp", "cxx", "hh", "hpp", "hxx", "m", "mm"), _C),
    **dict.fromkeys(("kt", "kts", "scala"), _KOTLIN),
    **dict.fromkeys(("sh", "bash", "zsh"), _SHELL),
    **dict.fromkeys(("py", "pyi"), _PYTHON),
    "go": _GO,
    "rs": _RUST,
    "rb": _RUBY,
    "php": _PHP,
    "swift": _SWIFT,
}
"""Lower-case suffix of a file name → its language's definition rules."""


def _in_lines(lines: Sequence[str], language: _Language, names: Sequence[str]) -> Lookup:
    """Look up names, each within a definition of the previous one."""
    blocks: list[tuple[int, int]] = [(0, len(lines))]
    outer = ""
    for name in names:
        starts = [
            line for first, end in blocks for line in _definitions(lines, first, end, language, name, bool(outer))
        ]
        if outer and language.outer != r"(?!)":
            before = re.compile(f"(?:{language.outer.replace('OUTER', re.escape(outer))})$")
            starts += [line for line, left, _ in _places(lines, 0, len(lines), name) if before.search(left)]
        if not starts:
            return _undefined(name, _names_in(lines, blocks, language))
        reopens = re.compile(f"(?:{language.reopens})$")
        starts += [line for line, left, _ in _places(lines, 0, len(lines), name) if reopens.search(left)]
        blocks = [(line, _end_of(lines, line)) for line in dict.fromkeys(starts)]
        outer = name
    return Lookup("defined")


def _definitions(
    lines: Sequence[str], first: int, end: int, language: _Language, name: str, inside: bool
) -> Iterator[int]:
    for line, left, right in _places(lines, first, end, name):
        if any(_defines(rule, left, right, inside) for rule in language.rules):
            yield line


def _defines(rule: _Rule, left: str, right: str, inside: bool) -> bool:
    return (inside or not rule.inside_only) and bool(rule.before.search(left)) and bool(rule.after.match(right))


def _names_in(lines: Sequence[str], blocks: Sequence[tuple[int, int]], language: _Language) -> list[str]:
    """Names defined by keywords such as `class`, for suggestions."""
    names: set[str] = set()
    for first, end in blocks:
        for line in lines[first:end][:MOST_PLACES]:
            for match in _WORD.finditer(line[:LINE_CHARACTERS]):
                if language.rules[0].before.search(line[: match.start()]):
                    names.add(match[0])
    return sorted(names)


def _places(lines: Sequence[str], first: int, end: int, name: str) -> Iterator[tuple[int, str, str]]:
    """Yield (line index, text before, text after) for each occurrence of a name outside comment lines."""
    word = re.compile(rf"(?<!\w){re.escape(name)}(?!\w)")
    count = 0
    for number in range(first, end):
        line = lines[number]
        if name not in line or _COMMENT.match(line):
            continue
        for match in word.finditer(line):
            count += 1
            if count > MOST_PLACES:
                return
            start, stop = match.span()
            # A NUL keeps rules from taking the cut for the beginning of the line.
            left = line[:start] if start <= LINE_CHARACTERS else f"\0{line[start - LINE_CHARACTERS : start]}"
            yield number, left, line[stop : stop + LINE_CHARACTERS]


def _end_of(lines: Sequence[str], start: int) -> int:
    """Index of the line after a definition, which includes the lines indented below it and its closing brackets."""
    indent = _indent(lines[start])
    for number in range(start + 1, len(lines)):
        line = lines[number]
        if line.strip() and _indent(line) <= indent and not _CLOSING.match(line):
            return number
    return len(lines)


def _indent(line: str) -> int:
    return len(line) - len(line.lstrip())
