"""When waiting gangs will start: the engine run forward many times on copies of the cluster.

Belongs here: what was learned from the past (how long work really runs, who comes how often), draws
from it, and the runs. Draws come from a seed that the snapshot gives, so the same snapshot and the
same past give the same answer. Does not belong here: any decision of the scheduler, any clock.
"""
