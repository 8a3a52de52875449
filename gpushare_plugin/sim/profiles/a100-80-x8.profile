# A server of eight A100 80 GB: NVSwitches join all cards, two NVLinks from each
# card to each of the six switches.

system driver=570.124.06 nvml=12.570.124.06 cuda=12080

gpu uuid=GPU-1cb000fc-4a11-4fd3-a30d-65e5eccf7d56 name="NVIDIA A100-SXM4-80GB" total_mib=81920 reserved_mib=904 minor=0 pci=00000000:07:00.0 numa=0 cc=8.0 mig=off
gpu uuid=GPU-624408d2-25d0-4d37-9514-ed2cd3572a05 name="NVIDIA A100-SXM4-80GB" total_mib=81920 reserved_mib=904 minor=1 pci=00000000:0F:00.0 numa=0 cc=8.0 mig=off
gpu uuid=GPU-ab9bae9b-77ae-4380-b899-781ee1606878 name="NVIDIA A100-SXM4-80GB" total_mib=81920 reserved_mib=904 minor=2 pci=00000000:47:00.0 numa=0 cc=8.0 mig=off
gpu uuid=GPU-43b4343a-65c4-4556-a059-d121c7fd99d7 name="NVIDIA A100-SXM4-80GB" total_mib=81920 reserved_mib=904 minor=3 pci=00000000:4E:00.0 numa=0 cc=8.0 mig=off
gpu uuid=GPU-57a46451-ec16-492d-93f1-788ab6ca61a5 name="NVIDIA A100-SXM4-80GB" total_mib=81920 reserved_mib=904 minor=4 pci=00000000:87:00.0 numa=1 cc=8.0 mig=off
gpu uuid=GPU-88c855f3-4105-4913-97df-b1a2a6efee9f name="NVIDIA A100-SXM4-80GB" total_mib=81920 reserved_mib=904 minor=5 pci=00000000:90:00.0 numa=1 cc=8.0 mig=off
gpu uuid=GPU-b7f9b955-f7ae-4ba1-8041-8d8de7411736 name="NVIDIA A100-SXM4-80GB" total_mib=81920 reserved_mib=904 minor=6 pci=00000000:B7:00.0 numa=1 cc=8.0 mig=off
gpu uuid=GPU-f220e83d-e760-4d88-b5dc-25f72c7e0e42 name="NVIDIA A100-SXM4-80GB" total_mib=81920 reserved_mib=904 minor=7 pci=00000000:BD:00.0 numa=1 cc=8.0 mig=off

link a=0 switch=00000000:C4:00.0 nvlink=2
link a=0 switch=00000000:C5:00.0 nvlink=2
link a=0 switch=00000000:C6:00.0 nvlink=2
link a=0 switch=00000000:C7:00.0 nvlink=2
link a=0 switch=00000000:C8:00.0 nvlink=2
link a=0 switch=00000000:C9:00.0 nvlink=2
link a=1 switch=00000000:C4:00.0 nvlink=2
link a=1 switch=00000000:C5:00.0 nvlink=2
link a=1 switch=00000000:C6:00.0 nvlink=2
link a=1 switch=00000000:C7:00.0 nvlink=2
link a=1 switch=00000000:C8:00.0 nvlink=2
link a=1 switch=00000000:C9:00.0 nvlink=2
link a=2 switch=00000000:C4:00.0 nvlink=2
link a=2 switch=00000000:C5:00.0 nvlink=2
link a=2 switch=00000000:C6:00.0 nvlink=2
link a=2 switch=00000000:C7:00.0 nvlink=2
link a=2 switch=00000000:C8:00.0 nvlink=2
link a=2 switch=00000000:C9:00.0 nvlink=2
link a=3 switch=00000000:C4:00.0 nvlink=2
link a=3 switch=00000000:C5:00.0 nvlink=2
link a=3 switch=00000000:C6:00.0 nvlink=2
link a=3 switch=00000000:C7:00.0 nvlink=2
link a=3 switch=00000000:C8:00.0 nvlink=2
link a=3 switch=00000000:C9:00.0 nvlink=2
link a=4 switch=00000000:C4:00.0 nvlink=2
link a=4 switch=00000000:C5:00.0 nvlink=2
link a=4 switch=00000000:C6:00.0 nvlink=2
link a=4 switch=00000000:C7:00.0 nvlink=2
link a=4 switch=00000000:C8:00.0 nvlink=2
link a=4 switch=00000000:C9:00.0 nvlink=2
link a=5 switch=00000000:C4:00.0 nvlink=2
link a=5 switch=00000000:C5:00.0 nvlink=2
link a=5 switch=00000000:C6:00.0 nvlink=2
link a=5 switch=00000000:C7:00.0 nvlink=2
link a=5 switch=00000000:C8:00.0 nvlink=2
link a=5 switch=00000000:C9:00.0 nvlink=2
link a=6 switch=00000000:C4:00.0 nvlink=2
link a=6 switch=00000000:C5:00.0 nvlink=2
link a=6 switch=00000000:C6:00.0 nvlink=2
link a=6 switch=00000000:C7:00.0 nvlink=2
link a=6 switch=00000000:C8:00.0 nvlink=2
link a=6 switch=00000000:C9:00.0 nvlink=2
link a=7 switch=00000000:C4:00.0 nvlink=2
link a=7 switch=00000000:C5:00.0 nvlink=2
link a=7 switch=00000000:C6:00.0 nvlink=2
link a=7 switch=00000000:C7:00.0 nvlink=2
link a=7 switch=00000000:C8:00.0 nvlink=2
link a=7 switch=00000000:C9:00.0 nvlink=2

# Each two cards share a PCIe switch.
path a=0 b=1 level=single
path a=2 b=3 level=single
path a=4 b=5 level=single
path a=6 b=7 level=single

# This driver is too old to limit a control group's memory.
missing nvmlDeviceSetMemoryLimits_v1
missing nvmlDeviceGetMemoryLimits_v1
