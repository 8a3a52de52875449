# A server of eight H200, and a driver that can limit a control group's memory.
# Four NVSwitches join all cards, with 18 NVLinks from each.

system driver=615.36.02 nvml=13.615.36.02 cuda=13040

gpu uuid=GPU-2f6201d0-9ce7-4e83-8ab9-8eec2b9013c2 name="NVIDIA H200" total_mib=143771 reserved_mib=586 minor=0 pci=00000000:18:00.0 numa=0 cc=9.0 mig=off
gpu uuid=GPU-ea0e8275-cd0d-45fd-9358-9fb6512ee3da name="NVIDIA H200" total_mib=143771 reserved_mib=586 minor=1 pci=00000000:2A:00.0 numa=0 cc=9.0 mig=off
gpu uuid=GPU-a3a8c6e7-27ee-40c6-b322-16ec2fd9459c name="NVIDIA H200" total_mib=143771 reserved_mib=586 minor=2 pci=00000000:3A:00.0 numa=0 cc=9.0 mig=off
gpu uuid=GPU-199044aa-0019-4213-9c14-cbd49666a53f name="NVIDIA H200" total_mib=143771 reserved_mib=586 minor=3 pci=00000000:5D:00.0 numa=0 cc=9.0 mig=off
gpu uuid=GPU-6f45aedd-7961-4542-8600-39d309ba91e4 name="NVIDIA H200" total_mib=143771 reserved_mib=586 minor=4 pci=00000000:9A:00.0 numa=1 cc=9.0 mig=off
gpu uuid=GPU-b1fdda9f-b502-413d-ac50-a8a158590099 name="NVIDIA H200" total_mib=143771 reserved_mib=586 minor=5 pci=00000000:AB:00.0 numa=1 cc=9.0 mig=off
gpu uuid=GPU-67b7a5f7-ef01-4411-84cb-e419b7b4e32e name="NVIDIA H200" total_mib=143771 reserved_mib=586 minor=6 pci=00000000:BA:00.0 numa=1 cc=9.0 mig=off
gpu uuid=GPU-cf6f4266-8415-4afd-b119-1834c6391312 name="NVIDIA H200" total_mib=143771 reserved_mib=586 minor=7 pci=00000000:DB:00.0 numa=1 cc=9.0 mig=off

link a=0 switch=00000000:05:00.0 nvlink=5
link a=0 switch=00000000:06:00.0 nvlink=4
link a=0 switch=00000000:07:00.0 nvlink=4
link a=0 switch=00000000:08:00.0 nvlink=5
link a=1 switch=00000000:05:00.0 nvlink=5
link a=1 switch=00000000:06:00.0 nvlink=4
link a=1 switch=00000000:07:00.0 nvlink=4
link a=1 switch=00000000:08:00.0 nvlink=5
link a=2 switch=00000000:05:00.0 nvlink=5
link a=2 switch=00000000:06:00.0 nvlink=4
link a=2 switch=00000000:07:00.0 nvlink=4
link a=2 switch=00000000:08:00.0 nvlink=5
link a=3 switch=00000000:05:00.0 nvlink=5
link a=3 switch=00000000:06:00.0 nvlink=4
link a=3 switch=00000000:07:00.0 nvlink=4
link a=3 switch=00000000:08:00.0 nvlink=5
link a=4 switch=00000000:05:00.0 nvlink=5
link a=4 switch=00000000:06:00.0 nvlink=4
link a=4 switch=00000000:07:00.0 nvlink=4
link a=4 switch=00000000:08:00.0 nvlink=5
link a=5 switch=00000000:05:00.0 nvlink=5
link a=5 switch=00000000:06:00.0 nvlink=4
link a=5 switch=00000000:07:00.0 nvlink=4
link a=5 switch=00000000:08:00.0 nvlink=5
link a=6 switch=00000000:05:00.0 nvlink=5
link a=6 switch=00000000:06:00.0 nvlink=4
link a=6 switch=00000000:07:00.0 nvlink=4
link a=6 switch=00000000:08:00.0 nvlink=5
link a=7 switch=00000000:05:00.0 nvlink=5
link a=7 switch=00000000:06:00.0 nvlink=4
link a=7 switch=00000000:07:00.0 nvlink=4
link a=7 switch=00000000:08:00.0 nvlink=5
