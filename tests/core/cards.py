"""GPUs and cards in the small: what the tests of the core are about."""

from dataclasses import replace

from hypothesis import strategies as st

from gpushare_plugin.core.devices import Card, Gpu, MigInstance, card_tags
from gpushare_plugin.core.units import BYTES_PER_MIB, CardMemory

UUIDS = (
    "GPU-00000000-0000-0000-0000-000000000001",
    "GPU-00000000-0000-0000-0000-000000000002",
    "GPU-11111111-0000-0000-0000-000000000001",
    "GPU-11111111-0000-0000-0000-000000000002",
    "GPU-22222222-0000-0000-0000-000000000001",
    "MIG-00000000-0000-0000-0000-000000000001",
    "MIG-11111111-0000-0000-0000-000000000001",
    "MIG-GPU-00000000-0000-0000-0000-000000000001/1/0",
)
"""Clashes in the first eight digits, and MIG instances of both drivers' styles."""


def memory(total_mib: int, *, reserved_mib: int = 0) -> CardMemory:
    return CardMemory(
        total_bytes=total_mib * BYTES_PER_MIB, reserved_bytes=reserved_mib * BYTES_PER_MIB
    )


def gpu(
    uuid: str = UUIDS[0],
    total_mib: int = 4,
    *,
    reserved_mib: int = 0,
    index: int = 0,
    minor: int | None = 0,
) -> Gpu:
    return Gpu(
        uuid=uuid,
        nvml_index=index,
        minor_number=minor,
        model="Tesla T4",
        pci_address="00000000:3B:00.0",
        numa_node=None,
        memory=memory(total_mib, reserved_mib=reserved_mib),
        mig=None
        if uuid.startswith("GPU-")
        else MigInstance(parent_uuid=UUIDS[4], gpu_instance_id=1, compute_instance_id=0),
    )


def card(index: int = 0, units: int = 4, *, uuid: str | None = None, on: Gpu | None = None) -> Card:
    """A card of its own UUID for each index, unless one is given."""
    own = uuid or f"GPU-{index:08x}-0000-0000-0000-000000000000"
    described = replace(on or gpu(total_mib=units), uuid=own)
    return Card(index=index, tag=card_tags([own])[own], units=units, gpu=described)


def cards(*units: int) -> tuple[Card, ...]:
    return tuple(card(index, each) for index, each in enumerate(units))


uuid_lists = st.lists(st.sampled_from(UUIDS), max_size=len(UUIDS), unique=True)


@st.composite
def gpu_lists(draw: st.DrawFn, *, most_mib: int = 4) -> list[Gpu]:
    """GPUs of different UUIDs, small memories, in NVML's order."""
    return [
        gpu(
            uuid,
            draw(st.integers(0, most_mib)),
            index=index,
            minor=draw(st.sampled_from((None, 0, 1))),
        )
        for index, uuid in enumerate(draw(uuid_lists))
    ]
