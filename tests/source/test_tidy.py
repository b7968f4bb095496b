"""What must not be in the sources, by name, with what to use instead. Each rule carries a line that it must catch."""

import re
import subprocess
from pathlib import Path

import pytest
import yaml
from conftest import ROOT

CRATES = ROOT / "crates"
LAYERS = ["base", "inputs", "engine", "wire", "linux-abi", "tcp", "conntrack", "routing", "net", "netfilter", "tc", "radio", "wireguard", "netstack", "linux-net", "strace", "terminal", "machine", "objects", "disk", "tasks", "uring", "p4c", "p4json", "p4", "p4files", "p4info", "p4runtime", "models", "model-host", "kernel", "channel", "shim", "platform", "packetio", "routed", "maelstrom", "composer", "image", "histories", "model-program", "properties", "config", "qemu",
          "pci", "cosim", "results", "plan", "explore", "emulation", "deployment", "sim", "cli"]
SIMULATION = {"base", "engine", "wire", "linux-abi", "tcp", "conntrack", "routing", "net", "netfilter", "tc", "radio", "wireguard", "netstack", "linux-net", "strace", "terminal", "machine", "objects", "disk", "tasks", "uring", "p4c", "p4json", "p4", "p4files", "p4info", "p4runtime", "models", "model-host", "kernel", "config", "pci", "results", "histories", "properties", "plan", "explore", "sim"}
SANS_IO = {"base", "engine", "wire", "linux-abi", "tcp", "conntrack", "routing", "net", "netfilter", "tc", "radio", "wireguard", "netstack", "linux-net", "strace", "terminal", "machine", "objects", "disk", "tasks", "uring", "p4info", "p4runtime", "models", "model-host", "kernel", "pci", "histories", "properties"}
UNSAFE = {"channel", "shim", "platform", "packetio"}

# name: (crates, what is banned, what to use instead, a line that is caught)
RULES = {
    "unordered maps": (
        SIMULATION | UNSAFE, r"\b(HashMap|HashSet|RandomState|hash_map|hash_set|IndexMap|DashMap)\b",
        "belljar_base::{Map, Set}, a Vec or a slab: their order is the same in every run",
        "use std::collections::HashMap;"),
    # prost's messages have B-trees in p4info; packetio stands alone.
    "B-trees": (
        set(LAYERS) - {"base", "packetio", "p4info"}, r"\b(BTreeMap|BTreeSet|btree_map|btree_set)\b",
        "belljar_base::{Map, Set}, whose code for a pair of types is a fraction of a B-tree's",
        "use std::collections::BTreeMap;"),
    "real clocks": (
        SIMULATION, r"\b(Instant|SystemTime)::now\b|\bUNIX_EPOCH\b|\bclock_gettime\s*\(|\bthread::sleep\b",
        "the SimTime that is passed in; only crates/cli knows the real time",
        "let start = std::time::Instant::now();"),
    "ambient randomness": (
        SIMULATION | UNSAFE, r"\b(thread_rng|OsRng|SysRng|ThreadRng|from_entropy|from_os_rng|fastrand)\b|\brand::(rng|random)\b|\bgetrandom::",
        "belljar_base::Seed::stream, named after what draws",
        "let x: u8 = rand::random();"),
    "unsafe": (
        set(LAYERS) - UNSAFE, r"\bunsafe\b",
        "a trait of belljar_machine that belljar-platform implements", "unsafe { *p }"),
    "the machine": (
        SANS_IO, r"\bstd::(fs|process|os::fd)\b|\bstd::net::(Tcp|Udp)|\brustix::|\bnix::",
        "belljar_machine's HostFiles, GuestMemory and Platform: simulation code touches the machine through them only",
        "std::fs::read(path)"),
    "leftovers": (
        set(LAYERS), r"\b(dbg|todo|unimplemented)!", "code, or an error that names what is not supported", "dbg!(x);"),
}
WORDS = r"\b(TO" r"DO|FIX" r"ME|XX" r"X|HA" r"CK)\b"


def code_of(line):
    """The line without comment and string literals."""
    line = re.sub(r'b?"(\\.|[^"\\])*"', '""', line)
    return line.split("//")[0]


def sources(crate):
    return sorted((CRATES / crate / "src").rglob("*.rs"))


@pytest.mark.parametrize("rule", RULES)
def test_banned(rule):
    crates, pattern, instead, _ = RULES[rule]
    found = []
    for crate in sorted(crates):
        for file in sources(crate):
            if rule == "the machine" and re.search(r"tests?\b|tests/", str(file.relative_to(CRATES))):
                continue  # tests may prepare files for what they test
            for number, line in enumerate(file.read_text().splitlines(), 1):
                if re.search(pattern, code_of(line)):
                    found.append(f"{file.relative_to(ROOT)}:{number}: {line.strip()}")
    assert not found, f"{rule}: use {instead}\n" + "\n".join(found)


@pytest.mark.parametrize("rule", RULES)
def test_rules_catch(rule):
    _, pattern, _, sample = RULES[rule]
    assert re.search(pattern, code_of(sample))
    assert not re.search(pattern, code_of("// " + sample)) and not re.search(pattern, code_of(f'say("{rule}");'))


def test_only_the_scheduler_touches_the_run_queue():
    """Threads, their slices and the order of wake-ups are chosen in one file."""
    pattern = r"\brun_queue\b|\bVecDeque<ThreadKey>"
    scheduler = CRATES / "tasks/src/scheduler.rs"
    found = [f"{file.relative_to(ROOT)}:{number}: {line.strip()}" for file in sources("kernel") + sources("tasks") if file != scheduler
             for number, line in enumerate(file.read_text().splitlines(), 1) if re.search(pattern, code_of(line))]
    assert not found, "use crates/tasks/src/scheduler.rs\n" + "\n".join(found)
    text = scheduler.read_text()
    assert re.search(r"^    run_queue: VecDeque<ThreadKey>,$", text, re.M), "the run queue is a private field of Scheduler"


def undocumented(text):
    """The numbers of the lines with an unsafe block or impl above which, in the same statement or the comment before
    it, no `SAFETY:` stands."""
    lines = text.splitlines()
    for number, line in enumerate(lines, 1):
        code = code_of(line)
        if not re.search(r"\bunsafe\s*(\{|impl\b)|\bunsafe$", code.rstrip()) or "SAFETY:" in line:
            continue
        at = number - 2
        while at >= 0 and number - at <= 12 and "SAFETY:" not in lines[at]:
            above = lines[at].strip()
            if not above or (code_of(above).rstrip().endswith((";", "}")) and "SAFETY" not in above):
                yield number
                break
            at -= 1
        else:
            if at < 0 or "SAFETY:" not in lines[at]:
                yield number


def test_unsafe_is_explained():
    found = [f"{file.relative_to(ROOT)}:{n}" for crate in sorted(UNSAFE) for file in sources(crate)
             for n in undocumented(file.read_text())]
    assert not found, "write `// SAFETY: why this holds` above:\n" + "\n".join(found)
    assert list(undocumented("fn f() {\n    g();\n    unsafe { h() }\n}")) == [3]
    assert not list(undocumented("// SAFETY: h has no conditions.\nlet x =\n    unsafe { h() };"))


def tracked():
    listed = subprocess.run(["git", "ls-files"], cwd=ROOT, capture_output=True, text=True, check=True).stdout
    return [ROOT / f for f in listed.splitlines() if (ROOT / f).is_file()]


def test_no_notes_to_self():
    found = []
    for file in tracked():
        try:
            text = file.read_text()
        except UnicodeDecodeError:
            continue
        found += [f"{file.relative_to(ROOT)}:{n}: {line.strip()}" for n, line in enumerate(text.splitlines(), 1)
                  if re.search(WORDS, line)]
    assert not found, "do it now, or say in the docs what is not supported:\n" + "\n".join(found)
    assert re.search(WORDS, "// TO" "DO: later")


def test_layers():
    """A crate depends only on those that the design lists above it."""
    for crate in LAYERS:
        text = (CRATES / crate / "Cargo.toml").read_text().split("[dev-dependencies]")[0]
        for used in re.findall(r"^belljar-([a-z0-9-]+)", text, re.M):
            assert LAYERS.index(used) < LAYERS.index(crate), f"crates/{crate} uses crates/{used}, which lies above it"


# Crates that the kernel is made of and that know nothing of it: what each may use.
ALONE = {
    "conntrack": {"base", "wire", "linux-abi"},
    "netfilter": {"base", "wire", "linux-abi", "conntrack", "net"},
    "tc": {"base", "wire", "linux-abi", "net"},
    "wireguard": {"base"},
    "netstack": {"base", "wire", "linux-abi", "tcp", "conntrack", "net", "netfilter", "tc", "wireguard"},
    "linux-net": {"base", "wire", "linux-abi", "tcp", "conntrack", "net", "netfilter", "tc", "wireguard", "netstack"},
    "strace": {"base", "linux-abi"},
    "terminal": {"linux-abi"},
    "machine": {"base", "linux-abi"},
    "objects": {"base", "linux-abi", "linux-net", "machine", "netstack"},
    "disk": {"base", "linux-abi", "machine", "objects"},
    "tasks": {"base", "linux-abi", "machine", "netstack", "objects"},
    "uring": {"base", "linux-abi", "machine", "netstack", "objects", "tasks"},
    "model-host": {"base", "linux-abi", "net", "netstack", "models"},
}
KERNEL_TYPES = r"\b(Host|Call|ThreadKey|ProcessKey|FileKey)\b"
# The keys of objects are defined in one of these and used in the others.
OBJECTS = {"objects", "tasks", "uring"}
OBJECT_TYPES = r"\b(Host|Call|GuestMemory)\b"


@pytest.mark.parametrize("crate", ALONE)
def test_parts_of_the_kernel_stand_alone(crate):
    """What needs no host is in crates of its own, which know no programs, descriptors or system calls: others use them as they are."""
    used = set(re.findall(r"^belljar-([a-z0-9-]+)", (CRATES / crate / "Cargo.toml").read_text(), re.M))
    assert used <= ALONE[crate], f"crates/{crate} uses {used - ALONE[crate]}"
    assert not used & {"kernel", "platform", "sim"}
    found = [f"{file.relative_to(ROOT)}:{number}: {line.strip()}" for file in sources(crate)
             for number, line in enumerate(file.read_text().splitlines(), 1)
             if re.search(OBJECT_TYPES if crate in OBJECTS else KERNEL_TYPES, code_of(line))]
    assert not found, "that is the business of crates/kernel:\n" + "\n".join(found)
    assert re.search(KERNEL_TYPES, code_of("fn send(call: &mut Call<'_>)"))


# Crates that a host is made of.
HOST_CRATES = ["tcp", "conntrack", "net", "netfilter", "tc", "wireguard", "netstack", "linux-net", "strace", "terminal", "machine", "objects", "tasks", "uring", "models", "model-host", "kernel"]
KERNEL_LINES = 37_000  # of code


def test_the_kernel_stays_within_its_lines():
    """A function that serves one object belongs to the crate of the object."""
    lines = (line.strip() for file in (CRATES / "kernel").rglob("*.rs") for line in file.read_text().splitlines())
    assert sum(line != "" and not line.startswith("//") for line in lines) < KERNEL_LINES


def public_types(text):
    return re.findall(r"^\s*pub (?:struct|enum|trait|type|union) (\w+)", text.split("\n#[cfg(test)]\nmod ")[0], re.M)


def test_public_types_of_a_host_have_names_of_their_own():
    places = {}
    for crate in HOST_CRATES:
        for file in sources(crate):
            for name in public_types(file.read_text()):
                places.setdefault(name, []).append(str(file.relative_to(ROOT)))
    twice = {name: files for name, files in places.items() if len(files) > 1}
    assert not twice, twice
    assert public_types("pub struct A;\n    pub(crate) enum B {}\npub type C = A;\n#[cfg(test)]\nmod tests {\n    pub struct D;\n}") == ["A", "C"]


def test_every_crate_is_placed():
    assert {d.name for d in CRATES.iterdir() if (d / "Cargo.toml").exists()} == set(LAYERS)


def test_scripts_are_executable():
    for file in tracked():
        with open(file, "rb") as f:
            script = f.read(2) == b"#!"
        assert not script or file.stat().st_mode & 0o111, f"{file.relative_to(ROOT)} has a first line with its interpreter: chmod +x"


def test_no_unsafe_crates_say_so():
    for crate in sorted(set(LAYERS) - UNSAFE):
        for root in ("lib.rs", "main.rs"):
            file = CRATES / crate / "src" / root
            if file.exists():
                assert "#![forbid(unsafe_code)]" in file.read_text(), f"{file.relative_to(ROOT)}: add #![forbid(unsafe_code)]"


def test_relative_links_of_the_docs_lead_somewhere():
    broken = []
    for file in [f for f in tracked() if f.suffix == ".md"]:
        for target in re.findall(r"\]\(([^)#:\s]+)(?:#[^)]*)?\)", file.read_text()):
            if not (file.parent / target).exists():
                broken.append(f"{file.relative_to(ROOT)}: {target}")
    assert not broken, broken


def anchors(text: str) -> set[str]:
    """The anchors of a document's headings, as GitHub makes them."""
    headings = re.findall(r"^#+ (.*)$", re.sub(r"^```.*?^```", "", text, flags=re.M | re.S), flags=re.M)
    return {re.sub(r"[^\w\- ]", "", re.sub(r"\[([^]]*)\]\([^)]*\)", r"\1", h).lower()).replace(" ", "-") for h in headings}


def test_anchors_of_the_docs_exist():
    broken = []
    for file in [f for f in tracked() if f.suffix == ".md"]:
        for target, anchor in re.findall(r"\]\(([^)#:\s]*)#([^)\s]+)\)", file.read_text()):
            other = file.parent / target if target else file
            if other.suffix == ".md" and anchor not in anchors(other.read_text()):
                broken.append(f"{file.relative_to(ROOT)}: {target}#{anchor}")
    assert not broken, broken


def named_paths(text: str) -> set[str]:
    """What a document has in backticks and means as a file or folder of the tree."""
    words = [word for code in re.findall(r"`([^`\n]+)`", text) for word in code.split()]
    return {w for w in words if re.fullmatch(r"[A-Za-z_.][\w./*-]*", w) and not w.startswith(("./", "../", "target/"))
            and ("/" in w[1:] or re.search(r"\.(rs|py|md|toml|json|yaml)$", w))}


def test_documents_name_paths_that_exist():
    paths = {str(f.relative_to(ROOT)) for f in tracked()}
    folders = {str(parent) for path in paths for parent in Path(path).parents}
    missing = []
    for name in ["ARCHITECTURE.md", "CONTRIBUTING.md"]:
        for word in sorted(named_paths((ROOT / name).read_text())):
            ending = re.escape(word.rstrip("/")).replace(r"\*", "[^/]*")
            if not any(re.search(f"(^|/){ending}$", path) for path in paths | folders):
                missing.append(f"{name}: {word}")
    assert not missing, missing


def test_named_paths_are_found():
    assert named_paths("see `net/src/gone.rs` and `files/` and `cargo test -p x` and `x::y`") == {"net/src/gone.rs", "files/"}


def test_the_citation_is_of_this_version():
    cited = yaml.safe_load((ROOT / "CITATION.cff").read_text())
    workspace = (ROOT / "Cargo.toml").read_text().split("[workspace.package]")[1]
    assert cited["version"] == re.search(r'^version = "(.*)"$', workspace, re.M)[1]
    assert " OR ".join(cited["license"]) == re.search(r'^license = "(.*)"$', workspace, re.M)[1]
    assert {"cff-version", "message", "title", "abstract", "authors"} <= set(cited)
