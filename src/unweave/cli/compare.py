"""``unweave compare``: two networks side by side, up to symmetry."""

from __future__ import annotations

from unweave.cli.options import AllowPickle


def compare(
    a: str,
    b: str,
    /,
    *,
    tolerance: float = 1e-6,
    seed: int = 0,
    allow_pickle: AllowPickle = False,
) -> int:
    """Compare two networks up to the symmetries no observer can see.

    Exit status: 0 when the worst relative parameter error is within the tolerance, 1 when it is not.

    Parameters
    ----------
    a, b
        Files that hold networks: .onnx, .safetensors, .npz, or module:attribute.
    tolerance
        Largest relative parameter error that counts as the same network.
    seed
        Seed of the points on which the outputs are compared as well: 200 standard normal ones, 5,000 at all scales
        for relu networks.
    """
    import numpy as np

    from unweave.comparison import compare as align
    from unweave.core.visibility import spread_points
    from unweave.models.resolve import resolve_network

    first, second = (resolve_network(name, allow_pickle=allow_pickle) for name in (a, b))
    points = None
    closed = not (first.is_open or second.is_open)
    if closed and (first.input_size, first.output_size) == (second.input_size, second.output_size):
        points = np.random.default_rng(seed).standard_normal((200, first.input_size))
        if first.is_piecewise_linear and second.is_piecewise_linear:
            points = spread_points(5000, first.input_size, seed)
    comparison = align(first, second, points=points)
    print(f"a: {first.describe()}")
    print(f"b: {second.describe()}")
    print(comparison.table())
    same = comparison.max_relative_error <= tolerance
    word = "the same network up to symmetry" if same else "different networks"
    worst = comparison.max_relative_error
    print(f"{word}: worst relative parameter error {worst:.1e} (tolerance {tolerance:g})")
    return 0 if same else 1
