"""The Kubernetes API, as narrow as we use it.

Reading order: `values` (what comes and goes), `client` (the calls), `informer`
(list, watch, resume, for ever), `recorder` (Kubernetes events); underneath
`transport` (HTTP), `wire` (JSON), `failures` (every error told in our words) and
`credentials`.

Rule 1: one door for each foreign library: aiohttp is known to `transport` alone,
msgspec to `wire`, kubernetes to `kubeconfig`.
Rule 2: importing this package imports none of them: a daemon registers with its
kubelet first, and imports `client` after.
"""
