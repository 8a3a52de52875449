/*
 * The lines that say what goes wrong, and what comes right again. Rules in
 * vocabulary.h.
 */
#include <string.h>

#include "event_set.h"
#include "vocabulary.h"

#define CALL_NAME(name) #name,
static const char *const CALL_NAMES[] = {NVML_CALLS(CALL_NAME)};
#undef CALL_NAME

/* The versioned name that a bare one may stand for, or NULL. */
static const char *longer_name(const char *name)
{
    for (unsigned call = 0; call < CALLS; call++) {
        const char *known = CALL_NAMES[call];
        if (strncmp(known, name, strlen(name)) == 0 && strncmp(known + strlen(name), "_v", 2) == 0)
            return known;
    }
    return NULL;
}

static enum call read_call(struct line *line, const char *name)
{
    for (unsigned call = 0; call < CALLS; call++)
        if (strcmp(CALL_NAMES[call], name) == 0)
            return (enum call)call;
    const char *meant = longer_name(name);
    line_wrong(line, "found the call '%s', expected %s", name, meant ? meant : "one that the stub answers");
    return CALLS;
}

static nvmlReturn_t read_error(struct line *line)
{
    nvmlReturn_t error = (nvmlReturn_t)line_number(line, "error", NVML_ERROR_UNKNOWN);
    if (error == NVML_SUCCESS)
        line_wrong(line, "found error=0, expected an NVML error from 1 to %d", NVML_ERROR_UNKNOWN);
    return error;
}

/* `ok`, or `error=N`. */
static nvmlReturn_t read_error_or_ok(struct line *line)
{
    const char *word = line_word(line);
    if (word && strcmp(word, "ok") == 0)
        return NVML_SUCCESS;
    if (word)
        line_wrong(line, "found '%s', expected ok or error=N", word);
    return read_error(line);
}

void apply_missing(struct line *line)
{
    const char *name = line_word(line);
    enum call call = read_call(line, name ? name : "");
    if (line_end(line))
        world.missing[call] = true;
}

void apply_init(struct line *line)
{
    nvmlReturn_t error = read_error_or_ok(line);
    if (line_end(line))
        world.init_error = error;
}

void apply_eventset(struct line *line)
{
    nvmlReturn_t error = read_error_or_ok(line);
    if (line_end(line))
        world.event_set_error = error;
}

void apply_fail(struct line *line)
{
    char name[TEXT_SIZE];
    line_text(line, "call", name, sizeof name, NULL);
    enum call call = line->wrong ? CALLS : read_call(line, name);
    struct card *card = line_card_or_all(line, "gpu");
    nvmlReturn_t error = read_error(line);
    if (!line_end(line))
        return;
    if (card)
        card->faults[call] = error;
    else
        world.faults[call] = error;
}

void apply_heal(struct line *line)
{
    char name[TEXT_SIZE];
    line_text(line, "call", name, sizeof name, NULL);
    enum call call = line->wrong ? CALLS : read_call(line, name);
    struct card *card = line_card_or_all(line, "gpu");
    if (!line_end(line))
        return;
    if (card) {
        card->faults[call] = NVML_SUCCESS;
        return;
    }
    world.faults[call] = NVML_SUCCESS;
    for (size_t i = 0; i < world.card_count; i++)
        world.cards[i].faults[call] = NVML_SUCCESS;
}

void apply_lost(struct line *line)
{
    struct card *card = line_card(line, "gpu");
    if (line_end(line))
        card->lost = true;
}

void apply_back(struct line *line)
{
    struct card *card = line_card(line, "gpu");
    if (line_end(line))
        card->lost = false;
}

void apply_ecc(struct line *line)
{
    struct card *card = line_card(line, "gpu");
    uint64_t uncorrected = line_number(line, "uncorrected", UINT32_MAX);
    if (line_end(line))
        card->uncorrected = uncorrected;
}

void apply_xid(struct line *line)
{
    const struct card *card = line_card_or_all(line, "gpu");
    uint64_t code = line_number(line, "code", UINT32_MAX);
    unsigned gi = (unsigned)line_number_or(line, "gi", 255, NVML_NO_INSTANCE);
    unsigned ci = (unsigned)line_number_or(line, "ci", 255, NVML_NO_INSTANCE);
    if (line_end(line))
        event_sets_deliver_xid(card, code, gi, ci);
}
