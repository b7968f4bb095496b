"""Preemption within a thread's own code: at the same instruction for any workers, cells and placement, and at another one for another seed."""

import functools

import pytest
import yaml
from conftest import ROOT, contents_of, execute, experiment

WAYS = [("--parallelism", "2"), ("--parallelism", "3"), ("--parallelism", "2", "--cells", "2"), ("--placement", "near"), ("--placement", "far")]


@pytest.fixture(scope="module")
def races(tmp_path_factory):
    """The racing programs of the benchmark."""
    program = tmp_path_factory.mktemp("races") / "races"
    execute(["cc", "-O1", "-pthread", "-o", program, ROOT / "benches/pct/races.c"])
    return program


def written(workdir, races, points, calls, instructions, hosts="abc", **more):
    """Several hosts, so that their code is shared and workers have a choice."""
    order = {"priorities": {"points": points, "calls": calls, "instructions": instructions}}
    threads = [{"path": str(races), "args": [kind, "20"], "start_time": f"{n} s", "expected_final_state": "any"}
               for n, kind in enumerate(["order", "lost", "window", "lost"])]
    # Clock readings, identities and processes between system calls; its threads race for a line.
    shell = {"path": "/bin/sh", "args": ["-c", "for n in 1 2 3; do date +%s.%N & echo $$ & wait; done"], "start_time": "5 s"}
    drawn = experiment({name: (0, [*threads, shell]) for name in hosts}, stop="10 s")
    for host in drawn["hosts"].values():
        host["host_options"] = {"scheduling": order}
    file = workdir / "preemption.yaml"
    file.write_text(yaml.safe_dump({**drawn, **more}, sort_keys=False))
    return file


def run(belljar, workdir, file, name, *options):
    """What the hosts wrote, how their processes ended, and the choices."""
    # System calls in the logs have the name of the folder.
    data, choices = workdir / "run.data", workdir / f"{name}.txt"
    done = execute([belljar, "run", file, "-o", data, "--force", "--no-progress", "--strace", "--record-choices", choices, *options])
    assert done.status == 0 and "deterministic" not in done.out, done
    results = {path: content for path, content in contents_of(data).items() if str(path).startswith("hosts/")}
    ends = sorted(line for line in done.out.splitlines() if line.startswith(("ok", "FAIL")))
    return results, ends, choices.read_text()


@pytest.mark.parametrize("seed", [1, 2, 3])
def test_points_do_not_depend_on_how_the_run_is_computed(belljar, workdir, races, seed):
    file = written(workdir, races, points=20, calls=60, instructions=300)
    expected = run(belljar, workdir, file, "first", "--seed", str(seed), "--parallelism", "1")
    for number, way in enumerate(WAYS):
        assert run(belljar, workdir, file, f"way{number}", "--seed", str(seed), *way) == expected, way


def test_another_seed_has_other_points(belljar, workdir, races):
    file = written(workdir, races, points=20, calls=60, instructions=300)
    one, other = (run(belljar, workdir, file, f"seed{seed}", "--seed", str(seed)) for seed in (1, 2))
    assert one[0] != other[0] and one[2] != other[2]


def test_a_race_between_two_instructions_shows_at_its_point_alone(belljar, workdir, races):
    """Of all points after one call, those between load and store lose an addition, near and far."""
    file = written(workdir, races, points=1, calls=1, instructions=1, hosts="a")
    drawn = yaml.safe_load(file.read_text())
    drawn["hosts"]["a"]["processes"] = [{"path": str(races), "args": ["lost", "3"], "expected_final_state": "any"}]
    drawn["hosts"]["a"]["host_options"] = {"scheduling": {"priorities": {"points": 1, "calls": 20, "instructions": 2_000}}}
    file.write_text(yaml.safe_dump(drawn))

    @functools.cache
    def shows(call, instructions, placement="near"):
        choices = workdir / "point.choices"
        choices.write_text(f"belljar choices 1\n* * default\nhost/a/scheduling/preemptions 0 {call}\nhost/a/scheduling/instructions 0 {instructions}\n")
        done = execute([belljar, "run", file, "-o", workdir / "point.data", "--force", "--no-progress", "--choices", choices, "--placement", placement])
        assert "choices:" not in done.out, done
        return "exited 1" in done.out

    found = [(call, at) for call in range(1, 10) for at in range(0, 400, 20) if shows(call, at)]
    assert found, "no point between load and store"
    call = found[0][0]
    assert {one for one, _ in found} != set(range(1, 10)), found
    first = next(at for at in range(found[0][1] - 20, found[0][1] + 1) if at >= 0 and shows(call, at))
    for at in (first - 1, first):
        assert shows(call, at, "far") == shows(call, at) == (at == first)
