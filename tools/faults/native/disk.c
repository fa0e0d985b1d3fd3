/* A disk that fails: a shared file holds one 32-bit number. Above 0 it is the errno with which every look at a path
   below DISK_FAULT_FOLDER is refused (open, stat, access); below 0 every sync of the program waits until it is not.
   For LD_PRELOAD; the file is named by DISK_FAULT_FILE. */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

static volatile int *fault;
static const char *folder;

__attribute__((constructor)) static void find_fault(void) {
    const char *path = getenv("DISK_FAULT_FILE");
    folder = getenv("DISK_FAULT_FOLDER");
    int file = path && folder ? (int)syscall(SYS_openat, AT_FDCWD, path, O_RDONLY | O_CLOEXEC) : -1;
    if (file < 0) return;
    void *shared = mmap(NULL, sizeof *fault, PROT_READ, MAP_SHARED, file, 0);
    close(file);
    if (shared != MAP_FAILED) fault = shared;
}

static int refused(const char *path) {
    if (!fault || *fault <= 0 || !path || strncmp(path, folder, strlen(folder))) return 0;
    errno = *fault;
    return 1;
}

static void wait_while_stuck(void) {
    while (fault && *fault < 0) usleep(1000);
}

#define REAL(name) static __typeof__(&name) real; if (!real) real = (__typeof__(&name))dlsym(RTLD_NEXT, #name)
#define OPENS(name)                                                                                                     \
    int name(const char *path, int flags, ...) {                                                                        \
        va_list rest;                                                                                                   \
        va_start(rest, flags);                                                                                          \
        mode_t mode = va_arg(rest, mode_t);                                                                             \
        va_end(rest);                                                                                                   \
        REAL(name);                                                                                                     \
        return refused(path) ? -1 : real(path, flags, mode);                                                            \
    }
#define STATS(name, type)                                                                                               \
    int name(const char *path, struct type *found) {                                                                    \
        REAL(name);                                                                                                     \
        return refused(path) ? -1 : real(path, found);                                                                  \
    }
#define STATS_AT(name, type)                                                                                            \
    int name(int at, const char *path, struct type *found, int flags) {                                                 \
        REAL(name);                                                                                                     \
        return refused(path) ? -1 : real(at, path, found, flags);                                                       \
    }
#define SYNCS(name)                                                                                                     \
    int name(int file) {                                                                                                \
        REAL(name);                                                                                                     \
        wait_while_stuck();                                                                                             \
        return real(file);                                                                                              \
    }

OPENS(open)
OPENS(open64)
STATS(stat, stat)
STATS(stat64, stat64)
STATS(lstat, stat)
STATS(lstat64, stat64)
STATS_AT(fstatat, stat)
STATS_AT(fstatat64, stat64)
SYNCS(fsync)
SYNCS(fdatasync)

int access(const char *path, int mode) {
    REAL(access);
    return refused(path) ? -1 : real(path, mode);
}
