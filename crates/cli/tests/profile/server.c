/* A server with one thread whose truth is known: every hundredth response takes 40 ms.

   server slow    it computes in slow()
   server lock    it waits for a lock that another thread has
   server queue   no response is slow; it runs on CPU 0 with the lowest priority
   server burst   no server: computes on CPU 0 for 40 ms, again and again

   It prints its port. Compiled by crates/cli/tests/profile.rs. */
#define _GNU_SOURCE
#include <arpa/inet.h>
#include <poll.h>
#include <pthread.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

#define CONNECTIONS_MAX 64

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static pthread_barrier_t turn;

static double now(clockid_t clock) {
    struct timespec time;
    clock_gettime(clock, &time);
    return time.tv_sec + time.tv_nsec / 1e9;
}

static void pause_for(double seconds) {
    struct timespec time = {0, (long)(seconds * 1e9)};
    nanosleep(&time, NULL);
}

__attribute__((noinline)) unsigned fast(double seconds) {
    unsigned number = 1;
    for (double end = now(CLOCK_THREAD_CPUTIME_ID) + seconds; now(CLOCK_THREAD_CPUTIME_ID) < end;)
        for (int at = 0; at < 5000; at++) number = number * 1664525 + 1013904223;
    return number;
}

__attribute__((noinline)) unsigned slow(double seconds) {
    unsigned number = 1;
    for (double end = now(CLOCK_THREAD_CPUTIME_ID) + seconds; now(CLOCK_THREAD_CPUTIME_ID) < end;)
        for (int at = 0; at < 5000; at++) number = number * 22695477 + 1;
    return number;
}

/* Has the lock for 40 ms when the server is about to wait for it. */
static void *holder(void *unused) {
    for (;;) {
        pthread_barrier_wait(&turn);
        pthread_mutex_lock(&lock);
        pthread_barrier_wait(&turn);
        pause_for(0.040);
        pthread_mutex_unlock(&lock);
    }
    return unused;
}

static void wait_for_the_lock(void) {
    pthread_barrier_wait(&turn);
    pthread_barrier_wait(&turn);
    pthread_mutex_lock(&lock);
    pthread_mutex_unlock(&lock);
}

static unsigned handle(const char *what, unsigned number) {
    if (number % 100 == 99 && !strcmp(what, "slow")) return slow(0.040);
    if (number % 100 == 99 && !strcmp(what, "lock")) wait_for_the_lock();
    return fast(0.001);
}

static void stay_on_first_cpu(void) {
    cpu_set_t cpus;
    CPU_ZERO(&cpus);
    CPU_SET(0, &cpus);
    sched_setaffinity(0, sizeof cpus, &cpus);
}

static void burst(void) {
    stay_on_first_cpu();
    for (;;) {
        double end = now(CLOCK_MONOTONIC) + 0.040;
        while (now(CLOCK_MONOTONIC) < end) fast(0.001);
        pause_for(0.160);
    }
}

static void serve(const char *what, int listener) {
    static const char response[] = "HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok";
    struct pollfd all[CONNECTIONS_MAX] = {{listener, POLLIN, 0}};
    unsigned number = 0, sum = 0;
    int count = 1;
    while (poll(all, count, -1) > 0) {
        if (all[0].revents && count < CONNECTIONS_MAX)
            all[count++] = (struct pollfd){accept(listener, NULL, NULL), POLLIN, 0};
        for (int at = 1; at < count; at++) {
            char request[4096];
            if (!all[at].revents) continue;
            if (read(all[at].fd, request, sizeof request) <= 0) {
                close(all[at].fd);
                all[at--] = all[--count];
                continue;
            }
            sum += handle(what, number++);
            if (write(all[at].fd, response, sizeof response - 1) < 0) sum++;
        }
    }
    printf("%u\n", sum);
}

int main(int count, char **words) {
    if (count != 2) return 1;
    if (!strcmp(words[1], "burst")) burst();
    if (!strcmp(words[1], "queue")) {
        stay_on_first_cpu();
        setpriority(PRIO_PROCESS, 0, 19);
    }
    if (!strcmp(words[1], "lock")) {
        pthread_t thread;
        pthread_barrier_init(&turn, NULL, 2);
        pthread_create(&thread, NULL, holder, NULL);
    }
    struct sockaddr_in address = {.sin_family = AF_INET, .sin_addr = {htonl(INADDR_LOOPBACK)}};
    socklen_t length = sizeof address;
    int listener = socket(AF_INET, SOCK_STREAM, 0);
    if (bind(listener, (void *)&address, length) || listen(listener, 64)) return 1;
    getsockname(listener, (void *)&address, &length);
    printf("%d\n", ntohs(address.sin_port));
    fflush(stdout);
    serve(words[1], listener);
    return 0;
}
