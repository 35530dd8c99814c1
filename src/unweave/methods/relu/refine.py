"""Gauss-Newton on a relu network and the questions already asked: no query is spent.

On each activation pattern the network is multilinear in its parameters, so a few steps from a start correct to many
digits reach rounding. The scales between layers are free: steps are the shortest ones. Small networks factorise the
Jacobian. Large ones use conjugate gradients on products with it, preconditioned by one Cholesky factor a unit and, up
to a size, by one of the coupling between units, kept for all steps.
"""

from __future__ import annotations

import numpy as np
import scipy.linalg

from unweave.core.network import Network

MAX_UNKNOWNS = 600
"""Parameters up to which the Jacobian is factorised."""
MAX_ITERATIONS, FEW_ITERATIONS = 200, 30
"""Of conjugate gradients, without and with the coupling between units."""
MAX_COUPLED = 6000
"""Parameters up to which the coupling between units is factorised ..."""
CHUNK = 4096
"""... from the rows of the Jacobian, this many at a time."""
OUTLIER = 1e3
"""Points that miss by so many times the median say nothing: a unit not known yet, or a window, disturbs them."""
COUPLING_FLOOR = 1e-15
"""Added to the coupling, relative to its trace."""


def refine_network(
    network: Network, x: np.ndarray, answers: np.ndarray, bars: np.ndarray, *, num_steps: int = 4
) -> Network:
    """The network after Gauss-Newton steps on the points it already explains roughly."""
    scale = np.median(np.abs(answers)) + 1e-300
    misses = np.max(np.abs(network(x) - answers), axis=1)
    near = np.flatnonzero(misses <= 1e-5 * (scale + np.max(np.abs(answers), axis=1)))
    num_unknowns = network.num_parameters
    limit = max(4 * num_unknowns, 4000)
    if len(near) < num_unknowns + 10:
        return network
    if len(near) > limit:
        near = near[np.linspace(0, len(near) - 1, limit).astype(int)]
    x, answers, weights = x[near], answers[near], 1 / bars[near]
    whiten = None if num_unknowns <= MAX_UNKNOWNS else _Whitening(network, x, weights)
    best = network
    for _ in range(num_steps):
        residual = (answers - best(x)) * weights[:, None]
        sizes = np.max(np.abs(residual), axis=1)
        sound = sizes <= OUTLIER * max(float(np.median(sizes)), 1.0)
        residual[~sound] = 0.0
        best_size = _size(best, x[sound], answers[sound], weights[sound])
        if whiten is None:
            step = _solve_factorised(best, x, weights, residual)
        else:
            step = _solve_by_products(best, x, weights, residual, whiten)
        trial = _moved(best, step)
        size = _size(trial, x[sound], answers[sound], weights[sound])
        if not size < 0.9 * best_size:
            return trial if size < best_size else best
        best = trial
    return best


def _solve_factorised(network: Network, x, weights, residual) -> np.ndarray:
    jacobian = _jacobian(network, x) * np.repeat(weights, network.output_size)[:, None]
    columns = np.linalg.norm(jacobian, axis=0)
    columns = np.where(columns > 0, columns, 1.0)  # a weight that no point shows stays as it is
    jacobian /= columns
    q, r = np.linalg.qr(np.vstack([jacobian, 1e-9 * np.eye(jacobian.shape[1])]))
    return scipy.linalg.solve_triangular(r, q[: residual.size].T @ residual.ravel()) / columns


def _solve_by_products(network: Network, x, weights, residual, whiten: _Whitening) -> np.ndarray:
    """The same step by products with the Jacobian alone."""
    extended, backs = _factors(network, x, weights)

    def apply(v: np.ndarray) -> np.ndarray:
        total = np.zeros(residual.shape)
        for back, features, move in zip(backs, extended, whiten.apply(v), strict=True):
            total += np.einsum("nku,nu->nk", back, features @ move.T)
        return total.ravel()

    def adjoint(r: np.ndarray) -> np.ndarray:
        rows, parts = r.reshape(residual.shape), zip(backs, extended, strict=True)
        return whiten.adjoint([np.einsum("nku,nk->nu", back, rows).T @ features for back, features in parts])

    most = FEW_ITERATIONS if whiten.coupled else MAX_ITERATIONS
    return _flat(whiten.apply(_conjugate_gradients(apply, adjoint, residual.ravel(), most)))


class _Whitening:
    """The change of variables after which the normal equations are near the identity.

    First unit by unit, where a hidden unit may not move along its own row: that is its free scale. Then for the
    coupling between units where that is small enough to factorise.
    """

    def __init__(self, network: Network, x: np.ndarray, weights: np.ndarray):
        extended, backs = _factors(network, x, weights)
        rows = [np.hstack([w, b[:, None]]) for w, b in zip(network.weights, network.biases, strict=True)]
        frames = [[_across(row) for row in layer] for layer in rows[:-1]]
        frames.append([np.eye(rows[-1].shape[1]) for _ in rows[-1]])
        self._inverses = [
            np.array([_inverse_factor(features, back[:, :, i], q) for i, q in enumerate(layer)])
            for features, back, layer in zip(extended, backs, frames, strict=True)
        ]
        self._inside = np.cumsum([len(inverse) * inverse.shape[2] for inverse in self._inverses])
        self._coupling = None
        if network.num_parameters <= MAX_COUPLED:
            self._coupling = self._couple(extended, backs)

    @property
    def coupled(self) -> bool:
        return self._coupling is not None

    def apply(self, v: np.ndarray) -> list[np.ndarray]:
        """The steps of all rows with their biases, layer by layer, from whitened variables."""
        if self._coupling is not None:
            v = scipy.linalg.solve_triangular(self._coupling, v, check_finite=False)
        parts = np.split(v, self._inside[:-1])
        return [
            np.einsum("uij,uj->ui", inverse, part.reshape(len(inverse), -1))
            for inverse, part in zip(self._inverses, parts, strict=True)
        ]

    def adjoint(self, blocks: list[np.ndarray]) -> np.ndarray:
        v = _flat(
            [
                np.einsum("uji,uj->ui", inverse, block)
                for inverse, block in zip(self._inverses, blocks, strict=True)
            ]
        )
        if self._coupling is not None:
            v = scipy.linalg.solve_triangular(self._coupling, v, trans=1, check_finite=False)
        return v

    def _couple(self, extended, backs) -> np.ndarray:
        """The upper Cholesky factor of the normal matrix of units already whitened."""
        (n, k, _), num_unknowns = backs[0].shape, int(self._inside[-1])
        gram = np.zeros((num_unknowns, num_unknowns), order="F")
        (syrk,) = scipy.linalg.get_blas_funcs(("syrk",), (gram,))
        for rows in np.array_split(np.arange(n), max(n * k // CHUNK, 1)):
            jacobian, begin = np.empty((len(rows) * k, num_unknowns)), 0
            for features, back, inverses in zip(extended, backs, self._inverses, strict=True):
                for unit, inverse in enumerate(inverses):
                    end = begin + inverse.shape[1]
                    piece = back[rows, :, unit][:, :, None] * (features[rows] @ inverse)[:, None, :]
                    jacobian[:, begin:end] = piece.reshape(len(jacobian), -1)
                    begin = end
            gram = syrk(1.0, jacobian.T, beta=1.0, c=gram, overwrite_c=True)
        gram[np.diag_indices_from(gram)] += COUPLING_FLOOR * float(np.trace(gram))
        return scipy.linalg.cholesky(gram, overwrite_a=True, check_finite=False)


def _factors(network: Network, x, weights) -> tuple[list[np.ndarray], list[np.ndarray]]:
    """Inputs of every layer with a column of ones, and weighted derivatives by its pre-activations."""
    inputs, backs = _layers(network, x)
    extended = [np.hstack([h, np.ones((len(x), 1))]) for h in inputs]
    return extended, [back * weights[:, None, None] for back in backs]


def _flat(blocks: list[np.ndarray]) -> np.ndarray:
    return np.concatenate([block.ravel() for block in blocks])


def _conjugate_gradients(apply, adjoint, right: np.ndarray, max_iterations: int) -> np.ndarray:
    """The shortest least-squares solution by conjugate gradients on the normal equations (CGLS)."""
    rest = right.copy()
    gradient = adjoint(rest)
    solution, direction = np.zeros_like(gradient), gradient
    first = size = float(gradient @ gradient)
    for _ in range(max_iterations):
        if size <= 1e-24 * first:
            break
        image = apply(direction)
        step = size / float(image @ image)
        solution, rest = solution + step * direction, rest - step * image
        gradient = adjoint(rest)
        before, size = size, float(gradient @ gradient)
        direction = gradient + size / before * direction
    return solution


def _across(row: np.ndarray) -> np.ndarray:
    """An orthonormal basis of the directions orthogonal to a row."""
    return np.linalg.qr(row[:, None], mode="complete")[0][:, 1:]


def _inverse_factor(features: np.ndarray, slopes: np.ndarray, basis: np.ndarray) -> np.ndarray:
    """``Q R^-1`` for one unit's part ``R'R`` of the normal equations in the basis Q; slopes (n, outputs)."""
    reach = np.linalg.norm(slopes, axis=1)
    rows = (features[reach > 0] * reach[reach > 0, None]) @ basis
    gram = rows.T @ rows
    gram[np.diag_indices_from(gram)] += 1e-12 * np.trace(gram) + 1e-300
    factor = scipy.linalg.cholesky(gram, check_finite=False)
    return scipy.linalg.solve_triangular(factor, basis.T, trans=1, check_finite=False).T


def _size(network: Network, x, answers, weights) -> float:
    with np.errstate(over="ignore", invalid="ignore"):
        return float(np.sqrt(np.mean(((network(x) - answers) * weights[:, None]) ** 2)))


def _moved(network: Network, step: np.ndarray) -> Network:
    return network.with_flat(network.flat() + step)


def _layers(network: Network, x: np.ndarray) -> tuple[list[np.ndarray], list[np.ndarray]]:
    """The inputs of every layer, and the derivatives (n, outputs, units) of the outputs by its pre-activations."""
    inputs, h = [], x
    for w, b in zip(network.weights[:-1], network.biases[:-1], strict=True):
        inputs.append(h)
        h = np.maximum(h @ w.T + b, 0.0)
    inputs.append(h)
    n, k = len(x), network.output_size
    backs = [np.broadcast_to(np.eye(k), (n, k, k))]
    for i in range(network.num_layers - 1, 0, -1):
        backs.append((backs[-1] @ network.weights[i]) * (inputs[i] > 0)[:, None, :])
    return inputs, backs[::-1]


def _jacobian(network: Network, x: np.ndarray) -> np.ndarray:
    """Derivatives of all outputs (point by point) by every parameter, in ``Network.flat``'s order."""
    n, k = len(x), network.output_size
    blocks = []
    for features, back in zip(*_layers(network, x), strict=True):
        extended = np.hstack([features, np.ones((n, 1))])
        blocks.append((back[:, :, :, None] * extended[:, None, None, :]).reshape(n * k, -1))
    return np.hstack(blocks)
