# All objects are sound, and the branch has as many commits as were acknowledged, or more.
export GIT_CONFIG_GLOBAL=/dev/null GIT_CONFIG_NOSYSTEM=1
cd "$1" || exit 1
git fsck --full --no-dangling --no-progress > out 2>&1 || { grep -v ^notice out | head -1; exit 1; }
count=$(git rev-list --count HEAD 2>/dev/null || echo 0)
test "$count" -ge "$(wc -l < "$2")" || { echo "$count commits"; exit 1; }
