"""What to cite: BibTeX entries for the methods a result has used, and for the software itself."""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol, runtime_checkable

from unweave.core.arguments import shown
from unweave.core.errors import InputError
from unweave.version import __version__

if TYPE_CHECKING:
    from unweave.evidence.ledger import Ledger
    from unweave.evidence.precision import Precision


class Result(Protocol):
    """Anything that says which method it comes from."""

    @property
    def method(self) -> str: ...


@runtime_checkable
class Measured(Protocol):
    """A result that knows what it cost and how exact the answers were."""

    @property
    def ledger(self) -> Ledger: ...

    @property
    def precision(self) -> Precision | None: ...


SOFTWARE = f"""@software{{unweave,
  title   = {{unweave: from a black box back to its weights, with a certificate}},
  author  = {{{{The unweave developers}}}},
  version = {{{__version__}}},
  year    = {{2026}},
  license = {{Apache-2.0}}
}}"""

ENTRIES = {
    "fornasier2019": """@article{fornasier2019,
  title   = {Robust and Resource Efficient Identification of Two Hidden Layer Neural Networks},
  author  = {Fornasier, Massimo and Klock, Timo and Rauchensteiner, Michael},
  journal = {arXiv preprint arXiv:1907.00485},
  year    = {2019}
}""",
    "awasthi2021": """@inproceedings{awasthi2021,
  title     = {Efficient Algorithms for Learning Depth-2 Neural Networks with General {ReLU} Activations},
  author    = {Awasthi, Pranjal and Tang, Alex and Vijayaraghavan, Aravindan},
  booktitle = {Advances in Neural Information Processing Systems},
  volume    = {34},
  year      = {2021}
}""",
    "goel2019": """@article{goel2019,
  title   = {Recovering the Lowest Layer of Deep Networks with High Threshold Activations},
  author  = {Goel, Surbhi and Panigrahy, Rina},
  journal = {arXiv preprint arXiv:1903.09231},
  year    = {2019}
}""",
    "soltanolkotabi2017": """@article{soltanolkotabi2017,
  title   = {Theoretical Insights into the Optimization Landscape of Over-Parameterized Shallow Neural Networks},
  author  = {Soltanolkotabi, Mahdi and Javanmard, Adel and Lee, Jason D.},
  journal = {arXiv preprint arXiv:1707.04926},
  year    = {2017}
}""",
    "carlini2020": """@inproceedings{carlini2020,
  title     = {Cryptanalytic Extraction of Neural Network Models},
  author    = {Carlini, Nicholas and Jagielski, Matthew and Mironov, Ilya},
  booktitle = {Advances in Cryptology -- CRYPTO 2020},
  publisher = {Springer},
  year      = {2020}
}""",
    "tropp2007": """@article{tropp2007,
  title   = {Signal Recovery from Random Measurements via Orthogonal Matching Pursuit},
  author  = {Tropp, Joel A. and Gilbert, Anna C.},
  journal = {IEEE Transactions on Information Theory},
  volume  = {53},
  number  = {12},
  pages   = {4655--4666},
  year    = {2007}
}""",
    "transtrum2012": """@article{transtrum2012,
  title   = {Improvements to the {L}evenberg-{M}arquardt Algorithm for Nonlinear Least-Squares Minimization},
  author  = {Transtrum, Mark K. and Sethna, James P.},
  journal = {arXiv preprint arXiv:1201.5885},
  year    = {2012}
}""",
    "more2011": """@article{more2011,
  title   = {Estimating Computational Noise},
  author  = {Mor{\\'e}, Jorge J. and Wild, Stefan M.},
  journal = {SIAM Journal on Scientific Computing},
  volume  = {33},
  number  = {3},
  pages   = {1292--1314},
  year    = {2011}
}""",
}
"""Every entry by its key."""

BY_METHOD: dict[str, tuple[str, ...]] = {
    "far-field": ("fornasier2019", "transtrum2012"),
    "general-relu": ("awasthi2021",),
    "halfspaces": ("goel2019",),
    "hessian-pencil": ("fornasier2019",),
    "hessian-span": ("fornasier2019",),
    "high-threshold": ("goel2019",),
    "in-domain": ("transtrum2012",),
    "clamped": ("carlini2020",),
    "corners": ("fornasier2019",),
    "relu-lines": ("carlini2020",),
    "linear": (),
    "relu-layers": ("carlini2020",),
    "relu-features": ("carlini2020",),
    "relu-lifted": ("carlini2020",),
    "relu-samples": ("awasthi2021", "transtrum2012"),
    "ridge": ("tropp2007",),
    "skeleton": ("carlini2020",),
    **dict.fromkeys(
        ("closed-form", "levenberg-marquardt", "trust-region", "descent", "perturbed-descent"),
        ("soltanolkotabi2017",),
    ),
}
"""Which entries a method rests on; a method that is not listed is cited by the software alone."""


def keys_of(found: Result) -> tuple[str, ...]:
    """Keys of the entries a result rests on, the method's own first."""
    keys = BY_METHOD.get(found.method, ())
    measured = isinstance(found, Measured) and found.precision and found.ledger.unit == "queries"
    return (*keys, "more2011") if measured else tuple(keys)


def bibtex(found: Result | None = None) -> str:
    """BibTeX of the software and of what ``found`` rests on; of every method without ``found``."""
    keys = tuple(ENTRIES) if found is None else keys_of(found)
    return "\n\n".join([SOFTWARE, *(ENTRIES[key] for key in keys)])


def citation(found: Result | None = None) -> None:
    """Print BibTeX for the methods a result has used, and for the software.

    Parameters
    ----------
    found
        A result of ``identify``, ``learn`` or ``fit``; every method is cited when it is not given.
    """
    if found is not None and not isinstance(getattr(found, "method", None), str):
        raise InputError(f"found={shown(found)}: give a result of identify, learn or fit, or nothing")
    print(bibtex(found))
