/* Forgetting all memory limits, when the world is made anew. */
#ifndef GPUSHARE_LIMITS_H
#define GPUSHARE_LIMITS_H

#pragma GCC visibility push(hidden)

void limits_clear(void);

#pragma GCC visibility pop
#endif
