/* NVML calls about what a card or MIG instance is: identity, place, memory. */
#include <stdio.h>
#include <string.h>

#include "gate.h"
#include "pci_info.h"

EXPORT nvmlReturn_t nvmlDeviceGetUUID(nvmlDevice_t device, char *uuid, unsigned length)
{
    struct target on;
    nvmlReturn_t answer = enter_with(CALL_nvmlDeviceGetUUID, device, uuid, &on);
    if (answer == NVML_SUCCESS)
        answer = give_text(uuid, length, on.instance ? on.instance->uuid : on.card->uuid);
    return leave(answer);
}

EXPORT nvmlReturn_t nvmlDeviceGetName(nvmlDevice_t device, char *name, unsigned length)
{
    struct target on;
    nvmlReturn_t answer = enter_with(CALL_nvmlDeviceGetName, device, name, &on);
    if (answer != NVML_SUCCESS)
        return leave(answer);
    if (!on.instance)
        return leave(give_text(name, length, on.card->name));

    char full[2 * TEXT_SIZE + sizeof " MIG "];
    snprintf(full, sizeof full, "%s MIG %s", on.card->name, on.instance->profile_name);
    return leave(give_text(name, length, full));
}

EXPORT nvmlReturn_t nvmlDeviceGetIndex(nvmlDevice_t device, unsigned *index)
{
    struct target on;
    nvmlReturn_t answer = enter_with(CALL_nvmlDeviceGetIndex, device, index, &on);
    if (answer == NVML_SUCCESS)
        *index = on.instance ? instance_index(on.instance) : card_index(on.card);
    return leave(answer);
}

EXPORT nvmlReturn_t nvmlDeviceGetMinorNumber(nvmlDevice_t device, unsigned *minor)
{
    struct target on;
    nvmlReturn_t answer = enter_with(CALL_nvmlDeviceGetMinorNumber, device, minor, &on);
    if (answer == NVML_SUCCESS && (on.instance || !on.card->minor_known))
        answer = NVML_ERROR_NOT_SUPPORTED;
    if (answer == NVML_SUCCESS)
        *minor = on.card->minor;
    return leave(answer);
}

EXPORT nvmlReturn_t nvmlDeviceGetPciInfo_v3(nvmlDevice_t device, nvmlPciInfo_t *info)
{
    struct target on;
    nvmlReturn_t answer = enter_with(CALL_nvmlDeviceGetPciInfo_v3, device, info, &on);
    if (answer == NVML_SUCCESS)
        *info = pci_info(&on.card->pci);
    return leave(answer);
}

EXPORT nvmlReturn_t nvmlDeviceGetNumaNodeId(nvmlDevice_t device, unsigned *node)
{
    struct target on;
    nvmlReturn_t answer = enter_with(CALL_nvmlDeviceGetNumaNodeId, device, node, &on);
    if (answer == NVML_SUCCESS && !on.card->numa_known)
        answer = NVML_ERROR_NOT_SUPPORTED;
    if (answer == NVML_SUCCESS)
        *node = on.card->numa;
    return leave(answer);
}

/* The NUMA nodes near the card, a bit each; here that is one node. */
EXPORT nvmlReturn_t nvmlDeviceGetMemoryAffinity(nvmlDevice_t device, unsigned words, unsigned long *nodes,
                                                unsigned scope)
{
    const unsigned bits = 8 * sizeof *nodes;
    struct target on;
    nvmlReturn_t answer = enter_with(CALL_nvmlDeviceGetMemoryAffinity, device, nodes, &on);
    if (answer != NVML_SUCCESS)
        return leave(answer);
    if (words == 0 || scope > NVML_AFFINITY_SCOPE_SOCKET)
        return leave(NVML_ERROR_INVALID_ARGUMENT);
    if (!on.card->numa_known)
        return leave(NVML_ERROR_NOT_SUPPORTED);
    if (on.card->numa >= words * (uint64_t)bits)
        return leave(NVML_ERROR_INSUFFICIENT_SIZE);
    memset(nodes, 0, words * sizeof *nodes);
    nodes[on.card->numa / bits] = 1ul << on.card->numa % bits;
    return leave(NVML_SUCCESS);
}

EXPORT nvmlReturn_t nvmlDeviceGetCudaComputeCapability(nvmlDevice_t device, int *major, int *minor)
{
    struct target on;
    nvmlReturn_t answer = enter_with(CALL_nvmlDeviceGetCudaComputeCapability, device, major, &on);
    if (answer == NVML_SUCCESS && !minor)
        answer = NVML_ERROR_INVALID_ARGUMENT;
    if (answer == NVML_SUCCESS) {
        *major = on.card->cc_major;
        *minor = on.card->cc_minor;
    }
    return leave(answer);
}

EXPORT nvmlReturn_t nvmlDeviceGetVirtualizationMode(nvmlDevice_t device, unsigned *mode)
{
    struct target on;
    nvmlReturn_t answer = enter_with(CALL_nvmlDeviceGetVirtualizationMode, device, mode, &on);
    if (answer == NVML_SUCCESS)
        *mode = on.card->virtualization;
    return leave(answer);
}

static bool runs_on(const struct process *process, const struct target *on)
{
    if (process->card != on->card)
        return false;
    return !on->instance || (process->gi == on->instance->gi && process->ci == on->instance->ci);
}

static uint64_t bytes(uint64_t mib)
{
    return mib << 20;
}

static nvmlMemory_v2_t memory_of(const struct target *on)
{
    nvmlMemory_v2_t memory = {
        .version = NVML_MEMORY_V2,
        .total = bytes(on->instance ? on->instance->total_mib : on->card->total_mib),
        .reserved = bytes(on->instance ? 0 : on->card->reserved_mib),
    };
    for (size_t i = 0; i < world.process_count; i++)
        if (runs_on(&world.processes[i], on) && world.processes[i].used_known)
            memory.used += bytes(world.processes[i].used_mib);

    uint64_t usable = memory.total - memory.reserved;
    memory.used = memory.used < usable ? memory.used : usable;
    memory.free = usable - memory.used;
    return memory;
}

/* The old call counts what the driver reserves as used, as NVML's does. */
EXPORT nvmlReturn_t nvmlDeviceGetMemoryInfo(nvmlDevice_t device, nvmlMemory_t *info)
{
    struct target on;
    nvmlReturn_t answer = enter_with(CALL_nvmlDeviceGetMemoryInfo, device, info, &on);
    if (answer == NVML_SUCCESS && !on.card->memory_known)
        answer = NVML_ERROR_NOT_SUPPORTED;
    if (answer == NVML_SUCCESS) {
        nvmlMemory_v2_t memory = memory_of(&on);
        *info = (nvmlMemory_t){memory.total, memory.free, memory.used + memory.reserved};
    }
    return leave(answer);
}

EXPORT nvmlReturn_t nvmlDeviceGetMemoryInfo_v2(nvmlDevice_t device, nvmlMemory_v2_t *info)
{
    struct target on;
    nvmlReturn_t answer = enter_with(CALL_nvmlDeviceGetMemoryInfo_v2, device, info, &on);
    if (answer == NVML_SUCCESS && info->version != NVML_MEMORY_V2)
        answer = NVML_ERROR_ARGUMENT_VERSION_MISMATCH;
    if (answer == NVML_SUCCESS && !on.card->memory_known)
        answer = NVML_ERROR_NOT_SUPPORTED;
    if (answer == NVML_SUCCESS)
        *info = memory_of(&on);
    return leave(answer);
}
