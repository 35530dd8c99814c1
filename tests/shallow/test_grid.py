"""landscape: labels, resuming, engines, the logistic fit, the split by signs, the figure."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest

from unweave import landscape
from unweave.core.errors import InputError
from unweave.report.landscape import draw_landscape
from unweave.shallow.logistic import fit_logistic
from unweave.shallow.trials import Cell, Recipe, draw_teacher, run_piece

SMALL = {"n": 9, "d": 6, "trials": (2, 3), "descent_steps": 100}


def test_few_units_fail_and_many_succeed_with_proof():
    grid = landscape("quadratic", k=[1, 14], **SMALL)
    few, many = grid.cells()
    assert few.num_clean < few.num_teachers
    assert many.num_clean == many.num_teachers == 2
    assert many.run_fraction == 1
    assert all(run.proved and run.loss < 1e-20 for run in grid.runs if run.k == 14)
    assert all(cell.num_runs == 6 for cell in (few, many))


def test_a_result_does_not_depend_on_the_engine_or_the_order(tmp_path):
    alone = landscape("quadratic", k=[3, 8], **SMALL)
    with ThreadPoolExecutor(2) as pool:
        together = landscape("quadratic", k=[8, 3], engine=pool, **SMALL)

    def facts(grid):
        return [(r.k, r.teacher, r.start, r.num_negative, r.label, r.loss) for r in grid.runs]

    assert facts(alone) == facts(together)


def test_a_file_is_continued_and_other_settings_are_refused(tmp_path):
    path = tmp_path / "grid.csv"
    first = landscape("quadratic", k=[3], out=path, **SMALL)
    lines = path.read_text().splitlines()
    assert len(lines) == 1 + 6
    # The last run is lost, as after a crash: its teacher is done again, the other is not.
    path.write_text("\n".join(lines[:-1]) + "\n")
    pieces = []
    again = landscape("quadratic", k=[3, 8], out=path, progress=lambda *p: pieces.append(p), **SMALL)
    assert pieces[-1][:2] == (2, 2)
    assert [r.loss for r in again.runs if r.k == 3] == pytest.approx([r.loss for r in first.runs])
    done = landscape("quadratic", k=[3, 8], out=path, progress=lambda *p: pieces.append(p), **SMALL)
    assert len(pieces) == 2
    assert len(done.runs) == 12
    with pytest.raises(InputError, match="other settings"):
        landscape("quadratic", k=[3], out=path, seed=5, **SMALL)
    path.write_text("nothing\n1\n")
    with pytest.raises(InputError, match="not a file of landscape results"):
        landscape("quadratic", k=[3], out=path, **SMALL)


def test_negative_output_weights_alone_never_fit_positive_labels():
    recipe = Recipe("quadratic", num_starts=24, descent_steps=200)
    runs = run_piece(recipe, Cell(20, 6, 3), (0,))
    hopeless = [run for run in runs if run.num_negative == 3]
    assert hopeless
    assert not any(run.reached for run in hopeless)
    ones = run_piece(
        Recipe("quadratic", num_starts=4, output_start="ones", train_output=False), Cell(9, 3, 6), (0,)
    )
    assert all(run.num_negative == 0 and run.reached for run in ones)


def test_labels_are_planted_or_random():
    planted = draw_teacher(Recipe("quadratic"), Cell(30, 4, 2), 0)[1]
    assert np.all(planted > 0)
    noise = draw_teacher(Recipe("quadratic", labels="random"), Cell(30, 4, 2), 0)[1]
    assert np.any(noise < 0)


def test_plain_descent_with_too_long_steps_diverges_and_says_so():
    runs = run_piece(Recipe("quadratic", solver="plain", step=5.0, num_starts=3), Cell(20, 6, 8), (0,))
    assert {run.label for run in runs} == {"diverged"}


def test_the_logistic_fit_finds_a_known_crossing():
    rng = np.random.default_rng(0)
    t = np.arange(8, 17)
    truth = 1 / (1 + np.exp(-1.5 * (t - 11.4)))
    inside = 0
    for _ in range(12):
        found = fit_logistic(t, rng.binomial(40, truth), np.full(len(t), 40))
        inside += found.low <= 11.4 <= found.high
        assert found.crossing == pytest.approx(11.4, abs=0.6)
        assert found.slope > 0
    assert inside >= 9
    assert found(found.crossing) == pytest.approx(0.5)


def test_separated_counts_cross_in_the_middle_and_falling_ones_fall():
    found = fit_logistic([4, 5, 6, 7], [0, 0, 10, 10], [10] * 4)
    assert found.crossing == pytest.approx(5.5, abs=0.02)
    assert 4 < found.low < 5.5 < found.high < 7
    falling = fit_logistic([4, 5, 6, 7], [10, 9, 1, 0], [10] * 4)
    assert falling.slope < 0
    assert falling.crossing == pytest.approx(5.5, abs=0.05)
    assert fit_logistic([4, 5], [0, 0], [10, 10]) is None
    assert fit_logistic([4], [5], [10]) is None


def test_the_figure_is_drawn_and_repeats(tmp_path):
    grid = landscape("quadratic", k=[1, 4, 14], **SMALL)
    for name in ("a.svg", "b.svg"):
        draw_landscape(grid, tmp_path / name)
    text = (tmp_path / "a.svg").read_text()
    assert text == (tmp_path / "b.svg").read_text()
    assert "<svg" in text
    assert sum(row["num_runs"] for row in grid.by_signs()) == len(grid.runs)
    assert "crosses 1/2 at k" in str(grid)
    with pytest.raises(InputError, match="0 of n, d, k vary"):
        draw_landscape(landscape("quadratic", k=4, **SMALL), tmp_path / "c.svg")


@pytest.mark.parametrize(
    ("options", "named"),
    [
        ({"k": 0}, "k=0"),
        ({"k": []}, "positive whole number"),
        ({"k": 3, "trials": (0, 3)}, "teachers, starts"),
        ({"k": 3, "solver": "magic"}, "one of descent"),
        ({"k": 3, "labels": "none"}, "planted, random"),
    ],
)
def test_bad_options_are_refused_in_one_line(options, named):
    with pytest.raises(InputError, match=named):
        landscape("quadratic", **{**SMALL, **options})
