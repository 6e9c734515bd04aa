/* A stand-in for AMD's libamdhip64.so: the functions that are used of it, over host memory. HIP has no contexts to
 * speak of: each thread has a current device. Memory is told to the stand-in of the HSA library by a function of ours. */
#include "stub.h"

typedef int hipError_t;
enum { OK = 0, INVALID = 1, OUT_OF_MEMORY = 2, NO_DEVICE = 100, BAD_DEVICE = 101, NOT_READY = 600, NOT_SUPPORTED = 801 };

#define CALL()                                                                                                         \
    do {                                                                                                               \
        long code_ = fault(__func__);                                                                                  \
        if (code_)                                                                                                     \
            return (hipError_t)code_;                                                                                  \
    } while (0)

static __thread int current;

long stub_get(const char *what) {
    if (strcmp(what, "device") == 0)
        return current;
#define COUNTER(name)                                                                                                  \
    if (strcmp(what, #name) == 0)                                                                                      \
    return __atomic_load_n(&count.name, __ATOMIC_SEQ_CST)
    COUNTER(streams);
    COUNTER(events);
    COUNTER(pinned);
    COUNTER(allocations);
    COUNTER(copies);
    COUNTER(sync_memops);
    return -1;
}

/* For the stand-in of the HSA library. */
int stub_export(uint64_t address, uint64_t len, uint64_t *offset) {
    struct allocation *from = find(address);
    if (!from || !from->rdma || address + len > from->start + from->len)
        return -1;
    *offset = address - from->map;
    return dup(from->fd);
}

hipError_t hipInit(unsigned flags) {
    CALL();
    return flags ? INVALID : OK;
}

hipError_t hipRuntimeGetVersion(int *version) {
    CALL();
    *version = (int)setting("version", 60241133);
    return OK;
}

const char *hipGetErrorName(hipError_t error) {
    switch (error) {
    case INVALID: return "hipErrorInvalidValue";
    case OUT_OF_MEMORY: return "hipErrorOutOfMemory";
    case NO_DEVICE: return "hipErrorNoDevice";
    case 4242: return NULL;
    }
    return "hipErrorUnknown";
}

hipError_t hipGetDeviceCount(int *devices) {
    CALL();
    *devices = (int)setting("devices", 2);
    return OK;
}

hipError_t hipGetDevice(int *device) {
    CALL();
    *device = current;
    return OK;
}

hipError_t hipSetDevice(int device) {
    CALL();
    if (device < 0 || device >= setting("devices", 2))
        return BAD_DEVICE;
    current = device;
    return OK;
}

hipError_t hipDeviceGetPCIBusId(char *text, int len, int device) {
    CALL();
    if (setting("pci_garbage", 0)) {
        memset(text, 'x', (size_t)len);
        return OK;
    }
    snprintf(text, (size_t)len, "0000:%02x:00.0", 0xc1 + device);
    return OK;
}

/* hipPointerAttribute_t of version 6. */
struct attributes {
    int type, device;
    void *on_device, *on_host;
    int managed;
    unsigned flags;
};

hipError_t hipPointerGetAttributes(struct attributes *to, const void *address) {
    CALL();
    struct allocation *of = find((uint64_t)address);
    memset(to, 0, sizeof *to);
    if (!of)
        return (hipError_t)setting("unknown_code", 0);
    to->type = (int)setting("memory_type", of->kind == HOST ? 1 : of->kind == MANAGED ? 3 : 2);
    to->device = of->device;
    to->on_device = (void *)address;
    to->managed = of->kind == MANAGED;
    return OK;
}

hipError_t hipPointerGetAttribute(void *to, int which, uint64_t address) {
    CALL();
    struct allocation *of = find(address);
    if (!of)
        return INVALID;
    switch (which) {
    case 7: *(unsigned *)to = (unsigned)of->id; return OK;
    case 17: *(void **)to = of->kind == POOL ? of : NULL; return OK;
    }
    return NOT_SUPPORTED;
}

hipError_t hipPointerSetAttribute(const void *value, int which, uint64_t address) {
    CALL();
    if (which != 6 || !find(address) || *(const int *)value != 1)
        return INVALID;
    ADD(sync_memops, 1);
    return OK;
}

hipError_t hipMemGetAddressRange(void **base, size_t *len, void *address) {
    CALL();
    struct allocation *of = find((uint64_t)address);
    if (!of)
        return INVALID;
    *base = (void *)of->start;
    *len = of->len;
    return OK;
}

static hipError_t give(void **address, size_t len, enum kind kind) {
    struct allocation *new = allocate(len, kind, NULL);
    if (!new)
        return OUT_OF_MEMORY;
    new->device = current;
    *address = (void *)new->start;
    return OK;
}

hipError_t hipMalloc(void **address, size_t len) {
    CALL();
    return give(address, len, DEVICE);
}

hipError_t hipMallocManaged(void **address, size_t len, unsigned flags) {
    CALL();
    (void)flags;
    return give(address, len, MANAGED);
}

hipError_t hipMallocAsync(void **address, size_t len, void *stream) {
    CALL();
    (void)stream;
    return give(address, len, POOL);
}

hipError_t hipFree(void *address) {
    CALL();
    return release((uint64_t)address) ? OK : INVALID;
}

hipError_t hipHostMalloc(void **address, size_t len, unsigned flags) {
    CALL();
    (void)flags;
    if (setting("null_pinned", 0)) {
        *address = NULL;
        return OK;
    }
    hipError_t code = give(address, len, HOST);
    if (!code)
        ADD(pinned, 1);
    return code;
}

hipError_t hipHostFree(void *address) {
    CALL();
    if (!release((uint64_t)address))
        return INVALID;
    ADD(pinned, -1);
    return OK;
}

hipError_t hipMemcpyAsync(void *to, const void *from, size_t len, int kind, void *stream) {
    CALL();
    struct allocation *at = find((uint64_t)(kind == 1 ? to : from));
    if (kind != 1 && kind != 2)
        return INVALID;
    if (!at || (uint64_t)(kind == 1 ? to : from) + len > at->start + at->len || at->device != current)
        return INVALID;
    ADD(copies, 1);
    enqueue(stream, (struct work){.to = to, .from = from, .len = len});
    return OK;
}

hipError_t hipStreamCreateWithFlags(void **stream, unsigned flags) {
    CALL();
    if (flags != 1)
        return INVALID;
    *stream = open_stream();
    return OK;
}

hipError_t hipStreamSynchronize(void *stream) {
    CALL();
    drain_stream(stream);
    return OK;
}

hipError_t hipStreamDestroy(void *stream) {
    CALL();
    close_stream(stream);
    return OK;
}

hipError_t hipEventCreateWithFlags(void **event, unsigned flags) {
    CALL();
    if (flags != 2)
        return INVALID;
    *event = calloc(1, sizeof(struct event));
    ADD(events, 1);
    return OK;
}

hipError_t hipEventRecord(void *event, void *stream) {
    CALL();
    record(event, stream);
    return OK;
}

hipError_t hipEventQuery(void *event) {
    CALL();
    return has_come(event) ? OK : NOT_READY;
}

hipError_t hipEventSynchronize(void *event) {
    CALL();
    wait_event(event);
    return OK;
}

hipError_t hipEventDestroy(void *event) {
    CALL();
    free(event);
    ADD(events, -1);
    return OK;
}
