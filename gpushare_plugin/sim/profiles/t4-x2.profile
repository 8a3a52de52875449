# Two small cards of one kind: the least with which sharing can be seen.

system driver=570.124.06 nvml=12.570.124.06 cuda=12080

gpu uuid=GPU-6f0c3a52-8d1e-4b7a-9c35-2e4f81a7d601 name="Tesla T4" total_mib=15360 reserved_mib=449 minor=0 pci=00000000:3B:00.0 numa=0 cc=7.5
gpu uuid=GPU-b81d94e7-3c60-4f2b-8a19-d75e02c6f4b2 name="Tesla T4" total_mib=15360 reserved_mib=449 minor=1 pci=00000000:AF:00.0 numa=1 cc=7.5

# This driver is too old to limit a control group's memory.
missing nvmlDeviceSetMemoryLimits_v1
missing nvmlDeviceGetMemoryLimits_v1
