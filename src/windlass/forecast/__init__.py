"""Forecasts of the starts of waiting gangs: the engine run forward many times on copies.

Belongs here: what was learned from the past (run times, arrivals), random draws from it, and the
forward runs. Draws come from a seed that the snapshot gives, so the same snapshot and the same past
give the same forecast. Does not belong here: any decision of the scheduler, any clock.

    eta           the expected start of each gang, with its spread, from all runs
    forward_run   one run: virtual time, the real engine, a copy of the cluster
    sampling      random run times and arrivals, drawn from experience
    survival      the distribution of run times, from finished and unfinished runs
    experience    the memory of past runs and arrivals
    text          an expected start in words
"""
