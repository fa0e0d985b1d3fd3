/* A mount that is dead while a file is there: whoever looks at a path below DEAD_MOUNT waits until DEAD_MOUNT_FLAG is
   gone, as on a network file system whose server is. For LD_PRELOAD; only this program and its own looks wait. */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <fcntl.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

static void wait_for(const char *path) {
    const char *mount = getenv("DEAD_MOUNT"), *flag = getenv("DEAD_MOUNT_FLAG");
    if (!path || !mount || !flag || strncmp(path, mount, strlen(mount))) return;
    struct timespec moment = {0, 5000000};
    while (!syscall(SYS_faccessat, AT_FDCWD, flag, F_OK)) nanosleep(&moment, NULL);
}

#define REAL(name) (((__typeof__(&name))dlsym(RTLD_NEXT, #name)))

#define LOOK(name, kind)                                                                                               \
    int name(const char *restrict path, struct kind *restrict facts) {                                                 \
        wait_for(path);                                                                                                \
        return REAL(name)(path, facts);                                                                                \
    }

LOOK(lstat, stat)
LOOK(stat, stat)
LOOK(lstat64, stat64)
LOOK(stat64, stat64)

ssize_t readlink(const char *restrict path, char *restrict target, size_t size) {
    wait_for(path);
    return REAL(readlink)(path, target, size);
}

int chdir(const char *path) {
    wait_for(path);
    return REAL(chdir)(path);
}

#define OPEN(name)                                                                                                     \
    int name(const char *path, int flags, ...) {                                                                       \
        va_list more;                                                                                                  \
        va_start(more, flags);                                                                                         \
        mode_t mode = va_arg(more, mode_t);                                                                            \
        va_end(more);                                                                                                  \
        wait_for(path);                                                                                                \
        return REAL(name)(path, flags, mode);                                                                          \
    }

OPEN(open)
OPEN(open64)
