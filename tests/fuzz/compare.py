"""Runs sequences natively and under Belljar and says where they differ; makes a sequence that does as short as it can be."""

import concurrent.futures
import os
import pathlib
import shutil
import subprocess

import yaml
from compiling import compile_newer

from . import networks

HERE = pathlib.Path(__file__).parent
FLAGS = ["-std=gnu11", "-O1", "-Wall", "-Wextra", "-Werror", "-Wno-unused-result", "-Wno-nonnull"]


def build(target):
    """The interpreter, compiled when its sources are newer."""
    out = target / "fuzz" / "interpreter"
    compile_newer(out, ["gcc", *FLAGS], HERE / "interpreter.c", reads=HERE.glob("*.h"))
    return out


def clear(directory):
    """Removes it, directories that sequences have taken their own permissions from among the rest."""
    for folder, folders, _ in os.walk(directory):
        for name in folders:
            path = os.path.join(folder, name)
            if not os.path.islink(path):
                os.chmod(path, 0o700)
    shutil.rmtree(directory, ignore_errors=True)


class Bench:
    """Where sequences are run: a directory of its own, emptied between runs."""

    def __init__(self, belljar, interpreter, directory, placement="auto", environment=None):
        self.belljar, self.interpreter, self.directory = belljar, interpreter, directory
        self.placement, self.environment = placement, environment or {}

    def _native(self, name, file):
        place = self.directory / "native" / name
        place.mkdir(parents=True)
        environment = {"PATH": "/usr/bin:/bin", "HOME": "/root", "LANG": "C.UTF-8"}
        # Hosts know nothing of how nice the fuzzer is.
        nice = ["nice", "-n", str(-os.nice(0))] if os.nice(0) != 0 else []
        v6 = networks.host_of(file.read_text().splitlines())
        network = [] if v6 is None else networks.namespace(v6)
        # Its standard output is a file, as under Belljar: nobody then waits for what a sequence leaves behind.
        with (place / "stdout").open("w+b") as out:
            done = subprocess.run([*nice, *network, self.interpreter, file], cwd=place, env=environment, stdout=out, stderr=subprocess.PIPE,
                                  timeout=600, stdin=subprocess.DEVNULL)
            out.seek(0)
            written = out.read()
        if done.returncode == 2:
            raise RuntimeError(done.stderr.decode(errors="replace"))
        return written.decode(errors="replace").splitlines()

    def native(self, sequences):
        """The output lines of each sequence on this machine."""
        files = self._files(sequences)
        clear(self.directory / "native")
        with concurrent.futures.ThreadPoolExecutor(os.cpu_count()) as pool:
            return dict(zip(files, pool.map(lambda item: self._native(*item), files.items()), strict=True))

    def simulated(self, sequences):
        """The same under Belljar: a host for each sequence."""
        files = self._files(sequences)
        kinds = {name: networks.host_of(lines) for name, lines in sequences.items()}
        process = {"path": str(self.interpreter), "expected_final_state": "any", "environment": self.environment}
        if os.geteuid() == 0:
            # With the settings of this machine.
            settings = sorted(pathlib.Path("/proc/sys/fs").glob("protected_*"))
            told = "".join(f"echo {file.read_text().strip()} > {file}; " for file in settings)
            process |= {"path": "sh"}
            before = told
        else:
            # With the privilege that it has natively, in a directory of its own as there.
            process |= {"path": "sh", "user": str(os.geteuid())}
            before = "mkdir own && cd own && "
        linked = {name: v6 for name, v6 in kinds.items() if v6 is not None}
        hosts = {}
        for name, file in files.items():
            # The addresses of an interface are usable a few seconds after the start.
            place = {"network_node_id": 0, "ipv6": False} if name not in linked else networks.host(linked[name])
            settings = networks.settings(linked[name]) if name in linked else ""
            hosts[name] = {**place, "processes": [{**process, "args": ["-c", f'{before}{settings}exec "$0" "$@"', str(self.interpreter), str(file)]}]}
        world = {
            "general": {"stop_time": "600 s"},
            "belljar": {"placement": self.placement, "ipv6": any(linked.values())},
            "network": {"graph": {"type": "1_gbit_switch"}},
            "hosts": hosts,
            **networks.world(linked),
        }
        (self.directory / "world.yaml").write_text(yaml.safe_dump(world, sort_keys=False))
        data = self.directory / "data"
        shutil.rmtree(data, ignore_errors=True)
        done = subprocess.run([self.belljar, "run", self.directory / "world.yaml", "-o", data, "--no-progress"],
                              capture_output=True, text=True, timeout=600, stdin=subprocess.DEVNULL)
        if done.returncode != 0:
            raise RuntimeError(f"belljar ended with {done.returncode}:\n{done.stdout[-3000:]}{done.stderr[-3000:]}")
        outputs = {name: sorted((data / "hosts" / name).glob(f"{pathlib.Path(process['path']).name}.*.stdout")) for name in files}
        return {name: found[0].read_text(errors="replace").splitlines() if found else [] for name, found in outputs.items()}

    def _files(self, sequences):
        folder = self.directory / "sequences"
        folder.mkdir(parents=True, exist_ok=True)
        for name, lines in sequences.items():
            (folder / name).write_text("\n".join(lines) + "\n")
        return {name: folder / name for name in sequences}

    def differences(self, sequences):
        """For each sequence whose outputs differ: (native line, Belljar's line) where they first do. A sequence that is
        not the same natively when it is run again says nothing."""
        sequences = {name: lines for name, lines in sequences.items() if lines}
        if not sequences:
            return {}
        native, simulated = self.native(sequences), self.simulated(sequences)
        found = {name: difference for name in sequences if (difference := first(native[name], simulated[name]))}
        # On a busy machine what is waited for comes late, more than once.
        for _ in range(3):
            again = self.native({name: sequences[name] for name in found}) if found else {}
            found = {name: difference for name, difference in found.items() if again[name] == native[name]}
        return found

    def shrink(self, lines):
        """The shortest sequence that can be had by leaving lines out and that still differs, and how."""
        difference = self.differences({"whole": lines}).get("whole")
        if difference is None:
            return lines, None
        kind = sort_of(difference)
        # What comes after the difference has nothing to do with it, mostly.
        chunk = max(1, len(lines) // 2)
        while True:
            candidates = {f"c{at}": lines[:at] + lines[at + chunk:] for at in range(0, len(lines), chunk)}
            still = {n: d for n, d in self.differences(candidates).items() if sort_of(d) == kind}
            if still:
                name = min(still, key=lambda n: (len(candidates[n]), -int(n[1:])))
                lines, difference = candidates[name], still[name]
            elif chunk == 1:
                return lines, difference
            if not still:
                chunk = max(1, chunk // 2)
            chunk = min(chunk, max(1, len(lines) // 2))


def sort_of(difference):
    """What kind of operation differed: while shrinking, the same one must."""
    return [side.split()[1] if len(side.split()) > 1 else side for side in difference][0]


def first(native, simulated):
    """The first lines that differ."""
    for n in range(max(len(native), len(simulated))):
        pair = [lines[n] if n < len(lines) else "(nothing)" for lines in (native, simulated)]
        if pair[0] != pair[1]:
            return tuple(pair)
    return None
