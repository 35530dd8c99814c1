"""The call and the command that repeat a result: the same seed, the same questions, the same network."""

from __future__ import annotations

import re
import shlex
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from unweave.result import Identification

_DEFAULTS = {
    "activation": "auto",
    "hidden": None,
    "budget": "auto",
    "method": "auto",
    "input_size": None,
    "noise": None,
    "held_out": None,
    "certificate_seed": None,
}
_BALL = re.compile(r"Ball\(radius=([\d.e+-]+), centre=None\)")
_BOX = re.compile(r"Box\(low=([\d.e+-]+), high=([\d.e+-]+)\)")
_SIDES = re.compile(r"Box\(low=\[([\d.e+, -]+)\], high=\[([\d.e+, -]+)\]\)")


def python_call(found: Identification) -> str:
    """The call that repeats ``found``; ``model``, or ``x, y``, stands for what is not a file."""
    asked = found.details.get("asked") or {}
    call = asked.get("call", "identify")
    model = repr(asked["model"]) if asked.get("model") else "x, y" if call == "learn" else "model"
    options = [f"{name}={_spell(value)}" for name, value in _chosen(asked).items()]
    if asked.get("domain"):
        options.append(f"domain=unweave.{asked['domain']}")
    if asked.get("moments"):
        options += ["mean=mean", "covariance=covariance"]
    return f"unweave.{call}({', '.join([model, *options, f'seed={found.seed}'])})"


def command(found: Identification) -> str | None:
    """The command line that repeats ``found``; None where the model is not a file or an option is missing."""
    asked = found.details.get("asked") or {}
    if not asked.get("model") or asked.get("moments") or _is_object(asked.get("method")):
        return None
    words = ["unweave", asked.get("call", "identify"), asked["model"]]
    for name, value in _chosen(asked).items():
        text = ",".join(map(str, value)) if isinstance(value, list | tuple) else str(value)
        text = "none" if value is None else text
        words += [f"--{name.replace('_', '-')}", text]
    if asked.get("domain"):
        domain = _domain_words(asked["domain"])
        if domain is None:
            return None
        words += domain
    return shlex.join([*words, "--seed", str(found.seed)])


def _chosen(asked: dict[str, Any]) -> dict[str, Any]:
    return {name: asked[name] for name, default in _DEFAULTS.items() if asked.get(name, default) != default}


def _spell(value: Any) -> str:
    if _is_object(value):
        return value if "..." in value else f"unweave.{value}"
    return repr(tuple(value) if isinstance(value, list) else value)


def _is_object(value: Any) -> bool:
    """Whether a method was given as an object, kept as it is written: ``HighThreshold(unit='relu')``."""
    return isinstance(value, str) and re.fullmatch(r"[A-Z]\w*\(.*\)", value) is not None


def _domain_words(domain: str) -> list[str] | None:
    ball, box, sides = _BALL.fullmatch(domain), _BOX.fullmatch(domain), _SIDES.fullmatch(domain)
    if ball:
        return ["--radius", ball[1]]
    if sides:
        pairs = zip(sides[1].split(", "), sides[2].split(", "), strict=True)
        return ["--box", ",".join(f"{low}:{high}" for low, high in pairs)]
    return ["--box", f"{box[1]},{box[2]}"] if box else None
