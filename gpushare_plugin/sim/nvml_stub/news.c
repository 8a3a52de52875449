/* Waiting for the events file by inotify; the rule is in news.h. */
#define _POSIX_C_SOURCE 200809L
#include "news.h"

#include <poll.h>
#include <pthread.h>
#include <string.h>
#include <sys/inotify.h>
#include <time.h>
#include <unistd.h>

enum { PATH_SIZE = 4096, QUEUE_BYTES = 4096 };

/* How often a file is looked at that the kernel tells nothing of. */
static const int64_t POLL_MS = 10;

static pthread_once_t once = PTHREAD_ONCE_INIT;
static int queue = -1;
static _Thread_local int watched = -1;

/* Kept open: to close one takes the kernel milliseconds. */
static void open_queue(void)
{
    queue = inotify_init1(IN_CLOEXEC | IN_NONBLOCK);
}

/* The folder is watched, since the file may not exist yet, or be made anew. */
void news_listen(const char *path)
{
    char folder[PATH_SIZE] = ".";
    const char *end = strrchr(path, '/');
    size_t length = end ? (size_t)(end - path) + 1 : 0;
    watched = -1;
    if (*path == '\0' || length >= PATH_SIZE)
        return;
    if (length > 0) {
        memcpy(folder, path, length);
        folder[length] = '\0';
    }
    pthread_once(&once, open_queue);
    watched = inotify_add_watch(queue, folder, IN_CREATE | IN_MODIFY | IN_MOVED_TO);
}

static void sleep_ms(int64_t ms)
{
    nanosleep(&(struct timespec){.tv_nsec = (long)ms * 1000000}, NULL);
}

void news_wait(int64_t ms)
{
    if (watched < 0) {
        sleep_ms(ms < POLL_MS ? ms : POLL_MS);
        return;
    }
    char told[QUEUE_BYTES];
    struct pollfd asked = {.fd = queue, .events = POLLIN};
    if (poll(&asked, 1, (int)ms) > 0)
        while (read(queue, told, sizeof told) > 0)
            ;
}
