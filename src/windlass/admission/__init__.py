"""The admission webhook: it completes pods and jobs that are created in managed namespaces.

    review         pure: AdmissionReview -> patch and warnings
    creators       pure: the kinds of owners whose creator is passed on to their pods
    certificates   pure: the webhook's own authority and certificate, and their renewal
    server         the web application around it

The webhook is a convenience and may be absent: it fails open. What must never be admitted is
refused by the admission policies of the chart, inside the API server. Requests to the API server do
not belong here: `daemon/serving/webhook.py` makes them, and passes functions in.
"""
