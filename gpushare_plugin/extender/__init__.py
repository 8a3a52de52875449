"""The scheduler extender: kube-scheduler's calls, answered from what is watched.

What belongs here: the ledger of the cluster (`cluster`), one module for each verb, and
the HTTP server around them. What must not be known: how the API server is spoken to.
All state lives in one event loop; what looks at the ledger and acts on it does so
without an `await` between.
"""
