/*
 * The only program of the guest: as process 1 it takes requests from the first serial port, elsewhere from standard
 * input, one a line, and answers each with a line. It knows nothing of maps and programs: what a request says goes to
 * bpf(2). The form of the lines: wire.py.
 */
#include <ctype.h>
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mount.h>
#include <sys/reboot.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <termios.h>
#include <unistd.h>

#define LONGEST (16 << 20) /* bytes of a request */
#define ROOM (16 << 20)	   /* bytes of all buffers of one request */
#define WORDS 64
#define IDLE_MS 600000 /* nobody asks for that long: over */

static char line[LONGEST];
static uint8_t room[ROOM] __attribute__((aligned(8)));
static size_t used;
static int in = 0, out = 1;

static void end(void)
{
	if (getpid() == 1)
		reboot(RB_AUTOBOOT); /* QEMU -no-reboot ends */
	exit(0);
}

static void put(const char *text, size_t size)
{
	while (size) {
		ssize_t done = write(out, text, size);

		if (done <= 0)
			end();
		text += done;
		size -= done;
	}
}

static void put_hex(const uint8_t *data, size_t size)
{
	static const char digits[] = "0123456789abcdef";
	char text[4096];
	size_t at = 0;

	put(" ", 1);
	if (!size)
		put("-", 1);
	for (size_t i = 0; i < size; i++) {
		text[at++] = digits[data[i] >> 4];
		text[at++] = digits[data[i] & 15];
		if (at == sizeof(text) || i + 1 == size) {
			put(text, at);
			at = 0;
		}
	}
}

/* Zeros at the end are not sent. */
static void put_trimmed(const uint8_t *data, size_t size)
{
	while (size && !data[size - 1])
		size--;
	put_hex(data, size);
}

static int digit(char c)
{
	return isdigit((unsigned char)c) ? c - '0' : (c | 32) - 'a' + 10;
}

/* Room for `size` bytes, with the bytes of `word` at its start; NULL where they do not fit. */
static uint8_t *bytes(const char *word, size_t size)
{
	size_t given = strcmp(word, "-") ? strlen(word) / 2 : 0;
	uint8_t *data = room + used;

	if (size < given || size > ROOM - used || ROOM - used - size < 16)
		return NULL;
	used += (size + 15) & ~(size_t)7;
	memset(data, 0, size + 1);
	for (size_t i = 0; i < given; i++) {
		if (!isxdigit((unsigned char)word[2 * i]) || !isxdigit((unsigned char)word[2 * i + 1]))
			return NULL;
		data[i] = digit(word[2 * i]) << 4 | digit(word[2 * i + 1]);
	}
	return data;
}

static uint8_t *plain(const char *word)
{
	return bytes(word, strlen(word));
}

static void answer(const char *number, long result)
{
	char text[64];

	put(text, snprintf(text, sizeof(text), "=%.16s %ld", number, result < 0 ? -(long)errno : result));
}

/*
 * b COMMAND ATTRIBUTES (HOLDER PLACE SIZE DATA)*: the address of each buffer goes to its place in the attributes
 * (holder 0) or in an earlier buffer (1 and up).
 */
static void bpf(const char *number, char **word, int words)
{
	uint8_t *held[WORDS];
	size_t sizes[WORDS] = { words > 3 && strcmp(word[3], "-") ? strlen(word[3]) / 2 : 0 };
	int count = 1;
	long result;

	held[0] = sizes[0] ? plain(word[3]) : NULL;
	for (int i = 4; held[0] && i + 3 < words && count < WORDS; i += 4, count++) {
		size_t holder = strtoul(word[i], NULL, 10), place = strtoul(word[i + 1], NULL, 10);
		uint64_t address;

		sizes[count] = strtoul(word[i + 2], NULL, 10);
		held[count] = bytes(word[i + 3], sizes[count]);
		address = (uintptr_t)held[count];
		if (!address || holder >= (size_t)count || sizes[holder] < 8 || place > sizes[holder] - 8)
			held[0] = NULL;
		else
			memcpy(held[holder] + place, &address, 8);
	}
	if (!held[0]) {
		errno = E2BIG;
		answer(number, -1);
		return;
	}
	result = syscall(SYS_bpf, strtol(word[2], NULL, 10), held[0], sizes[0]);
	answer(number, result);
	put_hex(held[0], sizes[0]);
	for (int i = 1; i < count; i++)
		put_trimmed(held[i], sizes[i]);
}

/* w PATH DATA */
static void store(const char *number, char **word, int words)
{
	uint8_t *path = words > 3 ? plain(word[2]) : NULL, *data = path ? plain(word[3]) : NULL;
	int fd = data ? open((char *)path, O_WRONLY) : -1;
	ssize_t done = fd < 0 ? -1 : write(fd, data, strlen(word[3]) / 2);

	answer(number, done);
	if (fd >= 0)
		close(fd);
}

/* g PATH TEXT*: the lines of a file in which one of the texts stands; without a text, all. */
static void look(const char *number, char **word, int words)
{
	uint8_t *path = words > 2 ? plain(word[2]) : NULL, *text[WORDS];
	FILE *file = path ? fopen((char *)path, "r") : NULL;
	char found[4096];
	size_t from, fits = ROOM;

	for (int i = 3; i < words; i++)
		if (!(text[i] = plain(word[i])))
			words = i;
	from = used;
	answer(number, file ? 0 : -1);
	while (file && fgets(found, sizeof(found), file)) {
		int wanted = words <= 3;
		size_t size = strlen(found);

		for (int i = 3; i < words && !wanted; i++)
			wanted = strstr(found, (char *)text[i]) != NULL;
		if (!wanted)
			continue;
		if (size > fits - used)
			break;
		memcpy(room + used, found, size);
		used += size;
	}
	put_hex(room + from, used - from);
	if (file)
		fclose(file);
}

static void serve(void)
{
	char *word[WORDS * 3], *rest = line;
	int words = 0;

	used = 0;
	while (words < WORDS * 3 && (word[words] = strsep(&rest, " ")))
		words++;
	if (words < 2)
		return;
	switch (*word[1]) {
	case 'b':
		bpf(word[0], word, words);
		break;
	case 'c':
		answer(word[0], words > 2 ? close(atoi(word[2])) : -1);
		break;
	case 'w':
		store(word[0], word, words);
		break;
	case 'g':
		look(word[0], word, words < WORDS ? words : WORDS);
		break;
	case 'q':
		answer(word[0], 0);
		put("\n", 1);
		tcdrain(out);
		end();
		break;
	default:
		errno = ENOSYS;
		answer(word[0], -1);
	}
	put("\n", 1);
}

static void start(void)
{
	struct termios port;

	mkdir("/dev", 0755);
	mkdir("/proc", 0755);
	mkdir("/sys", 0755);
	mount("dev", "/dev", "devtmpfs", 0, NULL);
	mount("proc", "/proc", "proc", 0, NULL);
	mount("sys", "/sys", "sysfs", 0, NULL);
	in = out = open("/dev/ttyS0", O_RDWR | O_NOCTTY);
	if (in < 0 || tcgetattr(in, &port))
		end();
	cfmakeraw(&port);
	cfsetspeed(&port, B115200);
	tcsetattr(in, TCSANOW, &port);
}

int main(void)
{
	size_t filled = 0;

	if (getpid() == 1)
		start();
	put("=0 0\n", 5);
	for (;;) {
		struct pollfd wait = { .fd = in, .events = POLLIN };
		ssize_t got = poll(&wait, 1, IDLE_MS) == 1 ? read(in, line + filled, LONGEST - 1 - filled) : 0;
		char *feed;

		if (got <= 0)
			end();
		feed = memchr(line + filled, '\n', got);
		filled += got;
		if (feed) { /* one request at a time: nothing is behind it */
			*feed = 0;
			serve();
			filled = 0;
		} else if (filled == LONGEST - 1) {
			end();
		}
	}
}
