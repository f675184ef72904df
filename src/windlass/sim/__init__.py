"""The simulator: virtual time, the real engine. An edge, but a deterministic one.

    run, world, events       the event heap, and the machines on which plans are carried out
    gang_run                 one gang in a simulation, and the account of its useful work
    records, metrics         records of gangs, notes for the live view, sums of GPU time
    report, comparison       the numbers of a run, and of two runs side by side
    workload                 the input: cluster, queues, arrivals, changes
    from_recording, dry_run  a recorded stretch as a workload; plans carried out on a copy

Sub-packages: `scenario` (files), `generate` (from a seed), `traces` (public traces), `baselines`
(other schedulers). Does not belong here: any decision of Windlass itself.
"""
