/* The table of kinds of lines, and how a line names a card. */
#include "vocabulary.h"

#include <string.h>

static const struct kind {
    const char *name;
    unsigned sources;
    void (*apply)(struct line *line);
} KINDS[] = {
    {"system", FROM_PROFILE, apply_system},
    {"gpu", FROM_PROFILE, apply_gpu},
    {"add", FROM_EVENTS, apply_gpu},
    {"remove", FROM_EVENTS, apply_remove},
    {"mig", FROM_PROFILE | FROM_EVENTS, apply_mig},
    {"unmig", FROM_EVENTS, apply_unmig},
    {"migmode", FROM_EVENTS, apply_migmode},
    {"process", FROM_PROFILE | FROM_EVENTS, apply_process},
    {"exit", FROM_EVENTS, apply_exit},
    {"link", FROM_PROFILE, apply_link},
    {"path", FROM_PROFILE, apply_path},
    {"missing", FROM_PROFILE, apply_missing},
    {"init", FROM_PROFILE | FROM_EVENTS, apply_init},
    {"eventset", FROM_PROFILE | FROM_EVENTS, apply_eventset},
    {"fail", FROM_PROFILE | FROM_EVENTS, apply_fail},
    {"heal", FROM_EVENTS, apply_heal},
    {"lost", FROM_PROFILE | FROM_EVENTS, apply_lost},
    {"back", FROM_EVENTS, apply_back},
    {"ecc", FROM_PROFILE | FROM_EVENTS, apply_ecc},
    {"xid", FROM_EVENTS, apply_xid},
};

bool apply(struct line *line, enum source source)
{
    for (size_t i = 0; i < sizeof KINDS / sizeof KINDS[0]; i++) {
        if (strcmp(KINDS[i].name, line->kind) != 0 || !(KINDS[i].sources & source))
            continue;
        KINDS[i].apply(line);
        return !line->wrong;
    }
    line_wrong(line, "found a line of kind '%s', expected one that %s know", line->kind,
               source == FROM_PROFILE ? "profiles" : "events files");
    return false;
}

struct card *line_card(struct line *line, const char *key)
{
    char text[TEXT_SIZE];
    line_text(line, key, text, sizeof text, NULL);
    if (line->wrong)
        return NULL;

    bool is_index = strspn(text, "0123456789") == strlen(text);
    struct card *card = is_index ? NULL : card_by_uuid(text);
    if (is_index) {
        uint64_t index = line_number(line, key, MAX_CARDS - 1);
        card = line->wrong ? NULL : card_by_index((unsigned)index);
    }
    if (!card)
        line_wrong(line, "found %s=%s, expected the index or UUID of one of %u cards", key, text,
                   card_count_present());
    return card;
}

struct card *line_card_or_all(struct line *line, const char *key)
{
    return line_has(line, key) ? line_card(line, key) : NULL;
}
