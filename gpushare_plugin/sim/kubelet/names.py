"""What the kubelet refuses in a RegisterRequest, and in which words.

Pure: text in, text out.
"""

import re

API_VERSION = "v1beta1"

_LABEL = r"[a-z0-9]([-a-z0-9]*[a-z0-9])?"
_DOMAIN = re.compile(rf"{_LABEL}(\.{_LABEL})*")
_NAME = re.compile(r"[A-Za-z0-9]([-A-Za-z0-9_.]*[A-Za-z0-9])?")
_DOMAIN_CHARACTERS = 253
_NAME_CHARACTERS = 63
# Quotas count a resource under this prefix, so the domain must fit behind it.
_QUOTA_PREFIX = "requests."


def refusal(*, version: str, resource: str) -> str:
    """Return the kubelet's error text for a registration, or nothing where it is fine."""
    if version != API_VERSION:
        return (
            f'requested API version "{version}" is not supported by kubelet.'
            f' Supported version is ["{API_VERSION}"]'
        )
    if not is_extended_resource(resource):
        return f'the ResourceName "{resource}" is invalid'
    return ""


def is_extended_resource(resource: str) -> bool:
    """Whether a plugin may serve a resource of this name."""
    domain, slash, name = resource.partition("/")
    native = not slash or "kubernetes.io/" in resource or resource.startswith(_QUOTA_PREFIX)
    return (
        not native
        and len(_QUOTA_PREFIX + domain) <= _DOMAIN_CHARACTERS
        and _DOMAIN.fullmatch(domain) is not None
        and len(name) <= _NAME_CHARACTERS
        and _NAME.fullmatch(name) is not None
    )
