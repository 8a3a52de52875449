/*
 * The lines that say what is there: the system, cards, MIG instances,
 * processes and the ways between cards. Rules in vocabulary.h.
 */
#include <string.h>

#include "vocabulary.h"

static const char *const ECC[] = {"on", "off", "unsupported", NULL};
static const char *const WATCHING[] = {"supported", "unsupported", "unknown", NULL};
static const char *const MIG[] = {"unsupported", "off", "on", NULL};
static const char *const VIRTUALIZATION[] = {"none", "passthrough", "vgpu", "host-vgpu", "host-vsga", NULL};
static const char *const MEMORY[] = {"supported", "unsupported", NULL};
static const char *const PROCESS[] = {"compute", "graphics", "mps", NULL};
static const char *const LEVELS[] = {"internal", "single", "multiple", "hostbridge", "node", "system", NULL};

/* In bytes it still fits 64 bits. */
static const uint64_t MOST_MIB = UINT32_MAX;

void apply_system(struct line *line)
{
    char driver[TEXT_SIZE], nvml[TEXT_SIZE];
    line_text(line, "driver", driver, sizeof driver, NULL);
    line_text(line, "nvml", nvml, sizeof nvml, driver);
    int cuda = (int)line_number(line, "cuda", 1000000);
    if (!line_end(line))
        return;
    memcpy(world.driver, driver, sizeof driver);
    memcpy(world.nvml, nvml, sizeof nvml);
    world.cuda = cuda;
}

static int hex_digit(char c)
{
    const char *digits = "0123456789abcdef";
    const char *found = c ? strchr(digits, c) : NULL;
    return found ? (int)(found - digits) : -1;
}

/* A name in any bytes, as pairs of hex digits: some drivers hand out names that
 * are not UTF-8, and a profile is text. */
static void read_name_bytes(struct line *line, char *name)
{
    char text[2 * TEXT_SIZE];
    line_text(line, "bytes_name", text, sizeof text - 1, NULL);
    size_t length = strlen(text) / 2;
    bool right = strlen(text) % 2 == 0;
    for (size_t i = 0; right && i < length; i++) {
        int high = hex_digit(text[2 * i]), low = hex_digit(text[2 * i + 1]);
        right = high >= 0 && low >= 0 && high + low > 0;
        name[i] = (char)(right ? high * 16 + low : 0);
    }
    name[right ? length : 0] = '\0';
    if (!right)
        line_wrong(line, "found bytes_name=%s, expected pairs of lower-case hex digits, none 00", text);
}

static void read_memory(struct line *line, struct card *card)
{
    card->memory_known = line_choice(line, "memory", MEMORY, 0) == 0;
    if (card->memory_known || line_has(line, "total_mib"))
        card->total_mib = line_number(line, "total_mib", MOST_MIB);
    card->reserved_mib = line_number_or(line, "reserved_mib", MOST_MIB, 0);
    if (card->reserved_mib > card->total_mib)
        line_wrong(line, "found reserved_mib above total_mib, expected at most total_mib");
}

static void read_place(struct line *line, struct card *card)
{
    const char *const unsupported[] = {"unsupported", NULL};
    char text[TEXT_SIZE];
    line_text(line, "minor", text, sizeof text, "0");
    card->minor_known = strcmp(text, unsupported[0]) != 0;
    if (card->minor_known)
        card->minor = (unsigned)line_number_or(line, "minor", 255, (uint64_t)world.card_count);

    card->numa_known = line_has(line, "numa");
    card->numa = (unsigned)line_number_or(line, "numa", 1023, 0);
    card->pci = (struct pci){.bus = (unsigned)world.card_count + 1};
    if (line_has(line, "pci")) {
        line_text(line, "pci", text, sizeof text, NULL);
        if (!pci_parse(text, &card->pci))
            line_wrong(line, "found pci=%s, expected an address like 00000000:3B:00.0", text);
    }
}

static void read_compute_capability(struct line *line, struct card *card)
{
    char text[TEXT_SIZE];
    line_text(line, "cc", text, sizeof text, "8.0");
    size_t major = strspn(text, "0123456789");
    const char *minor = text + major + (text[major] == '.');
    bool right = major >= 1 && major <= 2 && strlen(minor) == 1 && minor > text + major && strspn(minor, "0123456789");
    if (!right) {
        line_wrong(line, "found cc=%s, expected a number like 8.0", text);
        return;
    }
    card->cc_major = major == 1 ? text[0] - '0' : (text[0] - '0') * 10 + text[1] - '0';
    card->cc_minor = minor[0] - '0';
}

void apply_gpu(struct line *line)
{
    struct card card = {0};
    line_text(line, "uuid", card.uuid, sizeof card.uuid, NULL);
    if (line_has(line, "bytes_name"))
        read_name_bytes(line, card.name);
    else
        line_text(line, "name", card.name, sizeof card.name, NULL);
    read_memory(line, &card);
    read_place(line, &card);
    read_compute_capability(line, &card);
    card.ecc = line_choice(line, "ecc", ECC, ECC_ON);
    card.watching = line_choice(line, "events", WATCHING, EVENTS_SUPPORTED);
    card.mig = line_choice(line, "mig", MIG, MIG_UNSUPPORTED);
    card.virtualization = line_choice(line, "virtualization", VIRTUALIZATION, 0);

    if (card_by_uuid(card.uuid))
        line_wrong(line, "found uuid=%s a second time, expected each card once", card.uuid);
    if (card_by_pci(&card.pci))
        line_wrong(line, "found a second card with one PCI address, expected pci= of its own");
    if (line_end(line) && !card_put(&card))
        line_wrong(line, "found more than %d cards, expected fewer", MAX_CARDS);
}

void apply_remove(struct line *line)
{
    struct card *card = line_card(line, "gpu");
    if (line_end(line))
        card_take_out(card);
}

static unsigned instances_of(const struct card *card)
{
    unsigned count = 0;
    while (instance_by_index(card, count))
        count++;
    return count;
}

void apply_mig(struct line *line)
{
    struct instance instance = {.card = line_card(line, "gpu")};
    line_text(line, "uuid", instance.uuid, sizeof instance.uuid, NULL);
    line_text(line, "profile_name", instance.profile_name, sizeof instance.profile_name, NULL);
    instance.gi = (unsigned)line_number(line, "gi", 255);
    instance.ci = (unsigned)line_number(line, "ci", 255);
    instance.total_mib = line_number(line, "total_mib", MOST_MIB);
    instance.slices = (unsigned)line_number_or(line, "slices", MAX_INSTANCES_A_CARD, 1);
    instance.multiprocessors = (unsigned)line_number_or(line, "multiprocessors", 1024, instance.slices * 14);
    if (!line_end(line))
        return;

    if (instance.card->mig != MIG_ON)
        line_wrong(line, "found a MIG instance on a card that is not in MIG mode, expected mig=on");
    else if (instance_by_uuid(instance.uuid) || instance_by_ids(instance.card, instance.gi, instance.ci))
        line_wrong(line, "found a second instance with this UUID or gi= and ci=, expected each once");
    else if (instances_of(instance.card) == MAX_INSTANCES_A_CARD || world.instance_count == MAX_INSTANCES)
        line_wrong(line, "found more than %d instances on a card, expected fewer", MAX_INSTANCES_A_CARD);
    else {
        instance.serial = world_next_serial();
        world.instances[world.instance_count++] = instance;
    }
}

void apply_unmig(struct line *line)
{
    char uuid[TEXT_SIZE];
    line_text(line, "uuid", uuid, sizeof uuid, NULL);
    const struct instance *instance = instance_by_uuid(uuid);
    if (!instance)
        line_wrong(line, "found uuid=%s, expected the UUID of a MIG instance", uuid);
    if (line_end(line))
        instance_remove(instance);
}

void apply_migmode(struct line *line)
{
    struct card *card = line_card(line, "gpu");
    const char *word = line_word(line);
    bool on = word && strcmp(word, "on") == 0;
    if (!on && !(word && strcmp(word, "off") == 0))
        line_wrong(line, "found '%s', expected on or off", word ? word : "");
    if (!line_end(line))
        return;
    card->mig = on ? MIG_ON : MIG_OFF;
    if (!on)
        instances_remove_of(card);
}

void apply_process(struct line *line)
{
    char used[TEXT_SIZE];
    struct process process = {.card = line_card(line, "gpu")};
    process.pid = (unsigned)line_number(line, "pid", UINT32_MAX);
    process.kind = line_choice(line, "type", PROCESS, PROCESS_COMPUTE);
    line_text(line, "used_mib", used, sizeof used, NULL);
    process.used_known = strcmp(used, "unavailable") != 0;
    if (process.used_known)
        process.used_mib = line_number(line, "used_mib", MOST_MIB);
    process.gi = (unsigned)line_number_or(line, "gi", 255, NVML_NO_INSTANCE);
    process.ci = (unsigned)line_number_or(line, "ci", 255, NVML_NO_INSTANCE);
    process.sm_percent = (unsigned)line_number_or(line, "sm", 100, 0);
    process.memory_percent = (unsigned)line_number_or(line, "mem", 100, 0);
    if (!line_end(line))
        return;

    if (process.gi != process.ci && !instance_by_ids(process.card, process.gi, process.ci))
        line_wrong(line, "found gi= and ci= of no MIG instance of the card, expected those of one");
    process_remove(process.card, process.pid);
    if (world.process_count == MAX_PROCESSES)
        line_wrong(line, "found more than %d processes, expected fewer", MAX_PROCESSES);
    if (!line->wrong)
        world.processes[world.process_count++] = process;
}

void apply_exit(struct line *line)
{
    const struct card *card = line_card_or_all(line, "gpu");
    unsigned pid = (unsigned)line_number(line, "pid", UINT32_MAX);
    if (line_end(line))
        process_remove(card, pid);
}

static void read_remote_switch(struct line *line, struct link *link)
{
    char text[TEXT_SIZE];
    line_text(line, "switch", text, sizeof text, NULL);
    if (!pci_parse(text, &link->remote_switch))
        line_wrong(line, "found switch=%s, expected an address like 00000000:3B:00.0", text);
}

void apply_link(struct line *line)
{
    struct link link = {.card = line_card(line, "a")};
    if (line_has(line, "switch"))
        read_remote_switch(line, &link);
    else
        link.peer = line_card(line, "b");
    link.nvlinks = (unsigned)line_number(line, "nvlink", NVML_NVLINK_MAX_LINKS);
    if (link.card && link.card == link.peer)
        line_wrong(line, "found a link from a card to itself, expected two cards");
    if (world.link_count == MAX_LINKS)
        line_wrong(line, "found more than %d links, expected fewer", MAX_LINKS);
    if (line_end(line))
        world.links[world.link_count++] = link;
}

void apply_path(struct line *line)
{
    struct path path = {.a = line_card(line, "a"), .b = line_card(line, "b")};
    if (!line_has(line, "level"))
        line_wrong(line, "found no level= in a 'path' line, expected one");
    path.level = 10 * line_choice(line, "level", LEVELS, 0);
    if (world.path_count == MAX_PATHS)
        line_wrong(line, "found more than %d paths, expected fewer", MAX_PATHS);
    if (line_end(line))
        world.paths[world.path_count++] = path;
}
