/* Initialisation, the one lock, and the reasons to refuse; rules in gate.h. */
#define _POSIX_C_SOURCE 200809L
#include "gate.h"

#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "event_set.h"
#include "files.h"
#include "limits.h"

enum { PATH_SIZE = 4096 };

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static unsigned init_count;
static bool loaded;
static char profile_path[PATH_SIZE];
static char events_path[PATH_SIZE];
static struct cursor events_cursor;

static void forget_world(void)
{
    world_reset();
    event_sets_clear();
    limits_clear();
    events_cursor = (struct cursor){0};
    loaded = false;
}

/*
 * Not NVML: names the profile and the events file (either may be NULL: taken
 * from the environment at nvmlInit) and forgets all state. Refused while
 * somebody has NVML open.
 */
EXPORT nvmlReturn_t gpushare_stub_configure(const char *profile, const char *events)
{
    profile = profile ? profile : "";
    events = events ? events : "";
    if (strlen(profile) >= PATH_SIZE || strlen(events) >= PATH_SIZE)
        return NVML_ERROR_INVALID_ARGUMENT;

    pthread_mutex_lock(&lock);
    if (init_count > 0)
        return leave(NVML_ERROR_ALREADY_INITIALIZED);
    memcpy(profile_path, profile, strlen(profile) + 1);
    memcpy(events_path, events, strlen(events) + 1);
    forget_world();
    return leave(NVML_SUCCESS);
}

static void take_from_environment(char *path, const char *name)
{
    const char *value = getenv(name);
    if (*path == '\0' && value && strlen(value) < PATH_SIZE)
        memcpy(path, value, strlen(value) + 1);
}

static bool load(void)
{
    take_from_environment(profile_path, "GPUSHARE_NVML_PROFILE");
    take_from_environment(events_path, "GPUSHARE_NVML_EVENTS");
    forget_world();
    loaded = read_profile(profile_path);
    return loaded;
}

static void catch_up(void)
{
    if (*events_path)
        read_events(events_path, &events_cursor);
}

const char *events_file(void)
{
    return events_path;
}

static nvmlReturn_t init(void)
{
    if (!loaded && !load())
        return NVML_ERROR_UNKNOWN;
    catch_up();
    if (world.missing[CALL_nvmlInitWithFlags])
        return NVML_ERROR_FUNCTION_NOT_FOUND;
    if (world.init_error)
        return world.init_error;
    return world.faults[CALL_nvmlInitWithFlags];
}

EXPORT nvmlReturn_t nvmlInitWithFlags(unsigned flags)
{
    (void)flags; /* about attaching to cards, which costs nothing here */
    pthread_mutex_lock(&lock);
    nvmlReturn_t answer = init();
    init_count += answer == NVML_SUCCESS;
    return leave(answer);
}

EXPORT nvmlReturn_t nvmlShutdown(void)
{
    pthread_mutex_lock(&lock);
    if (world.missing[CALL_nvmlShutdown])
        return leave(NVML_ERROR_FUNCTION_NOT_FOUND);
    if (init_count == 0)
        return leave(NVML_ERROR_UNINITIALIZED);
    catch_up();
    if (world.faults[CALL_nvmlShutdown])
        return leave(world.faults[CALL_nvmlShutdown]);
    if (--init_count == 0)
        event_sets_clear();
    return leave(NVML_SUCCESS);
}

nvmlReturn_t enter(enum call call)
{
    pthread_mutex_lock(&lock);
    if (world.missing[call])
        return NVML_ERROR_FUNCTION_NOT_FOUND;
    if (init_count == 0)
        return NVML_ERROR_UNINITIALIZED;
    catch_up();
    if (world.init_error == NVML_ERROR_LIB_RM_VERSION_MISMATCH)
        return world.init_error;
    return world.faults[call];
}

nvmlReturn_t leave(nvmlReturn_t answer)
{
    pthread_mutex_unlock(&lock);
    return answer;
}

nvmlReturn_t check_card(enum call call, const struct card *card)
{
    if (!card->present || card->lost)
        return NVML_ERROR_GPU_IS_LOST;
    return card->faults[call];
}

nvmlReturn_t resolve(enum call call, nvmlDevice_t device, struct target *on)
{
    uintptr_t serial = (uintptr_t)device;
    on->instance = instance_by_serial(serial);
    on->card = on->instance ? on->instance->card : card_by_serial(serial);
    return on->card ? check_card(call, on->card) : NVML_ERROR_INVALID_ARGUMENT;
}

nvmlReturn_t enter_with(enum call call, nvmlDevice_t device, const void *out, struct target *on)
{
    nvmlReturn_t answer = enter(call);
    if (answer == NVML_SUCCESS && !out)
        answer = NVML_ERROR_INVALID_ARGUMENT;
    return answer == NVML_SUCCESS ? resolve(call, device, on) : answer;
}

nvmlDevice_t handle_of(uintptr_t serial)
{
    return (nvmlDevice_t)serial;
}

nvmlReturn_t give_text(char *out, unsigned length, const char *text)
{
    if (strlen(text) >= length)
        return NVML_ERROR_INSUFFICIENT_SIZE;
    memcpy(out, text, strlen(text) + 1);
    return NVML_SUCCESS;
}
