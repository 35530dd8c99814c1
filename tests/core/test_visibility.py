"""What counts as visible: unit by unit, and in a bounded domain without the sides that do not show there."""

import numpy as np

from unweave.core.domains import Box
from unweave.core.network import Network
from unweave.core.visibility import visible_error


def _network(w1: np.ndarray, b1: np.ndarray, c: np.ndarray, constant: float) -> Network:
    return Network([w1, c[None]], [b1, np.array([constant])], ["relu", "identity"])


def _turned(room: bool) -> tuple[Network, Network]:
    """A unit turned round, with what that leaves carried by units that never switch in the box; and the original."""
    rng = np.random.default_rng(5)
    w, b, c = rng.standard_normal((3, 2)), 0.2 * rng.standard_normal(3), rng.standard_normal(3)
    still = rng.standard_normal((2, 2))
    high = 1 + np.abs(still).sum(axis=1)
    own = np.array([0.7, 0.0]) if room else np.zeros(0)
    num = len(own)
    network = _network(np.vstack([w, still[:num]]), np.append(b, high[:num]), np.append(c, own), 0.3)
    other_w, other_b = w.copy(), b.copy()
    other_w[0], other_b[0] = -w[0], -b[0]
    # relu(z) = z + relu(-z)
    rest = c[0] * w[0] + (own[0] * still[0] if num else 0.0)
    lift = 1 + np.abs(rest).sum()
    constant = 0.3 + c[0] * b[0] + (own[0] * high[0] if num else 0.0) - lift
    turned = _network(
        np.vstack([other_w, rest]), np.append(other_b, lift), np.append(c, 1.0), float(constant)
    )
    return network, turned


def test_a_side_that_does_not_show_in_a_box_does_not_count():
    network, turned = _turned(room=True)
    x = Box(-1.0, 1.0).sample(4000, 2, np.random.default_rng(1))
    assert np.max(np.abs(network(x) - turned(x))) < 1e-12
    assert visible_error(network, turned, x) > 0.1
    assert visible_error(network, turned, x, bounded=True) < 1e-9


def test_a_side_that_only_a_wider_network_could_turn_counts_in_a_box():
    network, turned = _turned(room=False)
    x = Box(-1.0, 1.0).sample(4000, 2, np.random.default_rng(1))
    assert np.max(np.abs(network(x) - turned(x))) < 1e-12
    assert visible_error(network, turned, x, bounded=True) > 0.1


def test_a_kink_elsewhere_counts_in_a_box():
    network, turned = _turned(room=True)
    x = Box(-1.0, 1.0).sample(4000, 2, np.random.default_rng(1))
    weights = [turned.weights[0].copy(), turned.weights[1]]
    weights[0][0, 0] += 1e-3
    moved = Network(weights, turned.biases, turned.activations)
    assert visible_error(network, moved, x, bounded=True) > 1e-5


def _sharing(shift: float, gap: float) -> Network:
    """A unit of the first layer, on beyond 0.5, read by two of the second that are on beyond 0.5 - ``gap``."""
    w1, b1 = np.array([[1.0, 0.3], [1.0, 0.0], [0.2, 1.0]]), np.array([1.5, -0.5, 1.4])
    # the first and the third unit are always on: x = (u, v) is linear in them
    inverse = np.linalg.inv(w1[[0, 2]])
    along, narrow = np.array([inverse[0, 0], 0.0, inverse[0, 1]]), np.array([0.0, 1.0, 0.0])
    offset = -float(along @ np.array([1.5, 0.0, 1.4]))
    w2 = np.array([along + (0.7 + shift) * narrow, 1.3 * along - (0.2 + shift) * narrow])
    b2 = np.array([offset - 0.5 + gap, 1.3 * offset - 0.3])
    return Network([w1, w2, np.ones((1, 2))], [b1, b2, np.zeros(1)], ["relu", "relu", "identity"])


def test_weights_of_which_only_a_sum_shows_do_not_count_in_a_box():
    x = Box(-1.0, 1.0).sample(4000, 2, np.random.default_rng(1))
    network, shifted = _sharing(0.0, 0.2), _sharing(0.1, 0.2)
    assert np.max(np.abs(network(x) - shifted(x))) < 1e-12
    assert visible_error(network, shifted, x) > 0.01
    assert visible_error(network, shifted, x, bounded=True) < 1e-9


def test_weights_that_show_by_themselves_count_in_a_box():
    x = Box(-1.0, 1.0).sample(4000, 2, np.random.default_rng(1))
    network, shifted = _sharing(0.0, -0.2), _sharing(0.1, -0.2)
    assert visible_error(network, shifted, x, bounded=True) > 0.01
