"""A polygon from yes/no answers: once from labels of random points alone, once by asking.

Draws the recovered polygon to build/halfspaces.svg and prints the errors.
"""

from pathlib import Path

import numpy as np

import unweave

rng = np.random.default_rng(3)
angles = np.sort(rng.uniform(0, 0.6, 6) + np.arange(6)) * 2 * np.pi / 6.6
normals = np.column_stack([np.cos(angles), np.sin(angles)])
offsets = rng.uniform(1.0, 2.0, 6)


def member(x):
    """The hidden polygon: which points lie inside."""
    return np.all(x @ normals.T <= offsets, axis=1)


def worst_error(found):
    distances = np.linalg.norm(normals[:, None] - found.normals[None], axis=2)
    return distances.min(axis=1).max()


x = rng.standard_normal((50_000, 2))
learnt = unweave.Halfspaces.learn(x, member(x))
print("from 50,000 labels:", learnt.verdict())
print(f"  worst error of a normal {worst_error(learnt):.1e}")

asked = unweave.Halfspaces.identify(member, input_size=2)
print("from questions:", asked.verdict())
print(f"  worst error of a normal {worst_error(asked):.1e}")


def corners(shape):
    """Corners of a polygon given by halfspaces, in order."""
    order = np.argsort(np.arctan2(shape.normals[:, 1], shape.normals[:, 0]))
    pairs = zip(order, np.roll(order, -1), strict=True)
    return np.array([np.linalg.solve(shape.normals[[i, j]], shape.offsets[[i, j]]) for i, j in pairs])


def points(array):
    return " ".join(f"{200 + 70 * a:.1f},{200 - 70 * b:.1f}" for a, b in array)


dots = "".join(
    f'<circle cx="{200 + 70 * a:.1f}" cy="{200 - 70 * b:.1f}" r="1.2" fill="{"#27c" if inside else "#e83"}"/>'
    for (a, b), inside in zip(x[:1500], member(x[:1500]), strict=True)
    if max(abs(a), abs(b)) < 2.8
)
target = Path("build") / "halfspaces.svg"
target.parent.mkdir(exist_ok=True)
target.write_text(
    f'<svg xmlns="http://www.w3.org/2000/svg" width="400" height="400">{dots}'
    f'<polygon points="{points(corners(learnt))}" fill="none" stroke="black" stroke-width="2"/></svg>\n'
)
print(f"drawn in {target}")
