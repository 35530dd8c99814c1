"""A scikit-learn regressor: the network behind the rows where it can be recovered, and otherwise a student of them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from unweave.core import clock
from unweave.core.deadline import Deadline, hold
from unweave.core.engine import one_thread
from unweave.core.errors import InputError, MissingExtra
from unweave.core.network import Network
from unweave.core.streams import stream
from unweave.methods.base import Method
from unweave.result import Identification
from unweave.run import learn
from unweave.run.surrogate import plain_layout
from unweave.solve.descend import Settings
from unweave.solve.fit import fit_layout
from unweave.students.standard import Standard
from unweave.students.starts import draw_start

try:
    from sklearn.base import BaseEstimator, MultiOutputMixin, RegressorMixin
    from sklearn.utils.validation import check_is_fitted, validate_data
except ImportError as _error:
    raise MissingExtra("scikit-learn", "sklearn") from _error

FEWEST = 40
"""Rows without which no network is looked for: a tenth of them would judge it."""
STUDENTS = (("tanh", 1), ("relu", 1))
STUDENT_SECONDS = 5.0


class NetworkRegressor(MultiOutputMixin, RegressorMixin, BaseEstimator):
    """Recovers the network that answered the rows, as ``unweave.learn`` does, behind ``fit`` and ``predict``.

    Parameters
    ----------
    activation, hidden, method, noise, time_limit, seed
        As for ``unweave.learn``.

    Attributes
    ----------
    found_ : Identification or None
        What ``learn`` found, with its certificate; None with too few rows.
    network_ : Network
        What predicts: the network found, or where none is, a student of the rows.
    identified_ : bool
        Whether ``network_`` is the network behind the rows.
    n_features_in_ : int
        Number of inputs.

    Examples
    --------
    >>> import numpy as np, unweave
    >>> x = np.random.default_rng(0).normal(size=(400, 2))
    >>> model = unweave.NetworkRegressor().fit(x, np.tanh(x @ [1.0, -2.0] + 0.3))
    >>> model.identified_, model.network_
    (True, Network(2-1-1 tanh, 5 parameters))
    """

    activation: str
    hidden: int | Sequence[int] | None
    method: str | Method
    noise: float | None
    time_limit: float | None
    seed: int
    found_: Identification | None
    network_: Network
    identified_: bool

    def __init__(
        self,
        *,
        activation: str = "auto",
        hidden: int | Sequence[int] | None = None,
        method: str | Method = "auto",
        noise: float | None = None,
        time_limit: float | None = 60.0,
        seed: int = 0,
    ):
        self.activation = activation
        self.hidden = hidden
        self.method = method
        self.noise = noise
        self.time_limit = time_limit
        self.seed = seed

    def fit(self, X: Any, y: Any) -> NetworkRegressor:
        """Recover the network from inputs (n, features) and answers (n,) or (n, outputs).

        Returns
        -------
        NetworkRegressor
            Itself.

        Raises
        ------
        ValueError
            For rows that are no finite numbers (``InputError`` is one).
        """
        checked: Any = validate_data(self, X, y, multi_output=True, y_numeric=True, dtype=np.float64)
        x, answers = checked[0], np.asarray(checked[1], dtype=np.float64)
        self._flat = answers.ndim == 1
        answers = answers.reshape(len(x), -1)
        self.found_ = None
        if len(x) >= FEWEST:
            try:
                self.found_ = learn(
                    x,
                    answers,
                    activation=self.activation,
                    hidden=self.hidden,
                    method=self.method,
                    noise=self.noise,
                    time_limit=self.time_limit,
                    seed=self.seed,
                )
            except InputError:
                if not self._is_plain():
                    raise
        self.identified_ = self.found_ is not None and self.found_.identified
        copy = None if self.found_ is None else self.found_.surrogate
        self.network_ = self._student(x, answers) if copy is None else copy
        return self

    def predict(self, X: Any) -> np.ndarray:
        """Answers (n,) or (n, outputs) for inputs (n, features)."""
        check_is_fitted(self)
        x: Any = validate_data(self, X, reset=False, dtype=np.float64)
        answers = self.network_(x)
        return answers[:, 0] if self._flat else answers

    def _is_plain(self) -> bool:
        """Whether nothing was asked for that the rows could contradict."""
        return (self.activation, self.hidden, self.method, self.noise) == ("auto", None, "auto", None)

    def _student(self, x: np.ndarray, y: np.ndarray) -> Network:
        """The plain student that predicts the rows best."""
        seconds = STUDENT_SECONDS if self.time_limit is None else min(STUDENT_SECONDS, self.time_limit)
        deadline = Deadline(seconds)
        standard = Standard.of(x, y)
        u, v = standard.inputs(x), standard.outputs(y)
        best: tuple[float, Network] | None = None
        with one_thread(), hold(deadline):
            for name, depth in STUDENTS:
                layout = plain_layout(u.shape[1], v.shape[1], len(x), name, depth)
                rng = stream(self.seed, "student", name)
                settings = Settings(max_steps=100, deadline=clock.now() + deadline.left)
                fit = fit_layout(layout, draw_start(layout, u, v, rng), u, v, settings=settings)
                error = float(np.sqrt(np.mean((layout.forward(fit.parameters, u) - v) ** 2)))
                if np.isfinite(error) and (best is None or error < best[0]):
                    best = error, standard.undo(layout.network(fit.parameters))
        if best is None:  # answers that nothing can be fitted to: their mean
            weights = np.zeros((y.shape[1], x.shape[1]))
            return Network([weights], [y.mean(axis=0)], ["identity"])
        return best[1]
