"""What happens to pods and jobs while they are being created in managed namespaces.

    review   AdmissionReview -> patch and warnings: pure
    makers   which kinds carry the name of their creator on to what they make
    papers   the webhook's own authority and certificate, and when they are renewed: pure
    serve    the thin server around it

The webhook makes life easier and may be absent: it fails open. What must never pass is refused by
the admission policies of the chart, inside the API server. Does not belong here: talking to the API
server; `daemon/serving/webhook.py` does, and hands in what is needed.
"""
