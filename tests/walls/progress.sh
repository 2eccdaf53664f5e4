#!/bin/bash
# A build that begins with meson configuring again, when no step is done: the bar passes on what is said, and the status.
# usage: progress.sh PROGRESS
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
cat > "$folder/ninja" << 'END'
#!/bin/sh
echo '[0/1] Regenerating build files.'
echo '[1/2] One'
echo said
exit 3
END
chmod +x "$folder/ninja"
status=0
said=$(PATH=$folder:$PATH "$1" -C build) || status=$?
if [ "$status" != 3 ] || [ "$said" != said ]; then
  echo "the status is $status, and it says: $said"
  exit 1
fi
