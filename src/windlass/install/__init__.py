"""Putting Windlass on a cluster and taking it off again.

    values     what an administrator can choose: the model behind values.yaml and its schema
    template   the few words of Helm's language that the chart uses
    chart      chart + values -> the objects of an installation
    apply      objects -> the cluster: install, upgrade, uninstall

The Helm chart in deploy/chart is the one source of the objects. `helm install` and
`windlass install` read the same templates, and a test with the real Helm shows that both
make the same of them. Belongs here: nothing that runs once Windlass is installed.
"""
