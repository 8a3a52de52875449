/*
 * The driver's memory limits of control groups, per card and cgroup path.
 *
 * They stay in this process: the simulation has no driver that would outlive it.
 */
#include <string.h>

#include "gate.h"
#include "limits.h"

enum { MAX_LIMITS = 512, CGROUP_PATH_SIZE = 1024 };

struct limit {
    uintptr_t card_serial;
    char cgroup[CGROUP_PATH_SIZE];
    uint64_t soft;
    uint64_t hard;
};

static struct limit limits[MAX_LIMITS];
static size_t limit_count;

void limits_clear(void)
{
    limit_count = 0;
}

static struct limit *find_limit(const struct card *card, const char *cgroup)
{
    for (size_t i = 0; i < limit_count; i++)
        if (limits[i].card_serial == card->serial && strcmp(limits[i].cgroup, cgroup) == 0)
            return &limits[i];
    return NULL;
}

static nvmlReturn_t enter_limits(enum call call, nvmlDevice_t device, const void *argument, const char *cgroup,
                                 struct target *on)
{
    nvmlReturn_t answer = enter_with(call, device, argument, on);
    if (answer != NVML_SUCCESS)
        return answer;
    if (!cgroup || *cgroup == '\0' || strlen(cgroup) >= CGROUP_PATH_SIZE)
        return NVML_ERROR_INVALID_ARGUMENT;
    return on->instance || on->card->mig == MIG_ON ? NVML_ERROR_NOT_SUPPORTED : NVML_SUCCESS;
}

EXPORT nvmlReturn_t nvmlDeviceSetMemoryLimits_v1(nvmlDevice_t device, const nvmlSetMemoryLimits_v1_t *wanted)
{
    struct target on;
    const char *cgroup = wanted ? wanted->nameSpace : NULL;
    nvmlReturn_t answer = enter_limits(CALL_nvmlDeviceSetMemoryLimits_v1, device, wanted, cgroup, &on);
    if (answer != NVML_SUCCESS)
        return leave(answer);
    if (wanted->hardLimit < wanted->softLimit)
        return leave(NVML_ERROR_INVALID_ARGUMENT);

    struct limit *limit = find_limit(on.card, cgroup);
    if (!limit && limit_count == MAX_LIMITS)
        return leave(NVML_ERROR_INSUFFICIENT_RESOURCES);
    if (!limit)
        limit = &limits[limit_count++];
    *limit = (struct limit){.card_serial = on.card->serial, .soft = wanted->softLimit, .hard = wanted->hardLimit};
    memcpy(limit->cgroup, cgroup, strlen(cgroup) + 1);
    return leave(NVML_SUCCESS);
}

EXPORT nvmlReturn_t nvmlDeviceGetMemoryLimits_v1(nvmlDevice_t device, nvmlGetMemoryLimits_v1_t *asked)
{
    struct target on;
    const char *cgroup = asked ? asked->nameSpace : NULL;
    nvmlReturn_t answer = enter_limits(CALL_nvmlDeviceGetMemoryLimits_v1, device, asked, cgroup, &on);
    if (answer != NVML_SUCCESS)
        return leave(answer);
    const struct limit *limit = find_limit(on.card, cgroup);
    asked->softLimit = limit ? limit->soft : NVML_MEMORY_LIMIT_MAX;
    asked->hardLimit = limit ? limit->hard : NVML_MEMORY_LIMIT_MAX;
    asked->currentUsed = 0;
    return leave(NVML_SUCCESS);
}
