"""The embedded cluster: virtual time, real engine. An edge, but a deterministic one.

Belongs here: scenarios, generated days, the event heap that plays them, the baseline scheduler, and
what is measured. Does not belong here: any decision of Windlass itself.
"""
