/*
 * Every NVML call that the simulation answers, in one list.
 *
 * Rule: the list makes the enum and the table of names, so a call that is not
 *       here cannot be entered, and `missing` and `fail` know exactly these.
 */
#ifndef GPUSHARE_CALLS_H
#define GPUSHARE_CALLS_H

#define NVML_CALLS(X) \
    X(nvmlInitWithFlags) \
    X(nvmlShutdown) \
    X(nvmlSystemGetDriverVersion) \
    X(nvmlSystemGetNVMLVersion) \
    X(nvmlSystemGetCudaDriverVersion) \
    X(nvmlSystemGetCudaDriverVersion_v2) \
    X(nvmlDeviceGetCount_v2) \
    X(nvmlDeviceGetHandleByIndex_v2) \
    X(nvmlDeviceGetHandleByUUID) \
    X(nvmlDeviceGetHandleByPciBusId_v2) \
    X(nvmlDeviceGetName) \
    X(nvmlDeviceGetUUID) \
    X(nvmlDeviceGetIndex) \
    X(nvmlDeviceGetMinorNumber) \
    X(nvmlDeviceGetPciInfo_v3) \
    X(nvmlDeviceGetNumaNodeId) \
    X(nvmlDeviceGetMemoryAffinity) \
    X(nvmlDeviceGetCudaComputeCapability) \
    X(nvmlDeviceGetVirtualizationMode) \
    X(nvmlDeviceGetMemoryInfo) \
    X(nvmlDeviceGetMemoryInfo_v2) \
    X(nvmlDeviceGetEccMode) \
    X(nvmlDeviceGetTotalEccErrors) \
    X(nvmlDeviceGetMemoryErrorCounter) \
    X(nvmlDeviceGetUtilizationRates) \
    X(nvmlDeviceGetMigMode) \
    X(nvmlDeviceGetMaxMigDeviceCount) \
    X(nvmlDeviceGetMigDeviceHandleByIndex) \
    X(nvmlDeviceIsMigDeviceHandle) \
    X(nvmlDeviceGetDeviceHandleFromMigDeviceHandle) \
    X(nvmlDeviceGetGpuInstanceId) \
    X(nvmlDeviceGetComputeInstanceId) \
    X(nvmlDeviceGetAttributes_v2) \
    X(nvmlDeviceGetComputeRunningProcesses_v3) \
    X(nvmlDeviceGetGraphicsRunningProcesses_v3) \
    X(nvmlDeviceGetMPSComputeRunningProcesses_v3) \
    X(nvmlDeviceGetProcessUtilization) \
    X(nvmlDeviceGetTopologyCommonAncestor) \
    X(nvmlDeviceGetNvLinkState) \
    X(nvmlDeviceGetNvLinkRemotePciInfo_v2) \
    X(nvmlDeviceGetNvLinkRemoteDeviceType) \
    X(nvmlDeviceGetP2PStatus) \
    X(nvmlDeviceSetMemoryLimits_v1) \
    X(nvmlDeviceGetMemoryLimits_v1) \
    X(nvmlEventSetCreate) \
    X(nvmlDeviceGetSupportedEventTypes) \
    X(nvmlDeviceRegisterEvents) \
    X(nvmlEventSetWait_v2) \
    X(nvmlEventSetFree)

#define NVML_CALL_ENUM(name) CALL_##name,
enum call { NVML_CALLS(NVML_CALL_ENUM) CALLS };
#undef NVML_CALL_ENUM

#endif
