"""Admission policies: what they see, and how a denial reads."""

from dataclasses import dataclass, field

from gpushare_plugin.sim.apiserver import (
    AdmissionRequest,
    Denial,
    Operation,
    Rule,
)
from tests.sim.apiserver_peers import NODES, PODS, guarded, node, pod


@dataclass
class OwnNodeOnly:
    """A policy that ties a user to the node of its token."""

    seen: list[AdmissionRequest] = field(default_factory=list)

    def denial(self, request: AdmissionRequest) -> Denial | None:
        self.seen.append(request)
        own = request.user.extra.get("authentication.kubernetes.io/node-name")
        if own is None or request.target.name in own:
            return None
        return Denial(policy="own-node", binding="own-node-all", message="not its own node")


EVERYTHING = Rule(verbs=("*",), resources=("*",))


async def test_a_policy_denies_by_user_and_object_in_the_real_words() -> None:
    async with guarded(EVERYTHING) as api:
        await api.server.create("nodes", node("m"))
        api.server.set_policies([OwnNodeOnly()])
        own = await api.patch(f"{NODES}/n/status", {"metadata": {"labels": {"a": "b"}}})
        other = await api.patch(f"{NODES}/m/status", {"metadata": {"labels": {"a": "b"}}})

        assert own.status == 200
        assert other.refusal == (
            422,
            "Invalid",
            (
                "nodes \"m\" is forbidden: ValidatingAdmissionPolicy 'own-node' with binding "
                "'own-node-all' denied request: not its own node"
            ),
        )
        assert "labels" not in api.server.get("nodes", "m")["metadata"]


async def test_a_policy_sees_the_object_before_and_after() -> None:
    policy = OwnNodeOnly()
    async with guarded(EVERYTHING, who="root") as api:
        api.server.set_policies([policy])
        binding = {"metadata": {"name": "a"}, "target": {"kind": "Node", "name": "n"}}
        await api.post(PODS, pod("b"))
        await api.patch(f"{PODS}/b/status", {"status": {"phase": "Running"}})
        await api.post(f"{PODS}/a/binding", binding)
        await api.delete(f"{PODS}/b")

        create, update, bind, delete = policy.seen
        assert (create.operation, create.before, create.target.name) == (
            Operation.CREATE,
            None,
            "b",
        )
        assert update.operation is Operation.UPDATE
        assert update.before is not None
        assert update.after is not None
        assert update.before["status"]["phase"] == "Pending"
        assert update.after["status"]["phase"] == "Running"
        assert update.target.resource == "pods/status"
        assert (bind.operation, bind.after, bind.target.subresource) == (
            Operation.CREATE,
            binding,
            "binding",
        )
        assert (delete.operation, delete.after) == (Operation.DELETE, None)


async def test_no_policy_stands_in_the_way_of_the_cluster_itself() -> None:
    async with guarded(EVERYTHING) as api:
        api.server.set_policies([OwnNodeOnly()])
        await api.server.patch("nodes", "n", {"metadata": {"labels": {"a": "b"}}})

        assert api.server.get("nodes", "n")["metadata"]["labels"] == {"a": "b"}
