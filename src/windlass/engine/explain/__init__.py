"""Explanations: why gangs wait, what they could preempt, and which changes would start them.

Belongs here: answers for people that are derived from the rules of the other packages. Does not
belong here: the rules themselves, and text for one interface (CLI, web, pod events). No I/O.

    reasons                 the decisions of a plan, with reasons; the only module that a cycle uses
    preemption_preview      the victims that a waiting gang could have, and the rules against others
    suggest                 the smallest changes that would start a gang, each tried with a plan
    suggestions             the kinds of change that are tried
    delayed_reservations    the reservations that a change would delay
"""
