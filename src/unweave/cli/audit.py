"""``unweave audit``: what a model gives away behind each defence."""

from __future__ import annotations

import sys
from dataclasses import replace
from pathlib import Path
from typing import Annotated, Literal

from cyclopts import Parameter

from unweave.cli.options import AllowPickle, Quiet, parse_domain, write_json
from unweave.cli.served import ServedOptions

_PLAIN = ServedOptions()


def audit(
    model: str,
    /,
    *,
    defences: str | None = None,
    budget: int | Literal["auto", "none"] = "auto",
    time_limit: float = 12.0,
    cost: float | None = None,
    radius: float | None = None,
    box: Annotated[str | None, Parameter(allow_leading_hyphen=True)] = None,
    input_size: int | None = None,
    seed: int = 0,
    fail_if: Annotated[tuple[str, ...], Parameter(negative="")] = (),
    report: Path | None = None,
    json: Path | None = None,
    served: ServedOptions = _PLAIN,
    quiet: Quiet = False,
    allow_pickle: AllowPickle = False,
) -> int:
    """Identify a model behind one defence after the other and say how much of it comes back.

    Exit status: 0, or 1 when a case fulfils a rule of --fail-if.

    Parameters
    ----------
    model
        What unweave identify takes, an address included.
    defences
        Comma separated: none,float32,decimals=3,noise=1e-3,clip=1,top=1,labels. The usual ones when not given.
    budget
        Most queries of one case. auto: 10,000 of a served model, any number of one at hand; none: any number.
    time_limit
        Seconds for one case.
    cost
        Price of one query, for the table.
    radius
        Ask only inside the ball of this radius around the origin.
    box
        Ask only where every input lies in LOW,HIGH: -1,1; or each in its own LOW:HIGH: 0:40,-1:1.
    input_size
        Number of inputs, where the model does not tell.
    seed
        Seed of every random choice.
    fail_if
        A rule, such as "recovered > 0.5", "fidelity < 1e-3" or "identified"; may be repeated.
    report
        Write the audit as one self-contained HTML page here.
    json
        Write the audit as JSON here.
    """
    from unweave.audit import audit as run
    from unweave.audit.policy import parse_policy
    from unweave.cli.wording import with_flags
    from unweave.formats.write import require_writable

    rules = [parse_policy(text) for text in fail_if]
    for target in (report, json):
        if target is not None:
            require_writable(target)
    domain = parse_domain(radius, box)

    def show(case: str, number: int, total: int) -> None:
        if not quiet:
            print(f"{number} of {total}: {case}", file=sys.stderr, flush=True)

    result = run(
        served.serve(model),
        defences=None if defences is None else [part for part in defences.split(",") if part.strip()],
        domain=domain,
        budget=None if budget == "none" else budget,
        time_limit=time_limit,
        cost=cost,
        input_size=input_size,
        seed=seed,
        allow_pickle=allow_pickle,
        progress=show,
    )
    result = replace(result, cases=tuple(replace(c, reason=with_flags(c.reason)) for c in result.cases))
    if json is not None:
        write_json(json, result.to_json())
    if report is not None:
        result.report(report)
    print(result.table())
    breaches = [
        (text, case.defence)
        for text, rule in zip(fail_if, rules, strict=True)
        for case in rule.breaches(result)
    ]
    for text, defence in breaches:
        print(f"unweave: the policy fails: {text} ({defence})", file=sys.stderr)
    return 1 if breaches else 0
