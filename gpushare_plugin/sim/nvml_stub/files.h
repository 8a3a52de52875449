/*
 * Reading profiles and events files: lines in, changes of the world out.
 *
 * Rule 1: a profile is read to its end, and one wrong line spoils it.
 * Rule 2: an events file may not exist yet and only grows. Each complete line
 *         is applied once, in order; a wrong one is printed and skipped. A file
 *         that was made anew is read from its start.
 */
#ifndef GPUSHARE_FILES_H
#define GPUSHARE_FILES_H

#include <stdbool.h>
#include <stdint.h>

#pragma GCC visibility push(hidden)

struct cursor {
    uint64_t inode;
    int64_t offset_bytes;
    unsigned line;
};

bool read_profile(const char *path);
void read_events(const char *path, struct cursor *cursor);

#pragma GCC visibility pop
#endif
