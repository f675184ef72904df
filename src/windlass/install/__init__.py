"""`windlass install` and `windlass uninstall`.

    values         the values of the chart: the model behind values.yaml, its schema, its reference
    chart          the chart as files, its kinds and rights, and the namespace of an installation
    helm_program   finds Helm and calls it: render, upgrade, uninstall
    apply          installs, upgrades and uninstalls, by Helm and by requests to the API server

The Helm chart in deploy/chart is the one source of the objects, and Helm alone reads its templates:
`windlass install` checks the values and calls Helm. `apply` and `helm_program` do I/O; `values` and
`chart` only read files. Nothing that runs once Windlass is installed belongs here.
"""
