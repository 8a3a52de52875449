/* A PCI address in the form in which NVML hands it out. */
#ifndef GPUSHARE_PCI_INFO_H
#define GPUSHARE_PCI_INFO_H

#include "world.h"

#pragma GCC visibility push(hidden)

nvmlPciInfo_t pci_info(const struct pci *pci);

#pragma GCC visibility pop
#endif
