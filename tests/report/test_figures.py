"""Figures are functions of a result, and say so when it has nothing for them to draw."""

from __future__ import annotations

import numpy as np
import pytest
from matplotlib.figure import Figure

import unweave
from report.results import certificate, result
from truth import random_network
from unweave import plots
from unweave.core.errors import InputError, Outcome
from unweave.core.network import Network
from unweave.evidence.ledger import Ledger
from unweave.report.canvas import to_svg
from unweave.report.heat import MOST_CELLS, _strongest
from unweave.report.kinks import find_kinks_by_layer
from unweave.report.spectra import attempts_of, spectra_of

OF_RESULTS = ("ledger", "network", "outputs", "residuals", "spectrum", "timings", "units", "weights")


def _texts(figure: Figure) -> str:
    return to_svg(figure, "t")


@pytest.mark.parametrize("name", OF_RESULTS)
def test_every_figure_draws_and_leaves_the_result_alone(name):
    found = result()
    before = found.to_json()
    figure = getattr(unweave.plots, name)(found)
    assert isinstance(figure, Figure)
    assert to_svg(figure, "a") == to_svg(getattr(plots, name)(found), "a")
    assert found.to_json() == before


@pytest.mark.parametrize("name", OF_RESULTS)
def test_a_figure_without_data_says_why(name):
    empty = result(
        network=None,
        certificate=None,
        outcome=Outcome.NOT_IDENTIFIED,
        ledger=Ledger(),
        alternatives={},
        details={},
    )
    with pytest.raises(InputError, match=r"there is no|keeps no|no query|reads no rank"):
        getattr(plots, name)(empty)


def test_a_rank_is_the_one_the_method_chose():
    values = np.array([4.0, 3.0, 2.0, 1e-3, 1e-12])
    chosen = result(details={"a_spectrum": values, "ranks": {"a_spectrum": 3}})
    assert (spectra_of(chosen)[0].rank, spectra_of(chosen)[0].gap) == (3, 2000.0)
    guessed = result(details={"a_spectrum": values[::-1]})
    assert spectra_of(guessed)[0].rank == 4
    flat = result(details={"singular_values": np.linspace(1, 2, 9)})
    assert spectra_of(flat)[0].rank is None
    assert "3, gap 2.0e+03" in _texts(plots.spectrum(chosen))


def test_spectra_of_odd_values_are_drawn():
    values = np.array([np.inf, 1.0, 0.0, np.nan])
    found = result(details={"a_spectrum": values, "b_spectrum": np.zeros(4), "c_spectrum": np.ones(1)})
    assert [s.name for s in spectra_of(found)] == ["a_spectrum"]
    plots.spectrum(found)


def test_students_that_met_too_few_points_are_left_out():
    rows = [("tanh", (2, 2), 40, 1e-15, "target"), ("tanh", (5,), 40, 0.1, ""), ("tanh", (6,), 90, 1e-15, "")]
    names = [attempt.name for attempt in attempts_of(result(details={"attempts": rows}))]
    assert names == ["6 tanh", "5 tanh"]
    assert [a.name for a in attempts_of(result(details={}))] == ["tanh", "erf"]
    rungs = [(2, 184, 0.1, "stalled"), (6, 440, 1e-4, "target")]
    assert [a.name for a in attempts_of(result(details={"rungs": rungs}))] == ["6 tanh", "2 tanh"]


def test_the_ledger_shows_budget_and_stages():
    text = _texts(plots.ledger(result()))
    for part in ("300 queries, of 1,000 allowed", "circle", ">70<"):
        assert part in text
    many = Ledger(None, {f"stage {i}": i + 1 for i in range(40)}, unit="rows")
    text = _texts(plots.ledger(result(ledger=many)))
    assert "820 rows" in text
    assert "25 more" in text


def test_texts_are_never_mathematics():
    found = result(ledger=Ledger(None, {"a $x_1$ <b>": 5}))
    assert "a $x_1$ &lt;b&gt;" in _texts(plots.ledger(found))


def test_networks_of_every_shape_are_drawn():
    linear = Network([[[1.0, 2.0]]], [[0.5]], ["identity"])
    dead = Network([np.zeros((3, 2)), np.zeros((1, 3))], [None, None], ["relu", "sigmoid"])
    for network in (linear, dead, random_network((300, 200, 100, 4), "relu", seed=0)):
        text = _texts(plots.network(network))
        assert f">{network.output_size}<" in text
        assert len(_texts(plots.weights(network))) < 200_000
    assert "sigmoid" in _texts(plots.network(dead))


def test_large_matrices_show_their_strongest_weights():
    w = np.zeros((200, 300))
    w[37, 211] = -5.0
    small = _strongest(w)
    assert small.shape[0] <= MOST_CELLS[0]
    assert small.shape[1] <= MOST_CELLS[1]
    assert small.min() == -5.0


def test_answers_over_many_sizes_are_readable():
    network = random_network((4, 3, 1), "relu", seed=0)
    whole = certificate(network)
    answers = np.sign(whole.fresh["answers"]) * 10 ** np.linspace(-1, 6, 200)[:, None]
    wide = certificate(network, fresh={**whole.fresh, "answers": answers, "outputs": answers})
    assert "1e6" in _texts(plots.outputs(result(network=network, certificate=wide)))


def test_figures_do_not_depend_on_the_callers_settings():
    import matplotlib

    expected = _texts(plots.ledger(result()))
    with matplotlib.rc_context({"font.size": 30, "text.usetex": False, "axes.facecolor": "red"}):
        assert _texts(plots.ledger(result())) == expected


def test_landscapes_are_drawn_along_one_axis_or_over_two():
    quick = {"trials": (2, 2), "descent_steps": 50}
    along = unweave.landscape("quadratic", n=6, d=3, k=(2, 6), **quick)
    text = _texts(plots.landscape(along))
    assert "hidden units k" in text
    assert "8 runs" in text
    over = unweave.landscape("quadratic", n=(4, 6), d=3, k=(2, 6), **quick)
    assert "samples n" in _texts(plots.landscape(over))
    with pytest.raises(InputError, match="0 of n, d, k vary"):
        plots.landscape(unweave.landscape("quadratic", n=6, d=3, k=6, **quick))


def test_kinks_along_a_line_are_told_by_layer():
    network = random_network((5, 6, 4, 3, 1), "relu", seed=2)
    origin, direction, layers = find_kinks_by_layer(network, 0)
    assert len(layers) == 3
    for layer, places in enumerate(layers):
        below = origin + places[:, None] * direction
        for w, b in zip(network.weights[:layer], network.biases[:layer], strict=True):
            below = np.maximum(below @ w.T + b, 0)
        z = below @ network.weights[layer].T + network.biases[layer]
        assert np.all(np.min(np.abs(z), axis=1) < 1e-8 * (1 + np.abs(places)))
    assert "layer 3" in _texts(plots.kinks(network))
    with pytest.raises(InputError, match="relu units"):
        plots.kinks(random_network((3, 4, 1), "tanh", seed=1))
