# Four cards of four sizes. The minor numbers, which name the device nodes, are in
# another order than NVML's indices; the smallest card reports no events.

system driver=550.90.07 nvml=12.550.90.07 cuda=12040

gpu uuid=GPU-f694259f-787e-4276-a00b-66c0ba494899 name="NVIDIA GeForce GT 1030" total_mib=2002 reserved_mib=74 minor=2 pci=00000000:02:00.0 cc=6.1 ecc=unsupported events=unsupported
gpu uuid=GPU-a62b5115-bed4-4cc6-abec-93b45b74141d name="NVIDIA GeForce GTX 1080 Ti" total_mib=11175 reserved_mib=163 minor=0 pci=00000000:21:00.0 cc=6.1 ecc=unsupported
gpu uuid=GPU-35ddb8a9-ae6c-4715-b378-0e58c7936d76 name="Tesla V100-SXM2-16GB" total_mib=16130 reserved_mib=224 minor=3 pci=00000000:41:00.0 cc=7.0
gpu uuid=GPU-6b2da306-b894-4f0d-a4dc-ae05aa9bc43f name="NVIDIA GeForce RTX 4090" total_mib=24564 reserved_mib=345 minor=1 pci=00000000:61:00.0 cc=8.9 ecc=off

# This driver is too old to limit a control group's memory.
missing nvmlDeviceSetMemoryLimits_v1
missing nvmlDeviceGetMemoryLimits_v1
