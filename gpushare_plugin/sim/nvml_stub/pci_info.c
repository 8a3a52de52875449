/* A PCI address in NVML's form: numbers, and the bus ID in two lengths. */
#include "pci_info.h"

#include <stdio.h>

static const unsigned NVIDIA_VENDOR = 0x10DE;

nvmlPciInfo_t pci_info(const struct pci *pci)
{
    nvmlPciInfo_t info = {
        .domain = pci->domain,
        .bus = pci->bus,
        .device = pci->device,
        .pciDeviceId = NVIDIA_VENDOR,
    };
    /* The masks state to the compiler what the numbers' widths are. */
    snprintf(info.busId, sizeof info.busId, "%08X:%02X:%02X.0", pci->domain, pci->bus & 0xFF, pci->device & 0xFF);
    snprintf(info.busIdLegacy, sizeof info.busIdLegacy, "%04X:%02X:%02X.0", pci->domain & 0xFFFF, pci->bus & 0xFF,
             pci->device & 0xFF);
    return info;
}
