/* NVML calls about how cards are connected: PCIe, NUMA, NVLink. */
#include "gate.h"
#include "pci_info.h"

/* What the profile says; else what the cards' NUMA nodes let one conclude. */
static unsigned level_between(const struct card *a, const struct card *b)
{
    if (a == b)
        return NVML_TOPOLOGY_INTERNAL;
    for (size_t i = 0; i < world.path_count; i++) {
        const struct path *path = &world.paths[i];
        if ((path->a == a && path->b == b) || (path->a == b && path->b == a))
            return path->level;
    }
    bool same_node = a->numa_known && b->numa_known && a->numa == b->numa;
    return same_node ? NVML_TOPOLOGY_NODE : NVML_TOPOLOGY_SYSTEM;
}

/* One end of an NVLink, seen from a card. */
struct remote {
    bool found;
    bool is_switch;
    struct pci pci;
};

static struct remote other_end(const struct link *link, const struct card *card)
{
    if (link->card == card && !link->peer)
        return (struct remote){true, true, link->remote_switch};
    if (link->card == card)
        return (struct remote){true, false, link->peer->pci};
    if (link->peer == card)
        return (struct remote){true, false, link->card->pci};
    return (struct remote){0};
}

/* A card's links are numbered in the order of the profile's lines. */
static struct remote remote_of(const struct card *card, unsigned number)
{
    for (size_t i = 0; i < world.link_count; i++) {
        struct remote remote = other_end(&world.links[i], card);
        if (!remote.found)
            continue;
        if (number < world.links[i].nvlinks)
            return remote;
        number -= world.links[i].nvlinks;
    }
    return (struct remote){0};
}

static bool share_switch(const struct card *a, const struct card *b)
{
    for (size_t i = 0; i < world.link_count; i++) {
        const struct link *left = &world.links[i];
        for (size_t j = 0; left->card == a && !left->peer && j < world.link_count; j++) {
            const struct link *right = &world.links[j];
            bool same = pci_equal(&left->remote_switch, &right->remote_switch);
            if (right->card == b && !right->peer && same)
                return true;
        }
    }
    return false;
}

static bool nvlinked(const struct card *a, const struct card *b)
{
    for (size_t i = 0; i < world.link_count; i++) {
        const struct link *link = &world.links[i];
        if (link->nvlinks && ((link->card == a && link->peer == b) || (link->card == b && link->peer == a)))
            return true;
    }
    return share_switch(a, b);
}

/* Enters with two handles of whole cards or instances. */
static nvmlReturn_t enter_pair(enum call call, nvmlDevice_t device, nvmlDevice_t other, const void *out,
                               struct target *on, struct target *peer)
{
    nvmlReturn_t answer = enter_with(call, device, out, on);
    return answer == NVML_SUCCESS ? resolve(call, other, peer) : answer;
}

EXPORT nvmlReturn_t nvmlDeviceGetTopologyCommonAncestor(nvmlDevice_t device, nvmlDevice_t other, unsigned *level)
{
    struct target on, peer;
    nvmlReturn_t answer = enter_pair(CALL_nvmlDeviceGetTopologyCommonAncestor, device, other, level, &on, &peer);
    if (answer == NVML_SUCCESS)
        *level = level_between(on.card, peer.card);
    return leave(answer);
}

EXPORT nvmlReturn_t nvmlDeviceGetP2PStatus(nvmlDevice_t device, nvmlDevice_t other, unsigned capability,
                                           unsigned *status)
{
    struct target on, peer;
    nvmlReturn_t answer = enter_pair(CALL_nvmlDeviceGetP2PStatus, device, other, status, &on, &peer);
    if (answer == NVML_SUCCESS && (on.card == peer.card || capability > NVML_P2P_PCI))
        answer = NVML_ERROR_INVALID_ARGUMENT;
    if (answer != NVML_SUCCESS)
        return leave(answer);

    bool linked = nvlinked(on.card, peer.card);
    bool near = level_between(on.card, peer.card) <= NVML_TOPOLOGY_HOSTBRIDGE;
    if (capability == NVML_P2P_NVLINK || capability == NVML_P2P_ATOMICS)
        *status = linked ? NVML_P2P_OK : NVML_P2P_NOT_SUPPORTED;
    else
        *status = linked || near ? NVML_P2P_OK : NVML_P2P_CHIPSET_NOT_SUPPORTED;
    return leave(NVML_SUCCESS);
}

static nvmlReturn_t enter_link(enum call call, nvmlDevice_t device, unsigned number, const void *out,
                               struct remote *remote)
{
    struct target on;
    nvmlReturn_t answer = enter_with(call, device, out, &on);
    if (answer != NVML_SUCCESS)
        return answer;
    if (number >= NVML_NVLINK_MAX_LINKS)
        return NVML_ERROR_INVALID_ARGUMENT;
    if (!remote_of(on.card, 0).found)
        return NVML_ERROR_NOT_SUPPORTED;
    *remote = remote_of(on.card, number);
    return remote->found ? NVML_SUCCESS : NVML_ERROR_INVALID_ARGUMENT;
}

EXPORT nvmlReturn_t nvmlDeviceGetNvLinkState(nvmlDevice_t device, unsigned number, unsigned *active)
{
    struct remote remote;
    nvmlReturn_t answer = enter_link(CALL_nvmlDeviceGetNvLinkState, device, number, active, &remote);
    if (answer == NVML_SUCCESS)
        *active = 1;
    return leave(answer);
}

EXPORT nvmlReturn_t nvmlDeviceGetNvLinkRemotePciInfo_v2(nvmlDevice_t device, unsigned number, nvmlPciInfo_t *info)
{
    struct remote remote;
    nvmlReturn_t answer = enter_link(CALL_nvmlDeviceGetNvLinkRemotePciInfo_v2, device, number, info, &remote);
    if (answer == NVML_SUCCESS)
        *info = pci_info(&remote.pci);
    return leave(answer);
}

EXPORT nvmlReturn_t nvmlDeviceGetNvLinkRemoteDeviceType(nvmlDevice_t device, unsigned number, unsigned *type)
{
    struct remote remote;
    nvmlReturn_t answer = enter_link(CALL_nvmlDeviceGetNvLinkRemoteDeviceType, device, number, type, &remote);
    if (answer == NVML_SUCCESS)
        *type = remote.is_switch ? NVML_NVLINK_REMOTE_SWITCH : NVML_NVLINK_REMOTE_GPU;
    return leave(answer);
}
