"""Gauss-Newton on a relu network and the questions already asked: no query is spent.

On each activation pattern the network is multilinear in its parameters, so a few steps from a start correct to many
digits reach rounding. The scales between layers are free: steps are the shortest ones. Small networks factorise the
Jacobian; large ones never form it: conjugate gradients on products with it, preconditioned by one Cholesky factor a
unit, cost (points) x (parameters) an iteration instead of the square.
"""

from __future__ import annotations

import numpy as np
import scipy.linalg

from unweave.network import Network

MAX_UNKNOWNS = 300
"""Parameters up to which the Jacobian is factorised."""
MAX_ITERATIONS = 200


def refine_network(
    network: Network, x: np.ndarray, answers: np.ndarray, bars: np.ndarray, *, num_steps: int = 4
) -> Network:
    """The network after Gauss-Newton steps on the points it already explains roughly."""
    scale = np.median(np.abs(answers)) + 1e-300
    misses = np.max(np.abs(network(x) - answers), axis=1)
    near = np.flatnonzero(misses <= 1e-5 * (scale + np.max(np.abs(answers), axis=1)))
    num_unknowns = network.num_parameters
    limit = max(4 * num_unknowns, 1500)
    if len(near) < num_unknowns + 10:
        return network
    if len(near) > limit:
        near = near[np.linspace(0, len(near) - 1, limit).astype(int)]
    x, answers, weights = x[near], answers[near], 1 / bars[near]
    solve = _solve_factorised if num_unknowns <= MAX_UNKNOWNS else _solve_by_products
    best, best_size = network, _size(network, x, answers, weights)
    for _ in range(num_steps):
        residual = (answers - best(x)) * weights[:, None]
        trial = _moved(best, solve(best, x, weights, residual))
        size = _size(trial, x, answers, weights)
        if not size < 0.9 * best_size:
            return trial if size < best_size else best
        best, best_size = trial, size
    return best


def _solve_factorised(network: Network, x, weights, residual) -> np.ndarray:
    jacobian = _jacobian(network, x) * np.repeat(weights, network.output_size)[:, None]
    columns = np.maximum(np.linalg.norm(jacobian, axis=0), 1e-300)
    jacobian /= columns
    q, r = np.linalg.qr(np.vstack([jacobian, 1e-9 * np.eye(jacobian.shape[1])]))
    return scipy.linalg.solve_triangular(r, q[: residual.size].T @ residual.ravel()) / columns


def _solve_by_products(network: Network, x, weights, residual) -> np.ndarray:
    """The same step by products with the Jacobian alone."""
    inputs, backs = _layers(network, x)
    backs = [back * weights[:, None, None] for back in backs]
    extended = [np.hstack([h, np.ones((len(x), 1))]) for h in inputs]
    inverses = [
        np.array([_inverse_factor(features, back[:, :, unit]) for unit in range(back.shape[2])])
        for features, back in zip(extended, backs, strict=True)
    ]
    shapes = [(len(w), w.shape[1] + 1) for w in network.weights]
    ends = np.cumsum([rows * columns for rows, columns in shapes])[:-1]

    def scale(v: np.ndarray, transposed: bool) -> list[np.ndarray]:
        blocks = [part.reshape(shape) for part, shape in zip(np.split(v, ends), shapes, strict=True)]
        rule = "uji,uj->ui" if transposed else "uij,uj->ui"
        return [np.einsum(rule, inverse, block) for inverse, block in zip(inverses, blocks, strict=True)]

    def apply(v: np.ndarray) -> np.ndarray:
        total = np.zeros(residual.shape)
        for back, features, move in zip(backs, extended, scale(v, False), strict=True):
            total += np.einsum("nku,nu->nk", back, features @ move.T)
        return total.ravel()

    def adjoint(r: np.ndarray) -> np.ndarray:
        rows, parts = r.reshape(residual.shape), zip(backs, extended, strict=True)
        blocks = [np.einsum("nku,nk->nu", back, rows).T @ features for back, features in parts]
        return _flat(scale(_flat(blocks), True))

    solution = _conjugate_gradients(apply, adjoint, residual.ravel())
    return _flat(scale(solution, False))


def _flat(blocks: list[np.ndarray]) -> np.ndarray:
    return np.concatenate([block.ravel() for block in blocks])


def _conjugate_gradients(apply, adjoint, right: np.ndarray) -> np.ndarray:
    """The shortest least-squares solution by conjugate gradients on the normal equations (CGLS)."""
    rest = right.copy()
    gradient = adjoint(rest)
    solution, direction = np.zeros_like(gradient), gradient
    first = size = float(gradient @ gradient)
    for _ in range(MAX_ITERATIONS):
        if size <= 1e-24 * first:
            break
        image = apply(direction)
        step = size / float(image @ image)
        solution, rest = solution + step * direction, rest - step * image
        gradient = adjoint(rest)
        before, size = size, float(gradient @ gradient)
        direction = gradient + size / before * direction
    return solution


def _inverse_factor(features: np.ndarray, slopes: np.ndarray) -> np.ndarray:
    """``R^-1`` for one unit's part ``R'R`` of the normal equations; slopes (n, outputs)."""
    reach = np.linalg.norm(slopes, axis=1)
    rows = features[reach > 0] * reach[reach > 0, None]
    gram = rows.T @ rows
    gram[np.diag_indices_from(gram)] += 1e-12 * np.trace(gram) + 1e-300
    factor = scipy.linalg.cholesky(gram, check_finite=False)
    return scipy.linalg.solve_triangular(factor, np.eye(len(factor)), check_finite=False)


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
