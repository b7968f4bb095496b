"""What the guides tell to type works as it stands there."""

import os
import re
import shutil
import subprocess
import sys

import pytest
from conftest import EXAMPLES, ROOT, execute

GUIDES = ROOT / "docs/guide"
GUIDE = GUIDES / "analysing-results.md"


def blocks(language, guide=GUIDE):
    return re.findall(rf"^```{language}\n(.*?)^```", guide.read_text(), re.M | re.S)


def follow(belljar, workdir, commands):
    """Types what a guide says, one line after another, in a folder like the checkout; programs that are not installed
    are left out. What the last one said."""
    (workdir / "belljar").symlink_to(belljar)
    (workdir / "examples").symlink_to(EXAMPLES)
    done = None
    for line in commands:
        program = line.split()[0]
        if shutil.which(workdir / program if "/" in program else program) is None:
            continue
        done = execute(["sh", "-c", line], cwd=workdir)
        assert done.status == 0, str(done)
    return done


def commands(guide):
    return [line[2:] for block in blocks("console", guide) for line in block.splitlines() if line.startswith("$ ")]


@pytest.mark.needs("curl")
def test_the_first_experiment(belljar, workdir):
    guide = GUIDES / "first-experiment.md"
    (workdir / "slow.yaml").write_text(blocks("yaml", guide)[0])
    lines = commands(guide)
    follow(belljar, workdir, lines[:3])
    connected, total = map(float, (workdir / "slow.data/hosts/laptop/curl.1000.stdout").read_text().split())
    assert 0.1 <= connected < 0.11 and 0.2 < total < 2
    # "Make it worse": the other edge in its place.
    text = (workdir / "slow.yaml").read_text()
    worse = re.search(r"^```\n +(edge .*)\n```", guide.read_text(), re.M)[1]
    changed = re.sub(r"edge \[.*\]", worse, text)
    assert changed != text
    (workdir / "slow.yaml").write_text(changed)
    for name in ("belljar", "examples"):
        (workdir / name).unlink()
    follow(belljar, workdir, lines[3:])
    assert (workdir / "seen.data/hosts/laptop/eth0.pcap").is_file()


@pytest.mark.needs("curl", "ping")
def test_coming_from_mininet(belljar, workdir):
    guide = GUIDES / "coming-from-mininet.md"
    (workdir / "office.yaml").write_text(blocks("yaml", guide)[0])
    # The script as the guide shows it, with what every script imports.
    imports = "from mininet.topo import Topo\nfrom mininet.net import Mininet\nfrom mininet.link import TCLink\n"
    (workdir / "office.py").write_text(imports + blocks("python", guide)[0])
    follow(belljar, workdir, commands(guide))
    assert (workdir / "imported.data/hosts/h1/page").stat().st_size > 100
    said = (workdir / "office.data/hosts/h2/ping.1000.stdout").read_text()
    assert "3 packets transmitted, 3 received" in said or "2 received" in said, said
    assert (workdir / "office.data/hosts/h1/page").stat().st_size > 100
    block = blocks("python", guide)[-1]
    env = {**os.environ, "BELLJAR_BIN": str(belljar), "PYTHONPATH": str(ROOT / "python")}
    pytest.importorskip("pandas")
    done = subprocess.run([sys.executable, "-c", block], cwd=workdir, env=env, capture_output=True, text=True, timeout=600)
    assert done.returncode == 0 and "bytes_out" in done.stdout, done.stderr


@pytest.mark.needs("curl")
@pytest.mark.parametrize("name", ["topologies", "models"])
def test_python_of_the_guides(belljar, workdir, name):
    """Each block of Python is a program; of what it only hands to YAML, a run shows whether it is understood."""
    env = {**os.environ, "BELLJAR_BIN": str(belljar), "PYTHONPATH": str(ROOT / "python")}
    pytest.importorskip("pandas")
    for block in blocks("python", GUIDES / f"{name}.md"):
        program = block if ".run(\"out\"" in block else block + "exp.run('out')\n"
        done = subprocess.run([sys.executable, "-c", program], cwd=workdir, env=env, capture_output=True, text=True, timeout=600)
        assert done.returncode == 0, done.stderr


def test_readme(belljar, workdir):
    """The first run, and what else the README says to type; tests/command/test_explore.py has the campaign."""
    indented = re.findall(r"^    (\./belljar .*|cat first.*)$", (ROOT / "README.md").read_text(), re.M)
    assert len(indented) >= 4
    follow(belljar, workdir, [line.split("  #")[0] for line in indented if " explore " not in line])
    assert len(list(workdir.glob("first.data/hosts/*/curl.*.stdout"))) == 3


def test_links_of_the_documentation_lead_somewhere():
    for file in [ROOT / "README.md", *sorted(ROOT.glob("docs/**/*.md")), EXAMPLES / "README.md"]:
        for target, anchor in re.findall(r"\]\((?!https?:)([^)#\s]*)(#[^)\s]*)?\)", file.read_text()):
            found = (file.parent / target).resolve() if target else file
            assert found.exists(), f"{file.relative_to(ROOT)} names {target}"
            if anchor and found.suffix == ".md":
                heads = [re.sub(r"[^\w -]", "", h.lower()).strip().replace(" ", "-") for h in re.findall(r"^#+ (.*)$", found.read_text(), re.M)]
                assert anchor[1:] in heads, f"{file.relative_to(ROOT)} names {target}{anchor}"


def test_the_guide_to_testing_shows_what_the_examples_have():
    shown = blocks("python", GUIDES / "testing-a-distributed-system.md")
    example = (EXAMPLES / "test_raft.py").read_text()
    for part in shown[0].split("\n\n"):
        assert part.strip() in example or part.startswith("from belljar"), part
    etcd = (EXAMPLES / "test_etcd.py").read_text()
    assert all(line.strip() in etcd for line in shown[-1].splitlines()), shown[-1]


def test_commands(belljar, workdir, monkeypatch):
    # Sweeps are the package's, in whatever Python has what it needs.
    monkeypatch.setenv("BELLJAR_PYTHON", sys.executable)
    monkeypatch.setenv("PYTHONPATH", str(ROOT / "python"))
    (workdir / "belljar").symlink_to(belljar)
    (workdir / "examples").symlink_to(EXAMPLES)
    lines = [line[2:] for block in blocks("console") for line in block.splitlines() if line.startswith("$ ./belljar")]
    assert len(lines) >= 9
    for line in lines:
        done = execute(["sh", "-c", line], cwd=workdir)
        expected = 1 if line.startswith("./belljar diff") else 0
        assert done.status == expected, done


@pytest.mark.needs("curl")
def test_first_python_block(belljar, workdir):
    pytest.importorskip("pandas")
    block = next(b for b in blocks("python") if "exp.run" in b)
    env = {**os.environ, "BELLJAR_BIN": str(belljar), "PYTHONPATH": str(ROOT / "python")}
    program = block + "\nassert results.ok and (results.host('client') / 'page').stat().st_size > 0\n"
    done = subprocess.run([sys.executable, "-c", program], cwd=workdir, env=env, capture_output=True, text=True, timeout=600)
    assert done.returncode == 0, done.stderr


def test_names_in_the_guide_exist():
    from_package = re.findall(r"`(?:figures\.)?(\w+)\(?[^`|]*\)?`", "\n".join(
        line for line in GUIDE.read_text().splitlines() if re.match(r"\| `(figures\.|\w+\()", line)))
    assert len(from_package) >= 9
    text = "".join((ROOT / "python/belljar" / f"{name}.py").read_text() for name in ("statistics", "figures"))
    missing = [name for name in from_package if f"def {name}(" not in text]
    assert not missing, missing
