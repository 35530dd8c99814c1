"""Turns whatever the user has into an oracle, or into the network it holds.

Frameworks are imported only for models that come from them. Pickled files run code when loaded, so they are
refused unless the user says otherwise; ``module:attr`` and ``file.py:attr`` run code because they say so.
"""

from __future__ import annotations

import importlib
import importlib.util
import os
import re
import sys
from pathlib import Path
from typing import Any

import numpy as np

from unweave.core.arguments import shown
from unweave.core.domains import Domain
from unweave.core.errors import InputError, MissingExtra
from unweave.core.network import Network
from unweave.core.oracle import Oracle
from unweave.evidence.data import Data
from unweave.models.http_model import ServedModel, from_url
from unweave.models.python_callable import check_count, check_size, from_callable
from unweave.models.saved_network import from_network, read_network
from unweave.models.torch_files import is_torch_archive, is_torchscript, load_program, load_state

_SAVED = {".safetensors", ".npz"}
_KERAS = {".keras", ".h5"}
_TORCH_PICKLES = {".pt", ".pth"}
_PICKLES = {".pkl", ".pickle", ".joblib", *_TORCH_PICKLES}
_ADDRESS = re.compile(r"\s*https?://", re.IGNORECASE)
_REFERENCE = re.compile(r"(?P<place>.+):(?P<attribute>[A-Za-z_][\w.]*)")


def resolve(
    model: Any,
    *,
    input_size: int | None = None,
    output_size: int | None = None,
    allow_pickle: bool = False,
    domain: Domain | Data | None = None,
) -> Oracle:
    """An oracle that answers for ``model``.

    Parameters
    ----------
    model
        A torch module, a path to an ``.onnx`` file, the address of a served model (``http://...``, or a
        ``ServedModel`` with its options), a fitted scikit-learn model, a function from (n, inputs)
        to (n, outputs), ``"module:attr"`` or ``"file.py:attr"``, a ``Network`` or a file one was saved in
        (``.safetensors``, ``.npz``), a finished identification, or an oracle.
    input_size, output_size
        Sizes; needed only where the model does not tell them (functions do not tell the first).
    allow_pickle
        Load ``.pkl``, ``.joblib``, ``.pt`` files, which can run any code they contain.
    domain
        Where a question may be asked if the number of outputs can only be learned by asking (the oracle's
        ``probes`` says how many questions that took); the origin if not given.

    Returns
    -------
    Oracle
        Called with (n, inputs) it answers (n, outputs), float64; with ``name``, the sizes, ``dtype`` and ``notes``.

    Raises
    ------
    UnweaveError
        ``InputError`` for what answers nothing or sizes that do not fit, ``MissingExtra`` without the framework,
        ``OracleError`` when the model fails on its first question.

    Examples
    --------
    >>> import numpy as np, unweave
    >>> oracle = unweave.resolve(np.sin, input_size=2)
    >>> oracle.output_size, oracle.dtype
    (2, 'float64')
    """
    for what, size in (("input_size", input_size), ("output_size", output_size)):
        if size is not None:
            check_count("resolve", what, size)
    if domain is not None and not isinstance(domain, Domain | Data):
        raise InputError(
            f"domain={shown(domain)}: give unweave.Ball(radius), unweave.Box(low, high) or unweave.Data(rows)"
        )
    sizes: dict[str, Any] = {"input_size": input_size, "output_size": output_size}
    model = model if is_address(model) else open_model(model, allow_pickle)
    if is_address(model):
        return from_url(model, **sizes, domain=domain)
    if isinstance(model, Network):
        return _checked(from_network(model), **sizes)
    if _is(model, "keras", "Model"):
        from unweave.models.keras_model import from_keras

        return from_keras(model, **sizes, domain=domain)
    if _is(model, "torch.nn", "Module"):
        from unweave.models.torch_module import from_module

        return from_module(model, **sizes, domain=domain)
    if _is_jax(model):
        from unweave.models.jax_function import from_jax

        return from_jax(model, one_row=_is(model, "equinox", "Module"), **sizes, domain=domain)
    if isinstance(model, Path) and model.suffix.lower() == ".tflite":
        from unweave.models.tflite_file import from_tflite

        return from_tflite(model, **sizes, domain=domain)
    if isinstance(model, Path) or _is(model, "onnx", "ModelProto"):
        from unweave.models.onnx_file import from_onnx

        return from_onnx(model, **sizes, domain=domain)
    if _is(model, "sklearn.base", "BaseEstimator"):
        from unweave.models.sklearn_model import from_estimator

        return from_estimator(model, **sizes, domain=domain)
    if isinstance(model, Oracle):
        return _checked(model, **sizes)
    if callable(model):
        return from_callable(model, **sizes, domain=domain)
    raise InputError(_unusable(model))


def resolve_network(model: Any, *, allow_pickle: bool = False) -> Network:
    """The network ``model`` holds, read from its parameters and checked against the model's own answers.

    Networks, saved networks, identifications, ONNX files of dense layers, torch sequences of linear layers
    and activations, scikit-learn multilayer perceptrons with scalers around them.
    """
    if is_address(model):
        raise InputError(
            "a served model has no weights to compare; identify it first, and compare the result"
        )
    model = open_model(model, allow_pickle)
    if isinstance(model, Network):
        return model
    if _is(model, "keras", "Model"):
        from unweave.models.keras_model import read_keras

        return _verified(read_keras(model), model)
    if _is(model, "torch.nn", "Module"):
        from unweave.models.torch_module import read_module

        return _verified(read_module(model), model)
    if isinstance(model, Path) or _is(model, "onnx", "ModelProto"):
        from unweave.models.onnx_network import read_onnx

        return _verified(read_onnx(model), model)
    if _is(model, "sklearn.base", "BaseEstimator"):
        from unweave.models.sklearn_model import read_estimator

        return _verified(read_estimator(model), model)
    raise InputError(
        f"a {type(model).__name__} has no weights to compare; give a Network, a saved network, "
        f"an .onnx file, a torch Sequential or a scikit-learn MLP"
    )


def is_address(model: Any) -> bool:
    """Whether ``model`` is a served model: an address, or one with its options."""
    return isinstance(model, ServedModel) or (isinstance(model, str) and bool(_ADDRESS.match(model)))


def num_probes(oracle: Oracle) -> int:
    """Questions already asked while the oracle was made, to be charged to the ledger."""
    return int(getattr(oracle, "probes", 0))


def open_model(model: Any, allow_pickle: bool) -> Any:
    """Names and paths opened: what comes back is a model object, or the path of an ONNX file."""
    if isinstance(model, str) and not _names_file(model):
        reference = _REFERENCE.fullmatch(model)
        if reference is not None:
            model = _import_attribute(model, reference["place"], reference["attribute"])
            if isinstance(model, str | os.PathLike):
                raise InputError(f"the attribute is only a name, {str(model)!r}; give it directly")
    if isinstance(model, str | os.PathLike):
        model = _open_file(Path(model), allow_pickle)
    found = getattr(model, "network", None)
    return found if isinstance(found, Network) else model


def _names_file(text: str) -> bool:
    return Path(text).exists() or Path(text).suffix.lower() in {
        ".onnx",
        ".tflite",
        ".pt2",
        *_SAVED,
        *_KERAS,
        *_PICKLES,
    }


def _open_file(path: Path, allow_pickle: bool) -> Any:
    suffix = path.suffix.lower()
    if not path.exists():
        kinds = "an .onnx, .keras, .pt2, .tflite, .safetensors or .npz file, module:attr or file.py:attr"
        raise InputError(f"{path} does not exist; give {kinds}")
    if path.is_dir():
        raise InputError(f"{path} is a directory; give the model file inside it")
    if suffix in (".onnx", ".tflite"):
        return path
    if suffix in _KERAS:
        from unweave.models.keras_model import load_keras

        return load_keras(path, allow_pickle)
    if suffix == ".pt2" or (suffix in _TORCH_PICKLES and is_torchscript(path)):
        return load_program(path)
    if suffix in _SAVED:
        return read_network(path)
    if suffix in _TORCH_PICKLES and not is_torch_archive(path):
        raise InputError(f"{path} is damaged or no file of torch: it is neither an archive nor a pickle")
    if suffix in _PICKLES:
        state = load_state(path) if suffix in _TORCH_PICKLES and not allow_pickle else None
        if state is not None:
            return state
        if not allow_pickle:
            raise InputError(
                f"{path} is a pickled file, and loading it can run any code it contains; export it to ONNX, "
                f"or pass allow_pickle=True if you trust it"
            )
        return _unpickle(path)
    if suffix == ".py":
        raise InputError(f"{path} is Python source; name the model in it: {path}:attribute")
    raise InputError(
        f"{path}: unknown kind of file {suffix!r}; give .onnx, .safetensors, .npz or file.py:attr"
    )


def _unpickle(path: Path) -> Any:
    try:
        if path.suffix.lower() in _TORCH_PICKLES:
            try:
                import torch
            except ImportError as error:
                raise MissingExtra("torch", "torch") from error
            loaded = torch.load(path, map_location="cpu", weights_only=False)
        else:
            try:
                import joblib
            except ImportError as error:
                raise MissingExtra("scikit-learn", "sklearn") from error
            loaded = joblib.load(path)
    except MissingExtra:
        raise
    except Exception as error:
        raise InputError(f"{path} could not be loaded ({type(error).__name__}: {error})") from error
    if isinstance(loaded, dict):
        state = load_state(path) if path.suffix.lower() in _TORCH_PICKLES else None
        if state is not None:
            return state
        raise InputError(f"{path} holds a dictionary, not a model; load it into its module first")
    return loaded


def _import_attribute(reference: str, place: str, attribute: str) -> Any:
    """The object ``place:attribute`` names; the working directory is searched as for ``python -m``."""
    folder = str(Path(place).resolve().parent) if place.endswith(".py") else os.getcwd()
    sys.path.insert(0, folder)
    try:
        if place.endswith(".py"):
            if not Path(place).is_file():
                raise InputError(f"{place} does not exist; give file.py:attr with the path of a Python file")
            spec = importlib.util.spec_from_file_location(f"unweave_model_{Path(place).stem}", place)
            if spec is None or spec.loader is None:
                raise InputError(f"{place} cannot be loaded as Python source")
            found = importlib.util.module_from_spec(spec)
            sys.modules[spec.name] = found
            spec.loader.exec_module(found)
        else:
            found = importlib.import_module(place)
    except InputError:
        raise
    except Exception as error:
        raise InputError(
            f"{reference}: importing {place} failed ({type(error).__name__}: {error})"
        ) from error
    finally:
        sys.path.remove(folder)
    for part in attribute.split("."):
        try:
            found = getattr(found, part)
        except AttributeError as error:
            raise InputError(f"{reference}: {place} has no attribute {attribute!r}") from error
    return found


def _verified(network: Network, model: Any) -> Network:
    """The network read from a model, refused unless it answers as the model does."""
    oracle = resolve(model, input_size=network.input_size)
    x = (
        np.random.default_rng(0)
        .standard_normal((8, network.input_size))
        .astype(np.float32)
        .astype(np.float64)
    )
    answers, expected = network(x), oracle(x)
    if oracle.notes and answers.shape == expected.shape:
        # Log-odds of probabilities close to 0 or 1 have lost their digits, and say nothing here.
        clear = np.max(np.abs(expected), axis=1, initial=0.0) < 15
        answers, expected = answers[clear], expected[clear]
    tolerance = 1e-8 if oracle.dtype == "float64" else 1e-3
    scale = float(np.max(np.abs(expected), initial=1e-300))
    if answers.shape != expected.shape or not np.all(np.abs(answers - expected) <= tolerance * scale):
        raise InputError(
            f"{oracle.name} computes something else than its layers in order (a function between them?); "
            f"write it as a plain sequence, or export it to ONNX"
        )
    return network


def _checked(oracle: Oracle, *, input_size: int | None, output_size: int | None) -> Oracle:
    check_size(oracle.name, "input_size", input_size, oracle.input_size)
    check_size(oracle.name, "output_size", output_size, oracle.output_size)
    return oracle


def _is_jax(model: Any) -> bool:
    """Modules of Equinox and Flax, and functions that ``jax.jit`` has wrapped."""
    kinds = (
        ("equinox", "Module"),
        ("flax.nnx", "Module"),
        ("flax.linen", "Module"),
        ("jax.stages", "Wrapped"),
    )
    return any(_is(model, module, kind) for module, kind in kinds)


def _is(model: Any, module: str, kind: str) -> bool:
    """``isinstance`` for a class of a framework that is imported only if the model comes from it."""
    loaded = sys.modules.get(module)
    return loaded is not None and isinstance(model, getattr(loaded, kind))


def _unusable(model: Any) -> str:
    if isinstance(model, str):
        return (
            f"{model!r} names nothing known; give an .onnx file, a saved network, an http address, "
            f"module:attr or file.py:attr"
        )
    return (
        f"a {type(model).__name__} is nothing that answers; give a torch module, an .onnx path, "
        f"a scikit-learn model, a function of (n, inputs), module:attr or a Network"
    )
