/*
 * What each kind of line means: the one table of words that profiles and
 * events files share.
 *
 * Rule: a line changes the world only when all of it is right.
 */
#ifndef GPUSHARE_VOCABULARY_H
#define GPUSHARE_VOCABULARY_H

#include <stdbool.h>

#include "line.h"
#include "world.h"

#pragma GCC visibility push(hidden)

enum source { FROM_PROFILE = 1, FROM_EVENTS = 2 };

/* False where the line was wrong; it has been printed then. */
bool apply(struct line *line, enum source source);

/* The card that a field names, by NVML index or UUID. NULL: wrong, or (where
 * the card is optional) not given. */
struct card *line_card(struct line *line, const char *key);
struct card *line_card_or_all(struct line *line, const char *key);

/* Kinds of lines: what is there. */
void apply_system(struct line *line);
void apply_gpu(struct line *line);
void apply_remove(struct line *line);
void apply_mig(struct line *line);
void apply_unmig(struct line *line);
void apply_migmode(struct line *line);
void apply_process(struct line *line);
void apply_exit(struct line *line);
void apply_link(struct line *line);
void apply_path(struct line *line);

/* Kinds of lines: what goes wrong. */
void apply_missing(struct line *line);
void apply_init(struct line *line);
void apply_eventset(struct line *line);
void apply_fail(struct line *line);
void apply_heal(struct line *line);
void apply_lost(struct line *line);
void apply_back(struct line *line);
void apply_ecc(struct line *line);
void apply_xid(struct line *line);

#pragma GCC visibility pop
#endif
