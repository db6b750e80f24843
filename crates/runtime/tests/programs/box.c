/* The program of test containers: one small static file with the commands that the tests need. */
#define _GNU_SOURCE
#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <grp.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/mount.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/sysmacros.h>
#include <unistd.h>

static int term_code;

static void on_term(int number) {
    (void)number;
    _exit(term_code);
}

static int report(const char *what, int result) {
    printf("%s: %s\n", what, result < 0 ? strerror(errno) : "ok");
    return 0;
}

static int show(const char *path) {
    char buffer[4096];
    ssize_t count;
    int fd = open(path, O_RDONLY);
    if (fd < 0) return report(path, -1);
    while ((count = read(fd, buffer, sizeof buffer)) > 0) fwrite(buffer, 1, count, stdout);
    close(fd);
    return 0;
}

static int put(const char *path, const char *text) {
    int fd = open(path, O_WRONLY | O_CREAT, 0644);
    int result = fd < 0 ? -1 : (int)write(fd, text, strlen(text));
    return report(path, result);
}

static int identity(void) {
    gid_t groups[64];
    char line[256];
    int count = getgroups(64, groups);
    FILE *status = fopen("/proc/self/status", "r");
    printf("uid=%d gid=%d groups=", getuid(), getgid());
    for (int i = 0; i < count; i++) printf(i ? ",%d" : "%d", groups[i]);
    printf("\n");
    while (status && fgets(line, sizeof line, status))
        if (!strncmp(line, "Cap", 3) || !strncmp(line, "NoNewPrivs", 10) || !strncmp(line, "Seccomp:", 8))
            fputs(line, stdout);
    return 0;
}

static int serve(int port) {
    int one = 1, fd = socket(AF_INET, SOCK_STREAM, 0);
    struct sockaddr_in address = {.sin_family = AF_INET, .sin_port = htons(port)};
    setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &one, sizeof one);
    if (bind(fd, (struct sockaddr *)&address, sizeof address) || listen(fd, 16)) return report("listen", -1);
    printf("ready\n");
    for (;;) {
        int peer = accept(fd, 0, 0);
        if (write(peer, "hello\n", 6) < 0) return 1;
        close(peer);
    }
}

static int dial(const char *ip, int port) {
    char buffer[64] = {0};
    int fd = socket(AF_INET, SOCK_STREAM, 0);
    struct sockaddr_in address = {.sin_family = AF_INET, .sin_port = htons(port)};
    inet_pton(AF_INET, ip, &address.sin_addr);
    if (connect(fd, (struct sockaddr *)&address, sizeof address)) return report("connect", -1);
    if (read(fd, buffer, 63) < 0) return report("read", -1);
    fputs(buffer, stdout);
    return 0;
}

static int copy(void) {
    char buffer[4096];
    ssize_t count;
    while ((count = read(0, buffer, sizeof buffer)) > 0)
        if (write(1, buffer, count) != count) return 1;
    return 0;
}

static int devices(const char *path) {
    struct stat found;
    mode_t mode = S_IFBLK | 0600;
    if (mknod(path, mode, makedev(7, 0))) return report("mknod", -1);
    report("stat", stat(path, &found));
    return report("open", open(path, O_RDONLY));
}

int main(int argc, char **argv) {
    setvbuf(stdout, 0, _IOLBF, 0);
    for (int at = 1; at < argc;) {
        const char *verb = argv[at++];
        const char *first = at < argc ? argv[at] : "";
        const char *second = at + 1 < argc ? argv[at + 1] : "";
        if (!strcmp(verb, "exit")) return atoi(first);
        else if (!strcmp(verb, "echo")) puts(first), at++;
        else if (!strcmp(verb, "err")) fprintf(stderr, "%s\n", first), at++;
        else if (!strcmp(verb, "partial")) fputs(first, stdout), fflush(stdout), at++;
        else if (!strcmp(verb, "cat")) copy();
        else if (!strcmp(verb, "show")) show(first), at++;
        else if (!strcmp(verb, "write")) put(first, second), at += 2;
        else if (!strcmp(verb, "id")) identity();
        else if (!strcmp(verb, "pid")) printf("pid=%d\n", getpid());
        else if (!strcmp(verb, "pwd")) printf("%s\n", getcwd(malloc(4096), 4096));
        else if (!strcmp(verb, "env")) printf("%s=%s\n", first, getenv(first) ? getenv(first) : "(none)"), at++;
        else if (!strcmp(verb, "spam")) { for (int i = 0; i < atoi(first); i++) printf("line %06d\n", i); at++; }
        else if (!strcmp(verb, "fork")) { if (!fork()) { setsid(); for (;;) pause(); } }
        else if (!strcmp(verb, "segv")) *(volatile int *)8 = 1;
        else if (!strcmp(verb, "unshare")) report("unshare", unshare(CLONE_NEWUTS));
        else if (!strcmp(verb, "keyctl")) report("keyctl", syscall(SYS_keyctl, 0, -3, 0));
        else if (!strcmp(verb, "device")) devices(first), at++;
        else if (!strcmp(verb, "serve")) return serve(atoi(first));
        else if (!strcmp(verb, "dial")) dial(first, atoi(second)), at += 2;
        else if (!strcmp(verb, "tty")) {
            struct winsize size = {0};
            int result = ioctl(0, TIOCGWINSZ, &size);
            printf("tty=%d size=%dx%d\n", isatty(0), result ? 0 : size.ws_col, size.ws_row);
        } else if (!strcmp(verb, "await-size")) {
            struct winsize size = {0};
            while (!ioctl(0, TIOCGWINSZ, &size) && size.ws_col != atoi(first)) usleep(1000);
            printf("size=%dx%d\n", size.ws_col, size.ws_row), at++;
        } else if (!strcmp(verb, "alloc")) {
            size_t size = (size_t)atoi(first) << 20;
            char *memory = mmap(0, size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
            for (size_t i = 0; i < size; i += 4096) memory[i] = 1;
            at++;
        } else if (!strcmp(verb, "term")) {
            term_code = atoi(first);
            signal(SIGTERM, on_term);
            printf("ready\n");
            for (;;) pause();
        } else if (!strcmp(verb, "stubborn")) {
            signal(SIGTERM, SIG_IGN);
            printf("ready\n");
            for (;;) pause();
        } else {
            fprintf(stderr, "unknown command %s\n", verb);
            return 99;
        }
    }
    return 0;
}
