"""The page in a real browser: no complaint in the console, no sideways scrolling, light and dark, phone and desk.

``python tests/report/browser.py [folder]`` needs chromium (Debian: apt-get install chromium); ``make browser`` runs it.
Screenshots are left in the folder to be looked at.
"""

from __future__ import annotations

import re
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1]))

from report.results import hostile, result
from truth import random_network
from unweave.audit import Audit, Case
from unweave.core.errors import Outcome

WIDTHS = {"desk": 1100, "phone": 400}
FRAME = """<!doctype html><body><iframe id="f" width="{width}" height="900" src="{page}"></iframe><script>
document.getElementById("f").onload = e => {{
  const root = e.target.contentDocument.documentElement;
  document.body.dataset.result = `${{root.scrollWidth}}/${{root.clientWidth}}/` +
    `${{[...root.querySelectorAll("svg text")].length}}`;
}};
</script></body>"""


def find_browser() -> str:
    for name in ("chromium", "chromium-browser", "google-chrome"):
        path = shutil.which(name)
        if path:
            return path
    raise SystemExit("chromium is not installed; on Debian: apt-get install chromium")


def run_browser(browser: str, profile: Path, *arguments: str) -> tuple[str, str]:
    """What the browser prints, and the messages of the console."""
    command = [browser, "--headless", "--no-sandbox", "--disable-gpu", "--hide-scrollbars"]
    command += [f"--user-data-dir={profile}", "--enable-logging=stderr", "--v=0", *arguments]
    done = subprocess.run(command, capture_output=True, text=True, timeout=120, check=True)
    return done.stdout, "\n".join(line for line in done.stderr.splitlines() if "CONSOLE" in line)


def _audited() -> Audit:
    """An audit of every outcome, with a price and long reasons."""
    names = ("none", "float32", "decimals=6", "noise=0.0001", "labels", "at most 25% of the queries")
    outcomes = (Outcome.IDENTIFIED, Outcome.PARTLY, *[Outcome.NOT_IDENTIFIED] * 4)
    errors = (3e-11, 4e-6, 2e-3, 0.4, None, None)
    cases = [
        Case(
            name,
            outcome,
            "30-30-9-1 tanh",
            1.0 / (1 + i),
            error,
            error,
            10 ** (i + 2),
            3.5,
            12.0,
            "why " * 30,
        )
        for i, (name, outcome, error) in enumerate(zip(names, outcomes, errors, strict=True))
    ]
    return Audit("ONNX model tanh_30_9.onnx", "the model's own network", tuple(cases), 0.01)


def main() -> None:
    folder = Path(sys.argv[1] if len(sys.argv) > 1 else "build/browser")
    folder.mkdir(parents=True, exist_ok=True)
    browser = find_browser()
    reference = random_network((5, 6, 3, 2), "tanh", seed=1)
    pages = {"whole": result(), "hostile": hostile(), "audit": _audited()}
    with tempfile.TemporaryDirectory() as profile:
        for name, found in pages.items():
            target = folder / f"{name}.html"
            page = (
                found.report(target)
                if isinstance(found, Audit)
                else found.report(target, reference=reference)
            )
            page = page.resolve()
            for place, width in WIDTHS.items():
                frame = folder / f"{name}-{place}-frame.html"
                frame.write_text(FRAME.format(width=width, page=page.as_uri()))
                dom, said = run_browser(
                    browser, Path(profile), "--disable-web-security", "--dump-dom", frame.resolve().as_uri()
                )
                measured = re.search(r'data-result="(\d+)/(\d+)/(\d+)"', dom)
                assert measured, f"{name}: the page did not load"
                wide, room, texts = map(int, measured.groups())
                assert wide <= room, f"{name} scrolls sideways at {width} px: {wide} > {room}"
                assert texts > 20, f"{name}: figures are missing"
                assert not said, said
                frame.unlink()
                for tone, setting in (("light", "1"), ("dark", "0")):
                    picture = (folder / f"{name}-{place}-{tone}.png").resolve()
                    _, said = run_browser(
                        browser,
                        Path(profile),
                        f"--window-size={width},{3000 if place == 'desk' else 5200}",
                        f"--blink-settings=preferredColorScheme={setting}",
                        f"--screenshot={picture}",
                        page.as_uri(),
                    )
                    assert not said, said
                    assert picture.stat().st_size > 10_000
            print(f"{name}: {page.stat().st_size:,} bytes, no message in the console, no sideways scrolling")


if __name__ == "__main__":
    main()
