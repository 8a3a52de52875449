# Four A100 80 GB PCIe, two and two joined by NVLink bridges: which cards a pod
# with several of them gets matters here.

system driver=570.124.06 nvml=12.570.124.06 cuda=12080

gpu uuid=GPU-96ba4b40-b4b2-4ee6-9a11-bfd31c354445 name="NVIDIA A100 80GB PCIe" total_mib=81920 reserved_mib=904 minor=0 pci=00000000:17:00.0 numa=0 cc=8.0 mig=off
gpu uuid=GPU-2c09b8c1-e217-4854-8946-05de52aa47da name="NVIDIA A100 80GB PCIe" total_mib=81920 reserved_mib=904 minor=1 pci=00000000:31:00.0 numa=0 cc=8.0 mig=off
gpu uuid=GPU-baba9812-1316-443a-a13f-de7519ba2198 name="NVIDIA A100 80GB PCIe" total_mib=81920 reserved_mib=904 minor=2 pci=00000000:B1:00.0 numa=1 cc=8.0 mig=off
gpu uuid=GPU-b09e8c50-223c-4688-bf6c-05bcb29a3c84 name="NVIDIA A100 80GB PCIe" total_mib=81920 reserved_mib=904 minor=3 pci=00000000:CA:00.0 numa=1 cc=8.0 mig=off

link a=0 b=1 nvlink=12
link a=2 b=3 nvlink=12

# This driver is too old to limit a control group's memory.
missing nvmlDeviceSetMemoryLimits_v1
missing nvmlDeviceGetMemoryLimits_v1
