"""Results as text, JSON and pages, for commands that share them.

Belongs here: turning plans, previews, forecasts and reports into sentences, tables, JSON values and
pages. Does not belong here: options of commands, and any decision. Nothing here reads input; only
`trace_page` writes a file, and `pod_conditions` reads a cluster.

    checkpoint_request   a pending checkpoint of a gang
    comparison           two simulations of the same work, side by side
    eta                  expected start times of waiting gangs
    evictions            evictions, moves and holds of a plan
    plots                SVG plots: lines over time, and bars
    pod_conditions       the conditions that the scheduler wrote on the pods of a job
    preemption_preview   the room that is freed for a gang, or that it would have to free
    queue_table          the tree of queues with guarantees, shares and limits
    simulation_report    the report of a simulation
    suggestions          changes that would start a waiting gang
    trace_page           the HTML report of a trace replay
"""
