"""The quick build, which the first command makes, and the complete one."""

import subprocess

from conftest import ROOT


def libraries(*features):
    """Packages of the program with their features, as cargo compiles them."""
    command = ["cargo", "tree", "--locked", "--offline", "-p", "belljar", "-e", "normal,build", "-f", "{p} {f}", "--prefix", "none", "--no-dedupe"]
    done = subprocess.run([*command, *features], cwd=ROOT, capture_output=True, text=True, timeout=600)
    assert done.returncode == 0, done.stderr
    return {line for line in done.stdout.splitlines() if not line.startswith("belljar v")}


def test_the_complete_build_finds_the_libraries_of_the_quick_one():
    """A library with other features would be compiled anew, with all that depends on it, when a command is first used that the
    quick build leaves out."""
    quick, complete = libraries("--no-default-features"), libraries()
    assert quick < complete, "with other features in the quick build:\n" + "\n".join(sorted(quick - complete))
    assert any(line.startswith("belljar-emulation ") for line in complete - quick)
