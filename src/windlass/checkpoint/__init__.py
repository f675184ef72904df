"""Checkpoints before eviction: the library for training loops, and its protocol with the scheduler.

    work = Checkpoint("/checkpoints", save, load)   # save(folder) writes files, load(folder) reads
    for step in work.steps(10_000):                 # resumes after the newest checkpoint
        train(step)                                 # saves, and exits, between two steps

Belongs here: the protocol (pure; the scheduler uses it too) and the library that runs inside a
training container, with files, signals and a socket. Does not belong here: the decision which gang
has to make a checkpoint. The package depends only on the standard library and
`windlass.model.units`, so that an image needs nothing else to use it.

    session    `Checkpoint`, which a training loop uses
    torch      the same for PyTorch: `windlass.checkpoint.torch.checkpoint`
    ranks      the agreement between the processes of a job
    store      checkpoints in a folder, complete or absent
    listeners  signals and files by which a request reaches the process
    endpoint   the HTTP endpoint by which a request reaches the process
    protocol   annotations, requests and answers
"""

from windlass.checkpoint.ranks import Alone, RankGroup
from windlass.checkpoint.session import Checkpoint

__all__ = ["Alone", "Checkpoint", "RankGroup"]
