"""The papers' tables and figures as one command: ``unweave reproduce``.

One file a paper. A *cell* is one trial of one column ("as stated" or "unweave") in one setting: a pure function of its
parameters and seed, so cells run in any order, anywhere, and a run that was interrupted goes on where it stopped.
"""
