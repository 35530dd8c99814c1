"""``unweave doctor``: what a bug report needs to know about this installation."""

from __future__ import annotations

from typing import Annotated

from cyclopts import Parameter


def doctor(
    *,
    json: Annotated[bool, Parameter(negative="")] = False,
) -> int:
    """Show versions, extras, devices and threads, and recover a small network as a test.

    Exit status: 0 when all is well, 1 when a part is missing or the test fails.

    Parameters
    ----------
    json
        Print JSON instead of text.
    """
    from unweave.doctor import describe, examine, healthy

    record = examine()
    if json:
        from json import dumps

        print(dumps(record, indent=2))
    else:
        print(describe(record))
    return 0 if healthy(record) else 1
