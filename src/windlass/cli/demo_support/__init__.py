"""Parts beside a simulation that `windlass demo` and `windlass simulate` share.

Belongs here: serving a simulation on the dashboard, forecasting ETAs for it in another process, and
recording it. Does not belong here: the simulation itself (`windlass.sim`) and the options of the
commands. It opens sockets, starts a process and writes files.

    dashboard        a simulation on the dashboard
    background_eta   ETAs of its waiting gangs, forecast in a process of their own
    recording        a simulation recorded into a history file
"""
