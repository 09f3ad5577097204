"""What a document says it is about is looked up in the project: the file, and the symbol as a definition."""

from __future__ import annotations

import os

import pytest

from kbhub.editing.audit import audit
from kbhub.reading.code_references import Code, Sources

PYTHON = '''
import os
from typing import Any as Whatever

LIMIT: int = 3

class Shop:
    """A shop sells(): mentioned in a docstring only."""

    open_until = 18

    def __init__(self) -> None:
        self.stock = {}

    async def sell(self, item):
        def check():
            return LIMIT
        return self.refund(item)

if os.name:
    def conditional(): ...
'''

SOURCES = {
    "py": PYTHON,
    "js": """
export class Cart extends Base {
  #total = 0;
  static async add(item) {
    helper(item);
  }
  get size() { return 1; }
}
const make = (x) => x;
Cart.prototype.clear = function () {};
module.exports.sum = sum;
function* walk() {}
""",
    "ts": """
export interface Order {
  id: string;
  ship(to: Address): Promise<void>;
}
export type Money = number;
enum State { Open, Closed }
abstract class Repo<T> {
  protected abstract find(id: string): T;
  private readonly cache = new Map();
}
""",
    "go": """
package shop

const (
\tMaxItems = 3
)

type Cart struct {
\tItems []string
}

func (c *Cart) Add(item string) error {
\tlog.Printf("Hidden")
\treturn nil
}

func New() *Cart { return nil }
""",
    "rs": """
pub struct Cart {
    pub items: Vec<String>,
}
impl Cart {
    pub fn add(&mut self) {}
}
impl Display for Cart {
    fn fmt(&self) {}
}
macro_rules! cart { () => {} }
pub enum State { Open }
""",
    "java": """
public class Cart<T> {
    private static final int MAX = 3;
    public Cart(int size) {
    }
    public <X> List<String> add(Item item) throws Oops {
        return remove(item);
    }
    record Line(int n) {}
}
""",
    "cs": """
namespace Shop {
    public sealed class Cart : IThing
    {
        public int Count { get; set; }
        public async Task<int> AddAsync(Item item)
        {
            return Other(item);
        }
    }
}
""",
    "c": """
#define LIMIT 3
typedef struct {
    int count;
} cart_t;
static int *cart_add(struct cart *c, int n);
int cart_size(void)
{
    return other(1);
}
""",
    "cpp": """
class Cart {
public:
    Cart();
    virtual int add(int n) const;
};
int Cart::add(int n) const { return helper(n); }
""",
    "rb": """
module Shop
  class Cart
    MAX = 3
    attr_reader :items
    def self.build; end
    def empty?
      other
    end
  end
end
""",
    "php": """<?php
interface Sells {}
final class Cart {
    private const MAX = 3;
    private ?array $items = [];
    public static function add(int $n): void { helper($n); }
}
""",
    "kt": """
data class Cart(val size: Int) {
    private val items = listOf<Int>()
    suspend fun <T> add(item: T) = helper(item)
}
fun Cart.total(): Int = 1
object Registry
""",
    "swift": """
struct Cart {
    var items: [Int]
    func add(_ n: Int) { helper(n) }
}
extension Cart {
    func total() -> Int { 1 }
}
enum State { case open }
""",
    "sh": "deploy() {\n  rollout\n}\nLIMIT=3\nfunction undo { :; }\n",
}


@pytest.mark.parametrize(
    ("language", "defined"),
    [
        (
            "py",
            "LIMIT Shop Shop::open_until Shop::__init__ Shop::stock Shop::sell Shop::sell::check Shop.sell()",
        ),
        ("js", "Cart Cart::add Cart::size Cart::clear make walk sum"),
        ("ts", "Order Order::id Order::ship Money State State::Open Repo Repo::find Repo::cache"),
        ("go", "MaxItems Cart Cart::Items Cart::Add New"),
        ("rs", "Cart Cart::items Cart::add Cart::fmt cart State"),
        ("java", "Cart Cart::MAX Cart::Cart Cart::add Line"),
        ("cs", "Shop Shop::Cart Cart::Count Cart::AddAsync"),
        ("c", "LIMIT cart_t cart_add cart_size"),
        ("cpp", "Cart Cart::add"),
        ("rb", "Shop Shop::Cart Cart::MAX Cart::items Cart::build Cart::empty?"),
        ("php", "Sells Cart Cart::MAX Cart::items Cart::add"),
        ("kt", "Cart Cart::items Cart::add total Registry"),
        ("swift", "Cart Cart::items Cart::add Cart::total State State::open"),
        ("sh", "deploy LIMIT undo"),
    ],
)
def test_definitions_are_found(language, defined):
    """Functions, types, members and constants; in Python, each within its outer one."""
    code = Code(f"x.{language}", SOURCES[language])

    assert {name: code.look_up(name.split("::")).found for name in defined.split()} == dict.fromkeys(
        defined.split(), "defined"
    )


@pytest.mark.parametrize(
    ("language", "named"),
    [
        ("py", "os Whatever refund sells Shop::LIMIT Shop::conditional Shop::check"),
        ("js", "helper Base"),
        ("ts", "Address Promise Map"),
        ("go", "Printf Hidden error"),
        ("rs", "Display Vec"),
        ("java", "remove Oops"),
        ("cs", "Other IThing"),
        ("c", "other"),
        ("cpp", "helper"),
        ("rb", "other"),
        ("php", "helper"),
        ("kt", "helper listOf"),
        ("swift", "helper"),
        ("sh", "rollout"),
    ],
)
def test_a_mention_is_no_definition(language, named):
    """Calls, imports, types of something else and comments do not define a symbol."""
    code = Code(f"x.{language}", SOURCES[language])

    assert {name: code.look_up(name.split("::")).found for name in named.split()} == dict.fromkeys(
        named.split(), "named"
    )


@pytest.mark.parametrize("language", SOURCES)
def test_what_is_not_there_is_missing(language):
    """Neither defined nor named."""
    assert Code(f"x.{language}", SOURCES[language]).look_up(["nowhere_at_all"]).found == "missing"


def test_a_definition_under_a_condition_counts():
    """Where Python would make it."""
    assert Code("x.py", PYTHON).look_up(["conditional"]).found == "defined"


def test_what_was_meant_is_suggested():
    """A typing error in a symbol is told with the symbol."""
    assert Code("x.py", PYTHON).look_up(["Shop", "sel"]).near == "sell"
    assert Code("x.go", SOURCES["go"]).look_up(["Cartt"]).near == "Cart"


def test_python_that_does_not_parse_is_read_as_lines():
    """Python 2, or a file in the middle of an edit."""
    code = Code("x.py", "class A:\n    def b(self):\n        print 'x'\n\nLIMIT = 1\n")

    assert [code.look_up(names).found for names in (["A", "b"], ["LIMIT"], ["x"])] == ["defined", "defined", "named"]


def test_an_unknown_language_is_searched_as_text():
    """As whole words."""
    code = Code("x.yaml", "deploy_key: 1\n")

    assert (code.look_up(["deploy_key"]).found, code.look_up(["deploy"]).found) == ("defined", "missing")


@pytest.mark.parametrize(
    "text", ["(" * 100_000, "-" * 200_000 + "1", "\0", "a." * 100_000 + "b", "f(" + "x(" * 500 + ";"]
)
@pytest.mark.parametrize("name", ["x.py", "x.js", "x.java"])
def test_no_source_file_makes_it_fail(name, text):
    """A clone is a stranger's, and so is its code."""
    assert Code(name, text + "\n" + "x(" * 3000 + "{" * 3000 + ";").look_up(["x", "y"]).found in ("named", "missing")


@pytest.fixture
def sources(environment):
    """The files of the project."""
    environment.write("src/shop.py", PYTHON)
    environment.write("src/big.py", "x = 1\n" * 800_000)
    environment.write("secret.py", "key = 1\n")
    return Sources(environment.project)


@pytest.mark.parametrize(
    "entry", ["src/shop.py", "./src/shop.py", "src/", "src", ".", "src/shop.py::Shop::sell", "src/shop.py::"]
)
def test_what_is_there_has_no_fault(sources, entry):
    """Files, folders and symbols."""
    assert sources.fault(entry) is None


@pytest.mark.parametrize(
    ("entry", "state", "near"),
    [
        ("../x.py", "outside", ""),
        ("/etc/passwd", "outside", ""),
        ("src/../secret.py", "outside", ""),
        ("src/\0.py", "outside", ""),
        ("shop.py", "missing", "src/shop.py"),
        ("src/shops.py::Shop", "missing", "src/shop.py"),
        ("src::Shop", "missing", ""),
        ("src/big.py::x", "unchecked", ""),
        ("src/shop.py::Whatever", "named", ""),
        ("src/shop.py::Shop::seller", "undefined", "src/shop.py::Shop::sell"),
    ],
)
def test_a_fault_says_what_it_is_and_what_was_meant(sources, entry, state, near):
    """Nothing outside of the project is opened."""
    fault = sources.fault(entry)

    assert (fault.state, fault.near) == (state, near)


@pytest.mark.skipif(os.name == "nt", reason="making links asks for a privilege there")
def test_a_link_out_of_the_project_is_not_followed(sources, environment):
    """A clone could hold a link to the user's keys and ask whether a word is in them."""
    (environment.home / "keys.py").write_text("password = 1\n")
    (environment.project / "link.py").symlink_to(environment.home / "keys.py")
    os.mkfifo(environment.project / "pipe.py")

    assert sources.fault("link.py::password").state == "outside"
    assert sources.fault("pipe.py::x").state == "missing"


def test_an_audit_tells_broken_refs_with_their_line(environment):
    """Errors where something is gone, a warning where it is only named."""
    environment.write("src/shop.py", PYTHON)
    refs = ["src/shop.py::Shop::sell", "src/gone.py", "src/shop.py::Shop::buy", "src/shop.py::os", "https://x.org/a"]
    environment.write("knowledge/a.md", "---\nrefs:\n" + "".join(f"  - {one}\n" for one in refs) + "---\n# A\n")
    hub = environment.hub()
    hub.sync()
    report = audit(hub, checks=["refs"])

    assert [(one.line, one.severity, one.message) for one in report.findings] == [
        (4, "error", "`refs` names 'src/gone.py', but the file does not exist."),
        (5, "error", "`refs` names 'src/shop.py::Shop::buy', but the file has no 'buy'."),
        (6, "warning", "`refs` names 'src/shop.py::os', but the file mentions 'os', but does not define it."),
    ]


def test_refs_of_a_base_without_a_project_are_noted_once(environment):
    """Nobody can say what they are relative to."""
    outside = environment.home / "notes"
    outside.mkdir()
    for name in "ab":
        (outside / f"{name}.md").write_text("---\nrefs: [src/gone.py, x.py]\n---\n# N\n")
    hub = environment.hub(bases={"notes": outside})
    hub.sync()
    report = audit(hub, checks=["refs"])

    assert report.findings == ()
    assert report.notes == ("notes: 4 entries of `refs` not checked, because the base belongs to no project.",)
