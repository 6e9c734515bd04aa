/* What the stand-ins for vendors' libraries share: settings, faults, memory in memfds, and streams that are threads.
 *
 * Settings are text, `key=value,key=value`: from the environment variable UGDS_STUB when the library is loaded, and from
 * stub_configure() later. A key that is a function's name makes that function answer the value; `name@3=801` only its
 * third call from then on. All other keys are read where they are used.
 */
#ifndef UGDS_STUB_H
#define UGDS_STUB_H
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

#define SETTINGS 64
#define PAGE 4096ull

static struct setting {
    char key[64];
    long value;
    long nth;   /* 0: each call */
    long calls; /* since it was set */
} settings[SETTINGS];
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;

static struct setting *find_setting(const char *key) {
    for (int i = 0; i < SETTINGS; i++)
        if (strcmp(settings[i].key, key) == 0)
            return &settings[i];
    return NULL;
}

/* Sets what the text says; an empty value takes a setting back. */
void stub_configure(const char *text) {
    char copy[1024], *rest = copy, *word;
    snprintf(copy, sizeof copy, "%s", text);
    pthread_mutex_lock(&lock);
    while ((word = strsep(&rest, ","))) {
        char *value = strchr(word, '='), *at;
        if (!value)
            continue;
        *value++ = 0;
        if ((at = strchr(word, '@')))
            *at++ = 0;
        struct setting *setting = find_setting(word);
        if (!setting)
            setting = find_setting("");
        if (!setting)
            abort();
        memset(setting, 0, sizeof *setting);
        if (*value) {
            snprintf(setting->key, sizeof setting->key, "%s", word);
            setting->value = strtol(value, NULL, 0);
            setting->nth = at ? atol(at) : 0;
        }
    }
    pthread_mutex_unlock(&lock);
}

__attribute__((constructor)) static void from_environment(void) {
    const char *text = getenv("UGDS_STUB");
    if (text)
        stub_configure(text);
}

static long setting(const char *key, long otherwise) {
    pthread_mutex_lock(&lock);
    struct setting *found = find_setting(key);
    long value = found ? found->value : otherwise;
    pthread_mutex_unlock(&lock);
    return value;
}

/* What the function is to answer instead of doing anything; 0 for nothing. */
static long fault(const char *call) {
    pthread_mutex_lock(&lock);
    struct setting *found = find_setting(call);
    long value = 0;
    if (found) {
        found->calls++;
        if (found->nth == 0 || found->nth == found->calls)
            value = found->value;
    }
    pthread_mutex_unlock(&lock);
    return value;
}

/* Counters that a test reads by name. */
static struct {
    long contexts, current, streams, events, pinned, allocations, copies, sync_memops, flushes, exports, closes;
} count;

#define ADD(what, n) __atomic_add_fetch(&count.what, n, __ATOMIC_SEQ_CST)

/* Allocations: GPU memory is a memfd mapped here, so that its descriptor is a real one. */
enum kind { DEVICE, POOL, MANAGED, VIRTUAL, HOST };

struct allocation {
    uint64_t start, len; /* what the caller was given */
    uint64_t map, map_len;
    int fd, rdma, device;
    enum kind kind;
    uint64_t id;
    void *context;
    struct allocation *next;
};
static struct allocation *allocations;
static uint64_t next_id = 7;
static uint64_t freed_at, freed_len;

static uint64_t whole_pages(uint64_t len) { return (len + PAGE - 1) / PAGE * PAGE; }

static struct allocation *allocate(uint64_t len, enum kind kind, void *context) {
    uint64_t lead = kind == DEVICE ? (uint64_t)setting("lead", 0) : 0, map_len = whole_pages(lead + len);
    if (len == 0 || len > 1ull << 40 || (long)map_len > setting("memory", 1l << 33))
        return NULL;
    int fd = (int)syscall(SYS_memfd_create, "stub", 3u);
    if (fd < 0 || ftruncate(fd, (off_t)map_len))
        return NULL;
    /* As a real allocator does, the address that was freed last is given out again. */
    void *hint = map_len == freed_len ? (void *)freed_at : NULL;
    void *map = mmap(hint, map_len, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    if (map == MAP_FAILED)
        return NULL;
    struct allocation *new = calloc(1, sizeof *new);
    *new = (struct allocation){.start = (uint64_t)map + lead, .len = len, .map = (uint64_t)map, .map_len = map_len,
                               .fd = fd, .rdma = kind == DEVICE, .kind = kind, .context = context};
    pthread_mutex_lock(&lock);
    new->id = next_id++;
    new->next = allocations;
    allocations = new;
    pthread_mutex_unlock(&lock);
    ADD(allocations, 1);
    return new;
}

/* The allocation around an address. */
static struct allocation *find(uint64_t address) {
    struct allocation *found;
    pthread_mutex_lock(&lock);
    for (found = allocations; found; found = found->next)
        if (address >= found->start && address < found->start + found->len)
            break;
    pthread_mutex_unlock(&lock);
    return found;
}

/* Frees the allocation that starts at an address; whether there was one. */
static int release(uint64_t start) {
    pthread_mutex_lock(&lock);
    struct allocation **link = &allocations, *found;
    while (*link && (*link)->start != start)
        link = &(*link)->next;
    if ((found = *link))
        *link = found->next;
    pthread_mutex_unlock(&lock);
    if (!found)
        return 0;
    munmap((void *)found->map, found->map_len);
    close(found->fd);
    freed_at = found->map;
    freed_len = found->map_len;
    free(found);
    ADD(allocations, -1);
    return 1;
}

/* A descriptor whose first byte is the one at `start`, which is a multiple of a page. A part of an allocation gets a
 * memfd of its own, mapped in the place of the old pages; an older export of those keeps the old ones. */
static int export_fd(struct allocation *from, uint64_t start, uint64_t len) {
    if (start < from->map || start % PAGE || len % PAGE || start + len > from->map + from->map_len)
        return -1;
    if (start == from->map)
        return dup(from->fd);
    int fd = (int)syscall(SYS_memfd_create, "stub-part", 1u);
    if (fd < 0 || ftruncate(fd, (off_t)len) || pwrite(fd, (void *)start, len, 0) != (ssize_t)len)
        return -1;
    if (mmap((void *)start, len, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_FIXED, fd, 0) == MAP_FAILED)
        return -1;
    return fd;
}

/* Streams: a thread each, which does what was enqueued, in order. */
struct event {
    long asked, come; /* how often it was recorded, and reached */
};

struct work {
    void *to;
    const void *from;
    size_t len;
    struct event *event;
    long number;
    struct work *next;
};

struct stream {
    pthread_t thread;
    pthread_mutex_t mutex;
    pthread_cond_t changed;
    struct work *first, *last;
    long waiting;
    int ends;
};

static pthread_mutex_t events_mutex = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t events_changed = PTHREAD_COND_INITIALIZER;

static void *run_stream(void *argument) {
    struct stream *stream = argument;
    pthread_mutex_lock(&stream->mutex);
    for (;;) {
        while (!stream->first && !stream->ends)
            pthread_cond_wait(&stream->changed, &stream->mutex);
        struct work *work = stream->first;
        if (!work)
            break;
        pthread_mutex_unlock(&stream->mutex);
        if (work->len) {
            long delay_us = setting("copy_us", 0);
            if (delay_us)
                usleep((useconds_t)delay_us);
            memcpy(work->to, work->from, work->len);
        }
        if (work->event) {
            pthread_mutex_lock(&events_mutex);
            work->event->come = work->number;
            pthread_cond_broadcast(&events_changed);
            pthread_mutex_unlock(&events_mutex);
        }
        pthread_mutex_lock(&stream->mutex);
        if (!(stream->first = work->next))
            stream->last = NULL;
        stream->waiting--;
        free(work);
        pthread_cond_broadcast(&stream->changed);
    }
    pthread_mutex_unlock(&stream->mutex);
    return NULL;
}

static struct stream *open_stream(void) {
    struct stream *stream = calloc(1, sizeof *stream);
    pthread_mutex_init(&stream->mutex, NULL);
    pthread_cond_init(&stream->changed, NULL);
    pthread_create(&stream->thread, NULL, run_stream, stream);
    ADD(streams, 1);
    return stream;
}

static void enqueue(struct stream *stream, struct work work) {
    struct work *new = malloc(sizeof *new);
    *new = work;
    new->next = NULL;
    pthread_mutex_lock(&stream->mutex);
    if (stream->last)
        stream->last->next = new;
    else
        stream->first = new;
    stream->last = new;
    stream->waiting++;
    pthread_cond_broadcast(&stream->changed);
    pthread_mutex_unlock(&stream->mutex);
}

static void drain_stream(struct stream *stream) {
    pthread_mutex_lock(&stream->mutex);
    while (stream->waiting)
        pthread_cond_wait(&stream->changed, &stream->mutex);
    pthread_mutex_unlock(&stream->mutex);
}

static void close_stream(struct stream *stream) {
    pthread_mutex_lock(&stream->mutex);
    stream->ends = 1;
    pthread_cond_broadcast(&stream->changed);
    pthread_mutex_unlock(&stream->mutex);
    pthread_join(stream->thread, NULL);
    free(stream);
    ADD(streams, -1);
}

static void record(struct event *event, struct stream *stream) {
    pthread_mutex_lock(&events_mutex);
    long number = ++event->asked;
    pthread_mutex_unlock(&events_mutex);
    enqueue(stream, (struct work){.event = event, .number = number});
}

static int has_come(struct event *event) {
    pthread_mutex_lock(&events_mutex);
    int come = event->come == event->asked;
    pthread_mutex_unlock(&events_mutex);
    return come;
}

static void wait_event(struct event *event) {
    pthread_mutex_lock(&events_mutex);
    while (event->come != event->asked)
        pthread_cond_wait(&events_changed, &events_mutex);
    pthread_mutex_unlock(&events_mutex);
}
#endif
