/* NVML calls about MIG: the mode, the instances of a card, their attributes. */
#include "gate.h"

EXPORT nvmlReturn_t nvmlDeviceGetMigMode(nvmlDevice_t device, unsigned *current, unsigned *pending)
{
    struct target on;
    nvmlReturn_t answer = enter_with(CALL_nvmlDeviceGetMigMode, device, current, &on);
    if (answer == NVML_SUCCESS && !pending)
        answer = NVML_ERROR_INVALID_ARGUMENT;
    if (answer == NVML_SUCCESS && (on.instance || on.card->mig == MIG_UNSUPPORTED))
        answer = NVML_ERROR_NOT_SUPPORTED;
    if (answer == NVML_SUCCESS)
        *current = *pending = on.card->mig == MIG_ON;
    return leave(answer);
}

EXPORT nvmlReturn_t nvmlDeviceGetMaxMigDeviceCount(nvmlDevice_t device, unsigned *count)
{
    struct target on;
    nvmlReturn_t answer = enter_with(CALL_nvmlDeviceGetMaxMigDeviceCount, device, count, &on);
    if (answer == NVML_SUCCESS && on.instance)
        answer = NVML_ERROR_INVALID_ARGUMENT;
    if (answer == NVML_SUCCESS)
        *count = on.card->mig == MIG_ON ? MAX_INSTANCES_A_CARD : 0;
    return leave(answer);
}

EXPORT nvmlReturn_t nvmlDeviceGetMigDeviceHandleByIndex(nvmlDevice_t device, unsigned index, nvmlDevice_t *mig)
{
    struct target on;
    nvmlReturn_t answer = enter_with(CALL_nvmlDeviceGetMigDeviceHandleByIndex, device, mig, &on);
    if (answer != NVML_SUCCESS)
        return leave(answer);
    if (on.instance || index >= MAX_INSTANCES_A_CARD)
        return leave(NVML_ERROR_INVALID_ARGUMENT);
    if (on.card->mig != MIG_ON)
        return leave(NVML_ERROR_NOT_SUPPORTED);
    const struct instance *instance = instance_by_index(on.card, index);
    if (!instance)
        return leave(NVML_ERROR_NOT_FOUND);
    *mig = handle_of(instance->serial);
    return leave(NVML_SUCCESS);
}

EXPORT nvmlReturn_t nvmlDeviceIsMigDeviceHandle(nvmlDevice_t device, unsigned *is_mig)
{
    struct target on;
    nvmlReturn_t answer = enter_with(CALL_nvmlDeviceIsMigDeviceHandle, device, is_mig, &on);
    if (answer == NVML_SUCCESS)
        *is_mig = on.instance != NULL;
    return leave(answer);
}

/* Enters with a handle that must be a MIG instance's. */
static nvmlReturn_t enter_instance(enum call call, nvmlDevice_t device, const void *out, struct target *on)
{
    nvmlReturn_t answer = enter_with(call, device, out, on);
    return answer == NVML_SUCCESS && !on->instance ? NVML_ERROR_INVALID_ARGUMENT : answer;
}

EXPORT nvmlReturn_t nvmlDeviceGetDeviceHandleFromMigDeviceHandle(nvmlDevice_t mig, nvmlDevice_t *device)
{
    struct target on;
    nvmlReturn_t answer = enter_instance(CALL_nvmlDeviceGetDeviceHandleFromMigDeviceHandle, mig, device, &on);
    if (answer == NVML_SUCCESS)
        *device = handle_of(on.card->serial);
    return leave(answer);
}

EXPORT nvmlReturn_t nvmlDeviceGetGpuInstanceId(nvmlDevice_t mig, unsigned *id)
{
    struct target on;
    nvmlReturn_t answer = enter_instance(CALL_nvmlDeviceGetGpuInstanceId, mig, id, &on);
    if (answer == NVML_SUCCESS)
        *id = on.instance->gi;
    return leave(answer);
}

EXPORT nvmlReturn_t nvmlDeviceGetComputeInstanceId(nvmlDevice_t mig, unsigned *id)
{
    struct target on;
    nvmlReturn_t answer = enter_instance(CALL_nvmlDeviceGetComputeInstanceId, mig, id, &on);
    if (answer == NVML_SUCCESS)
        *id = on.instance->ci;
    return leave(answer);
}

EXPORT nvmlReturn_t nvmlDeviceGetAttributes_v2(nvmlDevice_t mig, nvmlDeviceAttributes_t *attributes)
{
    struct target on;
    nvmlReturn_t answer = enter_with(CALL_nvmlDeviceGetAttributes_v2, mig, attributes, &on);
    if (answer == NVML_SUCCESS && !on.instance)
        answer = NVML_ERROR_NOT_SUPPORTED;
    if (answer == NVML_SUCCESS)
        *attributes = (nvmlDeviceAttributes_t){
            .multiprocessorCount = on.instance->multiprocessors,
            .sharedCopyEngineCount = on.instance->slices,
            .gpuInstanceSliceCount = on.instance->slices,
            .computeInstanceSliceCount = on.instance->slices,
            .memorySizeMB = on.instance->total_mib,
        };
    return leave(answer);
}
