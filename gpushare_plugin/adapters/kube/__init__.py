"""The Kubernetes API, as narrow as we use it.

Reading order: `client` (the node's calls) and `scheduling_client` (the extender's),
`informer` (list, watch, resume, for ever) over `sources` or `cluster_sources`,
`recorder` (Kubernetes events); underneath `transport` (HTTP), `wire` (JSON), `failures`
(every error told in our words) and `credentials`.

Rule 1: one door for each foreign library: aiohttp is known to `transport` alone,
msgspec to `wire`, kubernetes to `kubeconfig`.
Rule 2: importing this package imports none of them: a daemon registers with its
kubelet first, and imports `client` after.
"""
