/* peak FILE COMMAND ... -- runs COMMAND, ends as it does, and puts the most memory it had resident, in
 * KB, into FILE. */
#include <stdio.h>
#include <stdlib.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

int main(int argc, char **argv)
{
    struct rusage u;
    int status;
    pid_t pid = argc > 2 ? fork() : -1;
    if (pid == 0) {
        execvp(argv[2], argv + 2);
        _exit(127);
    }
    if (pid < 0 || wait4(pid, &status, 0, &u) != pid) return 127;
    FILE *f = fopen(argv[1], "w");
    if (!f || fprintf(f, "%ld\n", u.ru_maxrss) < 0 || fclose(f)) return 127;
    return WIFSIGNALED(status) ? 128 + WTERMSIG(status) : WEXITSTATUS(status);
}
