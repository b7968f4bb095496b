"""`/usr/lib/libvoidstar.so` of hosts with a property `assertions`: assertions, random numbers as choices, and coverage."""

import json
import os
import pathlib
import re
import shutil
import subprocess
import sys

import pytest
import yaml
from compiling import compile_newer
from conftest import ROOT, contents_of, execute

from test_assertions import FILE, PROGRAMS, run, sdk_of_python, verdicts, world

LIBRARY = "/usr/lib/libvoidstar.so"
FOLDER = ROOT / "target/antithesis/c"
WAYS = [("--parallelism", "1"), ("--parallelism", "2"), ("--parallelism", "2", "--cells", "2"), ("--placement", "near"), ("--placement", "far")]


def compiled(name, *sources, flags=(), compiler="gcc", link=("-ldl",)):
    if shutil.which(compiler) is None:
        pytest.skip(f"{compiler} is not installed")
    FOLDER.mkdir(parents=True, exist_ok=True)
    compile_newer(FOLDER / name, [compiler, "-O1", "-Wall", "-Werror", *flags], *(PROGRAMS / source for source in sources), libraries=link)
    return FOLDER / name


@pytest.fixture(scope="module")
def program():
    return compiled("library", "library.c")


def two_hosts(*command, **more):
    """The same program on two hosts."""
    experiment = world(*command, **more)
    experiment["hosts"]["b"] = json.loads(json.dumps(experiment["hosts"]["a"]))
    return experiment


def outputs(workdir, name="data", host="a", program="library"):
    """Lines that the host's programs have printed."""
    files = sorted((workdir / name / "hosts" / host).glob(f"{program}.*.stdout"))
    return "".join(file.read_text() for file in files).split()


def coverage(workdir, name="data", host=None):
    file = workdir / name / (f"hosts/{host}" if host else "") / "sdk_coverage.json"
    modules = json.loads(file.read_text())["modules"]
    assert all(module["reached"] == len(module["counts"]) for module in modules)
    return {pathlib.Path(module["module"]).name: module for module in modules}


def test_assertions_reach_the_file_of_the_property_once(belljar, workdir, program):
    done = run(belljar, workdir, world(program, "draws", "3"))
    assert verdicts(workdir / "data") == {"sdk: the end": ("always", True, None)}, done
    (line,) = (workdir / f"data/hosts/a/fs{FILE}").read_text().splitlines()
    assert json.loads(line)["antithesis_assert"]["message"] == "the end"
    assert not (workdir / "data/.sdk").exists() and "coverage" not in done.out
    assert not (workdir / "data/hosts/a/fs/usr").exists(), "the library is none of the files that the host has written"


def test_programs_without_the_variable_report_to_the_same_file(belljar, workdir, program):
    run(belljar, workdir, world("/usr/bin/env", "-i", program, "draws", "1"))
    assert verdicts(workdir / "data") == {"sdk: the end": ("always", True, None)}
    # A variable that a process has of its own stays.
    run(belljar, workdir, world(program, "draws", "1", environment={"ANTITHESIS_SDK_LOCAL_OUTPUT": "own.jsonl"}), output="own", status=1)
    assert "the end" in (workdir / "own/hosts/a/own.jsonl").read_text() and not (workdir / f"own/hosts/a/fs{FILE}").exists()


def test_a_file_that_cannot_be_written_is_named(belljar, workdir, program):
    run(belljar, workdir, world(program, "draws", "1", properties=[{"name": "sdk", "assertions": "/none/sdk.jsonl"}]), status=1)
    (errors,) = (workdir / "data/hosts/a").glob("library.*.stderr")
    assert errors.read_text() == "libvoidstar.so: assertions cannot be written to /none/sdk.jsonl: error 002\n"


def test_other_hosts_do_not_have_the_library(belljar, workdir, program):
    experiment = two_hosts("/bin/sh", "-c", f"ls {LIBRARY}; {program} draws 1; true", properties=[{"name": "sdk", "assertions": FILE, "hosts": "a"}])
    run(belljar, workdir, experiment)
    assert outputs(workdir, host="a", program="sh")[0] == LIBRARY
    assert "cannot" in outputs(workdir, host="b", program="sh"), "dlopen gives its error"
    assert os.path.exists(LIBRARY) is False
    # Nor has any host of an experiment without the property, and getrandom has no flag more.
    script = "import ctypes; print(ctypes.CDLL(None, use_errno=True).getrandom(ctypes.create_string_buffer(8), 8, 1 << 31), ctypes.get_errno())"
    experiment = world("/bin/sh", "-c", f"ls {LIBRARY} || python3 -c '{script}'", properties=[{"name": "any", "sometimes": "."}])
    run(belljar, workdir, experiment, output="none")
    assert outputs(workdir, "none", program="sh") == ["-1", "22"]


def test_a_host_with_a_root_of_its_own_has_the_library(belljar, workdir, program):
    root = workdir / "root"
    libraries = re.findall(r"(/\S+)", subprocess.run(["ldd", program], capture_output=True, text=True, check=True).stdout)
    for file in [*libraries, program]:
        to = root / str(file).lstrip("/")
        to.parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(file, to)
    (root / "var/log").mkdir(parents=True)
    experiment = world(program, "edges")
    experiment["hosts"]["a"]["root"] = str(root)
    for number, placement in enumerate(("near", "far")):
        run(belljar, workdir, experiment, "--placement", placement, output=f"{number}.data")
        assert verdicts(workdir / f"{number}.data") == {"sdk: edges": ("always", True, None)}
        assert coverage(workdir, f"{number}.data")["first.sym.tsv"]["counts"] == [[1, 3], [4, 2]]
    assert not list(root.rglob("libvoidstar.so"))


def test_random_numbers_are_choices_of_a_stream(belljar, workdir, program):
    experiment = two_hosts(program, "draws", "4")
    run(belljar, workdir, experiment, "--record-choices", "recorded.txt")
    recorded = (workdir / "recorded.txt").read_text().splitlines()
    for host in "ab":
        drawn = [line.split() for line in recorded if line.startswith(f"host/{host}/sdk ")]
        assert [value for _, _, value, _ in drawn] == outputs(workdir, host=host)
        assert [(int(number), default) for _, number, _, default in drawn] == [(n, "0") for n in range(4)]
    assert outputs(workdir) != outputs(workdir, host="b")
    run(belljar, workdir, experiment, "--seed", "2", output="other")
    assert not set(outputs(workdir)) & set(outputs(workdir, "other"))
    # Other random numbers of the host are of another stream.
    assert not any(line.startswith("host/a/random ") and line.split()[2] in outputs(workdir) for line in recorded)


def test_a_forced_choice_reaches_another_assertion(belljar, workdir, program):
    experiment = world(program, "draws", "4")
    run(belljar, workdir, experiment)
    (workdir / "one.txt").write_text("belljar choices 1\nhost/a/sdk 2 4242\n")
    for number, way in enumerate(WAYS[:2] + WAYS[3:]):
        run(belljar, workdir, experiment, "--choices", "one.txt", *way, output=f"{number}.data", status=1)
        now, before = outputs(workdir, f"{number}.data"), outputs(workdir)
        assert now == [*before[:2], "4242", before[3]]
        assert verdicts(workdir / f"{number}.data")["sdk: the rare branch"] == ("never", False, "was reached 1 times")
    (workdir / "none.txt").write_text("belljar choices 1\nhost/a/sdk * default\n")
    run(belljar, workdir, experiment, "--choices", "none.txt", output="default")
    assert outputs(workdir, "default") == ["0"] * 4


def test_explore_shrinks_random_numbers_to_those_that_matter(belljar, workdir):
    """A wrong program fails for every eighth number of the SDK: of many draws, one is left."""
    script = "\n".join([
        "from antithesis.random import get_random",
        "from antithesis.assertions import always",
        "for number in [get_random() for _ in range(12)]:",
        "    always(number % 8 != 7, 'calm', {})",
    ])
    experiment = world(sys.executable, "-c", script, environment={"PYTHONPATH": sdk_of_python()}, explore={"between": ["1 s", "2 s"], "kinds": ["clock"], "hosts": "a", "scheduling": "fifo"})
    experiment["general"]["seed"] = 3
    (workdir / "e.yaml").write_text(yaml.safe_dump(experiment, sort_keys=False))
    done = execute([belljar, "explore", "e.yaml", "--budget", "6runs", "-o", "x", "--no-progress"], cwd=workdir)
    assert done.status == 1, done
    (finding,) = json.loads((workdir / "x/report.json").read_text())["findings"]
    (choice,) = finding["choices"]
    assert re.fullmatch(r"host/a/sdk \d+ \d+", choice) and int(choice.split()[2]) % 8 == 7, finding


def test_the_sdk_for_python_prefers_the_library(belljar, workdir):
    """It reports by the library, and its random numbers are choices."""
    experiment = world(sys.executable, PROGRAMS / "program.py", environment={"PYTHONPATH": sdk_of_python()})
    run(belljar, workdir, experiment, "--record-choices", "recorded.txt")
    lines = (workdir / f"data/hosts/a/fs{FILE}").read_text().splitlines()
    evaluated = [line for line in lines if '"numbers are positive"' in line and '"hit": true' in line]
    assert len(lines) == len(set(lines)) and 1 <= len(evaluated) <= 20, lines
    (output,) = (workdir / "data/hosts/a").glob("*.stdout")
    first = json.loads(output.read_text())
    recorded = [line.split() for line in (workdir / "recorded.txt").read_text().splitlines() if line.startswith("host/a/sdk ")]
    assert [int(value) for _, _, value, _ in recorded][:3] == first and len(recorded) == 20


def test_edges_are_counted_by_module(belljar, workdir, program):
    done = run(belljar, workdir, two_hosts(program, "edges"))
    first = {"module": "first.sym.tsv", "edges": 5, "reached": 2, "counts": [[1, 3], [4, 2]], "unreached": [[2, 3], [5, 5]]}
    second = {"module": "second.sym.tsv", "edges": 1000, "reached": 1, "counts": [[1000, 1]], "unreached": [[1, 999]]}
    for host in "ab":
        assert coverage(workdir, host=host) == {"first.sym.tsv": first, "second.sym.tsv": second}
    assert coverage(workdir)["first.sym.tsv"]["counts"] == [[1, 6], [4, 4]]
    assert "coverage: 3 of 1005 edges reached, in 2 modules\n" in done.out, done
    statistics = json.loads((workdir / "data/sim-stats.json").read_text())
    assert statistics["coverage"][0] == {"module": "first.sym.tsv", "edges": 5, "reached": 2}


def test_leases_count_every_hit(belljar, workdir, program):
    run(belljar, workdir, world(program, "leases"))
    assert coverage(workdir)["leases.sym.tsv"]["counts"] == [[1, 2000], [2, 42]]


def test_guards_belong_to_the_program(belljar, workdir, program):
    done = run(belljar, workdir, world(program, "guards"))
    assert coverage(workdir)["library"] == {"module": str(program), "edges": 3, "reached": 1, "counts": [[3, 2]], "unreached": [[1, 2]]}
    assert "coverage: 1 of 3 edges reached\n" in done.out, done


@pytest.mark.parametrize("files", ["kept", "lost", "unsynced"])
def test_a_crash_keeps_counts(belljar, workdir, program, files):
    experiment = world(program, "late", "2", events=[{"at": "5 s", "crash": "a", "files": files, "for": "1 s"}])
    run(belljar, workdir, experiment)
    # The program ran twice.
    assert coverage(workdir)["library"]["counts"] == [[3, 4]]


def test_users_share_the_counts(belljar, workdir, program):
    experiment = world(program, "guards")
    experiment["hosts"]["a"]["processes"] += [{**experiment["hosts"]["a"]["processes"][0], "user": "nobody", "environment": {"ANTITHESIS_SDK_LOCAL_OUTPUT": "/tmp/other.jsonl"}, "start_time": "1 s"}]
    run(belljar, workdir, experiment)
    assert coverage(workdir)["library"]["counts"] == [[3, 4]]


def signs(belljar, workdir, program, name):
    """Edges reached by one, two and three signs."""
    reached = []
    for number, arguments in enumerate([["1"], ["1", "-1"], ["1", "-1", "0"]]):
        experiment = world(program, *arguments, properties=[{"name": "sdk", "assertions": FILE}])
        # The program makes no assertion.
        run(belljar, workdir, experiment, output=f"{name}{number}", status=1)
        (module,) = coverage(workdir, f"{name}{number}").values()
        reached.append({edge for edge, _ in module["counts"]})
    assert reached[0] < reached[1] < reached[2], reached
    return module


def test_a_program_instrumented_by_gcc(belljar, workdir):
    main = compiled("instrumented.o", "instrumented.c", flags=("-c", "-fsanitize-coverage=trace-pc"), link=())
    program = FOLDER / "instrumented"
    compile_newer(program, ["gcc", "-O1", main], PROGRAMS / "callbacks.c", reads=[main], libraries=["-ldl"])
    assert signs(belljar, workdir, program, "gcc")["module"] == "instrumented.sym.tsv"


def test_a_program_instrumented_by_clang(belljar, workdir):
    main = compiled("guarded.o", "instrumented.c", flags=("-c", "-fsanitize-coverage=trace-pc-guard"), compiler="clang", link=())
    program = FOLDER / "guarded"
    compile_newer(program, ["clang", "-O1", main], PROGRAMS / "guards.c", reads=[main], libraries=["-ldl"])
    assert signs(belljar, workdir, program, "clang")["module"] == str(program)


def test_a_program_instrumented_by_rustc(belljar, workdir):
    """It is linked to the library, as Antithesis says."""
    if shutil.which("rustc") is None:
        pytest.skip("rustc is not installed")
    # The linker takes a library with the same names.
    (workdir / "stub.c").write_text("void __sanitizer_cov_trace_pc_guard_init(void *a, void *b) {}\nvoid __sanitizer_cov_trace_pc_guard(void *a) {}\n")
    subprocess.run(["gcc", "-shared", "-fPIC", "-Wl,-soname,libvoidstar.so", "-o", "libvoidstar.so", "stub.c"], cwd=workdir, check=True)
    functions = "".join(f'#[inline(never)]\nfn {name}(n: i32) {{ println!("{name} {{n}}") }}\n' for name in ("positive", "negative", "zero"))
    main = "fn main() { for n in std::env::args().skip(1) { let n: i32 = n.parse().unwrap(); match n.signum() { 1 => positive(n), -1 => negative(n), _ => zero(n) } } }\n"
    (workdir / "signs.rs").write_text(functions + main)
    passes = ["-Ccodegen-units=1", "-Cpasses=sancov-module", "-Cllvm-args=-sanitizer-coverage-level=3", "-Cllvm-args=-sanitizer-coverage-trace-pc-guard"]
    subprocess.run(["rustc", "-O", *passes, f"-L{workdir}", "-Clink-args=-Wl,--no-as-needed -lvoidstar", "signs.rs"], cwd=workdir, check=True)
    assert signs(belljar, workdir, workdir / "signs", "rust")["module"] == str(workdir / "signs")


def test_results_do_not_depend_on_how_the_run_is_computed(belljar, workdir, program):
    experiment = two_hosts(program, "edges")
    for host in "ab":
        processes = experiment["hosts"][host]["processes"]
        processes += [{"path": str(program), "args": ["draws", "50"], "start_time": "1 s"}, {"path": str(program), "args": ["guards"], "start_time": "2 s"}]
    seen = []
    for way in [*WAYS, ("--parallelism", "2")]:
        shutil.rmtree(workdir / "data", ignore_errors=True)
        run(belljar, workdir, experiment, "--record-choices", "recorded.txt", *way)
        kept = {name: content for name, content in contents_of(workdir / "data").items() if name.startswith("hosts/") or name == "sdk_coverage.json"}
        seen.append((kept, (workdir / "recorded.txt").read_text()))
    assert all(one == seen[0] for one in seen) and any("sdk_coverage.json" in name for name in seen[0][0])
