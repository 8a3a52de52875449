"""Tokens, rules, what was used, and admission policies."""

import pytest

from gpushare_plugin.sim.apiserver import (
    Rule,
    Use,
)
from tests.sim.apiserver_peers import NODE_DAEMON, NODES, PODS, access, guarded, node, running

LEASES = "/apis/coordination.k8s.io/v1/namespaces/default/leases"
REVIEWS = "/apis/authorization.k8s.io/v1/selfsubjectaccessreviews"


def denied(what: str, where: str, *, name: str = "") -> tuple[int, str, str]:
    verb, resource = what.split()
    subject = resource.partition("/")[0] + (f' "{name}"' if name else "")
    text = (
        f'{subject} is forbidden: User "{NODE_DAEMON.name}" cannot {verb} '
        f'resource "{resource}" in API group "" {where}'
    )
    return 403, "Forbidden", text


async def test_without_an_access_table_everyone_may_do_everything() -> None:
    async with running() as api:
        assert (await api.post(NODES, node("n"))).status == 201


async def test_an_unknown_token_is_not_let_in() -> None:
    async with guarded(who="guessed") as api:
        reply = await api.get(NODES)

        assert reply.refusal == (401, "Unauthorized", "Unauthorized")


async def test_who_brings_no_token_is_anonymous() -> None:
    async with guarded(who="") as api:
        reply = await api.get(NODES)

        assert reply.refusal == (
            403,
            "Forbidden",
            (
                'nodes is forbidden: User "system:anonymous" cannot list resource "nodes" in API '
                'group "" at the cluster scope'
            ),
        )


async def test_the_health_paths_are_open_to_all() -> None:
    async with guarded(who="") as api:
        assert (await api.get("/readyz")).status == 200
        assert (await api.get("/version")).status == 200


async def test_a_denied_call_is_told_in_the_real_words() -> None:
    cluster, namespace = "at the cluster scope", 'in the namespace "default"'
    async with guarded() as api:
        replies = [
            (await api.get("/api/v1/pods")).refusal,
            (await api.get(PODS, watch="1")).refusal,
            (await api.patch(f"{PODS}/a/status", {})).refusal,
            (await api.patch(f"{NODES}/n/status", {})).refusal,
        ]
        lease = (await api.post(LEASES, {"metadata": {"name": "l"}})).refusal

        assert replies == [
            denied("list pods", cluster),
            denied("watch pods", namespace),
            denied("patch pods/status", namespace, name="a"),
            denied("patch nodes/status", cluster, name="n"),
        ]
        assert lease[2].startswith("leases.coordination.k8s.io is forbidden: ")
        assert 'in API group "coordination.k8s.io" in the namespace "default"' in lease[2]


async def test_a_denied_write_changes_nothing() -> None:
    async with guarded() as api:
        before = api.server.objects("pods")
        await api.delete(f"{PODS}/a")
        await api.patch(f"{PODS}/a", {"metadata": {"labels": {"a": "b"}}})

        assert api.server.objects("pods") == before


@pytest.mark.parametrize(
    ("rule", "statuses"),
    [
        (Rule(verbs=("patch",), resources=("pods/status",)), (200, 403, 403)),
        (Rule(verbs=("patch",), resources=("pods",)), (403, 200, 403)),
        (Rule(verbs=("patch",), resources=("*",)), (200, 200, 200)),
        (Rule(verbs=("patch",), resources=("*/status",)), (200, 403, 200)),
        (Rule(verbs=("*",), resources=("pods", "pods/status")), (200, 200, 403)),
        (Rule(verbs=("update",), resources=("*",)), (403, 403, 403)),
        (Rule(verbs=("*",), resources=("*",), api_groups=("apps",)), (403, 403, 403)),
        (Rule(verbs=("*",), resources=("*",), api_groups=("*",)), (200, 200, 200)),
        (Rule(verbs=("*",), resources=("*",), resource_names=("n",)), (403, 403, 200)),
        (Rule(verbs=("*",), resources=("*",), namespaces=("default",)), (200, 200, 403)),
        (Rule(verbs=("*",), resources=("*",), namespaces=("team",)), (403, 403, 403)),
    ],
)
async def test_a_rule_allows_what_rbac_means_by_it(
    rule: Rule, statuses: tuple[int, int, int]
) -> None:
    async with guarded(rule) as api:
        paths = (f"{PODS}/a/status", f"{PODS}/a", f"{NODES}/n/status")
        found = [(await api.patch(path, {})).status for path in paths]

        assert tuple(found) == statuses


async def test_a_rule_for_one_name_allows_a_list_of_that_name_and_no_other() -> None:
    async with guarded(
        Rule(verbs=("list", "create"), resources=("nodes",), resource_names=("n",))
    ) as api:
        one = await api.get(NODES, fieldSelector="metadata.name=n")
        other = await api.get(NODES, fieldSelector="metadata.name=m")
        everything = await api.get(NODES)
        new = await api.post(NODES, node("n"))

        found = [reply.status for reply in (one, other, everything, new)]
        assert found == [200, 403, 403, 403]


async def test_rules_add_up_and_can_be_replaced() -> None:
    get = Rule(verbs=("get",), resources=("nodes",))
    async with guarded(get, Rule(verbs=("get",), resources=("pods",))) as api:
        both = [(await api.get(path)).status for path in (f"{NODES}/n", f"{PODS}/a")]
        await api.server.set_access(access(get))
        one = [(await api.get(path)).status for path in (f"{NODES}/n", f"{PODS}/a")]
        await api.server.set_access(None)
        free = [(await api.get(path)).status for path in (f"{NODES}/n", f"{PODS}/a")]

        assert (both, one, free) == ([200, 200], [200, 403], [200, 200])


async def test_the_rules_of_a_manifest_are_the_rules_of_its_role() -> None:
    role = {
        "kind": "ClusterRole",
        "rules": [
            {"apiGroups": [""], "resources": ["pods"], "verbs": ["list", "watch"]},
            {"nonResourceURLs": ["/healthz"], "verbs": ["get"]},
            {
                "apiGroups": [""],
                "resources": ["nodes/status"],
                "resourceNames": ["n"],
                "verbs": ["patch"],
            },
        ],
    }

    assert Rule.of_role(role, namespaces=("x",)) == (
        Rule(verbs=("list", "watch"), resources=("pods",), namespaces=("x",)),
        Rule(
            verbs=("patch",),
            resources=("nodes/status",),
            resource_names=("n",),
            namespaces=("x",),
        ),
    )


async def test_an_admin_may_do_everything_by_group() -> None:
    async with guarded(who="root") as api:
        assert (await api.delete(f"{NODES}/n")).status == 200


async def test_what_each_user_did_is_remembered_and_what_was_denied_is_not() -> None:
    rule = Rule(verbs=("list", "watch", "patch"), resources=("pods", "nodes/status"))
    async with guarded(rule) as api:
        await api.get(PODS)
        await api.get(PODS)
        await api.patch(f"{NODES}/n/status", {})
        await api.get(f"{NODES}/n")
        async with api.watch(PODS):
            await api.server.watched("pods")

        assert api.server.state().uses == {
            NODE_DAEMON.name: (
                Use(verb="list", group="", resource="pods"),
                Use(verb="patch", group="", resource="nodes/status"),
                Use(verb="watch", group="", resource="pods"),
            )
        }


@pytest.mark.parametrize(
    ("attributes", "allowed"),
    [
        ({"verb": "patch", "resource": "pods", "subresource": "status"}, True),
        ({"verb": "patch", "resource": "pods"}, False),
        ({"verb": "patch", "resource": "pods", "subresource": "status", "group": "x"}, False),
        ({}, False),
    ],
)
async def test_a_user_may_ask_what_it_may_do(attributes: dict[str, str], allowed: bool) -> None:
    async with guarded(Rule(verbs=("patch",), resources=("pods/status",))) as api:
        review = {"spec": {"resourceAttributes": attributes}}
        reply = await api.post(REVIEWS, review)

        assert reply.status == 201
        assert reply.json["kind"] == "SelfSubjectAccessReview"
        assert reply.json["spec"] == review["spec"]
        assert reply.json["status"] == {"allowed": allowed}
