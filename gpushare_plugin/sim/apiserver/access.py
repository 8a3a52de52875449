"""Who may do what: bearer tokens, RBAC rules, and a record of what was used.

Rule 1: without an `Access` everyone may do everything, as one user, the admin;
with one, a call without a token is anonymous and an unknown token is refused.
Rule 2: rules mean what RBAC means: they only add, a resource name never allows a
create or a list of all, and `*` covers all resources with their subresources.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any, Self

from gpushare_plugin.sim.apiserver.kinds import ACCESS_REVIEW, Json
from gpushare_plugin.sim.apiserver.refusals import ApiRefusal, forbidden
from gpushare_plugin.sim.apiserver.targets import Target

_BEARER = "Bearer "
_ALL = "*"


@dataclass(frozen=True, slots=True, kw_only=True)
class User:
    """Who calls."""

    name: str
    groups: tuple[str, ...] = ()
    extra: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    """What the token carries besides, such as the node of a pod's service account."""


ADMIN = User(name="system:admin", groups=("system:masters",))
ANONYMOUS = User(name="system:anonymous", groups=("system:unauthenticated",))


@dataclass(frozen=True, slots=True, kw_only=True)
class Rule:
    """One rule of a role, bound to a user."""

    verbs: tuple[str, ...]
    resources: tuple[str, ...]
    """Such as `pods`, `pods/status`, `*`."""
    api_groups: tuple[str, ...] = ("",)
    resource_names: tuple[str, ...] = ()
    namespaces: tuple[str, ...] = ()
    """Empty for a ClusterRoleBinding; else the namespaces of the RoleBindings."""

    @classmethod
    def of_role(
        cls, role: Mapping[str, Any], *, namespaces: tuple[str, ...] = ()
    ) -> tuple[Self, ...]:
        """Return the rules of a Role or ClusterRole manifest."""
        return tuple(
            cls(
                verbs=tuple(rule["verbs"]),
                resources=tuple(rule["resources"]),
                api_groups=tuple(rule["apiGroups"]),
                resource_names=tuple(rule.get("resourceNames", ())),
                namespaces=namespaces,
            )
            for rule in role["rules"]
            if "resources" in rule
        )

    def allows(self, question: "Question") -> bool:
        """Whether this rule alone allows it."""
        resources = {_ALL, question.resource}
        if "/" in question.resource:
            resources.add(f"*/{question.resource.partition('/')[2]}")
        return (
            not {_ALL, question.verb}.isdisjoint(self.verbs)
            and not {_ALL, question.group}.isdisjoint(self.api_groups)
            and not resources.isdisjoint(self.resources)
            and (not self.resource_names or question.name in self.resource_names)
            and (not self.namespaces or question.namespace in self.namespaces)
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class Access:
    """Tokens and rules in force."""

    tokens: Mapping[str, User] = field(default_factory=dict)
    """By token."""
    rules: Mapping[str, tuple[Rule, ...]] = field(default_factory=dict)
    """By user name."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Question:
    """What a rule is asked."""

    verb: str
    group: str
    resource: str
    namespace: str
    name: str


@dataclass(frozen=True, slots=True, kw_only=True, order=True)
class Use:
    """What a user did at least once; a test compares it with what was granted."""

    verb: str
    group: str
    resource: str
    """With its subresource, such as `pods/status`."""


class Gate:
    """Lets calls in, or not, and remembers what for."""

    def __init__(self) -> None:
        self._access: Access | None = None
        self._uses: dict[str, set[Use]] = {}

    def set(self, access: Access | None) -> None:
        """Replace what is in force."""
        self._access = access

    def user(self, authorization: str) -> User:
        """Return who sent this Authorization header; raises ApiRefusal for an unknown token."""
        if self._access is None:
            return ADMIN
        if not authorization:
            return ANONYMOUS
        user = self._access.tokens.get(authorization.removeprefix(_BEARER))
        if user is None or not authorization.startswith(_BEARER):
            raise ApiRefusal(401, "Unauthorized")
        return user

    def admit(self, user: User, target: Target) -> None:
        """Let a call in; raises ApiRefusal if no rule allows it."""
        question = Question(
            verb=target.verb,
            group=target.kind.group,
            resource=target.resource,
            namespace=target.namespace,
            name=target.name,
        )
        # Any user may ask what it may do, without a rule of its own.
        if target.kind is ACCESS_REVIEW and user != ANONYMOUS:
            return
        if not self.allowed(user, question):
            raise forbidden(target.kind, target.name, _denial(user, question))
        use = Use(verb=question.verb, group=question.group, resource=question.resource)
        self._uses.setdefault(user.name, set()).add(use)

    def allowed(self, user: User, question: Question) -> bool:
        """Whether any rule of the user allows it."""
        if self._access is None or ADMIN.groups[0] in user.groups:
            return True
        return any(rule.allows(question) for rule in self._access.rules.get(user.name, ()))

    def review(self, user: User, review: Json) -> Json:
        """Answer a SelfSubjectAccessReview."""
        asked = (review.get("spec") or {}).get("resourceAttributes") or {}
        resource, subresource = asked.get("resource", ""), asked.get("subresource", "")
        question = Question(
            verb=asked.get("verb", ""),
            group=asked.get("group", ""),
            resource=f"{resource}/{subresource}" if subresource else resource,
            namespace=asked.get("namespace", ""),
            name=asked.get("name", ""),
        )
        head = {"kind": ACCESS_REVIEW.name, "apiVersion": ACCESS_REVIEW.api_version}
        status = {"allowed": self.allowed(user, question)}
        return {**head, "metadata": {}, "spec": review.get("spec") or {}, "status": status}

    @property
    def uses(self) -> Mapping[str, tuple[Use, ...]]:
        """What each user did at least once and was allowed to."""
        return {user: _sorted(uses) for user, uses in self._uses.items()}


def _sorted(uses: Iterable[Use]) -> tuple[Use, ...]:
    return tuple(sorted(uses))


def _denial(user: User, question: Question) -> str:
    where = (
        f'in the namespace "{question.namespace}"' if question.namespace else "at the cluster scope"
    )
    return (
        f'User "{user.name}" cannot {question.verb} resource "{question.resource}" '
        f'in API group "{question.group}" {where}'
    )
