"""Completions and manual pages, and `belljar sweep`, which becomes the Python package's command."""

import os
import re
import sys

import pytest
from conftest import EXAMPLES, ROOT, execute


def commands_of(belljar):
    """The commands that the help lists."""
    text = execute([belljar, "--help"]).out
    return re.findall(r"^  ([a-z0-9-]+) {2,}", text.split("Commands:")[1].split("Options:")[0], re.M)


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish", "elvish", "powershell"])
def test_completions_name_every_command(belljar, shell):
    done = execute([belljar, "completions", shell])
    assert done.status == 0 and not done.err
    missing = [command for command in commands_of(belljar) if not re.search(rf"\b{command}\b", done.out)]
    assert not missing and "--pcap-filter" in done.out.replace("-l pcap-filter", "--pcap-filter")


@pytest.mark.needs("bash")
def test_bash_completes(belljar, workdir):
    (workdir / "belljar.bash").write_text(execute([belljar, "completions", "bash"]).out)
    script = """source ./belljar.bash
        COMP_WORDS=(belljar ru); COMP_CWORD=1; _belljar belljar ru belljar; echo "${COMPREPLY[@]}"
        COMP_WORDS=(belljar run --pcap-f); COMP_CWORD=2; _belljar belljar --pcap-f run; echo "${COMPREPLY[@]}" """
    done = execute(["bash", "-c", script], cwd=workdir)
    assert done.out.split() == ["run", "--pcap-filter"], done


def test_every_command_has_a_page(belljar, workdir):
    assert execute([belljar, "man", workdir / "deep/man1"]).status == 0
    pages = {file.name for file in (workdir / "deep/man1").iterdir()}
    assert {"belljar.1", *(f"belljar-{command}.1" for command in commands_of(belljar) if command != "help")} <= pages
    page = (workdir / "deep/man1/belljar-run.1").read_text()
    assert page.startswith(".ie") and ".TH belljar-run 1" in page and r"results folder; without \-\-force it must not exist yet" in page
    done = execute([belljar, "man", "/proc/none"])
    assert done.status == 1 and done.err.startswith("error: /proc/none cannot be written: "), done


def options_of(help):
    return set(re.findall(r"^ +(?:-\w, |-\w \S+, )?(--[a-z][a-z0-9-]+)", help, re.M)) - {"--help", "--version"}


def test_completions_and_pages_have_every_option(belljar, workdir):
    """Those of the commands that Python parses as well."""
    fish = execute([belljar, "completions", "fish"]).out.splitlines()
    assert execute([belljar, "man", workdir]).status == 0
    env = {**os.environ, "BELLJAR_PYTHON": sys.executable, "PYTHONPATH": str(ROOT / "python")}
    number = 0
    for command in commands_of(belljar):
        if command == "help":
            continue
        help = execute([belljar, command, "--help"], env=env)
        assert help.status == 0, help
        options = options_of(help.out)
        completed = {f"--{name}" for line in fish if re.search(rf"using_subcommand {command}[\s\";]", line) for name in re.findall(r" -l (\S+)", line)}
        page = (workdir / f"belljar-{command}.1").read_text().replace("\\", "")
        missing = [(option, "completions") for option in options - completed] + [(option, "page") for option in options if option not in page]
        assert not missing, (command, missing)
        number += len(options)
    assert number > 100


def sweep(belljar, workdir, *arguments, **environment):
    env = {**os.environ, "BELLJAR_PYTHON": sys.executable, **environment}
    return execute([belljar, "sweep", *arguments], cwd=workdir, env=env)


def test_a_sweep(belljar, workdir):
    done = sweep(belljar, workdir, EXAMPLES / "first.yaml", "--seeds", "2", "--measure", "sent=hosts.server.bytes_out", PYTHONPATH=str(ROOT / "python"))
    assert done.status == 0 and done.out.startswith("2 runs in first.sweep: 0 of 2 runs failed"), done
    helped = sweep(belljar, workdir, "--help", PYTHONPATH=str(ROOT / "python"))
    assert helped.status == 0 and helped.out.startswith("usage: belljar sweep"), helped


def test_what_a_sweep_needs(belljar, workdir):
    (workdir / "yaml.py").write_text("raise ImportError('there is no yaml')\n")
    done = sweep(belljar, workdir, "exp.yaml", PYTHONPATH=f"{workdir}{os.pathsep}{ROOT / 'python'}")
    said = r"error: belljar sweep needs the Python package: pip install CHECKOUT/python, or name .* BELLJAR_PYTHON \(there is no yaml\)\n"
    assert done.status == 1 and re.fullmatch(said, done.err), done
    done = sweep(belljar, workdir, "exp.yaml", BELLJAR_PYTHON="/no/python")
    assert done.status == 1 and done.err.startswith("error: /no/python cannot be started: "), done
    # A folder named as the package, where one happens to stand, is not it.
    (workdir / "belljar").mkdir()
    (workdir / "belljar/__init__.py").write_text("raise SystemExit('the wrong one')\n")
    done = sweep(belljar, workdir, "missing.yaml", PYTHONPATH=str(ROOT / "python"))
    assert done.err == "error: missing.yaml cannot be read: No such file or directory\n", done
    (workdir / "yaml.py").write_text("raise SystemExit('the wrong yaml')\n")
    done = sweep(belljar, workdir, "missing.yaml", PYTHONPATH="")
    assert "the wrong yaml" not in done.err, done
