"""The live view: one frame of a cluster as lines of a terminal, for `windlass demo` and `top`.

Belongs here: drawing a cluster and its plan as text with colours. Does not belong here: the loop
that redraws, which is in the commands, and any reading of a cluster. It does no I/O.

    frame        the attributes of a cluster that can be drawn
    palette      the colours of queues
    map          the GPU map, a cell per GPU
    tree         the tree of queues, a bar per queue
    view         the whole frame: header, map, queues, waiting gangs, latest notes
    export_svg   a frame as an SVG picture
"""
