"""Messages of the library in the words of the command line: ``input_size=3`` becomes ``--input-size 3``."""

from __future__ import annotations

import re

FLAGS = {
    name: "--" + name.replace("_", "-")
    for name in (
        "activation",
        "allow_pickle",
        "batch_size",
        "box",
        "budget",
        "categories",
        "certificate_seed",
        "concurrency",
        "datatype",
        "engine",
        "features",
        "held_out",
        "hidden",
        "input_name",
        "input_size",
        "journal",
        "labels",
        "method",
        "noise",
        "num_starts",
        "output_name",
        "output_path",
        "output_weights",
        "probabilities",
        "protocol",
        "retries",
        "seed",
        "surrogate",
        "target",
        "template",
        "time_limit",
        "timeout",
        "token_env",
        "width",
        "within",
    )
} | {"requests_per_second": "--rate"}
"""Arguments of the library that are options of a command, under the name they have there."""
_DOMAINS = (
    (re.compile(r"domain=unweave\.Data\([^)]*\)"), "--data rows.csv"),
    (re.compile(r"domain=unweave\.Ball\(([^)]*)\)"), r"--radius \1"),
    (re.compile(r"domain=unweave\.Box\(([^,)]*), ([^)]*)\)"), r"--box \1,\2"),
    (re.compile(r"\bdomain=(?!\w)"), "--radius, --box or --data"),
)
_QUOTED = re.compile(rf"(?<![\w.])({'|'.join(FLAGS)})=(\"[^\"]*\"|'[^']*'|\([^()]*\)|\[[^\[\]]*\])")
_PLAIN = re.compile(rf"(?<![\w.])({'|'.join(FLAGS)})=([^\s;:,()?]*)")


def with_flags(text: str) -> str:
    """``text`` with every argument written as the option it is."""
    for pattern, words in _DOMAINS:
        text = pattern.sub(words, text)
    text = _QUOTED.sub(lambda found: f"{FLAGS[found[1]]} {_bare(found[2])}", text)
    return _PLAIN.sub(_option, text)


def _option(found: re.Match[str]) -> str:
    value = found[2].removesuffix("...")
    dots = found[2][len(value) :] if not value else ""
    if dots or value in ("", "True"):
        return FLAGS[found[1]]
    end = "." if value.endswith(".") else ""
    value = value.rstrip(".")
    return f"{FLAGS[found[1]]} {'none' if value == 'None' else value}{end}"


def _bare(value: str) -> str:
    """A list or a quoted word as it is written on the command line."""
    return ",".join(part.strip(" '\"") for part in value.strip("()[]").split(",") if part.strip(" '\""))
