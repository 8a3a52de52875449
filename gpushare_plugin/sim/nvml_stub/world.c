/* The simulated world's bookkeeping; the rules are in world.h. */
#include "world.h"

#include <stdio.h>
#include <string.h>

struct world world;

void world_reset(void)
{
    world = (struct world){.driver = "570.124.06", .nvml = "12.570.124.06", .cuda = 12080};
}

uintptr_t world_next_serial(void)
{
    /* Starts away from 0 and from small numbers, which a confused caller is
     * more likely to pass as a handle. */
    static uintptr_t last = 0x6750000;
    return last += 0x10;
}

struct card *card_by_index(unsigned index)
{
    for (size_t i = 0; i < world.card_count; i++)
        if (world.cards[i].present && index-- == 0)
            return &world.cards[i];
    return NULL;
}

static struct card *place_of(const char *uuid)
{
    for (size_t i = 0; i < world.card_count; i++)
        if (strcmp(world.cards[i].uuid, uuid) == 0)
            return &world.cards[i];
    return NULL;
}

struct card *card_by_uuid(const char *uuid)
{
    struct card *card = place_of(uuid);
    return card && card->present ? card : NULL;
}

struct card *card_by_pci(const struct pci *pci)
{
    for (size_t i = 0; i < world.card_count; i++)
        if (world.cards[i].present && pci_equal(&world.cards[i].pci, pci))
            return &world.cards[i];
    return NULL;
}

struct card *card_by_serial(uintptr_t serial)
{
    for (size_t i = 0; i < world.card_count; i++)
        if (world.cards[i].serial == serial)
            return &world.cards[i];
    return NULL;
}

unsigned card_index(const struct card *card)
{
    unsigned index = 0;
    for (const struct card *other = world.cards; other < card; other++)
        index += other->present;
    return index;
}

unsigned card_count_present(void)
{
    return card_index(&world.cards[world.card_count]);
}

struct card *card_put(const struct card *card)
{
    struct card *place = place_of(card->uuid);
    if (!place && world.card_count == MAX_CARDS)
        return NULL;
    if (!place)
        place = &world.cards[world.card_count++];
    *place = *card;
    place->serial = world_next_serial();
    place->present = true;
    return place;
}

void card_take_out(struct card *card)
{
    instances_remove_of(card);
    processes_remove_of(card, NVML_NO_INSTANCE, NVML_NO_INSTANCE);
    card->present = false;
}

struct instance *instance_by_uuid(const char *uuid)
{
    for (size_t i = 0; i < world.instance_count; i++)
        if (strcmp(world.instances[i].uuid, uuid) == 0)
            return &world.instances[i];
    return NULL;
}

struct instance *instance_by_serial(uintptr_t serial)
{
    for (size_t i = 0; i < world.instance_count; i++)
        if (world.instances[i].serial == serial)
            return &world.instances[i];
    return NULL;
}

struct instance *instance_by_index(const struct card *card, unsigned index)
{
    for (size_t i = 0; i < world.instance_count; i++)
        if (world.instances[i].card == card && index-- == 0)
            return &world.instances[i];
    return NULL;
}

struct instance *instance_by_ids(const struct card *card, unsigned gi, unsigned ci)
{
    for (size_t i = 0; i < world.instance_count; i++) {
        struct instance *instance = &world.instances[i];
        if (instance->card == card && instance->gi == gi && instance->ci == ci)
            return instance;
    }
    return NULL;
}

unsigned instance_index(const struct instance *instance)
{
    unsigned index = 0;
    for (const struct instance *other = world.instances; other < instance; other++)
        index += other->card == instance->card;
    return index;
}

void instance_remove(const struct instance *instance)
{
    processes_remove_of(instance->card, instance->gi, instance->ci);
    size_t at = (size_t)(instance - world.instances);
    size_t behind = --world.instance_count - at;
    memmove(&world.instances[at], &world.instances[at + 1], behind * sizeof world.instances[0]);
}

void instances_remove_of(const struct card *card)
{
    struct instance *instance;
    while ((instance = instance_by_index(card, 0)))
        instance_remove(instance);
}

static void process_remove_at(size_t at)
{
    size_t behind = --world.process_count - at;
    memmove(&world.processes[at], &world.processes[at + 1], behind * sizeof world.processes[0]);
}

void processes_remove_of(const struct card *card, unsigned gi, unsigned ci)
{
    bool whole_card = gi == NVML_NO_INSTANCE;
    for (size_t i = world.process_count; i-- > 0;) {
        const struct process *process = &world.processes[i];
        if (process->card == card && (whole_card || (process->gi == gi && process->ci == ci)))
            process_remove_at(i);
    }
}

void process_remove(const struct card *card, unsigned pid)
{
    for (size_t i = world.process_count; i-- > 0;) {
        const struct process *process = &world.processes[i];
        if (process->pid == pid && (!card || process->card == card))
            process_remove_at(i);
    }
}

bool pci_parse(const char *text, struct pci *pci)
{
    unsigned function;
    int end = 0;
    *pci = (struct pci){0};
    /* NVML writes an eight digit domain, lspci four digits or none. */
    if (sscanf(text, "%8x:%2x:%2x.%1x%n", &pci->domain, &pci->bus, &pci->device, &function, &end) == 4)
        return text[end] == '\0';
    pci->domain = 0;
    return sscanf(text, "%2x:%2x.%1x%n", &pci->bus, &pci->device, &function, &end) == 3 && text[end] == '\0';
}

bool pci_equal(const struct pci *a, const struct pci *b)
{
    return a->domain == b->domain && a->bus == b->bus && a->device == b->device;
}
