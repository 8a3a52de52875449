/* NVML calls about what a card does: processes, utilisation, ECC errors. */
#define _POSIX_C_SOURCE 200809L
#include <time.h>

#include "gate.h"

static bool listed(const struct process *process, const struct target *on)
{
    const struct instance *instance = on->instance;
    bool here = !instance || (process->gi == instance->gi && process->ci == instance->ci);
    return process->card == on->card && here;
}

static nvmlProcessInfo_t process_info(const struct process *process)
{
    return (nvmlProcessInfo_t){
        .pid = process->pid,
        .usedGpuMemory = process->used_known ? process->used_mib << 20 : NVML_VALUE_NOT_AVAILABLE,
        .gpuInstanceId = process->gi,
        .computeInstanceId = process->ci,
    };
}

/* NVML's two calls: the first, without room, learns how many there are. */
static nvmlReturn_t list_processes(enum call call, enum process_kind kind, nvmlDevice_t device, unsigned *count,
                                   nvmlProcessInfo_t *infos)
{
    struct target on;
    nvmlReturn_t answer = enter_with(call, device, count, &on);
    if (answer != NVML_SUCCESS)
        return leave(answer);
    if (*count > 0 && !infos)
        return leave(NVML_ERROR_INVALID_ARGUMENT);

    unsigned room = *count, found = 0;
    for (size_t i = 0; i < world.process_count; i++) {
        const struct process *process = &world.processes[i];
        if (process->kind != kind || !listed(process, &on))
            continue;
        if (found < room)
            infos[found] = process_info(process);
        found++;
    }
    *count = found;
    return leave(found > room ? NVML_ERROR_INSUFFICIENT_SIZE : NVML_SUCCESS);
}

EXPORT nvmlReturn_t nvmlDeviceGetComputeRunningProcesses_v3(nvmlDevice_t device, unsigned *count,
                                                            nvmlProcessInfo_t *infos)
{
    return list_processes(CALL_nvmlDeviceGetComputeRunningProcesses_v3, PROCESS_COMPUTE, device, count, infos);
}

EXPORT nvmlReturn_t nvmlDeviceGetGraphicsRunningProcesses_v3(nvmlDevice_t device, unsigned *count,
                                                             nvmlProcessInfo_t *infos)
{
    return list_processes(CALL_nvmlDeviceGetGraphicsRunningProcesses_v3, PROCESS_GRAPHICS, device, count, infos);
}

EXPORT nvmlReturn_t nvmlDeviceGetMPSComputeRunningProcesses_v3(nvmlDevice_t device, unsigned *count,
                                                               nvmlProcessInfo_t *infos)
{
    return list_processes(CALL_nvmlDeviceGetMPSComputeRunningProcesses_v3, PROCESS_MPS, device, count, infos);
}

static unsigned long long now_us(void)
{
    struct timespec now;
    clock_gettime(CLOCK_REALTIME, &now);
    return (unsigned long long)now.tv_sec * 1000000 + (unsigned long long)now.tv_nsec / 1000;
}

/* A sample of each process is always as new as the question. */
EXPORT nvmlReturn_t nvmlDeviceGetProcessUtilization(nvmlDevice_t device, nvmlProcessUtilizationSample_t *samples,
                                                    unsigned *count, unsigned long long last_seen_us)
{
    struct target on;
    nvmlReturn_t answer = enter_with(CALL_nvmlDeviceGetProcessUtilization, device, count, &on);
    if (answer != NVML_SUCCESS)
        return leave(answer);
    if (on.card->mig == MIG_ON)
        return leave(NVML_ERROR_NOT_SUPPORTED);

    unsigned long long stamp_us = now_us();
    unsigned room = samples ? *count : 0, found = 0;
    for (size_t i = 0; i < world.process_count && last_seen_us < stamp_us; i++) {
        const struct process *process = &world.processes[i];
        if (!listed(process, &on))
            continue;
        if (found < room)
            samples[found] = (nvmlProcessUtilizationSample_t){
                .pid = process->pid,
                .timeStamp = stamp_us,
                .smUtil = process->sm_percent,
                .memUtil = process->memory_percent,
            };
        found++;
    }
    *count = found;
    if (found == 0)
        return leave(NVML_ERROR_NOT_FOUND);
    return leave(found > room ? NVML_ERROR_INSUFFICIENT_SIZE : NVML_SUCCESS);
}

static unsigned at_most_100(unsigned percent)
{
    return percent < 100 ? percent : 100;
}

EXPORT nvmlReturn_t nvmlDeviceGetUtilizationRates(nvmlDevice_t device, nvmlUtilization_t *rates)
{
    struct target on;
    nvmlReturn_t answer = enter_with(CALL_nvmlDeviceGetUtilizationRates, device, rates, &on);
    if (answer == NVML_SUCCESS && on.card->mig == MIG_ON)
        answer = NVML_ERROR_NOT_SUPPORTED;
    if (answer != NVML_SUCCESS)
        return leave(answer);

    unsigned sm_percent = 0, memory_percent = 0;
    for (size_t i = 0; i < world.process_count; i++) {
        const struct process *process = &world.processes[i];
        sm_percent += listed(process, &on) ? process->sm_percent : 0;
        memory_percent += listed(process, &on) ? process->memory_percent : 0;
    }
    *rates = (nvmlUtilization_t){at_most_100(sm_percent), at_most_100(memory_percent)};
    return leave(NVML_SUCCESS);
}

EXPORT nvmlReturn_t nvmlDeviceGetEccMode(nvmlDevice_t device, unsigned *current, unsigned *pending)
{
    struct target on;
    nvmlReturn_t answer = enter_with(CALL_nvmlDeviceGetEccMode, device, current, &on);
    if (answer == NVML_SUCCESS && !pending)
        answer = NVML_ERROR_INVALID_ARGUMENT;
    if (answer == NVML_SUCCESS && on.card->ecc == ECC_UNSUPPORTED)
        answer = NVML_ERROR_NOT_SUPPORTED;
    if (answer == NVML_SUCCESS)
        *current = *pending = on.card->ecc == ECC_ON;
    return leave(answer);
}

static nvmlReturn_t count_errors(enum call call, nvmlDevice_t device, unsigned type, unsigned counter,
                                 unsigned location, unsigned long long *count)
{
    struct target on;
    nvmlReturn_t answer = enter_with(call, device, count, &on);
    if (answer != NVML_SUCCESS)
        return leave(answer);
    if (type > NVML_MEMORY_ERROR_UNCORRECTED || counter > NVML_ECC_AGGREGATE || location >= NVML_MEMORY_LOCATION_COUNT)
        return leave(NVML_ERROR_INVALID_ARGUMENT);
    if (on.card->ecc != ECC_ON)
        return leave(NVML_ERROR_NOT_SUPPORTED);
    bool counted = type == NVML_MEMORY_ERROR_UNCORRECTED && location == NVML_MEMORY_LOCATION_DRAM;
    *count = counted ? on.card->uncorrected : 0;
    return leave(NVML_SUCCESS);
}

EXPORT nvmlReturn_t nvmlDeviceGetTotalEccErrors(nvmlDevice_t device, unsigned type, unsigned counter,
                                                unsigned long long *count)
{
    /* All simulated errors are in the card's memory, so that is the total. */
    return count_errors(CALL_nvmlDeviceGetTotalEccErrors, device, type, counter, NVML_MEMORY_LOCATION_DRAM, count);
}

EXPORT nvmlReturn_t nvmlDeviceGetMemoryErrorCounter(nvmlDevice_t device, unsigned type, unsigned counter,
                                                    unsigned location, unsigned long long *count)
{
    return count_errors(CALL_nvmlDeviceGetMemoryErrorCounter, device, type, counter, location, count);
}
