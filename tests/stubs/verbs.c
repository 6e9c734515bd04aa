/* A stand-in for libibverbs.so.1: registrations are noted, and nothing is sent. A protection domain is any pointer. */
#include "stub.h"

struct ibv_mr {
    void *context, *pd, *addr;
    size_t length;
    uint32_t handle, lkey, rkey;
};

static uint64_t last[4]; /* offset or address, length, iova, descriptor */
static int last_access;

long stub_get(const char *what) {
    if (strcmp(what, "regions") == 0)
        return __atomic_load_n(&count.exports, __ATOMIC_SEQ_CST);
    if (strcmp(what, "at") == 0)
        return (long)last[0];
    if (strcmp(what, "length") == 0)
        return (long)last[1];
    if (strcmp(what, "iova") == 0)
        return (long)last[2];
    if (strcmp(what, "access") == 0)
        return last_access;
    return -1;
}

static struct ibv_mr *new_region(void *pd, void *address, size_t len, int access) {
    static uint32_t key = 100;
    struct ibv_mr *mr = calloc(1, sizeof *mr);
    *mr = (struct ibv_mr){.pd = pd, .addr = address, .length = len, .lkey = key, .rkey = key + 1};
    key += 2;
    last_access = access;
    ADD(exports, 1);
    return mr;
}

struct ibv_mr *ibv_reg_mr(void *pd, void *address, size_t len, int access) {
    long code = fault(__func__);
    if (code) {
        errno = (int)code;
        return NULL;
    }
    last[0] = (uint64_t)address, last[1] = len, last[2] = (uint64_t)address;
    return new_region(pd, address, len, access);
}

struct ibv_mr *ibv_reg_dmabuf_mr(void *pd, uint64_t offset, size_t len, uint64_t iova, int fd, int access) {
    long code = fault(__func__);
    off_t size = lseek(fd, 0, SEEK_END);
    if (!code && (size < 0 || offset + len > (uint64_t)size))
        code = EINVAL;
    if (code) {
        errno = (int)code;
        return NULL;
    }
    last[0] = offset, last[1] = len, last[2] = iova;
    return new_region(pd, NULL, len, access);
}

int ibv_dereg_mr(struct ibv_mr *mr) {
    long code = fault(__func__);
    if (code)
        return (int)code;
    free(mr);
    ADD(exports, -1);
    return 0;
}
