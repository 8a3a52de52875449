/*
 * One line of a profile or an events file: `kind word key=value key="a value"`.
 *
 * Rule 1: the first thing wrong is printed as `nvml stub: FILE:LINE: found ...,
 *         expected ...`; what is asked after that answers zeros, so a reader
 *         asks for all its fields in a row and looks once, at line_end.
 * Rule 2: a field that nobody asked for is wrong, as is a key given twice.
 *
 * Must not know: what any kind of line means.
 */
#ifndef GPUSHARE_LINE_H
#define GPUSHARE_LINE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#pragma GCC visibility push(hidden)

enum { MAX_FIELDS = 32 };

struct field {
    const char *key; /* NULL: a word without `=` */
    const char *value;
    bool asked;
};

struct line {
    const char *file;
    unsigned number;
    const char *kind;
    struct field fields[MAX_FIELDS];
    size_t count;
    const char *asked[MAX_FIELDS];
    size_t asked_count;
    bool wrong;
};

/* Cuts `text` up in place. False where there is nothing to apply: a blank line,
 * a comment, or something wrong. */
bool line_split(struct line *line, char *text);

__attribute__((format(printf, 2, 3))) void line_wrong(struct line *line, const char *format, ...);

bool line_has(struct line *line, const char *key);

/* Copies the value; NULL `otherwise` means that the field must be there. */
void line_text(struct line *line, const char *key, char *out, size_t size, const char *otherwise);

uint64_t line_number(struct line *line, const char *key, uint64_t most);
uint64_t line_number_or(struct line *line, const char *key, uint64_t most, uint64_t otherwise);

/* The place of the value among `choices` (which end in NULL). */
unsigned line_choice(struct line *line, const char *key, const char *const *choices, unsigned otherwise);

/* The next word without `=`, or NULL. */
const char *line_word(struct line *line);

/* True where all that was asked was right, and nothing is left over. */
bool line_end(struct line *line);

#pragma GCC visibility pop
#endif
