/*
 * Event sets: who hears about what.
 *
 * Rule: an event goes to each set that is registered for it when it happens,
 *       and to no set that registers later.
 */
#ifndef GPUSHARE_EVENT_SET_H
#define GPUSHARE_EVENT_SET_H

#include "world.h"

#pragma GCC visibility push(hidden)

/* `card` NULL: an event that names no card, for every set that hears XIDs. */
void event_sets_deliver_xid(const struct card *card, uint64_t code, unsigned gi, unsigned ci);

void event_sets_clear(void);

#pragma GCC visibility pop
#endif
