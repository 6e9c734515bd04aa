/* A stand-in for NVIDIA's libcuda.so.1: the functions that are used of it, over host memory. One GPU, at 0000:3b:00.0. */
#include "stub.h"

typedef int CUresult;
typedef uint64_t CUdeviceptr;
enum { OK = 0, INVALID = 1, OUT_OF_MEMORY = 2, NOT_INITIALIZED = 3, NO_DEVICE = 100, BAD_DEVICE = 101, NO_CONTEXT = 201,
       NOT_READY = 600, NOT_SUPPORTED = 801 };

/* Answers a fault that is set for this function. */
#define CALL()                                                                                                         \
    do {                                                                                                               \
        long code_ = fault(__func__);                                                                                  \
        if (code_)                                                                                                     \
            return (CUresult)code_;                                                                                    \
    } while (0)
#define NEEDS_CONTEXT()                                                                                                \
    do {                                                                                                               \
        if (!depth)                                                                                                    \
            return NO_CONTEXT;                                                                                         \
    } while (0)

static int initialized;
static struct context { int retains; } primary;
static __thread struct context *stack[64];
static __thread int depth;

long stub_get(const char *what) {
    if (strcmp(what, "depth") == 0)
        return depth;
    if (strcmp(what, "retains") == 0)
        return primary.retains;
#define COUNTER(name)                                                                                                  \
    if (strcmp(what, #name) == 0)                                                                                      \
    return __atomic_load_n(&count.name, __ATOMIC_SEQ_CST)
    COUNTER(contexts);
    COUNTER(streams);
    COUNTER(events);
    COUNTER(pinned);
    COUNTER(allocations);
    COUNTER(copies);
    COUNTER(sync_memops);
    COUNTER(flushes);
    COUNTER(exports);
    return -1;
}

CUresult cuDriverGetVersion(int *version) {
    CALL();
    *version = (int)setting("version", 12040);
    return OK;
}

CUresult cuInit(unsigned flags) {
    CALL();
    initialized = 1;
    return flags ? INVALID : OK;
}

CUresult cuGetErrorName(CUresult error, const char **name) {
    CALL();
    switch (error) {
    case INVALID: *name = "CUDA_ERROR_INVALID_VALUE"; return OK;
    case OUT_OF_MEMORY: *name = "CUDA_ERROR_OUT_OF_MEMORY"; return OK;
    case NO_DEVICE: *name = "CUDA_ERROR_NO_DEVICE"; return OK;
    case NO_CONTEXT: *name = "CUDA_ERROR_INVALID_CONTEXT"; return OK;
    case NOT_SUPPORTED: *name = "CUDA_ERROR_NOT_SUPPORTED"; return OK;
    case 700: *name = "CUDA_ERROR_ILLEGAL_ADDRESS"; return OK;
    case 4242: *name = NULL; return OK;
    }
    *name = NULL;
    return INVALID;
}

CUresult cuDeviceGetCount(int *devices) {
    CALL();
    *devices = (int)setting("devices", 1);
    return OK;
}

CUresult cuDeviceGet(int *device, int ordinal) {
    CALL();
    if (!initialized)
        return NOT_INITIALIZED;
    if (ordinal < 0 || ordinal >= setting("devices", 1))
        return BAD_DEVICE;
    *device = ordinal;
    return OK;
}

CUresult cuDeviceGetName(char *name, int len, int device) {
    CALL();
    snprintf(name, (size_t)len, "stand-in %d", device);
    return OK;
}

CUresult cuDeviceGetAttribute(int *value, int attribute, int device) {
    CALL();
    (void)device;
    switch (attribute) {
    case 102: *value = 1; return OK;
    case 115: *value = 1; return OK;
    case 116: *value = 1; return OK;
    case 117: *value = (int)setting("flush", 1); return OK;
    case 118: *value = (int)setting("ordering", 100); return OK;
    case 124: if (setting("dmabuf", 1) < 0) return INVALID; *value = (int)setting("dmabuf", 1); return OK;
    case 110: *value = 1; return OK;
    }
    return INVALID;
}

CUresult cuDeviceGetPCIBusId(char *text, int len, int device) {
    CALL();
    if (setting("pci_garbage", 0)) {
        memset(text, 'x', (size_t)len);
        return OK;
    }
    snprintf(text, (size_t)len, "0000:3B:%02X.0", device);
    return OK;
}

CUresult cuDevicePrimaryCtxGetState(int device, unsigned *flags, int *active) {
    CALL();
    (void)device;
    *flags = 0;
    *active = primary.retains > 0;
    return OK;
}

CUresult cuDevicePrimaryCtxRetain(void **context, int device) {
    CALL();
    (void)device;
    if (primary.retains++ == 0)
        ADD(contexts, 1);
    *context = &primary;
    return OK;
}

CUresult cuDevicePrimaryCtxRelease_v2(int device) {
    CALL();
    (void)device;
    primary.retains--;
    return OK;
}

CUresult cuCtxGetCurrent(void **context) {
    CALL();
    *context = depth ? stack[depth - 1] : NULL;
    return OK;
}

CUresult cuCtxSetCurrent(void *context) {
    CALL();
    depth = depth ? depth - 1 : 0;
    if (context)
        stack[depth++] = context;
    return OK;
}

CUresult cuCtxGetDevice(int *device) {
    CALL();
    NEEDS_CONTEXT();
    *device = (int)setting("current_device", 0);
    return OK;
}

CUresult cuCtxPushCurrent_v2(void *context) {
    CALL();
    if (depth == 64)
        return INVALID;
    stack[depth++] = context;
    return OK;
}

CUresult cuCtxPopCurrent_v2(void **context) {
    CALL();
    NEEDS_CONTEXT();
    *context = stack[--depth];
    return OK;
}

static CUresult attribute(void *to, int attribute, struct allocation *of) {
    switch (attribute) {
    case 1:
        if (!of->context)
            return INVALID;
        *(void **)to = of->context;
        return OK;
    case 2: *(int *)to = setting("memory_type", of->kind == HOST ? 1 : 2); return OK;
    case 6: *(int *)to = 0; return OK;
    case 7: *(uint64_t *)to = setting("no_id", 0) ? 0 : of->id; return OK;
    case 8: *(unsigned char *)to = of->kind == MANAGED; return OK;
    case 9: *(int *)to = (int)setting("ordinal", of->device); return OK;
    case 10: *(int *)to = of->kind == DEVICE; return OK;
    case 11: *(uint64_t *)to = of->start; return OK;
    case 12: *(uint64_t *)to = of->len; return OK;
    case 14: *(uint64_t *)to = of->kind == VIRTUAL; return OK;
    case 15:
        if (setting("rdma_attribute", 1) < 0)
            return INVALID;
        *(int *)to = setting("rdma_attribute", 1) ? of->rdma : 0;
        return OK;
    case 17: *(void **)to = of->kind == POOL ? &primary : NULL; return OK;
    }
    return INVALID;
}

CUresult cuPointerGetAttribute(void *to, int which, CUdeviceptr address) {
    CALL();
    struct allocation *of = find(address);
    return of ? attribute(to, which, of) : INVALID;
}

CUresult cuPointerGetAttributes(unsigned n, int *which, void **to, CUdeviceptr address) {
    CALL();
    struct allocation *of = find(address);
    for (unsigned i = 0; i < n; i++) {
        CUresult code = of ? attribute(to[i], which[i], of) : OK;
        if (!of)
            *(int *)to[i] = 0;
        if (code)
            return code;
    }
    return OK;
}

CUresult cuPointerSetAttribute(const void *value, int which, CUdeviceptr address) {
    CALL();
    if (which != 6 || !find(address) || *(const int *)value != 1)
        return INVALID;
    ADD(sync_memops, 1);
    return OK;
}

CUresult cuMemGetHandleForAddressRange(void *handle, CUdeviceptr start, size_t len, int type, unsigned long long flags) {
    CALL();
    NEEDS_CONTEXT();
    if (type != 1)
        return INVALID;
    if (flags)
        return NOT_SUPPORTED;
    struct allocation *from = NULL;
    pthread_mutex_lock(&lock);
    for (from = allocations; from; from = from->next)
        if (start >= from->map && start < from->map + from->map_len)
            break;
    pthread_mutex_unlock(&lock);
    if (!from || !from->rdma)
        return INVALID;
    if (setting("fd", 0)) {
        *(int *)handle = (int)setting("fd", 0);
        return OK;
    }
    int fd = export_fd(from, start, len);
    if (fd < 0)
        return INVALID;
    if (setting("short_dmabuf", 0)) {
        close(fd);
        fd = (int)syscall(SYS_memfd_create, "short", 1u);
    }
    /* As with a real driver, nobody can map it any more: F_ADD_SEALS, F_SEAL_FUTURE_WRITE. */
    if (setting("unmappable", 0) && fcntl(fd, 1033, 16))
        return INVALID;
    *(int *)handle = fd;
    ADD(exports, 1);
    return OK;
}

CUresult cuFlushGPUDirectRDMAWrites(int target, int scope) {
    CALL();
    NEEDS_CONTEXT();
    ADD(flushes, 1);
    return target == 0 && scope == 100 ? OK : INVALID;
}

CUresult cuMemGetInfo_v2(size_t *available, size_t *total) {
    CALL();
    NEEDS_CONTEXT();
    *available = *total = (size_t)setting("memory", 1l << 33);
    return OK;
}

static CUresult give(CUdeviceptr *address, size_t len, enum kind kind, void *context) {
    struct allocation *new = allocate(len, kind, context);
    if (!new)
        return OUT_OF_MEMORY;
    *address = new->start;
    return OK;
}

CUresult cuMemAlloc_v2(CUdeviceptr *address, size_t len) {
    CALL();
    NEEDS_CONTEXT();
    return give(address, len, DEVICE, stack[depth - 1]);
}

CUresult cuMemFree_v2(CUdeviceptr address) {
    CALL();
    return release(address) ? OK : INVALID;
}

CUresult cuMemAllocManaged(CUdeviceptr *address, size_t len, unsigned flags) {
    CALL();
    NEEDS_CONTEXT();
    return flags == 1 ? give(address, len, MANAGED, stack[depth - 1]) : INVALID;
}

CUresult cuMemAllocAsync(CUdeviceptr *address, size_t len, void *stream) {
    CALL();
    (void)stream;
    return give(address, len, POOL, NULL);
}

CUresult cuMemFreeAsync(CUdeviceptr address, void *stream) {
    CALL();
    (void)stream;
    return release(address) ? OK : INVALID;
}

/* CUmemAllocationProp, as far as it is read. */
struct properties {
    int type, handles, location_type, location;
    void *windows;
    unsigned char compression, rdma;
    unsigned short usage;
    unsigned char reserved[4];
};

CUresult cuMemGetAllocationGranularity(size_t *bytes, const struct properties *properties, int option) {
    CALL();
    (void)properties, (void)option;
    *bytes = 2 << 20;
    return OK;
}

CUresult cuMemCreate(uint64_t *handle, size_t len, const struct properties *properties, unsigned long long flags) {
    CALL();
    (void)len, (void)flags;
    *handle = 1 + (properties->rdma != 0);
    return OK;
}

CUresult cuMemRelease(uint64_t handle) {
    CALL();
    (void)handle;
    return OK;
}

/* The reservation is the memory. */
CUresult cuMemAddressReserve(CUdeviceptr *address, size_t len, size_t align, CUdeviceptr wanted, unsigned long long flags) {
    CALL();
    (void)align, (void)wanted, (void)flags;
    return give(address, len, VIRTUAL, NULL);
}

CUresult cuMemMap(CUdeviceptr address, size_t len, size_t offset, uint64_t handle, unsigned long long flags) {
    CALL();
    (void)len, (void)offset, (void)flags;
    struct allocation *at = find(address);
    if (!at)
        return INVALID;
    at->rdma = handle == 2;
    return OK;
}

CUresult cuMemSetAccess(CUdeviceptr address, size_t len, const void *access, size_t n) {
    CALL();
    (void)len, (void)access, (void)n;
    return find(address) ? OK : INVALID;
}

CUresult cuMemUnmap(CUdeviceptr address, size_t len) {
    CALL();
    (void)len;
    return find(address) ? OK : INVALID;
}

CUresult cuMemAddressFree(CUdeviceptr address, size_t len) {
    CALL();
    (void)len;
    return release(address) ? OK : INVALID;
}

CUresult cuMemHostAlloc(void **address, size_t len, unsigned flags) {
    CALL();
    NEEDS_CONTEXT();
    (void)flags;
    if (setting("null_pinned", 0)) {
        *address = NULL;
        return OK;
    }
    CUdeviceptr start = 0;
    CUresult code = give(&start, len, HOST, stack[depth - 1]);
    *address = (void *)start;
    if (!code)
        ADD(pinned, 1);
    return code;
}

CUresult cuMemFreeHost(void *address) {
    CALL();
    if (!release((uint64_t)address))
        return INVALID;
    ADD(pinned, -1);
    return OK;
}

CUresult cuMemcpyHtoDAsync_v2(CUdeviceptr to, const void *from, size_t len, void *stream) {
    CALL();
    NEEDS_CONTEXT();
    struct allocation *at = find(to);
    if (!at || to + len > at->start + at->len)
        return INVALID;
    ADD(copies, 1);
    enqueue(stream, (struct work){.to = (void *)to, .from = from, .len = len});
    return OK;
}

CUresult cuMemcpyDtoHAsync_v2(void *to, CUdeviceptr from, size_t len, void *stream) {
    CALL();
    NEEDS_CONTEXT();
    struct allocation *at = find(from);
    if (!at || from + len > at->start + at->len)
        return INVALID;
    ADD(copies, 1);
    enqueue(stream, (struct work){.to = to, .from = (const void *)from, .len = len});
    return OK;
}

CUresult cuMemcpyHtoD_v2(CUdeviceptr to, const void *from, size_t len) {
    CALL();
    NEEDS_CONTEXT();
    memcpy((void *)to, from, len);
    return OK;
}

CUresult cuMemcpyDtoH_v2(void *to, CUdeviceptr from, size_t len) {
    CALL();
    NEEDS_CONTEXT();
    memcpy(to, (const void *)from, len);
    return OK;
}

CUresult cuStreamCreate(void **stream, unsigned flags) {
    CALL();
    NEEDS_CONTEXT();
    if (flags != 1)
        return INVALID;
    *stream = open_stream();
    return OK;
}

CUresult cuStreamSynchronize(void *stream) {
    CALL();
    NEEDS_CONTEXT();
    if (stream)
        drain_stream(stream);
    return OK;
}

CUresult cuStreamDestroy_v2(void *stream) {
    CALL();
    close_stream(stream);
    return OK;
}

CUresult cuEventCreate(void **event, unsigned flags) {
    CALL();
    NEEDS_CONTEXT();
    if (flags != 2)
        return INVALID;
    *event = calloc(1, sizeof(struct event));
    ADD(events, 1);
    return OK;
}

CUresult cuEventRecord(void *event, void *stream) {
    CALL();
    record(event, stream);
    return OK;
}

CUresult cuEventQuery(void *event) {
    CALL();
    return has_come(event) ? OK : NOT_READY;
}

CUresult cuEventSynchronize(void *event) {
    CALL();
    wait_event(event);
    return OK;
}

CUresult cuEventDestroy_v2(void *event) {
    CALL();
    free(event);
    ADD(events, -1);
    return OK;
}
