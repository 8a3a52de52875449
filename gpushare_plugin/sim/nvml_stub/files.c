/* Reading profiles and events files; the rules are in files.h. */
#define _POSIX_C_SOURCE 200809L
#include "files.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "line.h"
#include "vocabulary.h"

static bool apply_text(struct line *line, char *text, size_t length, enum source source)
{
    if (strlen(text) != length) {
        line_wrong(line, "found a NUL byte, expected text");
        return false;
    }
    if (!line_split(line, text))
        return !line->wrong;
    return apply(line, source);
}

bool read_profile(const char *path)
{
    FILE *file = *path ? fopen(path, "r") : NULL;
    if (!file) {
        fprintf(stderr, "nvml stub: found no profile at '%s' (%s), expected a readable file\n", path,
                *path ? strerror(errno) : "none was named");
        return false;
    }
    bool right = true;
    struct line line = {.file = path};
    char *text = NULL;
    size_t room = 0;
    ssize_t length;
    while (right && (length = getline(&text, &room, file)) > 0) {
        line.number++;
        line.wrong = false;
        right = apply_text(&line, text, (size_t)length, FROM_PROFILE);
    }
    free(text);
    fclose(file);
    return right;
}

static void read_new_lines(FILE *file, const char *path, struct cursor *cursor)
{
    struct line line = {.file = path};
    char *text = NULL;
    size_t room = 0;
    ssize_t length;
    /* A last line without its end is still being written: next time. */
    while ((length = getline(&text, &room, file)) > 0 && text[length - 1] == '\n') {
        cursor->offset_bytes += length;
        line.number = ++cursor->line;
        line.wrong = false;
        apply_text(&line, text, (size_t)length, FROM_EVENTS);
    }
    free(text);
}

void read_events(const char *path, struct cursor *cursor)
{
    struct stat status;
    if (stat(path, &status) != 0)
        return;
    if (cursor->inode != status.st_ino || cursor->offset_bytes > status.st_size)
        *cursor = (struct cursor){.inode = status.st_ino};
    if (cursor->offset_bytes == status.st_size)
        return;

    /* Reading a pipe or a directory would block or fail for ever. */
    FILE *file = S_ISREG(status.st_mode) ? fopen(path, "r") : NULL;
    if (!file)
        return;
    if (fseeko(file, cursor->offset_bytes, SEEK_SET) == 0)
        read_new_lines(file, path, cursor);
    fclose(file);
}
