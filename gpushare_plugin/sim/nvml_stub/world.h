/*
 * The simulated world: what the cards are, and what has happened to them.
 *
 * Rule 1: one world, one lock (gate.h). Every function here is called with the
 *         lock held.
 * Rule 2: a serial number is given once and never again in the life of the
 *         process. Handles are serial numbers, so a stale handle is known.
 * Rule 3: a card that was taken out keeps its place, so that the same card put
 *         in again has its old index.
 *
 * Must not know: lines and files, NVML's calling rules.
 */
#ifndef GPUSHARE_WORLD_H
#define GPUSHARE_WORLD_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "calls.h"
#include "nvml_abi.h"

#pragma GCC visibility push(hidden)

enum { MAX_CARDS = 64, MAX_INSTANCES = 256, MAX_PROCESSES = 1024, MAX_LINKS = 256, MAX_PATHS = 512 };
enum { TEXT_SIZE = 96, MAX_INSTANCES_A_CARD = 7 };

enum ecc { ECC_ON, ECC_OFF, ECC_UNSUPPORTED };
enum watching { EVENTS_SUPPORTED, EVENTS_UNSUPPORTED, EVENTS_UNKNOWN };
enum mig { MIG_UNSUPPORTED, MIG_OFF, MIG_ON };
enum process_kind { PROCESS_COMPUTE, PROCESS_GRAPHICS, PROCESS_MPS };

struct pci {
    unsigned domain;
    unsigned bus;
    unsigned device;
};

struct card {
    uintptr_t serial;
    bool present;
    bool lost;
    char uuid[TEXT_SIZE];
    char name[TEXT_SIZE];
    bool memory_known;
    uint64_t total_mib;
    uint64_t reserved_mib;
    bool minor_known;
    unsigned minor;
    struct pci pci;
    bool numa_known;
    unsigned numa;
    enum ecc ecc;
    uint64_t uncorrected;
    enum watching watching;
    int cc_major;
    int cc_minor;
    unsigned virtualization;
    enum mig mig;
    nvmlReturn_t faults[CALLS];
};

struct instance {
    uintptr_t serial;
    struct card *card;
    char uuid[TEXT_SIZE];
    char profile_name[TEXT_SIZE];
    unsigned gi;
    unsigned ci;
    uint64_t total_mib;
    unsigned slices;
    unsigned multiprocessors;
};

struct process {
    struct card *card;
    enum process_kind kind;
    unsigned pid;
    bool used_known;
    uint64_t used_mib;
    unsigned gi;
    unsigned ci;
    unsigned sm_percent;
    unsigned memory_percent;
};

/* NVLinks from one card to another, or (peer NULL) to an NVSwitch. */
struct link {
    struct card *card;
    struct card *peer;
    struct pci remote_switch;
    unsigned nvlinks;
};

struct path {
    struct card *a;
    struct card *b;
    unsigned level;
};

struct world {
    char driver[TEXT_SIZE];
    char nvml[TEXT_SIZE];
    int cuda;
    struct card cards[MAX_CARDS];
    size_t card_count;
    struct instance instances[MAX_INSTANCES];
    size_t instance_count;
    struct process processes[MAX_PROCESSES];
    size_t process_count;
    struct link links[MAX_LINKS];
    size_t link_count;
    struct path paths[MAX_PATHS];
    size_t path_count;
    bool missing[CALLS];
    nvmlReturn_t faults[CALLS];
    nvmlReturn_t init_error;
    nvmlReturn_t event_set_error;
};

extern struct world world;

void world_reset(void);
uintptr_t world_next_serial(void);

/* NULL where there is none. Cards that were taken out are found by handle only. */
struct card *card_by_index(unsigned index);
struct card *card_by_uuid(const char *uuid);
struct card *card_by_pci(const struct pci *pci);
struct card *card_by_serial(uintptr_t serial);
unsigned card_index(const struct card *card);
unsigned card_count_present(void);

/* Puts a card in, in its old place where it had one. NULL: no room. */
struct card *card_put(const struct card *card);
void card_take_out(struct card *card);

struct instance *instance_by_uuid(const char *uuid);
struct instance *instance_by_serial(uintptr_t serial);
struct instance *instance_by_index(const struct card *card, unsigned index);
struct instance *instance_by_ids(const struct card *card, unsigned gi, unsigned ci);
unsigned instance_index(const struct instance *instance);
void instance_remove(const struct instance *instance);
void instances_remove_of(const struct card *card);

void processes_remove_of(const struct card *card, unsigned gi, unsigned ci);
void process_remove(const struct card *card, unsigned pid);

bool pci_parse(const char *text, struct pci *pci);
bool pci_equal(const struct pci *a, const struct pci *b);

#pragma GCC visibility pop
#endif
