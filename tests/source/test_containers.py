"""The Containerfile that builds from the checkout, and the devcontainer: what they name exists, and with --all their commands run on a bare
machine, since no container engine is needed to run Debian's own packages."""

import json
import os
import re
import shlex
import subprocess

import pytest
from conftest import ROOT

#: Instruction words and rests, with continued lines joined.
TEXT = re.sub(r"^#.*\n", "", (ROOT / "Containerfile").read_text(), flags=re.M)
INSTRUCTIONS = re.findall(r"^([A-Z]+) (.*)$", re.sub(r"\\\n\s*", "", TEXT), re.M)


def instructions(word):
    return [rest for name, rest in INSTRUCTIONS if name == word]


def test_what_the_containerfile_names_exists():
    assert len(INSTRUCTIONS) == len([line for line in re.sub(r"\\\n", "", TEXT).splitlines() if line.strip()])
    stages = re.findall(r"^FROM (\S+)(?: AS (\w+))?$", TEXT, re.M)
    names = [name for _, name in stages if name]
    assert names == ["tools", "build"] and stages[1][0] == "tools" and all("/" in image for image, _ in (stages[0], stages[2]))
    for rest in instructions("COPY"):
        if rest.startswith("--from="):
            stage, *_ = rest.removeprefix("--from=").split()
            assert stage in names
        else:
            assert (ROOT / rest.split()[0]).exists(), rest
    for rest in instructions("RUN"):
        assert subprocess.run(["sh", "-n", "-c", rest], capture_output=True, text=True).stderr == ""
    # The image has the newest Rust 1, which is no older than the oldest that builds.
    assert re.search(r'rust-version = "1\.\d+"', (ROOT / "Cargo.toml").read_text()) and stages[0][0].endswith("/rust:1-bookworm")
    programs = re.search(r"for program in ([\w -]+);", TEXT)[1].split()
    made = {name for crate in ("cli", "routed") for name in re.findall(r'^name = "(belljar[\w-]*)"', (ROOT / "crates" / crate / "Cargo.toml").read_text(), re.M)}
    made |= {file.stem for file in (ROOT / "crates/cli/src/bin").glob("*.rs")}
    assert set(programs) <= made, programs


def test_the_devcontainer():
    folder = ROOT / ".devcontainer"
    settings = json.loads((folder / "devcontainer.json").read_text())
    build = settings["build"]
    assert (folder / build["dockerfile"]).resolve() == ROOT / "Containerfile" and f"AS {build['target']}\n" in TEXT
    assert (folder / build["context"]).resolve() == ROOT
    for word in shlex.split(settings["postCreateCommand"]):
        assert "/" not in word or (ROOT / word).exists(), word
    for schema, files in settings["customizations"]["vscode"]["settings"]["yaml.schemas"].items():
        assert (ROOT / schema).exists() and all(list(ROOT.glob(pattern)) for pattern in files)


@pytest.mark.slow
@pytest.mark.alone
@pytest.mark.needs("apt-get", "debootstrap", "git", "setpriv", "unshare")
@pytest.mark.skipif(os.geteuid() != 0, reason="a machine is made and entered as root")
def test_its_commands_on_a_bare_machine():
    """The instructions of all stages, one after the other, on one machine: its Rust is this machine's."""
    from bare_machine import FOLDER, Machine

    machine = Machine()
    try:
        machine.install()
        machine.of("/src").mkdir()
        checkout = subprocess.run(["git", "-C", ROOT, "archive", "HEAD"], capture_output=True, check=True).stdout
        subprocess.run(["tar", "-x", "-C", machine.of("/src")], input=checkout, check=True)
        # The image of Rust has a C compiler.
        steps = [("/root", "export DEBIAN_FRONTEND=noninteractive; apt-get update -qq && apt-get install -y -qq gcc libc6-dev")]
        place = "/root"
        for word, rest in INSTRUCTIONS:
            if word == "FROM":
                place = "/root"
            elif word == "WORKDIR":
                place = rest
                machine.of(rest).mkdir(exist_ok=True)
            elif word == "RUN":
                steps.append((place, rest))
            elif word == "COPY" and rest != ". .":
                *_, source, target = rest.split()
                source = source if rest.startswith("--from=") else f"/src/{source}"
                steps.append((place, f"mkdir -p {target} && cp -a {source}. {target}"))
        steps.append(("/work", "belljar run /usr/local/share/belljar/examples/first.yaml && PYTHONPATH=/usr/local/lib/belljar python3 -c "
                              "'import belljar; print(belljar.run(\"/usr/local/share/belljar/examples/first.yaml\", \"again\").ok)'"))
        for number, (folder, command) in enumerate(steps):
            log = FOLDER / f"container-{number}.log"
            assert machine.run(command, log, cwd=folder, timeout=4 * 3600) == 0, log.read_text(errors="replace")[-4000:]
        assert "all 4 processes ended as expected" in log.read_text() and log.read_text().endswith("True\n")
    finally:
        machine.remove()
