/* NVML calls about the system, and those that hand out card handles. */
#include <string.h>

#include "gate.h"

EXPORT const char *nvmlErrorString(nvmlReturn_t error)
{
    static const struct {
        nvmlReturn_t error;
        const char *text;
    } TEXTS[] = {
        {NVML_SUCCESS, "Success"},
        {NVML_ERROR_UNINITIALIZED, "Uninitialized"},
        {NVML_ERROR_INVALID_ARGUMENT, "Invalid Argument"},
        {NVML_ERROR_NOT_SUPPORTED, "Not Supported"},
        {NVML_ERROR_ALREADY_INITIALIZED, "Already Initialized"},
        {NVML_ERROR_NOT_FOUND, "Not Found"},
        {NVML_ERROR_INSUFFICIENT_SIZE, "Insufficient Size"},
        {NVML_ERROR_TIMEOUT, "Timeout"},
        {NVML_ERROR_FUNCTION_NOT_FOUND, "Function Not Found"},
        {NVML_ERROR_GPU_IS_LOST, "GPU is lost"},
        {NVML_ERROR_LIB_RM_VERSION_MISMATCH, "Driver/library version mismatch"},
        {NVML_ERROR_INSUFFICIENT_RESOURCES, "Insufficient Resources"},
        {NVML_ERROR_ARGUMENT_VERSION_MISMATCH, "Argument Version Mismatch"},
    };
    for (size_t i = 0; i < sizeof TEXTS / sizeof TEXTS[0]; i++)
        if (TEXTS[i].error == error)
            return TEXTS[i].text;
    return "Unknown Error";
}

static nvmlReturn_t system_text(enum call call, char *out, unsigned length, const char *text)
{
    nvmlReturn_t answer = enter(call);
    if (answer == NVML_SUCCESS)
        answer = out ? give_text(out, length, text) : NVML_ERROR_INVALID_ARGUMENT;
    return leave(answer);
}

EXPORT nvmlReturn_t nvmlSystemGetDriverVersion(char *version, unsigned length)
{
    return system_text(CALL_nvmlSystemGetDriverVersion, version, length, world.driver);
}

EXPORT nvmlReturn_t nvmlSystemGetNVMLVersion(char *version, unsigned length)
{
    return system_text(CALL_nvmlSystemGetNVMLVersion, version, length, world.nvml);
}

static nvmlReturn_t cuda_version(enum call call, int *version)
{
    nvmlReturn_t answer = enter(call);
    if (answer == NVML_SUCCESS && !version)
        answer = NVML_ERROR_INVALID_ARGUMENT;
    if (answer == NVML_SUCCESS)
        *version = world.cuda;
    return leave(answer);
}

EXPORT nvmlReturn_t nvmlSystemGetCudaDriverVersion(int *version)
{
    return cuda_version(CALL_nvmlSystemGetCudaDriverVersion, version);
}

EXPORT nvmlReturn_t nvmlSystemGetCudaDriverVersion_v2(int *version)
{
    return cuda_version(CALL_nvmlSystemGetCudaDriverVersion_v2, version);
}

EXPORT nvmlReturn_t nvmlDeviceGetCount_v2(unsigned *count)
{
    nvmlReturn_t answer = enter(CALL_nvmlDeviceGetCount_v2);
    if (answer == NVML_SUCCESS && !count)
        answer = NVML_ERROR_INVALID_ARGUMENT;
    if (answer == NVML_SUCCESS)
        *count = card_count_present();
    return leave(answer);
}

static nvmlReturn_t give_card(enum call call, const struct card *card, nvmlDevice_t *device)
{
    nvmlReturn_t answer = check_card(call, card);
    if (answer == NVML_SUCCESS)
        *device = handle_of(card->serial);
    return answer;
}

EXPORT nvmlReturn_t nvmlDeviceGetHandleByIndex_v2(unsigned index, nvmlDevice_t *device)
{
    nvmlReturn_t answer = enter(CALL_nvmlDeviceGetHandleByIndex_v2);
    if (answer != NVML_SUCCESS)
        return leave(answer);
    const struct card *card = card_by_index(index);
    if (!device || !card)
        return leave(NVML_ERROR_INVALID_ARGUMENT);
    return leave(give_card(CALL_nvmlDeviceGetHandleByIndex_v2, card, device));
}

EXPORT nvmlReturn_t nvmlDeviceGetHandleByUUID(const char *uuid, nvmlDevice_t *device)
{
    nvmlReturn_t answer = enter(CALL_nvmlDeviceGetHandleByUUID);
    if (answer != NVML_SUCCESS)
        return leave(answer);
    if (!uuid || !device)
        return leave(NVML_ERROR_INVALID_ARGUMENT);

    const struct instance *instance = instance_by_uuid(uuid);
    const struct card *card = instance ? instance->card : card_by_uuid(uuid);
    if (!card)
        return leave(NVML_ERROR_NOT_FOUND);
    answer = give_card(CALL_nvmlDeviceGetHandleByUUID, card, device);
    if (answer == NVML_SUCCESS && instance)
        *device = handle_of(instance->serial);
    return leave(answer);
}

EXPORT nvmlReturn_t nvmlDeviceGetHandleByPciBusId_v2(const char *bus_id, nvmlDevice_t *device)
{
    nvmlReturn_t answer = enter(CALL_nvmlDeviceGetHandleByPciBusId_v2);
    struct pci pci;
    if (answer != NVML_SUCCESS)
        return leave(answer);
    if (!bus_id || !device || !pci_parse(bus_id, &pci))
        return leave(NVML_ERROR_INVALID_ARGUMENT);
    const struct card *card = card_by_pci(&pci);
    if (!card)
        return leave(NVML_ERROR_NOT_FOUND);
    return leave(give_card(CALL_nvmlDeviceGetHandleByPciBusId_v2, card, device));
}
