"""Frames that clients send and others that nobody should, from a seed: what is sent, and what is owed for it."""

import json
import random
from dataclasses import dataclass
from typing import Any

from daemons import META

REFUSALS = (-32700, -32600)

ONE = "one"
"""Exactly one answer, to the id."""
REFUSED = "refused"
"""Exactly one refusal, to the id."""
MAYBE = "maybe"
"""Bytes were changed: at most one answer, to whatever id is left."""
NONE = "none"
"""A notification or an answer: nothing."""


@dataclass(frozen=True)
class Fuzzed:
    """A frame and what is owed for it."""

    data: bytes
    owed: str
    id: Any = None


class Fuzz:
    """Makes frames."""

    def __init__(self, seed: int, *, modern: bool) -> None:
        self.random, self.modern, self.made = random.Random(seed), modern, 0

    def frame(self) -> Fuzzed:
        self.made += 1
        kinds = [getattr(self, name) for name in dir(Fuzz) if name.startswith("make_")]
        return self.random.choice(kinds)()

    def request(self, **changed) -> dict[str, Any]:
        """Make a request in order, but for what is changed in it."""
        choose = self.random.choice
        method, params = choose(
            [
                ("tools/list", {}),
                ("tools/call", {"name": "search", "arguments": {"query": self.text()}}),
                ("tools/call", {"name": "read", "arguments": {"refs": self.text()}}),
                ("tools/call", {"name": self.text(), "arguments": {self.text(): self.value()}}),
                ("tools/call", {"name": choose(["search", "status", "tags"]), "arguments": self.value()}),
                ("resources/list", {"cursor": self.value()}),
                ("resources/read", {"uri": self.value()}),
                ("prompts/get", {"name": self.value(), "arguments": self.value()}),
                ("completion/complete", {"ref": self.value(), "argument": self.value()}),
                ("server/discover", {}),
                ("ping", self.params()),
                (self.text(), self.params()),
            ]
        )
        meta = {"_meta": META | choose([{}, {"progressToken": self.value()}])} if self.modern else {}
        return {"jsonrpc": "2.0", "id": f"f{self.made}", "method": method, "params": {**params, **meta}, **changed}

    def text(self) -> str:
        """Make a string, at times one with half a character."""
        some = ["canary", "deploy.md", "", "é", "😀", "\0", "\ud83d", "\udc00 x", '"', "\\", "a" * 3_000, "../../etc"]
        return "".join(self.random.choices(some, k=self.random.randrange(3)))

    def value(self, depth: int = 0) -> Any:
        kind = self.random.randrange(8 if depth < 3 else 6)
        if kind == 6:
            return [self.value(depth + 1) for _ in range(self.random.randrange(4))]
        if kind == 7:
            return self.params(depth + 1)
        return [None, True, self.random.randrange(-(10**6), 10**20), -0.5, self.text(), 1e300][kind]

    def params(self, depth: int = 0) -> dict[str, Any]:
        return {self.text(): self.value(depth + 1) for _ in range(self.random.randrange(3))}

    def make_request(self) -> Fuzzed:
        made = self.request()
        ascii_only = self.random.random() < 0.5 or "\\ud" in json.dumps(made)
        data = json.dumps(made, ensure_ascii=ascii_only).encode("utf-8", "surrogatepass")
        return Fuzzed(data, ONE, made["id"])

    def make_marked(self) -> Fuzzed:
        made = self.request()
        return Fuzzed(b"\xef\xbb\xbf" + json.dumps(made).encode(), ONE, made["id"])

    def make_id(self) -> Fuzzed:
        number = self.random.choice(
            [self.made + 10**6, -self.made, 10**18 + self.made, f"ü{self.made}", f" {self.made}"]
        )
        return Fuzzed(json.dumps(self.request(id=number)).encode(), ONE, number)

    def make_odd_id(self) -> Fuzzed:
        odd = [None, True, [], {"a": 1}, ["x"], float("inf"), 10**5_000]
        given = self.random.choice(odd)
        text = "9" * 5_000 if given == 10**5_000 else "1e999" if given == float("inf") else json.dumps(given)
        data = json.dumps(self.request(id="ODD")).replace('"ODD"', text).encode()
        return Fuzzed(data, REFUSED)

    def make_fraction(self) -> Fuzzed:
        """A number that is not whole, or half a character: it can be given back."""
        given = self.random.choice([self.made + 0.5, f"{self.made}\ud800"])
        return Fuzzed(json.dumps(self.request(id=given)).encode(), REFUSED, given)

    def make_malformed(self) -> Fuzzed:
        params = [{"params": given} for given in ([], ["a"], "x", 7, True, 0.5)]
        envelopes = [{"jsonrpc": "1.0"}, {"jsonrpc": 2}, {"jsonrpc": None}, {"method": 5}, {"method": []}]
        made = self.request(**self.random.choice([*params, *envelopes, {"method": None}]))
        if made["method"] is None:
            del made["method"]
        return Fuzzed(json.dumps(made).encode(), REFUSED, made["id"])

    def make_deep(self) -> Fuzzed:
        """Nested beyond what is read; the id before or after it."""
        depth = self.random.choice([101, 250, 1_100, 60_000])
        deep = self.random.choice([("[", "]"), ('{"a":', "}")])
        body = f'"method": "tools/list", "params": {{"a": {deep[0] * depth}1{deep[1] * depth}}}'
        number = f'"id": "f{self.made}"'
        text = ", ".join(self.random.sample(['"jsonrpc": "2.0"', body, number], 3))
        return Fuzzed(f"{{{text}}}".encode(), REFUSED, f"f{self.made}")

    def make_wide(self) -> Fuzzed:
        data = json.dumps(self.request(params={"a": "WIDE"})).replace('"WIDE"', f"[{'[],' * 60_000}0]").encode()
        return Fuzzed(data, REFUSED, f"f{self.made}")

    def make_batch(self) -> Fuzzed:
        return Fuzzed(json.dumps([self.request() for _ in range(self.random.randrange(3))]).encode(), REFUSED)

    def make_no_object(self) -> Fuzzed:
        return Fuzzed(self.random.choice([b"7", b'"x"', b"null", b"true", b"[]", b"-1e9"]), REFUSED)

    def make_no_json(self) -> Fuzzed:
        data = json.dumps({**self.request(), "z": "BROKEN"})
        broken = self.random.choice(["NaN", "Infinity", "'x'", "01", "+1", "tru", "", ",", '"\t"'])
        return Fuzzed(data.replace('"BROKEN"', broken).encode(), REFUSED, f"f{self.made}")

    def make_garbage(self) -> Fuzzed:
        data = self.random.randbytes(self.random.randrange(1, 2_000)).replace(b"\n", b"").replace(b'"', b"")
        return Fuzzed(b"\x01" + data, REFUSED)

    def make_cut(self) -> Fuzzed:
        data = json.dumps(self.request()).encode()
        return Fuzzed(data[: self.random.randrange(1, len(data))], MAYBE)

    def make_flipped(self) -> Fuzzed:
        data = bytearray(json.dumps(self.request()).encode())
        for _ in range(self.random.randrange(1, 4)):
            data[self.random.randrange(len(data))] = self.random.choice(b'"\\{}[]:,x\0\xff \xed0')
        return Fuzzed(bytes(data), MAYBE)

    def make_notification(self) -> Fuzzed:
        method = self.random.choice(["notifications/progress", "notifications/roots/list_changed", "nothing"])
        made = {"jsonrpc": "2.0", "method": method, "params": self.params()}
        return Fuzzed(json.dumps(made).encode(), NONE)

    def make_answer(self) -> Fuzzed:
        """An answer to what was never asked, in order or not."""
        said = self.random.choice([{"result": {}}, {"result": 5}, {"error": {"code": 1, "message": "m"}}, {"error": 5}])
        return Fuzzed(json.dumps({"jsonrpc": "2.0", "id": f"a{self.made}", **said}).encode(), NONE)

    def make_blank(self) -> Fuzzed:
        return Fuzzed(self.random.choice([b"", b" ", b"\r", b"\t \r"]), NONE)
