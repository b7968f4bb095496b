"""./belljar: builds when it must, says what is missing, passes everything on."""

import os
import shutil
import subprocess

import pytest
from conftest import ROOT

CARGO = """#!/bin/sh
[ "$1" != --version ] || { echo "cargo ${VERSION:-1.90.0} (0123456 2026-01-01)"; exit; }
echo "cargo $* in $PWD" >> "$LOG"
[ -z "$EDITED" ] || { sleep 0.05; echo >> "$EDITED"; sleep 0.05; }
[ -z "$BROKEN" ] || { echo "error: it does not compile" >&2; exit 101; }
case "$*" in *"--profile dist"*) built=$CARGO_TARGET_DIR/dist ;; *) built=$CARGO_TARGET_DIR/release ;; esac
mkdir -p "$built"
printf '#!/bin/sh\\nfor a in "$@"; do printf "[%%s]" "$a"; done; exit 5\\n' > "$built/belljar"
chmod +x "$built/belljar"
"""


@pytest.fixture
def tree(workdir):
    """A tree with a space in its name, and a PATH with nothing but the tools that every system has and a cargo of ours."""
    root = workdir / "a tree"
    (root / "crates" / "cli").mkdir(parents=True)
    (root / ".cargo").mkdir()
    for name in ("Cargo.toml", "Cargo.lock", ".cargo/config.toml", "crates/cli/main.rs"):
        (root / name).write_text("")
    shutil.copy(ROOT / "belljar", root)
    tools = workdir / "tools"
    tools.mkdir()
    for tool in ("sh", "dirname", "readlink", "find", "head", "uname", "touch", "mkdir", "chmod", "sed", "date", "sleep"):
        (tools / tool).symlink_to(shutil.which(tool))
    for name, text in {"cargo": CARGO, "cc": "#!/bin/sh\n", "make": "#!/bin/sh\n"}.items():
        (tools / name).write_text(text)
        (tools / name).chmod(0o755)
    env = {"PATH": str(tools), "LOG": str(workdir / "log"), "HOME": str(workdir)}

    def run(*arguments, cwd=workdir, program=root / "belljar", **more):
        return subprocess.run([program, *arguments], cwd=cwd, env={**env, **more}, capture_output=True, text=True)

    run.root, run.tools, run.log = root, tools, workdir / "log"
    return run


def test_builds_once_and_passes_arguments(tree):
    first = tree("run", "a file.yaml", "", "--seed", "7")
    assert (first.returncode, first.stdout) == (5, "[run][a file.yaml][][--seed][7]"), first
    assert "first time" in first.stderr
    second = tree("x")
    assert (second.returncode, second.stdout, second.stderr) == (5, "[x]", "")
    assert tree.log.read_text() == f"cargo build --release --no-default-features -p belljar in {tree.root}\n"


@pytest.mark.parametrize("source", ["crates/cli/main.rs", ".cargo/config.toml"])
def test_builds_again_when_a_source_is_newer(tree, source):
    tree()
    newer = os.stat(tree.root / "target" / "release" / "belljar").st_mtime + 5
    os.utime(tree.root / source, (newer, newer))
    assert tree("x").stderr == ""
    assert len(tree.log.read_text().splitlines()) == 2 and "--quiet" in tree.log.read_text()


def test_a_source_that_changes_during_a_build_is_built_by_the_next(tree):
    tree(EDITED=str(tree.root / "crates/cli/main.rs"))
    for _ in range(2):
        tree("x")
    assert len(tree.log.read_text().splitlines()) == 2


def test_commands_that_the_first_build_leaves_out(tree):
    """A binary that lacks a command executes the launcher with BELLJAR_COMMANDS=all; from then on all commands are built."""
    tree()
    done = tree("emulate", "x.yaml", BELLJAR_COMMANDS="all")
    assert done.stdout == "[emulate][x.yaml]"
    assert done.stderr == "belljar: building the commands that the first build leaves out, which takes a minute\n"
    assert tree("emulate", BELLJAR_COMMANDS="all").stderr == tree("run").stderr == ""
    newer = os.stat(tree.root / "target" / "release" / "belljar").st_mtime + 5
    os.utime(tree.root / "Cargo.toml", (newer, newer))
    tree("run")
    first, whole, again = tree.log.read_text().splitlines()
    assert "--no-default-features" in first
    assert whole == again == f"cargo build --release --quiet -p belljar in {tree.root}"


def test_target_dir(tree, workdir):
    (workdir / "here").mkdir()
    assert tree("x", cwd=workdir / "here", CARGO_TARGET_DIR="out put").returncode == 5
    assert (workdir / "here" / "out put" / "release" / "belljar").exists() and not (tree.root / "target").exists()


def test_dist_takes_the_profile_of_its_compiler(tree):
    """And none of another's; one that comes later is a reason to build again."""
    rustc = tree.tools / "rustc"
    rustc.write_text("#!/bin/sh\nprintf 'rustc %s (0123456 2026-01-01)\\nhost: x\\nrelease: %s\\nLLVM version: 21.1.0\\n' $V $V\n")
    rustc.chmod(0o755)
    (tree.root / "packaging" / "pgo").mkdir(parents=True)
    profile = tree.root / "packaging" / "pgo" / "rustc-1.90.0-llvm-21.1.0.profdata"
    dist = {"BELLJAR_BUILD": "dist"}
    assert "packaging/pgo/train.py" in tree(V="1.90.0", **dist).stderr
    profile.write_text("")
    newer = os.stat(tree.root / "target" / "dist" / "belljar").st_mtime + 5
    os.utime(profile, (newer, newer))
    assert tree(V="1.90.0", **dist).returncode == 5
    (tree.root / "target" / "dist" / "belljar").unlink()
    tree(V="1.90.1", **dist)
    without, with_it, of_another = tree.log.read_text().splitlines()
    assert without == of_another == f"cargo build --profile dist -p belljar in {tree.root}"
    assert f"'-Cprofile-use={profile}'" in with_it and with_it.startswith("cargo --config build.rustflags = [")


def test_the_quick_build_has_no_profile(tree):
    (tree.root / "packaging" / "pgo").mkdir(parents=True)
    (tree.root / "packaging" / "pgo" / "rustc-1.90.0-llvm-21.1.0.profdata").write_text("")
    assert "packaging/pgo/train.py" not in tree().stderr
    assert tree.log.read_text() == f"cargo build --release --no-default-features -p belljar in {tree.root}\n"


def test_an_unknown_build_is_named(tree):
    done = tree("x", BELLJAR_BUILD="fast")
    assert (done.returncode, done.stdout) == (2, "") and not tree.log.exists()
    assert done.stderr == "belljar: BELLJAR_BUILD is 'fast': it can be 'release' (compiles quickly) or 'dist' (runs fastest)\n"


def test_through_a_link(tree, workdir):
    (workdir / "bin").mkdir()
    (workdir / "bin" / "bj").symlink_to("../a tree/belljar")
    assert tree("x", program=workdir / "bin" / "bj").stdout == "[x]"


def test_missing_tools_are_named(tree):
    (tree.tools / "cargo").unlink()
    (tree.tools / "cc").unlink()
    done = tree("x")
    assert done.returncode == 127 and done.stdout == ""
    lines = done.stderr.splitlines()
    assert len(lines) == 2 and "cargo" in lines[0] and "rustup" in lines[0] and "C compiler" in lines[1], lines


def test_missing_headers_are_named(tree):
    (tree.tools / "cc").write_text("#!/bin/sh\nread line\n[ \"$line\" != '#include <stdlib.h>' ]\n")
    done = tree("x")
    assert done.returncode == 127 and not tree.log.exists()
    assert done.stderr == "belljar: the C library's header stdlib.h is needed: apt-get install libc6-dev, or your system's equal\n"


def test_a_rust_that_is_too_old_is_named(tree):
    done = tree("x", VERSION="1.63.0")
    assert done.returncode == 127 and not tree.log.exists()
    assert done.stderr == "belljar: Rust 1.88 or newer is needed: this one is 1.63: rustup update, or install it from https://rustup.rs\n"
    assert 'rust-version = "1.88"' in (ROOT / "Cargo.toml").read_text()
    assert tree("x", VERSION="2.0.0").returncode == 5 and tree("x", VERSION="1.88.1-nightly").returncode == 5


def test_a_build_that_fails(tree):
    done = tree("x", BROKEN="1")
    assert done.returncode == 1 and "it does not compile" in done.stderr and done.stdout == ""


def test_the_built_one_needs_no_tools(tree):
    tree()
    (tree.tools / "cargo").unlink()
    (tree.tools / "cc").unlink()
    assert tree("x").stdout == "[x]"


def test_programs_of_examples_are_built_when_they_are_named(tree, workdir):
    """Those that are not there, and no others; that they cannot be built is the run's to report."""
    tree()
    examples = tree.root / "examples"
    (examples / "p4").mkdir(parents=True)
    (examples / "built").mkdir()
    (examples / "built" / "there").touch()
    (tree.tools / "make").write_text(f'#!/bin/sh\necho "make $*" >> "$LOG"; exit 2\n')
    (examples / "one.yaml").write_text(
        "hosts:\n  a: {processes: [{path: built/first-one, args: built/no}]}\n  b:\n    processes:\n    - path: 'built/second'\n"
        "    - {args: x, path: built/second}\n    - path: built/there\n    # path: built/comment\n    - path: /bin/sh # built/no\n")
    (examples / "p4" / "two.yaml").write_text("path: ../built/third\n")
    elsewhere = workdir / "three.yaml"
    elsewhere.write_text("- path: built/no\n- path: a tree/examples/built/fourth\n- path: \"examples/built/fifth\"\n")
    tree.log.unlink()
    assert tree("run", examples / "one.yaml", "a tree/examples/p4/two.yaml", elsewhere, "no.yaml").returncode == 5
    made = f"make --silent -C {examples} CARGO_TARGET_DIR={tree.root}/target"
    assert tree.log.read_text() == f"{made} built/first-one built/second built/third built/fourth built/fifth\n"
    tree.log.unlink()
    (examples / "one.yaml").write_text("path: built/there\n")
    assert tree("run", examples / "one.yaml", "--seed", "1").returncode == 5 and not tree.log.exists()
