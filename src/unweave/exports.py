"""Networks as files and as models of other frameworks; nothing counts as written before it was re-evaluated.

``export`` writes ``.onnx``, ``.safetensors`` or ``.npz`` by the suffix of the path; ``to_torch`` and
``to_sklearn`` return a model in memory; ``load_network`` reads back what ``.safetensors`` and ``.npz`` hold.
No pickle anywhere.
"""

from unweave.formats.sklearn import to_sklearn
from unweave.formats.torch import to_torch
from unweave.formats.write import check_target, export, load_network

__all__ = ["check_target", "export", "load_network", "to_sklearn", "to_torch"]
