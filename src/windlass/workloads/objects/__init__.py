"""The Kubernetes objects as Windlass reads them, without any interpretation.

Belongs here: structs with the fields that are read, the names of our labels and annotations, and
helpers that read specs of unknown shape. Does not belong here: the meaning of an object for the
scheduler (`pods`, `nodes`, `kinds`). Pure: no I/O.

    wire          pods, nodes, owners and PriorityClasses
    storage_wire  claims, volumes, storage classes and CSI objects
    annotations   the labels and annotations of Windlass
    signed_marks  the check of annotations that only our scheduler may write
    spec_fields   tolerant readers of specs that have no struct
"""
