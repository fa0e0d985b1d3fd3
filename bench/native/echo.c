/* The floor: an epoll echo on a unix socket. No framing, no parsing: what arrives goes back. */
#define _GNU_SOURCE
#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

static char buffer[262144];

static int echo(int fd) {
    ssize_t got = read(fd, buffer, sizeof buffer);
    if (got <= 0) return -1;
    for (ssize_t done = 0; done < got;) {
        ssize_t sent = write(fd, buffer + done, (size_t)(got - done));
        if (sent < 0) {
            if (errno == EAGAIN) continue;
            return -1;
        }
        done += sent;
    }
    return 0;
}

int main(int argc, char **argv) {
    struct sockaddr_un address = {.sun_family = AF_UNIX};
    if (argc != 2 || strlen(argv[1]) >= sizeof address.sun_path) return 2;
    strcpy(address.sun_path, argv[1]);
    int listener = socket(AF_UNIX, SOCK_STREAM, 0);
    int poll = epoll_create1(0);
    struct epoll_event event = {.events = EPOLLIN, .data.fd = listener}, ready[256];
    if (bind(listener, (struct sockaddr *)&address, sizeof address) || listen(listener, 1024)) return 1;
    epoll_ctl(poll, EPOLL_CTL_ADD, listener, &event);
    puts("ready");
    fflush(stdout);
    for (;;) {
        int count = epoll_wait(poll, ready, 256, -1);
        for (int i = 0; i < count; i++) {
            int fd = ready[i].data.fd;
            if (fd == listener) {
                event.data.fd = accept4(listener, NULL, NULL, SOCK_NONBLOCK);
                epoll_ctl(poll, EPOLL_CTL_ADD, event.data.fd, &event);
            } else if (echo(fd)) {
                close(fd);
            }
        }
    }
}
