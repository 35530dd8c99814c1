"""What a bug report needs to know about this installation: versions, extras, devices, threads, float64.

No secrets and no paths: of the environment only the variables that change how unweave computes are shown.
"""

from __future__ import annotations

import os
import platform
import time
from importlib import metadata
from typing import Any

from unweave.version import __version__

CORE = ("numpy", "scipy", "safetensors", "threadpoolctl", "cyclopts", "rich")
EXTRAS: dict[str, tuple[str, ...]] = {
    "accelerator": ("jax",),
    "torch": ("torch",),
    "keras": ("keras",),
    "flax": ("flax",),
    "equinox": ("equinox",),
    "tflite": ("ai-edge-litert",),
    "onnx": ("onnx", "onnxruntime"),
    "sklearn": ("scikit-learn",),
    "http": ("httpx",),
    "dask": ("distributed",),
    "parquet": ("pyarrow",),
    "report": ("matplotlib", "jinja2"),
}
"""Packages of every extra; ``pip install 'unweave[NAME]'`` brings them."""
VARIABLES = (
    "OMP_NUM_THREADS",
    "OPENBLAS_NUM_THREADS",
    "MKL_NUM_THREADS",
    "UNWEAVE_DEVICE",
    "JAX_PLATFORMS",
    "JAX_ENABLE_X64",
    "XLA_FLAGS",
    "CUDA_VISIBLE_DEVICES",
)


def examine() -> dict[str, Any]:
    """Everything as numbers and words, ready for ``json.dump``."""
    return {
        "unweave": __version__,
        "python": platform.python_version(),
        "implementation": platform.python_implementation(),
        "platform": platform.platform(),
        "machine": platform.machine(),
        "processors": os.cpu_count(),
        "packages": {name: _version(name) for name in CORE},
        "extras": {extra: {name: _version(name) for name in packages} for extra, packages in EXTRAS.items()},
        "linear_algebra": _linear_algebra(),
        "jax": _jax(),
        "environment": {name: _setting(name) for name in VARIABLES if name in os.environ},
        "self_test": _self_test(),
    }


def describe(record: dict[str, Any]) -> str:
    """``examine``'s record as lines to paste into a bug report."""
    lines = [
        f"unweave {record['unweave']}, {record['implementation']} {record['python']}, {record['platform']}, "
        f"{record['processors']} processors",
        "packages: " + _list(record["packages"]),
    ]
    for extra, packages in record["extras"].items():
        missing = [name for name, version in packages.items() if version is None]
        note = f"; for {', '.join(missing)}: pip install 'unweave[{extra}]'" if missing else ""
        lines.append(f"extra {extra}: {_list(packages)}{note}")
    blas = record["linear_algebra"]
    lines.append("linear algebra: " + ("; ".join(_library(library) for library in blas) or "unknown library"))
    jax = record["jax"]
    lines.append(
        f"jax: {jax['error']}"
        if "error" in jax
        else f"jax: {jax['backend']}, devices {', '.join(jax['devices'])}, float64 {_on(jax['float64'])}"
    )
    variables = ", ".join(f"{name}={value}" for name, value in record["environment"].items())
    lines.append(f"environment: {variables or 'nothing set'}")
    test = record["self_test"]
    lines.append(
        f"self test: {test['outcome']}, {test['queries']} queries, worst parameter error {test['error']:.1e}, "
        f"{test['seconds']:.2f} s"
        if "error" in test
        else f"self test: {test['outcome']}"
    )
    return "\n".join(lines)


def healthy(record: dict[str, Any]) -> bool:
    """Whether everything that must be there is, and a small network was recovered."""
    return None not in record["packages"].values() and record["self_test"].get("error", 1.0) < 1e-6


def _version(name: str) -> str | None:
    try:
        return metadata.version(name)
    except metadata.PackageNotFoundError:
        return None


def _setting(name: str) -> str:
    """The variable's value, with the home directory written as ~."""
    return os.environ[name].replace(os.path.expanduser("~"), "~")


def _linear_algebra() -> list[dict[str, Any]]:
    """The libraries NumPy and SciPy call, with the threads they use; their files are left out."""
    import numpy as np
    import scipy.linalg
    from threadpoolctl import threadpool_info

    scipy.linalg.inv(np.eye(2))
    keys = ("internal_api", "version", "threading_layer", "architecture", "num_threads")
    return [{key: pool.get(key) for key in keys} for pool in threadpool_info()]


def _jax() -> dict[str, Any]:
    """What JAX sees, and whether 64-bit numbers stay 64-bit in our own calls."""
    try:
        import jax
        import jax.numpy as jnp

        with jax.enable_x64(True):
            float64 = str(jnp.asarray(1.0).dtype) == "float64"
        devices = [f"{device.platform}:{device.device_kind}" for device in jax.devices()]
        return {"backend": jax.default_backend(), "devices": devices, "float64": float64}
    except ImportError:
        return {"error": "not installed, so fits run on the CPU"}
    except RuntimeError as error:
        return {"error": f"{type(error).__name__}: {' '.join(str(error).split())[:200]}"}


def _self_test() -> dict[str, Any]:
    """A network of three units hidden and found again."""
    import numpy as np

    from unweave.comparison import compare
    from unweave.core.errors import UnweaveError
    from unweave.core.network import Network
    from unweave.run import identify

    rng = np.random.default_rng(0)
    truth = Network(
        [rng.standard_normal((3, 4)), rng.standard_normal((1, 3))],
        [0.3 * rng.standard_normal(3), np.array([0.1])],
        ["tanh", "identity"],
    )
    began = time.monotonic()
    try:
        found = identify(lambda x: truth(x), input_size=4)
    except UnweaveError as error:
        return {"outcome": f"{type(error).__name__}: {error}"}
    record: dict[str, Any] = {"outcome": str(found.outcome), "queries": found.ledger.total}
    if found.network is not None:
        error = compare(truth, found.network).max_relative_error
        record["seconds"] = time.monotonic() - began
        if np.isfinite(error):
            record["error"] = error
    return record


def _list(packages: dict[str, str | None]) -> str:
    return ", ".join(f"{name} {version or 'missing'}" for name, version in packages.items())


def _library(library: dict[str, Any]) -> str:
    name = " ".join(str(library[key]) for key in ("internal_api", "version") if library[key])
    threads = library["num_threads"]
    return f"{name}, {threads} thread{'s' if threads != 1 else ''}"


def _on(value: bool) -> str:
    return "on" if value else "off"
