"""The services of the daemon beside its event loop: ports, dashboard, forecasts and history.

    context          the objects that all terms of a daemon share
    health           the port for health, readiness, metrics and the shadow report
    dashboard        the dashboard of a live cluster, on a port of its own
    dashboard_feed   brings the state of the cluster into the dashboard, only while it is viewed
    standby_proxy    forwards viewers of a standby replica to the leader
    replay_reader    reads recorded cycles for the dashboard
    recorder         records the decisions of a term in the history
    forecaster       estimates the start of waiting gangs, in a small part of one core
    leader_info      reads the leader and its settings from the lease
    webhook          `windlass webhook`: the admission webhook with its certificates
    log              structured log lines

This package does I/O. Nothing here may delay or stop scheduling: failures become log lines, and
work for viewers is limited in time. Decisions about gangs do not belong here.
"""
