"""Statistics, held against what is known of distributions, and figures."""

import math

import pytest

from belljar.statistics import failure_rate


def test_failure_rates():
    # Wilson's interval for 1 of 10, as tables have it.
    rate = failure_rate(1, 10)
    assert rate.rate == 0.1 and rate.low == pytest.approx(0.0179, abs=2e-4) and rate.high == pytest.approx(0.4042, abs=2e-4)
    none = failure_rate(0, 20)
    assert none.low == 0 and none.high == pytest.approx(0.1611, abs=2e-4)
    assert failure_rate(20, 20).high == 1 and failure_rate(0, 0).high == 1
    assert str(rate) == "1 of 10 runs failed: 10.0 % (95 % interval 1.8 % to 40.4 %)"
    with pytest.raises(ValueError):
        failure_rate(3, 2)


@pytest.fixture(scope="module")
def np():
    pytest.importorskip("scipy")
    pytest.importorskip("pandas")
    return pytest.importorskip("numpy")


def test_mean_band_is_students(np):
    from belljar.statistics import mean_band

    band = mean_band([1.0, 2.0, 3.0, 4.0, 5.0])
    # t(0.975, 4) = 2.776, s = 1.5811
    assert band.mean == 3 and band.half_width == pytest.approx(2.776 * 1.5811 / math.sqrt(5), rel=1e-3)
    assert math.isnan(mean_band([1.0, 2.0]).low), "no band for fewer than three runs"
    coarse = mean_band([1.0, 1.0, 1.0, 1.0], resolution=0.5)
    assert coarse.half_width == pytest.approx(3.182 * math.sqrt(0.25 / 12 / 4), rel=1e-3), "equal values are not exact"
    with pytest.raises(ValueError):
        mean_band([])


def test_bands_hold_the_mean_as_often_as_they_say(np):
    from belljar.statistics import mean_band

    draw = np.random.default_rng(1)
    held = sum(b.low <= 10 <= b.high for b in (mean_band(draw.normal(10, 3, 5)) for _ in range(1000)))
    assert 930 <= held <= 970


def test_quantile_band(np):
    from belljar.statistics import quantile_band

    draw = np.random.default_rng(2)
    band = quantile_band([draw.exponential(1.0, 5000) for _ in range(8)], quantiles=101)
    middle = band.iloc[50]
    assert middle["quantile"] == 0.5 and middle["low"] < math.log(2) < middle["high"] and (band["runs"] == 8).all()
    assert band["mean"].is_monotonic_increasing
    two = quantile_band([[1, 2, 3], [2, 3, 4], []])
    assert two["low"].isna().all() and (two["runs"] == 2).all() and two["mean"].iloc[0] == 1.5


def test_packets_of_one_run_are_one_observation(np):
    import pandas as pd

    from belljar.statistics import group_band

    frame = pd.DataFrame({"load": [1] * 300, "seed": [n % 3 for n in range(300)], "delay": [float(n % 3) for n in range(300)]})
    band = group_band(frame, "delay", "load")
    assert band["runs"].tolist() == [3] and band["mean"].tolist() == [1.0]
    assert band["high"].iloc[0] - 1 == pytest.approx(4.303 / math.sqrt(3), rel=1e-3)


def test_runs_needed(np):
    from belljar.statistics import runs_needed
    from scipy import stats

    values = np.random.default_rng(3).normal(100, 15, 10)
    for half in (20, 5, 1, 0.1):
        n = runs_needed(values, half)
        s = values.std(ddof=1)
        assert n >= (stats.t.ppf(0.975, n - 1) * s / half) ** 2, "enough"
        assert n <= 2 or n - 1 < (stats.t.ppf(0.975, n - 2) * s / half) ** 2, "and not one too many"
    with pytest.raises(ValueError):
        runs_needed([1.0], 1)


def test_paired_comparison_sees_what_an_unpaired_one_cannot(np):
    from belljar.statistics import paired

    draw = np.random.default_rng(4)
    networks = {seed: float(draw.normal(100, 30)) for seed in range(12)}
    better = {seed: value - 2 + float(draw.normal(0, 0.5)) for seed, value in networks.items() if seed != 3}
    found = paired(networks, better)
    assert found.runs == 11 and found.is_clear and -2.6 < found.difference < -1.4 and found.p_value < 1e-4
    assert "clear" in str(found) and "11 common seeds" in str(found)
    assert not paired(networks, {s: v + (-1) ** s for s, v in networks.items()}).is_clear
    assert "too few" in str(paired({1: 1.0, 2: 2.0}, {1: 2.0, 2: 2.5}))
    with pytest.raises(ValueError, match="no seed in common"):
        paired({1: 1.0}, {2: 1.0})


class TestFigures:
    @pytest.fixture(autouse=True)
    def needs(self, np):
        pytest.importorskip("matplotlib")

    @pytest.mark.parametrize("tail", [False, True])
    def test_cdf(self, np, workdir, tail):
        from belljar import figures

        draw = np.random.default_rng(5)
        runs = {"reno": [draw.lognormal(0, 0.5, 800) for _ in range(5)], "cubic": [draw.lognormal(0.2, 0.5, 800) for _ in range(2)]}
        make = figures.tail_cdf if tail else figures.cdf
        figure, table = make(runs, xlabel="time / s", path=workdir / "cdf.png")
        labels = [text.get_text() for text in figure.axes[0].get_legend().get_texts()]
        assert labels == ["reno (5 runs)", "cubic (2 runs)"]
        assert len(figure.axes[0].collections) == 1, "a band for five runs, none for two"
        assert (workdir / "cdf.png").stat().st_size > 5_000
        saved = (workdir / "cdf.csv").read_text().splitlines()
        assert saved[0] == "variant,quantile,mean,low,high,runs" and len(saved) == 1 + len(table) == 2001

    def test_curves(self, np, workdir):
        import pandas as pd

        from belljar import figures

        draw = np.random.default_rng(6)
        frame = pd.DataFrame([
            {"load": load, "seed": seed, "variant": v, "time": float(load), "rate": load * (1 + 0.1 * draw.random()), "delay": 1 / (11 - load)}
            for load in range(1, 10) for seed in range(4) for v in ("a", "b")])
        for name, made in {
            "series": figures.time_series(frame, value="rate", variant="variant", path=workdir / "series.pdf"),
            "parameter": figures.parameter_curve(frame, parameter="load", value="rate", variant="variant", path=workdir / "parameter.svg"),
            "throughput": figures.throughput_latency(frame, load="load", throughput="rate", latency="delay", variant="variant", path=workdir / "throughput.png"),
            "alone": figures.throughput_latency(frame[frame["variant"] == "a"], load="load", throughput="rate", latency="delay", path=workdir / "alone.png"),
            "one": figures.parameter_curve(frame[frame["variant"] == "a"], parameter="load", value="rate", path=workdir / "one.png"),
        }.items():
            _, table = made
            assert (workdir / f"{name}.csv").is_file() and len(table) == (18 if name in ("series", "parameter", "throughput") else 9), name
            assert (table["runs"] == 4).all()

    def test_a_frame_of_one_run(self, np, workdir):
        """As of `Results.series`, which has a row per host and no seed."""
        import pandas as pd

        from belljar import figures

        frame = pd.DataFrame({"time": [0.5, 0.5, 1.0, 1.0], "host": ["a", "b"] * 2, "bytes_out": [1, 2, 3, 5], "drops": 0})
        figure, table = figures.time_series(frame, value="bytes_out", variant="host")
        assert table[table["variant"] == "b"]["mean"].tolist() == [2, 5] and (table["runs"] == 1).all()
        assert [text.get_text() for text in figure.axes[0].get_legend().get_texts()] == ["a (1 run)", "b (1 run)"]
        _, alone = figures.time_series(frame[frame["host"] == "a"], value="bytes_out")
        assert alone["mean"].tolist() == [1, 3]
        with pytest.raises(ValueError, match="same 'time', and there is no column 'seed': add variant='host'"):
            figures.time_series(frame, value="bytes_out")
        with pytest.raises(ValueError, match="no column 'byte_out': it has 'time', 'host', 'bytes_out', 'drops'"):
            figures.time_series(frame, value="byte_out", variant="host")
        with pytest.raises(ValueError, match="no column 'seed'"):
            figures.parameter_curve(frame, parameter="time", value="bytes_out", variant="host", run="seed")


def test_regular_series_with_any_pandas(np, tmp_path, monkeypatch):
    """Before 2.0 groups by one column in a list are named by the value, since then by a tuple of it."""
    import pandas as pd

    from belljar.results import Results

    frame = pd.DataFrame({"time": [0.5, 1.0], "host": ["alice", "alice"], "bytes": [1, 3]})
    results = Results.__new__(Results)
    monkeypatch.setattr(Results, "statistics", {"simulated_seconds": 1.5}, raising=False)
    now = results._regular(frame, ["host"], 0.5)
    monkeypatch.setattr(pd.DataFrame, "groupby", lambda self, by, sort: [("alice", self)])
    before = results._regular(frame, ["host"], 0.5)
    for regular in (now, before):
        assert regular.to_dict("list") == {"time": [0.5, 1.0, 1.5], "host": ["alice"] * 3, "bytes": [1, 3, 3]}
