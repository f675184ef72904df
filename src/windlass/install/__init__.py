"""Putting Windlass on a cluster and taking it off again.

    values         what an administrator can choose: the model behind values.yaml and its schema
    chart          the chart as files, its kinds and rights, and the namespace of an installation
    helm_program   finds Helm and calls it: render, upgrade, uninstall
    apply          install, upgrade, uninstall: what Helm does, and what stands around it

The Helm chart in deploy/chart is the one source of the objects, and Helm alone reads its templates:
`windlass install` checks the values and calls Helm. Belongs here: nothing that runs once Windlass
is installed.
"""
