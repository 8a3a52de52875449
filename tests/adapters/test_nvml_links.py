"""How the GPUs of a node are joined."""

from gpushare_plugin.ports import Link, PathLevel
from tests.adapters.conftest import Machine

# Half of a DGX-1: its four cards are a square with one NVLink on some sides, two on others.
SQUARE = """
system driver=570.124.06 cuda=12080
gpu uuid=GPU-a name=V100 total_mib=16384 pci=00000000:06:00.0
gpu uuid=GPU-b name=V100 total_mib=16384 pci=00000000:07:00.0
gpu uuid=GPU-c name=V100 total_mib=16384 pci=00000000:0A:00.0
gpu uuid=GPU-d name=V100 total_mib=16384 pci=00000000:0B:00.0
link a=0 b=1 nvlink=1
link a=1 b=2 nvlink=2
link a=2 b=3 nvlink=1
link a=0 b=3 nvlink=2
"""


def nvlinks(links: tuple[Link, ...]) -> dict[tuple[str, str], int]:
    return {link.uuids: link.nvlinks for link in links}


def test_nvswitches_join_all_cards_with_all_their_nvlinks(machine: Machine) -> None:
    links = machine.open("a100-80-x8").links()

    assert len(links) == 28
    assert {link.nvlinks for link in links} == {12}
    assert all(isinstance(link.path, PathLevel) for link in links)


def test_bridges_join_two_and_two(machine: Machine) -> None:
    links = machine.open("a100-pcie-x4").links()

    assert sorted(nvlinks(links).values()) == [0, 0, 0, 0, 12, 12]


def test_a_pair_has_the_nvlinks_between_the_two_not_all_that_they_have(machine: Machine) -> None:
    links = nvlinks(machine.open(SQUARE).links())

    assert links == {
        ("GPU-a", "GPU-b"): 1,
        ("GPU-a", "GPU-c"): 0,
        ("GPU-a", "GPU-d"): 2,
        ("GPU-b", "GPU-c"): 2,
        ("GPU-b", "GPU-d"): 0,
        ("GPU-c", "GPU-d"): 1,
    }


def test_over_a_switch_a_pair_has_the_nvlinks_to_switches_alone(machine: Machine) -> None:
    both = """
system driver=570.124.06 cuda=12080
gpu uuid=GPU-a name=A total_mib=1024 pci=00000000:01:00.0
gpu uuid=GPU-b name=B total_mib=1024 pci=00000000:02:00.0
gpu uuid=GPU-c name=C total_mib=1024 pci=00000000:03:00.0
gpu uuid=GPU-d name=D total_mib=1024 pci=00000000:04:00.0
link a=0 b=1 nvlink=4
link a=2 b=3 nvlink=3
link a=1 switch=00000000:C4:00.0 nvlink=2
link a=2 switch=00000000:C4:00.0 nvlink=2
"""

    links = nvlinks(machine.open(both).links())

    assert {pair: count for pair, count in links.items() if count} == {
        ("GPU-a", "GPU-b"): 4,
        ("GPU-b", "GPU-c"): 2,
        ("GPU-c", "GPU-d"): 3,
    }


def test_a_driver_that_does_not_tell_where_nvlinks_end_tells_who_is_joined(
    machine: Machine,
) -> None:
    missing = "missing nvmlDeviceGetNvLinkRemotePciInfo_v2\n"

    links = nvlinks(machine.open(SQUARE + missing).links())

    assert [pair for pair, count in links.items() if count] == [
        ("GPU-a", "GPU-b"),
        ("GPU-a", "GPU-d"),
        ("GPU-b", "GPU-c"),
        ("GPU-c", "GPU-d"),
    ]


def test_without_nvlink_the_pcie_path_remains(machine: Machine) -> None:
    [link] = machine.open("t4-x2").links()

    assert (link.path, link.nvlinks) == (PathLevel.SYSTEM, 0)


def test_a_pair_of_which_nothing_is_known_is_left_out(machine: Machine) -> None:
    source = machine.open("t4-x2")
    machine.events.fail("nvmlDeviceGetTopologyCommonAncestor", 3)

    assert source.links() == ()


def test_a_lost_card_is_joined_to_nothing(machine: Machine) -> None:
    source = machine.open(SQUARE)
    machine.events.lost(0)

    assert set(nvlinks(source.links())) == {
        ("GPU-b", "GPU-c"),
        ("GPU-b", "GPU-d"),
        ("GPU-c", "GPU-d"),
    }
