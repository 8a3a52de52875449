/*
 * The way into the world for every NVML call: lock, bring the world up to date,
 * and answer what any call would answer.
 *
 * Rule 1: a call enters once, and leaves with its answer whatever enter said:
 *             nvmlReturn_t answer = enter(...);
 *             if (answer == NVML_SUCCESS) ...
 *             return leave(answer);
 * Rule 2: the order of the reasons to refuse: the function is missing, the
 *         library is not initialised, the driver was changed under it, the call
 *         was made to fail; then bad arguments, a lost card, a failing card.
 */
#ifndef GPUSHARE_GATE_H
#define GPUSHARE_GATE_H

#include "nvml_abi.h"
#include "world.h"

#define EXPORT __attribute__((visibility("default")))

#pragma GCC visibility push(hidden)

/* What a device handle stands for; `instance` is NULL for a whole card. */
struct target {
    struct card *card;
    struct instance *instance;
};

nvmlReturn_t enter(enum call call);

/* Enters with a handle. `out` is what the call writes to: NULL is refused. */
nvmlReturn_t enter_with(enum call call, nvmlDevice_t device, const void *out, struct target *on);

/* For a second handle, and for calls that look a card up. */
nvmlReturn_t resolve(enum call call, nvmlDevice_t device, struct target *on);
nvmlReturn_t check_card(enum call call, const struct card *card);

nvmlReturn_t leave(nvmlReturn_t answer);

/* The path of the events file; empty if there is none. It changes only while nobody has
 * NVML open. */
const char *events_file(void);

nvmlDevice_t handle_of(uintptr_t serial);

/* Fills a caller's buffer of `length` bytes, the NUL included. */
nvmlReturn_t give_text(char *out, unsigned length, const char *text);

#pragma GCC visibility pop
#endif
