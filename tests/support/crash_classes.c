/* A program that replaces 8192 bytes 'a' in the file cur by 'b', or adds them, in one of the ways of doing it wrong that
   Pillai et al. (2014) found, or mended; and its checker. Usage: CLASS bad|good, or check CLASS DIRECTORY ACKS. */
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>
enum { SIZE = 8192 };
static char text[2 * SIZE];
static int is(const char *one, const char *other) { return !strcmp(one, other); }
static void sync_name(void) { int d = open(".", O_RDONLY); fsync(d); close(d); }
static void put(const char *name, int size, int syncs) {
  int f = open(name, O_CREAT | O_WRONLY | O_TRUNC, 0644);
  write(f, text + 2 * SIZE - size, size);
  if (syncs) fsync(f);
  close(f);
}
static void change(const char *class, int good) {
  int f = open("cur", O_WRONLY);
  if (is(class, "creat")) { put("new", SIZE, 1); if (good) sync_name(); return; }
  if (good || strstr(class, "rename")) {
    put("tmp", is(class, "append") ? 2 * SIZE : SIZE, good || !is(class, "data before rename"));
    if (is(class, "unlink before rename") && !good) unlink("cur");
    rename("tmp", "cur");
    if (good || !is(class, "rename without directory sync")) sync_name();
    return;
  }
  if (is(class, "truncate")) ftruncate(f, 0);
  pwrite(f, text + SIZE, SIZE, is(class, "append") ? SIZE : 0);
  fsync(f);
}
static int check(const char *class, const char *directory, const char *acks) {
  int acked = getc(fopen(acks, "r")) != EOF, size = 0, f;
  if (chdir(directory)) return 2;
  if ((f = open(is(class, "creat") && acked ? "new" : "cur", O_RDONLY)) < 0) return puts("the file is gone"), 1;
  size = read(f, text, sizeof text);
  if (!size || size % SIZE) return printf("%d bytes\n", size), 1;
  for (int i = 0; i < size; i++) if (text[i] != text[i / SIZE * SIZE]) return printf("torn at %d\n", i), 1;
  return acked && text[size - 1] != 'b' ? puts("what was acknowledged is lost"), 1 : 0;
}
int main(int count, char **words) {
  if (is(words[1], "check")) return check(words[2], words[3], words[4]);
  memset(text, 'a', SIZE), memset(text + SIZE, 'b', SIZE);
  change(words[1], is(words[2], "good"));
  return puts("done"), 0;
}
