/*-------------------------------------------------------------------------
 *
 * powercut.c
 *	  A library to be preloaded that keeps what a power cut would leave of the
 *	  files of a server, and that can make its disk full.
 *
 * POWERCUT_ROOT is the directory of the server's files, POWERCUT_STATE one
 * beside it, on the same file system:
 *
 *	tree/		the files as they would be after a power cut, by their names
 *	ino/N		their contents, by the inode number of the file that they are
 *				of; each file in tree/ is a link to one of these
 *	keep/N		a link to that file itself, so that its number is not used again
 *				when it is deleted
 *	full		a file that is mapped: not zero while the disk is full
 *
 * What was not synced is not there: that is the worst that a disk may do, and
 * what is written and never synced is always lost.
 *
 *	- fsync and fdatasync of a file keep its contents, and its name, if it had
 *	  none that is kept.  (Journaling file systems do that for new files.)
 *	- fsync of a directory keeps what was created, renamed and deleted there.
 *	- sync_file_range and a close keep nothing; nor does a file opened with
 *	  O_SYNC or O_DSYNC, which these servers do not do as we configure them.
 *
 * Nothing is really synced, as the machine lives on.
 *
 * While the disk is full, what makes a file below POWERCUT_FULL longer fails.
 *
 * All processes of a server do that to the same files, one at a time.  One that
 * is killed meanwhile has kept a part, as a disk would have.
 *
 * Copyright (c) 2026, lockredis contributors
 *
 * IDENTIFICATION
 *	  test/torture/shim/powercut.c
 *
 *-------------------------------------------------------------------------
 */
#define _GNU_SOURCE
#include <dirent.h>
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <ftw.h>
#include <limits.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/uio.h>
#include <unistd.h>

#define PIECE 65536

static const char *root;
static const char *state;
static const char *full_below;
static volatile const int64_t *full;

static int	(*real_fsync) (int);
static int	(*real_fdatasync) (int);
static ssize_t (*real_write) (int, const void *, size_t);
static ssize_t (*real_pwrite) (int, const void *, size_t, off_t);
static ssize_t (*real_pwritev) (int, const struct iovec *, int, off_t);
static int	(*real_fallocate) (int, off_t, off_t);

/* A rig that does not keep what was synced would find faults that are its own. */
static void
die(const char *what, const char *name)
{
	fprintf(stderr, "powercut: PANIC: %s %s: %s\n", what, name, strerror(errno));
	abort();
}

/* A path into a buffer of PATH_MAX. */
static char *
path_of(char *out, const char *format,...)
{
	va_list		args;
	int			len;

	va_start(args, format);
	len = vsnprintf(out, PATH_MAX, format, args);
	va_end(args);
	if (len >= PATH_MAX)
	{
		errno = ENAMETOOLONG;
		die("too long", format);
	}
	return out;
}

static void __attribute__((constructor))
powercut_init(void)
{
	char		name[PATH_MAX];
	int			fd;

	real_fsync = (int (*) (int)) dlsym(RTLD_NEXT, "fsync");
	real_fdatasync = (int (*) (int)) dlsym(RTLD_NEXT, "fdatasync");
	real_write = (ssize_t (*) (int, const void *, size_t)) dlsym(RTLD_NEXT, "write");
	real_pwrite = (ssize_t (*) (int, const void *, size_t, off_t))
		dlsym(RTLD_NEXT, "pwrite");
	real_pwritev = (ssize_t (*) (int, const struct iovec *, int, off_t))
		dlsym(RTLD_NEXT, "pwritev");
	real_fallocate = (int (*) (int, off_t, off_t)) dlsym(RTLD_NEXT, "posix_fallocate");

	root = getenv("POWERCUT_ROOT");
	state = getenv("POWERCUT_STATE");
	full_below = getenv("POWERCUT_FULL");
	if (root == NULL || state == NULL)
	{
		root = NULL;
		return;
	}
	/* The server overwrites its environment when it shows what it does. */
	root = strdup(root);
	state = strdup(state);
	full_below = strdup(full_below == NULL ? root : full_below);
	fd = open(path_of(name, "%s/full", state), O_RDONLY | O_CLOEXEC);
	if (fd < 0)
		die("cannot open", name);
	full = mmap(NULL, sizeof(int64_t), PROT_READ, MAP_SHARED, fd, 0);
	if (full == MAP_FAILED)
		die("cannot map", name);
	close(fd);
}

/* The name of an open file relative to that directory, or false. */
static int
name_below(int fd, const char *dir, char *out)
{
	char		link[64];
	char		path[PATH_MAX];
	size_t		len = strlen(dir);
	ssize_t		n;

	snprintf(link, sizeof(link), "/proc/self/fd/%d", fd);
	n = readlink(link, path, sizeof(path) - 1);
	if (n < 0)
		return 0;
	path[n] = '\0';
	if (strncmp(path, dir, len) != 0 || (path[len] != '/' && path[len] != '\0') ||
		strstr(path, " (deleted)") != NULL)
		return 0;
	strcpy(out, path[len] == '/' ? path + len + 1 : "");
	return 1;
}

/* ----------
 * What is synced
 * ----------
 */

/*
 * Copies what of a file differs from what was kept of it.  What is kept becomes longer
 * only by what is written there: who is killed meanwhile leaves no zeros at its end.
 */
static void
keep_pages(int from, int to, const char *name)
{
	static char now[PIECE];
	struct stat st,
				kept;
	char	   *then = NULL;
	ssize_t		n;

	if (fstat(from, &st) != 0 || fstat(to, &kept) != 0 ||
		(kept.st_size > st.st_size && ftruncate(to, st.st_size) != 0))
		die("cannot truncate", name);
	if (kept.st_size > st.st_size)
		kept.st_size = st.st_size;
	if (kept.st_size > 0)
	{
		then = mmap(NULL, kept.st_size, PROT_READ, MAP_SHARED, to, 0);
		if (then == MAP_FAILED)
			die("cannot map", name);
	}
	for (off_t at = 0; at < st.st_size; at += PIECE)
	{
		/* Less than that if somebody makes it shorter just now. */
		n = pread(from, now, st.st_size - at < PIECE ? st.st_size - at : PIECE, at);
		if (n <= 0 || (at + n <= kept.st_size && memcmp(now, then + at, n) == 0))
			continue;
		if (real_pwrite(to, now, n, at) != n)
			die("cannot write", name);
	}
	if (then != NULL)
		munmap(then, kept.st_size);
}

/*
 * kept_contents --- where the contents of that file are kept, which is empty at
 * first; its inode number is taken from now on
 */
static char *
kept_contents(const char *live, ino_t ino, char *out)
{
	char		keep[PATH_MAX];
	int			fd;

	path_of(out, "%s/ino/%ju", state, (uintmax_t) ino);
	if (access(out, F_OK) == 0)
		return out;
	path_of(keep, "%s/keep/%ju", state, (uintmax_t) ino);
	if (link(live, keep) != 0 && errno != EEXIST)
	{
		if (errno != ENOENT)
			die("cannot link", live);
		return NULL;
	}
	fd = open(out, O_WRONLY | O_CREAT | O_CLOEXEC, 0600);
	if (fd < 0)
		die("cannot create", out);
	close(fd);
	return out;
}

/* Gives kept contents a name in the tree, where there may be a former one. */
static void
keep_name(const char *contents, const char *name)
{
	char		target[PATH_MAX];
	char		fresh[PATH_MAX];

	path_of(target, "%s/tree/%s", state, name);
	path_of(fresh, "%s/fresh", state);
	for (char *slash = strchr(target + strlen(state) + 6, '/'); slash != NULL;
		 slash = strchr(slash + 1, '/'))
	{
		*slash = '\0';
		if (mkdir(target, 0700) != 0 && errno != EEXIST)
			die("cannot make", target);
		*slash = '/';
	}
	unlink(fresh);
	if (link(contents, fresh) != 0 || rename(fresh, target) != 0)
		die("cannot name", target);
	unlink(fresh);
}

static void
keep_file(int fd, const char *name, const struct stat *st)
{
	char		contents[PATH_MAX];
	char		live[PATH_MAX];
	char		link[64];
	struct stat kept;
	int			from,
				to;

	path_of(live, "%s/%s", root, name);
	if (kept_contents(live, st->st_ino, contents) == NULL)
		return;
	/* It may have been opened for writing only. */
	snprintf(link, sizeof(link), "/proc/self/fd/%d", fd);
	from = open(link, O_RDONLY | O_CLOEXEC);
	to = open(contents, O_RDWR | O_CLOEXEC);
	if (from < 0 || to < 0)
		die("cannot open", contents);
	keep_pages(from, to, name);
	if (fstat(to, &kept) == 0 && kept.st_nlink == 1)
		keep_name(contents, name);
	close(from);
	close(to);
}

static int
delete_one(const char *path, const struct stat *st, int kind, struct FTW *where)
{
	(void) st;
	(void) kind;
	(void) where;
	return remove(path);
}

/* What is not in the directory any more is not in the tree. */
static void
forget_names(const char *dir)
{
	char		kept[PATH_MAX];
	char		live[PATH_MAX];
	char		path[PATH_MAX];
	struct dirent *entry;
	struct stat st;
	DIR		   *names = opendir(path_of(kept, "%s/tree/%s", state, dir));

	while (names != NULL && (entry = readdir(names)) != NULL)
	{
		if (strcmp(entry->d_name, ".") == 0 || strcmp(entry->d_name, "..") == 0)
			continue;
		path_of(live, "%s/%s/%s", root, dir, entry->d_name);
		path_of(path, "%s/%s", kept, entry->d_name);
		if (lstat(live, &st) != 0 && errno == ENOENT)
			nftw(path, delete_one, 8, FTW_DEPTH | FTW_PHYS);
	}
	if (names != NULL)
		closedir(names);
}

static void
keep_directory(const char *dir)
{
	char		live[PATH_MAX];
	char		name[PATH_MAX];
	char		contents[PATH_MAX];
	char		target[PATH_MAX];
	struct dirent *entry;
	struct stat st,
				kept,
				named;
	DIR		   *names;

	path_of(live, "%s/%s", root, dir);
	names = opendir(live);
	while (names != NULL && (entry = readdir(names)) != NULL)
	{
		if (strcmp(entry->d_name, ".") == 0 || strcmp(entry->d_name, "..") == 0)
			continue;
		path_of(live, "%s/%s/%s", root, dir, entry->d_name);
		path_of(name, "%s%s%s", dir, dir[0] ? "/" : "", entry->d_name);
		path_of(target, "%s/tree/%s", state, name);
		if (lstat(live, &st) != 0)
			continue;
		if (S_ISDIR(st.st_mode) && mkdir(target, 0700) != 0 && errno != EEXIST)
			die("cannot make", target);
		if (!S_ISREG(st.st_mode) || kept_contents(live, st.st_ino, contents) == NULL)
			continue;
		if (stat(contents, &kept) == 0 &&
			(stat(target, &named) != 0 || named.st_ino != kept.st_ino))
			keep_name(contents, name);
	}
	if (names != NULL)
		closedir(names);
	forget_names(dir);
}

/* Whether that was one of our files, whose state is kept. */
static int
synced(int fd)
{
	char		name[PATH_MAX];
	char		path[PATH_MAX];
	struct stat st;
	int			saved = errno;
	int			lock;

	if (root == NULL || !name_below(fd, root, name) || fstat(fd, &st) != 0)
		return 0;
	lock = open(path_of(path, "%s/lock", state), O_RDWR | O_CREAT | O_CLOEXEC, 0600);
	if (lock < 0)
		die("cannot open", path);
	while (flock(lock, LOCK_EX) != 0)
	{
		if (errno != EINTR)
			die("cannot lock", path);
	}
	if (S_ISDIR(st.st_mode))
		keep_directory(name);
	else if (S_ISREG(st.st_mode))
		keep_file(fd, name, &st);
	close(lock);
	errno = saved;
	return 1;
}

int
fsync(int fd)
{
	return synced(fd) ? 0 : real_fsync(fd);
}

int
fdatasync(int fd)
{
	return synced(fd) ? 0 : real_fdatasync(fd);
}

/* ----------
 * A full disk
 * ----------
 */

/* Whether there is no room for what would make that file so long. */
static int
no_room(int fd, off_t end)
{
	char		name[PATH_MAX];
	struct stat st;

	if (root == NULL || *full == 0 || fstat(fd, &st) != 0 || !S_ISREG(st.st_mode) ||
		end <= st.st_size || !name_below(fd, full_below, name))
		return 0;
	errno = ENOSPC;
	return 1;
}

ssize_t
write(int fd, const void *data, size_t len)
{
	if (root != NULL && *full != 0)
	{
		int			flags = fcntl(fd, F_GETFL);
		off_t		at = (flags & O_APPEND) ? lseek(fd, 0, SEEK_END) :
			lseek(fd, 0, SEEK_CUR);

		if (flags >= 0 && at >= 0 && no_room(fd, at + len))
			return -1;
	}
	return real_write(fd, data, len);
}

ssize_t
pwrite(int fd, const void *data, size_t len, off_t at)
{
	return no_room(fd, at + len) ? -1 : real_pwrite(fd, data, len, at);
}

ssize_t
pwritev(int fd, const struct iovec *parts, int n, off_t at)
{
	off_t		end = at;

	for (int i = 0; i < n; i++)
		end += parts[i].iov_len;
	return no_room(fd, end) ? -1 : real_pwritev(fd, parts, n, at);
}

int
posix_fallocate(int fd, off_t at, off_t len)
{
	return no_room(fd, at + len) ? ENOSPC : real_fallocate(fd, at, len);
}
