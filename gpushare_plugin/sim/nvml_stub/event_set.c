/* Event sets, and waiting for them; the rule is in event_set.h. */
#define _POSIX_C_SOURCE 200809L
#include "event_set.h"

#include <time.h>

#include "gate.h"
#include "news.h"

enum { MAX_SETS = 64, MAX_WAITING_EVENTS = 256 };

/* How late the end of a wait may be that another thread of this process brings about,
 * by a shutdown or by freeing the set. The events file wakes a wait at once. */
static const int64_t LOOK_MS = 250;

struct event_set {
    uintptr_t serial; /* 0: free */
    uintptr_t cards[MAX_CARDS];
    unsigned long long types[MAX_CARDS];
    nvmlEventData_t events[MAX_WAITING_EVENTS];
    size_t first;
    size_t count;
};

static struct event_set sets[MAX_SETS];

static struct event_set *find_set(uintptr_t serial)
{
    for (size_t i = 0; i < MAX_SETS; i++)
        if (sets[i].serial == serial)
            return &sets[i];
    return NULL;
}

static struct event_set *set_of(nvmlEventSet_t handle)
{
    return handle ? find_set((uintptr_t)handle) : NULL;
}

void event_sets_clear(void)
{
    for (size_t i = 0; i < MAX_SETS; i++)
        sets[i].serial = 0;
}

/* Registration is by serial: a card that was replaced is no longer watched. */
static bool hears_xids(const struct event_set *set, const struct card *card)
{
    bool hears = false;
    for (size_t i = 0; i < world.card_count; i++) {
        bool meant = card ? card == &world.cards[i] : true;
        bool registered = set->cards[i] == world.cards[i].serial && (set->types[i] & NVML_EVENT_XID);
        hears = hears || (meant && registered);
    }
    return hears;
}

void event_sets_deliver_xid(const struct card *card, uint64_t code, unsigned gi, unsigned ci)
{
    nvmlEventData_t event = {
        .device = card ? handle_of(card->serial) : NULL,
        .eventType = NVML_EVENT_XID,
        .eventData = code,
        .gpuInstanceId = gi,
        .computeInstanceId = ci,
    };
    for (size_t i = 0; i < MAX_SETS; i++) {
        struct event_set *set = &sets[i];
        if (!set->serial || set->count == MAX_WAITING_EVENTS || !hears_xids(set, card))
            continue;
        set->events[(set->first + set->count++) % MAX_WAITING_EVENTS] = event;
    }
}

EXPORT nvmlReturn_t nvmlEventSetCreate(nvmlEventSet_t *handle)
{
    nvmlReturn_t answer = enter(CALL_nvmlEventSetCreate);
    if (answer != NVML_SUCCESS)
        return leave(answer);
    if (!handle)
        return leave(NVML_ERROR_INVALID_ARGUMENT);
    if (world.event_set_error)
        return leave(world.event_set_error);

    struct event_set *set = find_set(0);
    if (!set)
        return leave(NVML_ERROR_INSUFFICIENT_RESOURCES);
    *set = (struct event_set){.serial = world_next_serial()};
    *handle = (nvmlEventSet_t)set->serial;
    return leave(NVML_SUCCESS);
}

EXPORT nvmlReturn_t nvmlEventSetFree(nvmlEventSet_t handle)
{
    nvmlReturn_t answer = enter(CALL_nvmlEventSetFree);
    struct event_set *set = answer == NVML_SUCCESS ? set_of(handle) : NULL;
    if (answer == NVML_SUCCESS && !set)
        answer = NVML_ERROR_INVALID_ARGUMENT;
    if (set)
        set->serial = 0;
    return leave(answer);
}

static unsigned long long supported_types(const struct card *card)
{
    if (card->watching == EVENTS_UNSUPPORTED)
        return 0;
    return NVML_EVENT_XID | NVML_EVENT_SINGLE_BIT_ECC | NVML_EVENT_DOUBLE_BIT_ECC;
}

EXPORT nvmlReturn_t nvmlDeviceGetSupportedEventTypes(nvmlDevice_t device, unsigned long long *types)
{
    struct target on;
    nvmlReturn_t answer = enter_with(CALL_nvmlDeviceGetSupportedEventTypes, device, types, &on);
    if (answer == NVML_SUCCESS)
        *types = supported_types(on.card);
    return leave(answer);
}

EXPORT nvmlReturn_t nvmlDeviceRegisterEvents(nvmlDevice_t device, unsigned long long types, nvmlEventSet_t handle)
{
    struct target on;
    nvmlReturn_t answer = enter_with(CALL_nvmlDeviceRegisterEvents, device, handle, &on);
    if (answer != NVML_SUCCESS)
        return leave(answer);
    struct event_set *set = set_of(handle);
    if (!set || types == 0)
        return leave(NVML_ERROR_INVALID_ARGUMENT);
    if (on.card->watching == EVENTS_UNKNOWN)
        return leave(NVML_ERROR_UNKNOWN);
    if (on.instance || (types & ~supported_types(on.card)))
        return leave(NVML_ERROR_NOT_SUPPORTED);

    size_t slot = (size_t)(on.card - world.cards);
    bool again = set->cards[slot] == on.card->serial;
    set->cards[slot] = on.card->serial;
    set->types[slot] = types | (again ? set->types[slot] : 0);
    return leave(NVML_SUCCESS);
}

static nvmlReturn_t take_event(nvmlEventSet_t handle, nvmlEventData_t *event)
{
    struct event_set *set = set_of(handle);
    if (!set || !event)
        return NVML_ERROR_INVALID_ARGUMENT;
    if (world.event_set_error)
        return world.event_set_error;
    if (set->count == 0)
        return NVML_ERROR_TIMEOUT;
    *event = set->events[set->first];
    set->first = (set->first + 1) % MAX_WAITING_EVENTS;
    set->count--;
    return NVML_SUCCESS;
}

static int64_t now_ms(void)
{
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (int64_t)now.tv_sec * 1000 + now.tv_nsec / 1000000;
}

/* Enters anew at each look, so that a shutdown, a freed set and a failing call
 * end a wait that has begun. */
EXPORT nvmlReturn_t nvmlEventSetWait_v2(nvmlEventSet_t handle, nvmlEventData_t *event, unsigned timeout_ms)
{
    int64_t deadline_ms = now_ms() + timeout_ms;
    news_listen(events_file());
    for (;;) {
        nvmlReturn_t answer = enter(CALL_nvmlEventSetWait_v2);
        if (answer == NVML_SUCCESS)
            answer = take_event(handle, event);
        leave(answer);

        int64_t rest_ms = deadline_ms - now_ms();
        if (answer != NVML_ERROR_TIMEOUT || rest_ms <= 0)
            return answer;
        news_wait(rest_ms < LOOK_MS ? rest_ms : LOOK_MS);
    }
}
