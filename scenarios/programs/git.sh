export GIT_CONFIG_GLOBAL=/dev/null GIT_CONFIG_NOSYSTEM=1
for number in 1 2 3; do
  echo $number > file
  git add file
  git -c user.name=a -c user.email=a@b commit --quiet --message $number
  echo saved
done
