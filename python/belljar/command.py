"""`belljar sweep`: a campaign from an experiment file, without Python code."""

from __future__ import annotations

import argparse
import pathlib
import re
import sys
from collections.abc import Callable, Sequence
from typing import Any

import yaml

from .binary import BelljarError
from .results import Results
from .sweep import sweep
from .until import HalfWidth, half_width

_DESCRIPTION = """Runs an experiment under many seeds, for all combinations of the values that --vary names, on this machine or on a
cluster. What is there already from the same experiment is not run again. The folder gets report.html, table.csv and the results of each
run in PARAMETERS/SEED."""
_EXAMPLES = """Examples:
  belljar sweep exp.yaml --seeds 200
  belljar sweep exp.yaml --seeds 20 --vary general.stop_time="[10 s, 20 s]" --set hosts.alice.bandwidth_up="1 Mbit"
  belljar sweep exp.yaml --seeds 10 --measure sent=hosts.server.bytes_out --until "5 %"
  belljar sweep exp.yaml --seeds 200 --measure time=stdout:client --on slurm --slurm slurm_partition=short --workers 64

A measure is NAME=hosts.HOST.KEY or any other path into sim-stats.json, or NAME=stdout:HOST, the last number that a host's programs wrote, or
NAME=stdout:HOST:PATTERN, the number in the first group of a regular expression. The exit status is 0 only if every run ended as expected."""


def _keyed(text: str) -> tuple[str, str]:
    key, separator, value = text.partition("=")
    if not separator or not key:
        raise argparse.ArgumentTypeError(f"'{text}' is not KEY=VALUE")
    return key, value


def _setting(text: str) -> tuple[str, Any]:
    key, value = _keyed(text)
    try:
        return key, yaml.safe_load(value)
    except yaml.YAMLError as error:
        raise argparse.ArgumentTypeError(f"the value of '{key}' is not YAML: {error}") from error


def _variants(text: str) -> tuple[str, list[Any]]:
    key, values = _setting(text)
    if not isinstance(values, list) or not values:
        raise argparse.ArgumentTypeError(f"--vary takes a list, such as {key}=\"[1, 2]\"")
    return key, values


def _seeds(text: str) -> list[int]:
    """Parses a number of seeds or a list of seeds: "5-9", "1,4,7-9"."""
    seeds: list[int] = []
    for part in [f"1-{text}"] if text.isdigit() else text.split(","):
        found = re.fullmatch(r"(\d+)(?:-(\d+))?", part.strip())
        if found is None:
            raise argparse.ArgumentTypeError(f"'{text}' is neither a number of seeds nor seeds such as 5-9 or 1,4,7-9")
        seeds += range(int(found[1]), int(found[2] or found[1]) + 1)
    if not seeds or len(set(seeds)) < len(seeds):
        raise argparse.ArgumentTypeError(f"'{text}' names no seed, or one twice")
    return seeds


def _count(text: str) -> int:
    if not text.isdecimal() or int(text) < 1:
        raise argparse.ArgumentTypeError(f"'{text}' is not a number from 1 on")
    return int(text)


def _until(text: str) -> HalfWidth:
    try:
        return half_width(text)
    except ValueError as error:
        raise argparse.ArgumentTypeError(str(error)) from error


def _measure(text: str) -> tuple[str, Callable[[Results], float]]:
    name, what = _keyed(text)
    if what.startswith("stdout:"):
        host, _, pattern = what.removeprefix("stdout:").partition(":")
        try:
            expression = re.compile(pattern or r"(-?\d+(?:\.\d+)?(?:[eE][-+]?\d+)?)\D*\Z")
        except re.error as error:
            raise argparse.ArgumentTypeError(f"'{pattern}' is no regular expression: {error}") from error
        if expression.groups != 1:
            raise argparse.ArgumentTypeError(f"'{pattern}' must have one group, the number")
        return name, lambda results: _written(results, host, expression, what)
    return name, lambda results: _counted(results, what)


def _written(results: Results, host: str, expression: re.Pattern[str], what: str) -> float:
    found = expression.search(results.stdout(host))
    if found is None:
        raise BelljarError(f"--measure {what}: nothing matches in what {host} wrote in {results.path}")
    return float(found[1])


def _counted(results: Results, what: str) -> float:
    value: Any = results.statistics
    for key in what.split("."):
        if isinstance(value, list):
            value = dict(enumerate(value)).get(int(key) if key.isdigit() else -1)
        else:
            value = value.get(key) if isinstance(value, dict) else None
    if not isinstance(value, (int, float)):
        raise BelljarError(f"--measure {what}: {results.path / 'sim-stats.json'} has no number there")
    return float(value)


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser("belljar", formatter_class=argparse.RawDescriptionHelpFormatter)
    one = parser.add_subparsers(dest="command", required=True).add_parser(
        "sweep", description=_DESCRIPTION, epilog=_EXAMPLES, formatter_class=argparse.RawDescriptionHelpFormatter)
    one.add_argument("file", type=pathlib.Path, metavar="FILE", help="the experiment file")
    one.add_argument("-o", "--output", type=pathlib.Path, metavar="DIR", help="the sweep's folder [default: FILE's name with .sweep]")
    one.add_argument("--seeds", type=_seeds, default=10, metavar="N", help="so many seeds from 1 on, or seeds such as 5-9 or 1,4,7-9 [default: 10]")
    one.add_argument("--set", type=_setting, action="append", default=[], metavar="KEY=VALUE", dest="settings", help="a value of the experiment, for all runs")
    one.add_argument("--vary", type=_variants, action="append", default=[], metavar="KEY=[V,...]", help="values of which each gets runs of its own")
    one.add_argument("--measure", type=_measure, action="append", default=[], metavar="NAME=WHAT", help="a number of each run, for the table and the report")
    one.add_argument("--until", type=_until, metavar="WIDTH", help="add seeds until the first measure's mean is known so narrowly: \"5 %%\", or a number")
    one.add_argument("--most-seeds", type=int, default=1000, metavar="N", help="with --until: no more than this [default: 1000]")
    one.add_argument("--on", default="local", metavar="WHERE", help="local, slurm, dask or dask:ADDRESS [default: local]")
    one.add_argument("--slurm", type=_setting, action="append", default=[], metavar="KEY=VALUE", help="a parameter of submitit, such as slurm_partition=short")
    one.add_argument("--workers", type=_count, metavar="N", help="runs at a time [default: as many as there are processors]")
    one.add_argument("--retries", type=int, default=2, metavar="N", help="how often a run is made again whose worker is lost [default: 2]")
    one.add_argument("--timeout", type=float, metavar="SECONDS", help="real time that a run may take")
    one.add_argument("--strace", action="store_true", help="log system calls")
    one.add_argument("--pcap", action="store_true", help="capture packets")
    one.add_argument("--no-progress", action="store_true", help="show no progress bar")
    return parser


def main(arguments: Sequence[str]) -> int:
    """Executes the command; returns its exit status."""
    given = _parser().parse_args(arguments)
    measures = dict(given.measure)
    until = given.until
    if until is not None:
        if not measures:
            print("error: --until needs --measure: what is to be known that narrowly?", file=sys.stderr)
            return 2
        until = half_width(f"{until.width * 100} %" if until.relative else until.width, next(iter(measures)), most=given.most_seeds)
    output = given.output or pathlib.Path(given.file.name).with_suffix(".sweep")
    try:
        made = sweep(
            given.file, output, seeds=given.seeds if isinstance(given.seeds, list) else range(1, given.seeds + 1),
            parameters=dict(given.vary) or None, on=given.on, workers=given.workers,
            measure=(lambda results: {name: of(results) for name, of in measures.items()}) if measures else None, until=until,
            retries=given.retries, slurm=dict(given.slurm) or None, progress=False if given.no_progress else None,
            settings=dict(given.settings), strace=given.strace, pcap=given.pcap, timeout=given.timeout)
    except BelljarError as error:
        print(error if str(error).startswith("error: ") else f"error: {error}", file=sys.stderr)
        return 1
    except KeyboardInterrupt:
        print(f"interrupted: what is done is kept in {output}, and the same command goes on from there", file=sys.stderr)
        return 130
    print(f"{len(made)} runs in {output}: {made.failure_rate()}")
    print(f"report: {output / 'report.html'}\ntable:  {output / 'table.csv'}")
    return 0 if not made.failed else 1
