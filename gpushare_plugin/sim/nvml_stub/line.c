/* Cutting one line into fields and reading them; the rules are in line.h. */
#include "line.h"

#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

void line_wrong(struct line *line, const char *format, ...)
{
    if (line->wrong)
        return;
    line->wrong = true;

    char message[512];
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(message, sizeof message, format, arguments);
    va_end(arguments);
    fprintf(stderr, "nvml stub: %s:%u: %s\n", line->file, line->number, message);
}

static bool is_blank(char c)
{
    return c == ' ' || c == '\t' || c == '\r' || c == '\n';
}

static char *skip_blanks(char *at)
{
    while (is_blank(*at))
        at++;
    return at;
}

/* Ends the token that starts at `at` with a NUL, without its quotes, and returns
 * where the text goes on. NULL: a quote that is not closed. */
static char *cut_token(char *at)
{
    char *end = at;
    bool quoted = false;
    for (; *at && (quoted || !is_blank(*at)); at++) {
        if (*at == '"')
            quoted = !quoted;
        else
            *end++ = *at;
    }
    char *rest = *at ? at + 1 : at;
    *end = '\0';
    return quoted ? NULL : rest;
}

static struct field *find(struct line *line, const char *key)
{
    for (size_t i = 0; i < line->count; i++)
        if (line->fields[i].key && strcmp(line->fields[i].key, key) == 0)
            return &line->fields[i];
    return NULL;
}

static void add_field(struct line *line, char *token)
{
    char *equals = strchr(token, '=');
    struct field field = {.value = token};
    if (equals) {
        *equals = '\0';
        field = (struct field){.key = token, .value = equals + 1};
    }
    if (line->count == MAX_FIELDS)
        line_wrong(line, "found more than %d fields, expected fewer", MAX_FIELDS);
    else if (field.key && find(line, field.key))
        line_wrong(line, "found %s= twice, expected it once", field.key);
    else
        line->fields[line->count++] = field;
}

bool line_split(struct line *line, char *text)
{
    line->kind = NULL;
    line->count = line->asked_count = 0;
    line->wrong = false;

    for (char *at = skip_blanks(text); *at && *at != '#'; at = skip_blanks(at)) {
        char *token = at;
        at = cut_token(at);
        if (!at) {
            line_wrong(line, "found a quote that is not closed, expected a second \"");
            return false;
        }
        if (!line->kind)
            line->kind = token;
        else
            add_field(line, token);
    }
    return line->kind && !line->wrong;
}

/* Remembers what was asked: line_end names these where another key is found. */
static const struct field *ask(struct line *line, const char *key)
{
    bool known = false;
    for (size_t i = 0; i < line->asked_count; i++)
        known = known || strcmp(line->asked[i], key) == 0;
    if (!known && line->asked_count < MAX_FIELDS)
        line->asked[line->asked_count++] = key;

    struct field *field = find(line, key);
    if (field)
        field->asked = true;
    return field;
}

bool line_has(struct line *line, const char *key)
{
    return ask(line, key) != NULL;
}

void line_text(struct line *line, const char *key, char *out, size_t size, const char *otherwise)
{
    const struct field *field = ask(line, key);
    const char *text = field ? field->value : otherwise;
    out[0] = '\0';
    if (!text)
        line_wrong(line, "found no %s= in a '%s' line, expected one", key, line->kind);
    else if (*text == '\0' || strlen(text) >= size)
        line_wrong(line, "found %s=%s, expected 1 to %zu bytes", key, text, size - 1);
    else
        memcpy(out, text, strlen(text) + 1);
}

/* Decimal digits only: strtoull alone would take a sign and blanks too. */
static bool parse_number(const char *text, uint64_t most, uint64_t *number)
{
    size_t digits = strspn(text, "0123456789");
    if (digits == 0 || text[digits] != '\0' || digits > 20)
        return false;
    *number = strtoull(text, NULL, 10);
    /* A number that is too large comes back as the largest there is. */
    return *number <= most && *number < UINT64_MAX;
}

uint64_t line_number_or(struct line *line, const char *key, uint64_t most, uint64_t otherwise)
{
    const struct field *field = ask(line, key);
    uint64_t number = otherwise;
    if (field && !parse_number(field->value, most, &number)) {
        line_wrong(line, "found %s=%s, expected a whole number from 0 to %" PRIu64, key, field->value, most);
        return 0;
    }
    return number;
}

uint64_t line_number(struct line *line, const char *key, uint64_t most)
{
    if (!line_has(line, key))
        line_wrong(line, "found no %s= in a '%s' line, expected a whole number", key, line->kind);
    return line_number_or(line, key, most, 0);
}

static void join(char *out, size_t size, const char *const *words, size_t count)
{
    size_t length = 0;
    out[0] = '\0';
    for (size_t i = 0; i < count && length < size; i++)
        length += (size_t)snprintf(out + length, size - length, "%s%s", i ? " " : "", words[i]);
}

unsigned line_choice(struct line *line, const char *key, const char *const *choices, unsigned otherwise)
{
    const struct field *field = ask(line, key);
    if (!field)
        return otherwise;
    unsigned count = 0;
    for (; choices[count]; count++)
        if (strcmp(choices[count], field->value) == 0)
            return count;

    char list[160];
    join(list, sizeof list, choices, count);
    line_wrong(line, "found %s=%s, expected one of: %s", key, field->value, list);
    return otherwise;
}

const char *line_word(struct line *line)
{
    for (size_t i = 0; i < line->count; i++) {
        struct field *field = &line->fields[i];
        if (!field->key && !field->asked) {
            field->asked = true;
            return field->value;
        }
    }
    return NULL;
}

bool line_end(struct line *line)
{
    char list[320];
    join(list, sizeof list, line->asked, line->asked_count);
    for (size_t i = 0; i < line->count; i++) {
        const struct field *field = &line->fields[i];
        if (!field->asked)
            line_wrong(line, "found '%s' in a '%s' line, expected %s%s", field->key ? field->key : field->value,
                       line->kind, *list ? "only: " : "nothing more", list);
    }
    return !line->wrong;
}
