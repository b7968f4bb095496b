"""`belljar emulate --tdf`: programs in dilated hosts cannot tell that their time is slow. Factors of the whole emulation, in free hosts."""

import os
import shutil
import subprocess

import pytest
from conftest import measured, timely
from dilating import ONE, check, compiled, emulate, emulates, program, rate, timeouts_as_set, timers_on_time  # noqa: F401
from test_emulate import in_time, output, verdict

pytestmark = [pytest.mark.waits, emulates]
CHANGING = pytest.param(["--tdf", "2", "--tdf", "9@0.5s", "--tdf", "3@1.2s"], id="changing", marks=pytest.mark.slow)


def by(*factors):
    return [pytest.param(["--tdf", factor], id=f"by {factor}", marks=pytest.mark.slow) for factor in factors]


@measured(4)
@pytest.mark.parametrize("linking", ["dynamic", pytest.param("static", marks=pytest.mark.slow)])
def test_a_program_cannot_tell(tmp_path, linking):
    program = compiled(tmp_path, *(["-static"] if linking == "static" else []))
    _, results = emulate(tmp_path, ONE.format(stop="60 s", path=program, args="[]"), "--tdf", "4")
    check(output(results, "a", "clocks"), slack=0.02 if in_time(results) else 5)
    timely(abs(rate(results) * 4 - 1) < 0.01 or not in_time(results), verdict(results))


@measured(4)
@pytest.mark.needs("gcc")
@pytest.mark.parametrize("options", [pytest.param(["--tdf", "3.3"], id="fixed"), CHANGING, *by("1.001", "6", "7", "10", "20", "47.3")])
def test_timeouts_of_sockets_are_as_set(tmp_path, options):
    timeouts_as_set(tmp_path, options, "")


@measured(4)
@pytest.mark.needs("gcc")
@pytest.mark.parametrize("options", [pytest.param(["--tdf", "3.3"], id="fixed"), CHANGING, *by("1.001", "7", "20", "47.3", "1000")])
def test_timers_expire_on_time(tmp_path, options):
    scale = {"20": 0.2, "47.3": 0.2, "1000": 0.01}.get(options[-1], 1)
    timers_on_time(tmp_path, options, "", scale)


@measured(4)
def test_a_factor_of_one_is_the_machines_own_time(tmp_path):
    script = "import time; a=time.monotonic(); time.sleep(0.5); print(time.monotonic()-a)"
    _, results = emulate(tmp_path, ONE.format(stop="20 s", path="python3", args=f'[-c, "{script}"]'), "--tdf", "1")
    napped = float(output(results, "a", "python3"))
    assert 0.5 <= napped
    timely(napped < 0.7 or not in_time(results), napped)
    timely(abs(rate(results) - 1) < 0.01 or not in_time(results), verdict(results))


@measured(4)
@pytest.mark.slow
@pytest.mark.needs("bash", "bc")
def test_programs_agree_on_one_rate(tmp_path):
    """`date`, `sleep`, `time`, Python, and Go, node and Java where they are there; files, and children that are executed."""
    found = {name: shutil.which(name) for name in ("go", "node", "javac", "java")}
    steps = ["python3 -c 'import time; a=time.time(); time.sleep(0.5); print(\"python\", time.time()-a)'"]
    if found["node"]:
        steps.append("node -e 'let a=performance.now(); setTimeout(() => console.log(\"node\", (performance.now()-a)/1e3), 500)'")
    if found["java"] and found["javac"]:
        (tmp_path / "Nap.java").write_text(
            "class Nap { public static void main(String[] a) throws Exception { long t = System.nanoTime(); Thread.sleep(500);"
            ' System.out.println("java " + (System.nanoTime() - t) / 1e9); } }')
        subprocess.run(["javac", "-d", str(tmp_path), str(tmp_path / "Nap.java")], check=True)
        steps.append(f"java -Xshare:auto -cp {tmp_path} Nap")
    if found["go"]:
        (tmp_path / "nap.go").write_text(
            'package main\nimport ("fmt"; "os/exec"; "time")\nfunc main() { a := time.Now(); time.Sleep(500 * time.Millisecond)\n'
            ' fmt.Println("go", time.Since(a).Seconds()); b := time.Now(); exec.Command("sleep", "0.5").Run(); fmt.Println("go_child", time.Since(b).Seconds()) }\n')
        built = subprocess.run(["go", "build", "-o", str(tmp_path / "nap"), str(tmp_path / "nap.go")], capture_output=True, text=True,
                               env={**os.environ, "CGO_ENABLED": "0", "GOCACHE": str(tmp_path / "cache"), "GO111MODULE": "off"}, check=False)
        if built.returncode == 0:
            steps.append(str(tmp_path / "nap"))
    script = tmp_path / "steps.sh"
    script.write_text("#!/bin/bash\na=$(date +%s.%N); touch one; sleep 0.5; b=$(date +%s.%N); touch two\n"
                      "echo date $(echo \"$b - $a\" | bc)\necho mtime $(echo \"$(stat -c %.9Y two) - $(stat -c %.9Y one)\" | bc)\n"
                      "TIMEFORMAT='time %R'; { time sleep 0.5; } 2>&1\n" + "\n".join(steps) + "\n")
    script.chmod(0o755)
    _, results = emulate(tmp_path, ONE.format(stop="120 s", path=script, args="[]"), "--tdf", "5")
    said = dict(line.split() for line in output(results, "a", "steps.sh").splitlines())
    assert {"python", "time"} <= set(said), said
    # Starting a program takes the machine's time, of which a fifth passes.
    assert all(float(value) >= (0.499 if name == "mtime" else 0.5) for name, value in said.items()), said
    most = {"date": 0.65, "mtime": 0.65, "go_child": 0.65, "time": 0.65}
    timely(not in_time(results) or all(float(value) < most.get(name, 0.56) for name, value in said.items()), said)
    timely(abs(rate(results) * 5 - 1) < 0.01 or not in_time(results), verdict(results))
