"""Saving work before it is taken away: what a training loop uses, and what it then says.

    work = Checkpoint("/checkpoints", save, load)   # save(folder) writes files, load(folder) reads
    for step in work.steps(10_000):                 # goes on after the newest save
        train(step)                                 # saves, and leaves, between two steps

Belongs here: the words of the protocol (`wire`, pure) and the library that runs inside a training
container (all else; it has files, signals, a socket). Does not belong here: anything that decides
who has to save. It stands on the standard library and `windlass.model.units` alone, so that an
image needs nothing else to use it.
"""

from windlass.checkpoint.ranks import Alone, RankGroup
from windlass.checkpoint.session import Checkpoint

__all__ = ["Alone", "Checkpoint", "RankGroup"]
