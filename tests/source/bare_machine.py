"""A bare machine for a test: a new Debian in a folder, entered as the root of namespaces of its own, with this machine's settings for
package registries and its Rust toolchain."""

import ast
import os
import pathlib
import re
import shutil
import subprocess

import pytest
from conftest import ROOT, TARGET, until

FOLDER = TARGET / "bare"
ENTER = ROOT / "tests" / "bare" / "enter"
# Namespaces that end with the process that has made them.
SEPARATE = ["unshare", "--mount", "--pid", "--ipc", "--uts", "--fork", "--kill-child"]
# Folder on the bare machine with the files of this one that variables name.
CARRIED = "/carried"
# Environment variables by which clients of registries find them.
VARIABLES = re.compile(
    r"(http|https|ftp|all|no)_proxy|PIP_.*|CARGO_(HTTP|NET|REGISTR|SOURCE).*|GO(PROXY|SUMDB|NOSUMDB|NOPROXY|PRIVATE|FLAGS)|npm_config_registry"
    r"|SSL_CERT_(FILE|DIR)|(CURL_CA|REQUESTS_CA|AWS_CA)_BUNDLE|NODE_EXTRA_CA_CERTS|GIT_SSL_CAINFO", re.I)
SECRET = re.compile(r"token|password|auth", re.I)
ACQUIRE = re.compile(r'Acquire::(https?|ftp|Check-|Allow|Force|Retries|Max-)[^ ]* "[^"]+";')
ARCHIVE = "$(REPO_URI)|$(CODENAME)|$(RELEASE)|$(COMPONENT)|$(ORIGIN)"


def said(*command):
    """Output of a command; empty where it fails or is not installed."""
    try:
        return subprocess.run(command, capture_output=True, text=True, stdin=subprocess.DEVNULL, cwd="/").stdout
    except FileNotFoundError:
        return ""


def environment():
    """Variables of this machine, and settings of pip, npm and Go in files as such, by which registries are reached."""
    found = {name: value for name, value in os.environ.items() if VARIABLES.fullmatch(name) and not SECRET.search(name)}
    for key, value in re.findall(r"^(?:global|install)\.([\w-]+)=(.*)$", said("pip", "config", "list"), re.M):
        found.setdefault("PIP_" + key.upper().replace("-", "_"), ast.literal_eval(value))
    for name in ("GOPROXY", "GOSUMDB", "GONOSUMDB", "GOFLAGS"):
        found.setdefault(name, said("go", "env", name).strip())
    found.setdefault("npm_config_registry", said("npm", "config", "get", "registry").strip())
    return {name: value for name, value in found.items() if value}


class Machine:
    """The machine: `install`, then `run` as often as needed, then `remove`."""

    def __init__(self):
        self.root = FOLDER / "root"
        self.caches = {
            "archives": FOLDER / "archives",
            "pip": FOLDER / "pip",
            "registry": pathlib.Path(os.environ.get("CARGO_HOME", pathlib.Path.home() / ".cargo")) / "registry",
        }
        self.toolchain = pathlib.Path(said("rustc", "--print", "sysroot").strip() or "/usr")
        if not (self.toolchain / "lib/rustlib/components").exists():
            pytest.skip("no Rust toolchain with a folder of its own, as rustup installs it, to take to another machine")
        self.environment = {
            "HOME": "/root", "USER": "root", "LOGNAME": "root", "SHELL": "/bin/bash", "LANG": "C.UTF-8", "TERM": "dumb",
            "PATH": "/opt/rust/bin:/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin",
        }
        if subprocess.run([*SEPARATE, "true"], capture_output=True).returncode != 0:
            pytest.skip("this machine allows no new namespaces")
        self.remove()
        for folder in (self.root, *self.caches.values()):
            folder.mkdir(parents=True, exist_ok=True)

    def install(self):
        """Installs the release of this machine, with the packages that no Debian is without; skips the test where that cannot be."""
        subprocess.run(["apt-get", "update", "-qq"], capture_output=True, stdin=subprocess.DEVNULL)
        release = dict(re.findall(r'^(\w+)="?([^"\n]*)"?$', pathlib.Path("/etc/os-release").read_text(), re.M))
        lines = said("apt-get", "indextargets", "--format", ARCHIVE, "Created-By: Packages").splitlines()
        # Archives of others are none of a bare machine.
        targets = [line.split("|") for line in lines if line.split("|")[4].lower() == release["ID"]]
        codename = release.get("VERSION_CODENAME")
        archive = next((uri for uri, name, suite, *_ in targets if codename in (name, suite) and "-" not in suite), None)
        if archive is None:
            pytest.skip(f"apt knows no archive of {release['ID']} {codename} here")
        # debootstrap knows apt's proxy only by the variable.
        proxy = re.search(r'^Acquire::http::Proxy "([^"]+)"', said("apt-config", "dump"), re.M)
        made = subprocess.run(
            ["debootstrap", f"--cache-dir={self.caches['archives']}", "--variant=minbase", codename, self.root, archive],
            env=os.environ | ({"http_proxy": proxy[1]} if proxy else {}), capture_output=True, text=True, stdin=subprocess.DEVNULL)
        if made.returncode != 0:
            pytest.skip(f"no bare machine can be made here: {made.stdout.strip().splitlines()[-1:]}")
        self.settle(targets)

    def settle(self, targets):
        """Copies this machine's settings for registries."""
        apt = self.root / "etc/apt"
        (apt / "sources.list").write_text("".join(f"deb {uri} {suite} {component}\n" for uri, _, suite, component, _ in targets))
        (apt / "apt.conf.d/90carried").write_text("\n".join(line for line in said("apt-config", "dump").splitlines() if ACQUIRE.fullmatch(line)) + "\n")
        self.of("/etc/resolv.conf").unlink(missing_ok=True)
        self.copy("/etc/resolv.conf", "/etc/resolv.conf")
        self.of("/etc/hostname").write_text("bare\n")
        self.of("/etc/hosts").write_text("127.0.0.1 localhost bare\n" + pathlib.Path("/etc/hosts").read_text())
        for name in ("config.toml", "config"):
            file = self.caches["registry"].parent / name
            if file.exists():
                self.copy(file, f"/root/.cargo/{name}")
        if pathlib.Path("/usr/local/share/ca-certificates").exists():
            self.copy("/usr/local/share/ca-certificates", "/usr/local/share/ca-certificates")
        for name, value in environment().items():
            if value.startswith("/") and pathlib.Path(value).exists():
                self.copy(value, CARRIED + value)
                value = CARRIED + value
            self.environment[name] = value

    def of(self, path):
        """Path on this machine of a path there."""
        return self.root / str(path).lstrip("/")

    def copy(self, source, path):
        to = self.of(path)
        to.parent.mkdir(parents=True, exist_ok=True)
        if pathlib.Path(source).is_dir():
            shutil.copytree(source, to, dirs_exist_ok=True, ignore_dangling_symlinks=True)
        else:
            shutil.copyfile(source, to)

    def run(self, command, log, cwd="/root", timeout=None):
        """Exit status of a shell command there, with its output in `log`. Its processes end with it, and with the process that called this."""
        with open(log, "wb") as output:
            process = subprocess.Popen(
                ["setpriv", "--pdeathsig", "KILL", *SEPARATE,
                 ENTER, self.root, self.toolchain, *self.caches.values(), "bash", "-c", f"cd {cwd} && {command}"],
                stdin=subprocess.DEVNULL, stdout=output, stderr=subprocess.STDOUT, env=self.environment, start_new_session=True)
            try:
                return process.wait(timeout)
            finally:
                process.kill()
                process.wait()

    def remove(self):
        """Removes the folder. Mounts below it are in the namespaces of processes that have ended, or end now."""

        def gone():
            shutil.rmtree(self.root, ignore_errors=True)
            return not self.root.exists()

        until(gone, f"{self.root} can be removed", pause=1)
