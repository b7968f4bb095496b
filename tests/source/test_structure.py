"""The size of types and of import circles: no type has more than 150 methods and no circle of imports more than 30 files, but for
the exceptions listed here, whose numbers may only fall."""

import re
from collections import Counter
from functools import cache

from conftest import ROOT

CRATES = ROOT / "crates"
METHODS = 150
CIRCLE = 30

# Types with more methods, each with the reason. Lower a number when methods leave; delete the line at 150.
MANY_METHODS = {
    "kernel::Host": (656, "calls on files, memory, processes and sockets are still methods of the whole host"),
    "netstack::Stack": (298, "sending and receiving of each protocol pass packets through the whole stack"),
}
# Crates with a larger circle of imports.
LARGE_CIRCLES = {}

IMPL = re.compile(r"^impl(?:<.*?>)?\s+(?!.*\bfor\b)(?:\w+::)*(\w+)")
METHOD = re.compile(r"^    (?:pub(?:\([^)]*\))?\s+)?(?:const\s+|async\s+|unsafe\s+)*fn\s")


def code(text):
    """Source without comments, contents of strings and the unit tests within."""
    text = re.sub(r"//[^\n]*", "", text)
    text = re.sub(r'b?"(\\.|[^"\\])*"', '""', text)
    return re.split(r"#\[cfg\(test\)\]\s*mod \w+ \{", text)[0]


@cache
def modules(crate):
    """The source files of a crate that are no tests, by module path."""
    src = CRATES / crate / "src"
    found = {}
    for file in sorted(src.rglob("*.rs")):
        path = file.relative_to(src).with_suffix("").parts
        if any(re.search(r"(^|_)tests?$", part) for part in path):
            continue
        if path[-1] in ("mod", "lib", "main"):
            path = path[:-1]
        found["::".join(path)] = code(file.read_text())
    return found


def methods_of(text):
    """Number of methods of each type in `impl` blocks that are not of traits."""
    counts, owner = Counter(), None
    for line in text.splitlines():
        if begun := IMPL.match(line):
            owner = begun.group(1)
        elif line.startswith("}"):
            owner = None
        elif owner and METHOD.match(line):
            counts[owner] += 1
    return counts


def expanded(tree, before=""):
    """The paths of a `use` tree."""
    tree = tree.strip()
    group = re.match(r"^([\w:\s]*?)\{(.*)\}$", tree, re.S)
    if not group:
        name = re.split(r"\s+as\s+", tree)[0]
        return [before + re.sub(r"\s", "", name)] if name else []
    before += re.sub(r"\s", "", group.group(1))
    paths, depth, part = [], 0, ""
    for letter in group.group(2) + ",":
        depth += {"{": 1, "}": -1}.get(letter, 0)
        if letter == "," and depth == 0:
            paths += expanded(part, before)
            part = ""
        else:
            part += letter
    return paths


def absolute(crate, path, module):
    """A path from the root of the crate, as a list; `None` for a path to another crate."""
    parts = path.split("::")
    at = module.split("::") if module else []
    if parts[0] == "crate":
        return parts[1:]
    if "::".join([*at, parts[0]]) in modules(crate):
        return at + parts
    if parts[0] not in ("self", "super"):
        return None
    while parts and parts[0] in ("self", "super"):
        at = at[:-1] if parts[0] == "super" else at
        parts = parts[1:]
    return at + parts


@cache
def exports(crate):
    """What modules re-export: (module, name) -> path from the root."""
    found = {}
    for module, text in modules(crate).items():
        for tree in re.findall(r"\bpub(?:\([^)]*\))?\s+use\s+([^;]+);", text):
            for path in expanded(tree):
                full = absolute(crate, path, module)
                if full:
                    found[module, full[-1]] = full
    return found


def module_of(crate, path):
    """The module in which the item at a path is defined, through re-exports."""
    for _ in range(8):
        at, rest = "", list(path)
        while rest and f"{at}::{rest[0]}".strip(":") in modules(crate):
            at, rest = f"{at}::{rest[0]}".strip(":"), rest[1:]
        exported = exports(crate).get((at, rest[0])) if rest else None
        if exported is None or exported == list(path):
            return at
        path = exported + rest[1:]
    return at


def imports(crate):
    """The modules that each module of a crate names, in `use` or inline."""
    graph = {}
    for module, text in modules(crate).items():
        named = re.sub(r"\bpub(?:\([^)]*\))?\s+use\s+[^;]+;", "", text) if module == "" else text
        paths = [path for tree in re.findall(r"\buse\s+([^;]+);", named) for path in expanded(tree)]
        paths += re.findall(r"(?<![\w:])[a-z]\w*(?:::\w+)+", named)
        full = [absolute(crate, path, module) for path in paths]
        graph[module] = {module_of(crate, path) for path in full if path} - {module}
    return graph


def reached(graph, start):
    """The modules that a module names, directly or through others."""
    seen, waiting = set(), [start]
    while waiting:
        new = graph[waiting.pop()] - seen
        seen |= new
        waiting += new
    return seen


def largest_circle(graph):
    """The most modules that all reach each other."""
    reach = {module: reached(graph, module) for module in graph}
    return sorted(max(({other for other in reach[module] if module in reach[other]} for module in graph), key=len, default=()))


def crates():
    return sorted(folder.name for folder in CRATES.iterdir() if (folder / "src").is_dir())


def measured(limit, found, exceptions, what):
    """Complaints about numbers above the limit or the exception, and exceptions that are too high."""
    for name, number in found.items():
        allowed = exceptions.get(name, (limit, ""))[0]
        if number > allowed:
            yield f"{name} has {what} {number}, more than {allowed}"
        elif name in exceptions and number < allowed:
            yield f"{name} has {what} {number}: write that in place of {allowed}" if number > limit else f"{name}: delete its line"


def test_types_have_few_methods():
    found = Counter()
    for crate in crates():
        for text in modules(crate).values():
            found.update({f"{crate}::{owner}": count for owner, count in methods_of(text).items()})
    wrong = list(measured(METHODS, found, MANY_METHODS, "methods:"))
    assert not wrong, "split the type into values with methods of their own\n" + "\n".join(wrong)


def test_circles_of_imports_are_small():
    found = {crate: len(largest_circle(imports(crate))) for crate in crates()}
    wrong = list(measured(CIRCLE, found, LARGE_CIRCLES, "files in its largest circle of imports:"))
    assert not wrong, "let one of the files not name the others\n" + "\n".join(wrong)


def test_the_host_is_in_no_circle():
    """A file that defines the type of a field of the host does not name the host."""
    graph = imports("kernel")
    assert "host" in graph and not [module for module in graph["host"] if "host" in reached(graph, module)]


def test_values_of_the_stack_do_not_name_it():
    graph = imports("netstack")
    values = reached(graph, "stack")
    assert len(values) > 30
    wrong = sorted(module for module in values if "stack" in graph[module])
    assert not wrong, "move the methods of Stack to a file that stack.rs does not import\n" + "\n".join(wrong)


def test_measures():
    text = "impl A {\n    pub fn a() {}\n    fn b() {}\n}\nimpl<T> From<T> for A {\n    fn c() {}\n}\nimpl<'a> b::C<'a> {\n    pub(crate) const fn d() {}\n}\n"
    assert methods_of(text) == {"A": 2, "C": 1}
    assert expanded("crate::{a::{self, B as D}, c}") == ["crate::a::self", "crate::a::B", "crate::c"]
    assert largest_circle({"a": {"b"}, "b": {"c"}, "c": {"a", "d"}, "d": set()}) == ["a", "b", "c"]
    assert list(measured(2, {"x": 3, "y": 3, "z": 2}, {"y": (3, ""), "z": (5, "")}, "n")) == ["x has n 3, more than 2", "z: delete its line"]
