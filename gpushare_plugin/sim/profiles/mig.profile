# Three A100 80 GB: one cut into three unequal MIG instances, one into seven equal
# ones, one whole.

system driver=570.124.06 nvml=12.570.124.06 cuda=12080

gpu uuid=GPU-b6fcc810-be3b-4f20-b7c2-17bf6650353c name="NVIDIA A100-SXM4-80GB" total_mib=81920 reserved_mib=904 minor=0 pci=00000000:07:00.0 numa=0 cc=8.0 mig=on
gpu uuid=GPU-d2d365c4-2983-494c-92cb-f959fb0b62f2 name="NVIDIA A100-SXM4-80GB" total_mib=81920 reserved_mib=904 minor=1 pci=00000000:47:00.0 numa=0 cc=8.0 mig=on
gpu uuid=GPU-d5cc122d-cafd-44c8-b344-e4aa46646ca5 name="NVIDIA A100-SXM4-80GB" total_mib=81920 reserved_mib=904 minor=2 pci=00000000:87:00.0 numa=1 cc=8.0 mig=off

mig gpu=0 uuid=MIG-af238647-a922-4249-b9fc-e608c4d3f831 gi=2 ci=0 profile_name=3g.40gb total_mib=40192 slices=3 multiprocessors=42
mig gpu=0 uuid=MIG-530af3c0-cb81-485d-9dd1-238200465544 gi=3 ci=0 profile_name=2g.20gb total_mib=19968 slices=2 multiprocessors=28
mig gpu=0 uuid=MIG-4bd40419-eb8c-44b1-93fb-5110f6f25446 gi=9 ci=0 profile_name=1g.10gb total_mib=9728 slices=1 multiprocessors=14

mig gpu=1 uuid=MIG-fffef055-b38a-4e84-b90e-8f9058247cdc gi=7 ci=0 profile_name=1g.10gb total_mib=9728 slices=1 multiprocessors=14
mig gpu=1 uuid=MIG-cafd99cf-fcaa-4bf2-aeb5-967759317456 gi=8 ci=0 profile_name=1g.10gb total_mib=9728 slices=1 multiprocessors=14
mig gpu=1 uuid=MIG-087dc33e-4171-4091-8b43-9321bcd753fd gi=9 ci=0 profile_name=1g.10gb total_mib=9728 slices=1 multiprocessors=14
mig gpu=1 uuid=MIG-dd3e6ea1-423c-4676-9363-9fd9d49a5407 gi=10 ci=0 profile_name=1g.10gb total_mib=9728 slices=1 multiprocessors=14
mig gpu=1 uuid=MIG-4e225a54-4848-4081-8964-cb8b7200b4dd gi=11 ci=0 profile_name=1g.10gb total_mib=9728 slices=1 multiprocessors=14
mig gpu=1 uuid=MIG-c6aa3894-a4c2-46cf-a756-4f10850f3c6c gi=12 ci=0 profile_name=1g.10gb total_mib=9728 slices=1 multiprocessors=14
mig gpu=1 uuid=MIG-643ce24f-4ce4-4a9a-835e-3bf4fb3e226d gi=13 ci=0 profile_name=1g.10gb total_mib=9728 slices=1 multiprocessors=14

# This driver is too old to limit a control group's memory.
missing nvmlDeviceSetMemoryLimits_v1
missing nvmlDeviceGetMemoryLimits_v1
