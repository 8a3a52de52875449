/*
 * Waiting until something may have been written to the events file.
 *
 * Rule: a wait only wakes, and may wake for nothing or not at all: who waits looks
 *       at the file itself, before and after.
 */
#ifndef GPUSHARE_NEWS_H
#define GPUSHARE_NEWS_H

#include <stdint.h>

#pragma GCC visibility push(hidden)

/* From now on, what happens to the file is kept for the next wait. */
void news_listen(const char *path);

/* Returns after `ms` at the latest. */
void news_wait(int64_t ms);

#pragma GCC visibility pop
#endif
