/* A stand-in for AMD's libhsa-runtime64.so.1: DMA-bufs of the memory that the stand-in of HIP gave out. */
#include "stub.h"

typedef int hsa_status_t;

#define CALL()                                                                                                         \
    do {                                                                                                               \
        long code_ = fault(__func__);                                                                                  \
        if (code_)                                                                                                     \
            return (hsa_status_t)code_;                                                                                \
    } while (0)

/* Both libraries of a test know each other by this: which memory is exported is HIP's to say. */
static int (*exporter)(uint64_t, uint64_t, uint64_t *);

void stub_exporter(int (*function)(uint64_t, uint64_t, uint64_t *)) { exporter = function; }

long stub_get(const char *what) {
    if (strcmp(what, "exports") == 0)
        return __atomic_load_n(&count.exports, __ATOMIC_SEQ_CST);
    if (strcmp(what, "closes") == 0)
        return __atomic_load_n(&count.closes, __ATOMIC_SEQ_CST);
    return -1;
}

hsa_status_t hsa_init(void) {
    CALL();
    return 0;
}

hsa_status_t hsa_system_get_info(int what, void *to) {
    CALL();
    if (what != 0x204)
        return 0x1001;
    *(unsigned char *)to = (unsigned char)setting("dmabuf", 1);
    return 0;
}

hsa_status_t hsa_amd_portable_export_dmabuf(const void *address, size_t len, int *fd, uint64_t *offset) {
    CALL();
    if (setting("fd", 0)) {
        *fd = (int)setting("fd", 0);
        *offset = 0;
        return 0;
    }
    *offset = 0;
    *fd = exporter ? exporter((uint64_t)address, len, offset) : -1;
    if (*fd < 0)
        return 0x1001;
    *offset += (uint64_t)setting("offset", 0);
    ADD(exports, 1);
    return 0;
}

hsa_status_t hsa_amd_portable_close_dmabuf(int fd) {
    CALL();
    ADD(closes, 1);
    return close(fd) ? 0x1000 : 0;
}
