"""When two texts say the same: in the same words, or in the same words in another order.

What could be another point counts as one: a false merge loses a memory, and a missed one is only named as similar.
"""

from __future__ import annotations

import re
from collections.abc import Iterator

from kbhub.index.query.parser import normalise, stems

_SILENT = frozenset({"a", "an", "the", "is", "are", "was", "were", "be", "been", "it", "its", "that", "this"})
"""Words without meaning of their own: articles, forms of "be", pronouns."""

_AROUND = "*\"'“”‘’`()"
_AFTER = ".,;:!?"
_REJECTED = "\0rejected"
_LIST_MARK = re.compile(r"^\s*(?:[-*+>]|#{1,6}|\d+[.)])\s+", re.MULTILINE)


def wording(text: str, *, rejected: bool = False) -> str:
    """Return the normalised words of a text; memories with equal wording are the same. A rejected way is another."""
    plain = normalise(_LIST_MARK.sub("", text)).casefold()
    words = [word for part in plain.split() if (word := _word(part)) and word not in _SILENT]
    return f"{' '.join(words) or plain.strip()}{_REJECTED if rejected else ''}"


def _word(part: str) -> str:
    word = part.strip(_AROUND).rstrip(_AFTER).strip(_AROUND)
    # Identifiers, paths, numbers and operators must match exactly.
    return " ".join(stems(word)) if word.isalpha() and word.isascii() else word


MOST_CHARACTERS, MOST_SENTENCES = 400, 4
"""Length of a text that may repeat another in another order: a few sentences."""

_PART = re.compile(r"`+[^`\n]+`+|[,;:]|[.!?](?=\s|$)|(?:[^\s`,;:.!?]|[,;:.!?](?=[^\s`]))+")
"""A code span, a mark that ends a clause or a sentence, or a word."""

_NEVER = re.compile(r"(?:(?<=[.!?;:,] )|^)(?:please )?(?:do not|don['’]t|never) |\bmust (?:not|never) ", re.IGNORECASE)
"""What forbids, in the imperative and in a rule."""
_FORBIDDEN = "\0"
_MUST = re.compile(r"\b(?:has|have|needs?) to\b", re.IGNORECASE)
_NOT = re.compile(r"(?<=[a-z])n['’]t\b")

_PAST = frozenset({"was", "were"})
_BE = frozenset({"is", "are", "be", "been", "being"}) | _PAST
_GET = frozenset({"get", "gets"})
_BETWEEN = frozenset({"not", "always", "only", "now", "never", "still", "also"})
"""Words between a form of "be" and its participle."""
_EMPTY = "a an the it its this that these those do does please our your my"
_DROPPED = frozenset(_EMPTY.split())
_SPEAKERS = frozenset({"you", "we"})
"""Left out of clauses: before you push, before pushing."""
_FIRST, _SECOND = frozenset({"we", "our", "us", "i", "my"}), frozenset({"you", "your"})

_CONJUNCTIONS = "after although as because before if once since so unless until when whenever where while"
_PREPOSITIONS = """
about above across against along among around at behind below between by during except for from in inside into near off
on onto out outside over per than through to toward towards under up upon via with within without
"""
_CLAUSE, _PHRASE = frozenset(_CONJUNCTIONS.split()), frozenset(_PREPOSITIONS.split())
"""Words that begin a clause or a phrase, which may stand before or after what it belongs to."""
_MARKS = _CLAUSE | _PHRASE

_AND = frozenset({"and", "or", "but", "nor", "then", "&"})

_ENDS = frozenset(".!?;:")

_SAME = {"using": "with", "via": "with", "repo": "repository", "repos": "repository"}
_PARTICIPLES = """
built build chosen choose done do drawn draw driven drive found find given give held hold kept keep made make run run
read read sent send set set reset reset shown show split split taken take thrown throw told tell written write
"""
_BASE = dict(zip(_PARTICIPLES.split()[::2], _PARTICIPLES.split()[1::2], strict=True))
"""Participles that do not end in "ed" → the verb."""

_Form = tuple[object, ...]
"""A sentence or a text without the order that does not matter."""


def repeats(one: str, other: str) -> bool:
    """Return whether two texts say the same, in the same words in another order, active or passive.

    All words must be in both but articles, forms of "be" and the like; so must each word's role, as far as prepositions
    and the order around the verb tell it.
    """
    if max(len(one), len(other)) > MOST_CHARACTERS or "\n" in one.strip() or "\n" in other.strip():
        return False
    said = [{word.casefold() for word in re.findall(r"\w+", text)} for text in (one, other)]
    for first, second in (said, reversed(said)):
        if first & _FIRST and second & _SECOND and not (first & _SECOND or second & _FIRST):
            return False
    return not _forms(one).isdisjoint(_forms(other))


def _forms(text: str) -> set[_Form]:
    """Return the forms that a text may have; two texts say the same if they share one."""
    plain = _MUST.sub("must", _NOT.sub(" not", _NEVER.sub(f" {_FORBIDDEN} ", normalise(text.strip()))))
    sentences = [list[str]()]
    for part in _PART.findall(plain):
        if part not in _ENDS:
            sentences[-1].append(part)
        elif sentences[-1]:
            sentences.append([])
    forms = {_Form()}
    for words in sentences[:MOST_SENTENCES]:
        if words:
            some = list(_of_sentence(words))
            forms = {(*whole, form) for whole in forms for form in some}
    return forms - {()} if len(sentences) <= MOST_SENTENCES else set()


def _of_sentence(words: list[str]) -> Iterator[_Form]:
    """Yield the forms of a sentence: its verb and what is beside it, in order, and its phrases and clauses."""
    core = inside = list[str]()
    phrases, marks = list[tuple[str, list[str]]](), list[str]()
    told, after_be, tools = words[0].casefold() == "we", False, set[str]()
    if _FORBIDDEN in words and "," in words:  # which clause forbids what is not certain
        yield tuple(_reduced(part)[1] for part in words)
        return
    for part, following in zip(words[told:], [*words[told + 1 :], ""], strict=True):
        plain, word = _reduced(part)
        tools |= {word} if part.startswith(("`", "-")) else set()
        if part == _FORBIDDEN:
            phrases.append((part, []))
            continue
        if plain in _BE or (plain in _GET and _is_participle(_reduced(following)[0])):
            after_be = True
            core += ["was"] if plain in _PAST else []
            continue
        if after_be and _is_participle(plain):
            clause = inside is not core and marks[-1] in _CLAUSE
            told, inside = told or not clause, inside if clause else core
            inside.insert(0, word)
        elif part == ",":
            inside = core
        elif plain in _MARKS or (plain == "every" and (inside is core or (inside and marks[-1] in _PHRASE))):
            inside = list[str]()
            phrases.append((word, inside))
            marks.append(plain)
        elif plain not in _DROPPED and (inside is core or plain not in _SPEAKERS):
            inside.append(word)
            marks += ["and"] if word in _AND else []
        if len(inside) == 1 and marks[-1:] == ["every"]:
            inside = core
        after_be = after_be and plain in _BETWEEN
    found = {mark: tuple(some) for mark, some in phrases}
    both = marks.index("and") if "and" in marks else 0
    if len(found) < len(phrases) or 0 < both < len(marks) - 1:  # which phrase belongs to what is not certain
        yield tuple(_reduced(part)[1] for part in words)
        return
    if core[:1] == [*stems("use")] and "to" in found:  # use X to do Y
        core, found["with"] = [*found.pop("to")], tuple(core[1:])
    yield told and not found.keys() & {_FORBIDDEN, "with"}, tuple(core), tuple(sorted(found.items()))
    mark = "by" if told and "by" in found else "with"
    # In "delete users with tokens", nobody says that the tokens do it; a command does.
    if mark in found and (told or not tools.isdisjoint(found[mark])):
        core = [*found.pop(mark), *core]
        yield False, tuple(core), tuple(sorted(found.items()))


def _is_participle(plain: str) -> bool:
    return plain.endswith("ed") or plain in _BASE


def _reduced(part: str) -> tuple[str, str]:
    """Return a word in lower case, empty if it is a name, a number or code, and the word as it is compared."""
    bare = part.strip("`").strip() if part.startswith("`") else part.strip(_AROUND)
    plain = bare.casefold()
    if not (bare.isascii() and bare.isalpha()) or bare[1:] != plain[1:] or part.startswith("`"):
        return "", bare if bare[1:] != plain[1:] or part.startswith("`") else plain
    plain = _SAME.get(plain, plain)
    return plain, plain if plain in _DROPPED | _MARKS else " ".join(stems(_BASE.get(plain, plain)))
