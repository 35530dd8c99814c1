"""``unweave demo``: hide a network, find it again, compare."""

from __future__ import annotations

from typing import Any

from unweave.cli.options import Quiet


def demo(
    *,
    seed: int = 0,
    quiet: Quiet = False,
) -> int:
    """Hide a network with 1,219 parameters behind a function, find it again, and compare.

    Parameters
    ----------
    seed
        Seed of the hidden network and of the search.
    """
    from unweave.comparison import compare as align
    from unweave.core.progress import StageProgress
    from unweave.demo import paper_network
    from unweave.run import identify as run

    truth = paper_network(seed=seed)
    print(
        f"A random network, {truth.describe()}, {truth.num_parameters:,} parameters, is hidden behind f(x)."
    )
    print("unweave may only ask for values of f; it is not told the widths or the activation.")

    def f(x: Any) -> Any:
        return truth(x)

    f.__qualname__ = "f"
    with StageProgress(quiet=quiet) as progress:
        found = run(f, input_size=truth.input_size, seed=seed, progress=progress)
    print()
    print(found.verdict())
    if found.network is not None:
        comparison = align(truth, found.network)
        print()
        print("Beside the truth, up to what no observer can see:")
        print(comparison.table())
        print(f"worst relative error of a parameter: {comparison.max_relative_error:.1e}")
    return found.outcome.exit_status
