/* A log whose records have a length and no checksum: one that a crash tears is taken for whole. With --checksums it is dropped.

   log [--checksums] */
#include <fcntl.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

enum { RECORD = 1500, SYNCED = 10 };
struct record {
    uint32_t length, checksum;
    char text[RECORD];
};

static uint32_t sum(const char *text, uint32_t length) {
    uint32_t hash = 2166136261u;
    for (uint32_t n = 0; n < length; n++)
        hash = (hash ^ (unsigned char)text[n]) * 16777619u;
    return hash;
}

static int is_whole(const struct record *record) {
    for (int n = 1; n < RECORD; n++)
        if (record->text[n] != record->text[0])
            return 0;
    return record->text[0] != 0;
}

int main(int count, char **words) {
    int checksums = count > 1 && !strcmp(words[1], "--checksums");
    int file = open("log", O_RDWR | O_CREAT, 0644);
    int folder = open(".", O_RDONLY);
    fsync(folder);
    struct record record;
    off_t at = 0;
    int records = 0;
    while (pread(file, &record, sizeof record, at) == sizeof record && record.length == RECORD) {
        if (checksums && record.checksum != sum(record.text, RECORD))
            break;
        if (!is_whole(&record))
            printf("corrupt record %d\n", records);
        at += sizeof record;
        records++;
    }
    if (ftruncate(file, at) || fsync(file))
        return 1;
    printf("%d records\n", records);
    fflush(stdout);
    for (;; records++, at += sizeof record) {
        record.length = RECORD;
        memset(record.text, 'a' + records % 26, RECORD);
        record.checksum = checksums ? sum(record.text, RECORD) : 0;
        if (pwrite(file, &record, sizeof record, at) != sizeof record)
            return 1;
        if (records % SYNCED == 0 && fdatasync(file))
            return 1;
        nanosleep(&(struct timespec){.tv_nsec = 50000000}, NULL);
    }
}
