"""MIG, processes, links and memory limits, through the real pynvml."""

from collections.abc import Callable

import pynvml
import pytest

from gpushare_plugin.sim.gpus import EventsFile

Open = Callable[[str], EventsFile]

MIB = 1 << 20
NOBODY = 0xFFFFFFFF
CUT = """
gpu uuid=GPU-a name="NVIDIA A100" total_mib=81920 reserved_mib=904 pci=00000000:07:00.0 mig=on
gpu uuid=GPU-b name="NVIDIA A100" total_mib=81920 pci=00000000:47:00.0 mig=off
gpu uuid=GPU-c name="Tesla T4" total_mib=15360 pci=00000000:87:00.0
mig gpu=0 uuid=MIG-1 gi=2 ci=0 profile_name=3g.40gb total_mib=40192 slices=3 multiprocessors=42
mig gpu=0 uuid=MIG-2 gi=9 ci=0 profile_name=1g.10gb total_mib=9728
process gpu=0 pid=100 used_mib=1000 gi=2 ci=0
process gpu=0 pid=101 used_mib=500 gi=9 ci=0
process gpu=2 pid=200 used_mib=16384 sm=70 mem=20
process gpu=2 pid=201 used_mib=unavailable sm=40 type=graphics
process gpu=2 pid=202 used_mib=10 type=mps
"""
LINKED = """
gpu uuid=GPU-a name=A total_mib=1 pci=00000000:01:00.0 numa=0
gpu uuid=GPU-b name=B total_mib=1 pci=00000000:02:00.0 numa=0
gpu uuid=GPU-c name=C total_mib=1 pci=00000000:03:00.0 numa=1
gpu uuid=GPU-d name=D total_mib=1 pci=00000000:04:00.0 numa=1
link a=0 b=1 nvlink=4
link a=1 switch=00000000:C4:00.0 nvlink=2
link a=2 switch=00000000:C4:00.0 nvlink=2
path a=0 b=1 level=single
path a=3 b=2 level=hostbridge
"""


def cards(count: int) -> list[object]:
    return [pynvml.nvmlDeviceGetHandleByIndex(index) for index in range(count)]


def test_a_card_tells_its_mig_mode_and_hands_out_its_instances(open_nvml: Open) -> None:
    open_nvml(CUT)
    cut, whole, old = cards(3)

    instances = [pynvml.nvmlDeviceGetMigDeviceHandleByIndex(cut, index) for index in (0, 1)]

    assert pynvml.nvmlDeviceGetMigMode(cut) == [1, 1]
    assert pynvml.nvmlDeviceGetMigMode(whole) == [0, 0]
    assert [pynvml.nvmlDeviceGetMaxMigDeviceCount(card) for card in (cut, whole, old)] == [7, 0, 0]
    assert [pynvml.nvmlDeviceGetUUID(instance) for instance in instances] == ["MIG-1", "MIG-2"]
    with pytest.raises(pynvml.NVMLError_NotSupported):
        pynvml.nvmlDeviceGetMigMode(old)
    with pytest.raises(pynvml.NVMLError_NotFound):
        pynvml.nvmlDeviceGetMigDeviceHandleByIndex(cut, 2)
    with pytest.raises(pynvml.NVMLError_InvalidArgument):
        pynvml.nvmlDeviceGetMigDeviceHandleByIndex(cut, 7)
    with pytest.raises(pynvml.NVMLError_NotSupported):
        pynvml.nvmlDeviceGetMigDeviceHandleByIndex(whole, 0)


def test_an_instance_tells_what_it_is_and_whose(open_nvml: Open) -> None:
    open_nvml(CUT)

    instance = pynvml.nvmlDeviceGetHandleByUUID("MIG-1")
    parent = pynvml.nvmlDeviceGetDeviceHandleFromMigDeviceHandle(instance)
    attributes = pynvml.nvmlDeviceGetAttributes(instance)

    assert pynvml.nvmlDeviceIsMigDeviceHandle(instance).value == 1
    assert pynvml.nvmlDeviceIsMigDeviceHandle(parent).value == 0
    assert pynvml.nvmlDeviceGetUUID(parent) == "GPU-a"
    assert pynvml.nvmlDeviceGetName(instance) == "NVIDIA A100 MIG 3g.40gb"
    assert pynvml.nvmlDeviceGetGpuInstanceId(instance) == 2
    assert pynvml.nvmlDeviceGetComputeInstanceId(instance) == 0
    assert pynvml.nvmlDeviceGetIndex(pynvml.nvmlDeviceGetHandleByUUID("MIG-2")) == 1
    assert (attributes.multiprocessorCount, attributes.memorySizeMB) == (42, 40192)
    assert (attributes.gpuInstanceSliceCount, attributes.computeInstanceSliceCount) == (3, 3)


def test_an_instance_has_memory_and_processes_of_its_own(open_nvml: Open) -> None:
    open_nvml(CUT)

    instance = pynvml.nvmlDeviceGetHandleByUUID("MIG-1")
    memory = pynvml.nvmlDeviceGetMemoryInfo(instance, version=pynvml.nvmlMemory_v2)
    own = pynvml.nvmlDeviceGetComputeRunningProcesses(instance)
    all_of_card = pynvml.nvmlDeviceGetComputeRunningProcesses(cards(1)[0])

    assert (memory.total, memory.used) == (40192 * MIB, 1000 * MIB)
    assert [(process.pid, process.gpuInstanceId) for process in own] == [(100, 2)]
    assert [(process.pid, process.gpuInstanceId) for process in all_of_card] == [(100, 2), (101, 9)]


def test_what_only_instances_or_only_cards_have_is_refused_on_the_other(open_nvml: Open) -> None:
    open_nvml(CUT)
    whole = cards(2)[1]
    instance = pynvml.nvmlDeviceGetHandleByUUID("MIG-1")

    with pytest.raises(pynvml.NVMLError_InvalidArgument):
        pynvml.nvmlDeviceGetGpuInstanceId(whole)
    with pytest.raises(pynvml.NVMLError_InvalidArgument):
        pynvml.nvmlDeviceGetDeviceHandleFromMigDeviceHandle(whole)
    with pytest.raises(pynvml.NVMLError_NotSupported):
        pynvml.nvmlDeviceGetAttributes(whole)
    with pytest.raises(pynvml.NVMLError_NotSupported):
        pynvml.nvmlDeviceGetMinorNumber(instance)
    with pytest.raises(pynvml.NVMLError_NotSupported):
        pynvml.nvmlDeviceGetUtilizationRates(instance)


def test_instances_come_and_go_and_a_stale_handle_is_refused(open_nvml: Open) -> None:
    happen = open_nvml(CUT)
    card = cards(1)[0]
    stale = pynvml.nvmlDeviceGetHandleByUUID("MIG-1")

    happen.unmig("MIG-1")
    happen.mig(0, uuid="MIG-3", total_mib=19968, gi=3, ci=0, profile_name="2g.20gb", slices=2)

    with pytest.raises(pynvml.NVMLError_InvalidArgument):
        pynvml.nvmlDeviceGetUUID(stale)
    left = [pynvml.nvmlDeviceGetMigDeviceHandleByIndex(card, index) for index in (0, 1)]
    assert [pynvml.nvmlDeviceGetUUID(instance) for instance in left] == ["MIG-2", "MIG-3"]
    assert [p.pid for p in pynvml.nvmlDeviceGetComputeRunningProcesses(card)] == [101]


def test_mig_mode_can_be_turned_off_and_on(open_nvml: Open) -> None:
    happen = open_nvml(CUT)
    card = cards(1)[0]

    happen.mig_mode(0, on=False)
    assert pynvml.nvmlDeviceGetMigMode(card) == [0, 0]
    with pytest.raises(pynvml.NVMLError_NotFound):
        pynvml.nvmlDeviceGetHandleByUUID("MIG-1")

    happen.mig_mode(0, on=True)
    assert pynvml.nvmlDeviceGetMigMode(card) == [1, 1]
    with pytest.raises(pynvml.NVMLError_NotFound):
        pynvml.nvmlDeviceGetMigDeviceHandleByIndex(card, 0)


def test_an_instance_is_lost_with_its_card(open_nvml: Open) -> None:
    happen = open_nvml(CUT)
    instance = pynvml.nvmlDeviceGetHandleByUUID("MIG-1")

    happen.lost(0)

    with pytest.raises(pynvml.NVMLError_GpuIsLost):
        pynvml.nvmlDeviceGetMemoryInfo(instance)
    with pytest.raises(pynvml.NVMLError_GpuIsLost):
        pynvml.nvmlDeviceGetHandleByUUID("MIG-1")


def test_processes_are_listed_by_kind_and_unknown_memory_is_none(open_nvml: Open) -> None:
    open_nvml(CUT)
    whole, card = cards(3)[1:]

    (compute,) = pynvml.nvmlDeviceGetComputeRunningProcesses(card)
    (graphics,) = pynvml.nvmlDeviceGetGraphicsRunningProcesses(card)
    (mps,) = pynvml.nvmlDeviceGetMPSComputeRunningProcesses(card)

    assert (compute.pid, compute.usedGpuMemory) == (200, 16384 * MIB)
    assert (compute.gpuInstanceId, compute.computeInstanceId) == (NOBODY, NOBODY)
    assert (graphics.pid, graphics.usedGpuMemory) == (201, None)
    assert mps.pid == 202
    assert pynvml.nvmlDeviceGetComputeRunningProcesses(whole) == []


def test_utilisation_is_told_for_each_process_and_summed_for_the_card(open_nvml: Open) -> None:
    open_nvml(CUT)
    cut, whole, card = cards(3)

    samples = pynvml.nvmlDeviceGetProcessUtilization(card, 0)
    rates = pynvml.nvmlDeviceGetUtilizationRates(card)

    assert [(s.pid, s.smUtil, s.memUtil) for s in samples] == [
        (200, 70, 20),
        (201, 40, 0),
        (202, 0, 0),
    ]
    assert (rates.gpu, rates.memory) == (100, 20)
    with pytest.raises(pynvml.NVMLError_NotFound):
        pynvml.nvmlDeviceGetProcessUtilization(card, 2**63)
    with pytest.raises(pynvml.NVMLError_NotFound):
        pynvml.nvmlDeviceGetProcessUtilization(whole, 0)
    with pytest.raises(pynvml.NVMLError_NotSupported):
        pynvml.nvmlDeviceGetProcessUtilization(cut, 0)


def test_processes_start_change_and_end(open_nvml: Open) -> None:
    happen = open_nvml(CUT)
    card = cards(2)[1]

    happen.process(1, pid=7, used_mib=100)
    happen.process(1, pid=7, used_mib=200)
    happen.process(1, pid=8, used_mib=1)
    happen.exit(8)

    (left,) = pynvml.nvmlDeviceGetComputeRunningProcesses(card)
    assert (left.pid, left.usedGpuMemory) == (7, 200 * MIB)
    assert pynvml.nvmlDeviceGetMemoryInfo(card).used == 200 * MIB


def test_paths_come_from_the_profile_or_else_from_the_numa_nodes(open_nvml: Open) -> None:
    open_nvml(LINKED)
    a, b, c, d = cards(4)
    level = pynvml.nvmlDeviceGetTopologyCommonAncestor

    assert level(a, b) == level(b, a) == pynvml.NVML_TOPOLOGY_SINGLE
    assert level(c, d) == pynvml.NVML_TOPOLOGY_HOSTBRIDGE
    assert level(a, c) == pynvml.NVML_TOPOLOGY_SYSTEM
    assert level(a, a) == pynvml.NVML_TOPOLOGY_INTERNAL


def test_cards_on_one_numa_node_meet_there_where_the_profile_says_nothing(open_nvml: Open) -> None:
    open_nvml("".join(f"{line}\n" for line in LINKED.splitlines() if "path" not in line))

    level = pynvml.nvmlDeviceGetTopologyCommonAncestor(*cards(2))

    assert level == pynvml.NVML_TOPOLOGY_NODE


def test_nvlinks_name_their_other_end_card_or_switch(open_nvml: Open) -> None:
    open_nvml(LINKED)
    b, d = cards(4)[1::2]
    remote = [pynvml.nvmlDeviceGetNvLinkRemotePciInfo(b, link).busId for link in range(6)]
    kinds = [pynvml.nvmlDeviceGetNvLinkRemoteDeviceType(b, link) for link in range(6)]

    assert [pynvml.nvmlDeviceGetNvLinkState(b, link) for link in range(6)] == [1] * 6
    assert remote == ["00000000:01:00.0"] * 4 + ["00000000:C4:00.0"] * 2
    assert (
        kinds
        == [pynvml.NVML_NVLINK_DEVICE_TYPE_GPU] * 4 + [pynvml.NVML_NVLINK_DEVICE_TYPE_SWITCH] * 2
    )
    with pytest.raises(pynvml.NVMLError_InvalidArgument):
        pynvml.nvmlDeviceGetNvLinkState(b, 6)
    with pytest.raises(pynvml.NVMLError_NotSupported):
        pynvml.nvmlDeviceGetNvLinkState(d, 0)


def test_cards_reach_each_other_by_nvlink_directly_or_through_a_switch(open_nvml: Open) -> None:
    open_nvml(LINKED)
    a, b, c, d = cards(4)
    nvlink, write = pynvml.NVML_P2P_CAPS_INDEX_NVLINK, pynvml.NVML_P2P_CAPS_INDEX_WRITE
    status = pynvml.nvmlDeviceGetP2PStatus

    assert status(a, b, nvlink) == status(b, c, nvlink) == pynvml.NVML_P2P_STATUS_OK
    assert status(a, c, nvlink) == pynvml.NVML_P2P_STATUS_NOT_SUPPORTED
    assert status(c, d, write) == pynvml.NVML_P2P_STATUS_OK
    assert status(a, d, write) == pynvml.NVML_P2P_STATUS_CHIPSET_NOT_SUPPORTED
    with pytest.raises(pynvml.NVMLError_InvalidArgument):
        status(a, a, nvlink)


def test_memory_limits_are_kept_for_each_card_and_control_group(open_nvml: Open) -> None:
    open_nvml(LINKED)
    a, b = cards(2)
    wanted = pynvml.c_nvmlSetMemoryLimits_v1_t(b"/kubepods/pod1/c1", 1 * MIB, 2 * MIB)
    here = pynvml.c_nvmlGetMemoryLimits_v1_t(b"/kubepods/pod1/c1")
    elsewhere = pynvml.c_nvmlGetMemoryLimits_v1_t(b"/kubepods/pod1/c1")

    pynvml.nvmlDeviceSetMemoryLimits_v1(a, wanted)
    pynvml.nvmlDeviceGetMemoryLimits_v1(a, here)
    pynvml.nvmlDeviceGetMemoryLimits_v1(b, elsewhere)

    assert (here.softLimit, here.hardLimit, here.currentUsed) == (1 * MIB, 2 * MIB, 0)
    assert elsewhere.hardLimit == pynvml.NVML_DEVICE_MEMORY_LIMIT_MAX


def test_a_limit_that_cannot_be_is_refused(open_nvml: Open) -> None:
    open_nvml(CUT)
    cut, whole = cards(2)
    limits = pynvml.c_nvmlSetMemoryLimits_v1_t
    set_limits = pynvml.nvmlDeviceSetMemoryLimits_v1

    with pytest.raises(pynvml.NVMLError_InvalidArgument):
        set_limits(whole, limits(b"/a", 2, 1))
    with pytest.raises(pynvml.NVMLError_InvalidArgument):
        set_limits(whole, limits(None, 1, 2))
    with pytest.raises(pynvml.NVMLError_NotSupported):
        set_limits(cut, limits(b"/a", 1, 2))
